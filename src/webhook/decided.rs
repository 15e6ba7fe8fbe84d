//! What was decided, for the log: a line where that is not what it was.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::Level;

use crate::cluster::slice::AddressType;
use crate::cluster::store::{ServiceState, log_slot};
use crate::decide::{Decision, Verdict};
use crate::planner::reason::Reason;

/// A decision that is about to be answered with.
#[derive(Debug)]
pub struct Decided {
    /// What was known of the Service.
    pub(super) state: Arc<ServiceState>,
    /// Its `namespace/name`.
    pub(super) service: String,
    /// The name of the slice.
    pub(super) slice: Box<str>,
    /// That of the slice.
    pub(super) address_type: AddressType,
    /// On the slice.
    pub(super) decision: Decision,
}

impl Decided {
    /// Tells the log, where this is not what was last decided for the Service and address type.
    pub fn tell(&self) {
        let (service, address_type) = (&*self.service, self.address_type.word());
        let (decision, reason) = (self.decision.verdict.word(), self.decision.reason_word());
        macro_rules! tell {
            ($level:ident) => {
                tracing::event!(
                    Level::$level,
                    service,
                    address_type,
                    decision,
                    reason,
                    "{}",
                    self.decision.message()
                )
            };
        }
        match self.level() {
            Some(Level::INFO) => tell!(INFO),
            Some(_) => tell!(DEBUG),
            None => {}
        }
    }

    /// At which level it is news.
    ///
    /// Slices of one set need not come to the same: one may wait for its siblings, or be the only one that is short behind
    /// a port. That they are written in turn changes nothing, so the first is for debugging alone, and after the second
    /// the Service counts as hinted again only when that slice is.
    fn level(&self) -> Option<Level> {
        if let Some(Reason::SiblingsOutOfStep { .. }) = self.decision.reason {
            return Some(Level::DEBUG);
        }
        let slot = &self.state.last_logged[log_slot(self.address_type)];
        let before = Told::unpack(slot.load(Ordering::Relaxed));
        if self.decision.verdict == Verdict::Hints && self.has_another(before.short_slice) {
            return None;
        }
        let now = self.told();
        let is_news = Told::unpack(slot.swap(now.pack(), Ordering::Relaxed)).outcome != now.outcome;
        let is_nobodys = before.outcome == 0 && self.decision.verdict == Verdict::Untouched;
        is_news.then_some(if is_nobodys {
            Level::DEBUG
        } else {
            Level::INFO
        })
    }

    fn told(&self) -> Told {
        let is_short = matches!(self.decision.reason, Some(Reason::PortBelowMinimum { .. }));
        Told {
            outcome: hash((self.decision.verdict, self.decision.reason_word())),
            short_slice: if is_short { hash(&*self.slice) } else { 0 },
        }
    }

    /// Whether the Service has a slice with this hash, and it is another than this one.
    fn has_another(&self, slice: u32) -> bool {
        let is_it = |name: &str| hash(name) == slice;
        slice != 0 && !is_it(&self.slice) && self.state.slices.iter().any(|s| is_it(&s.name))
    }
}

/// What the log was last told, by hashes; zero stands for nothing.
struct Told {
    outcome: u32,
    /// The slice that was short behind a port.
    short_slice: u32,
}

impl Told {
    fn pack(&self) -> u64 {
        u64::from(self.outcome) << 32 | u64::from(self.short_slice)
    }

    fn unpack(packed: u64) -> Self {
        let halves = packed.to_be_bytes();
        let half = |from: usize| u32::from_be_bytes(std::array::from_fn(|i| halves[from + i]));
        Self {
            outcome: half(0),
            short_slice: half(4),
        }
    }
}

/// Never zero.
fn hash(value: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    (hasher.finish() >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::key::Key;
    use crate::cluster::slice::{Manager, SliceRecord};
    use crate::settings::Mode;

    fn state(slices: &[&str]) -> Arc<ServiceState> {
        let slice = |name: &&str| {
            Arc::new(SliceRecord {
                port_numbers: Box::default(),
                name: (*name).into(),
                address_type: AddressType::Ipv4,
                ports: Box::default(),
                endpoints: Box::default(),
                labels: Box::default(),
                version: Key::of(""),
                manager: Manager::default(),
                has_node_hints: false,
                odd_field: None,
            })
        };
        Arc::new(ServiceState {
            slices: slices.iter().map(slice).collect::<Vec<_>>().into(),
            ..ServiceState::default()
        })
    }

    fn level(state: &Arc<ServiceState>, slice: &str, reason: Option<Reason>) -> Option<Level> {
        let decided = Decided {
            state: state.clone(),
            service: "shop/web".into(),
            slice: slice.into(),
            address_type: AddressType::Ipv4,
            decision: Decision {
                verdict: if reason.is_some() {
                    Verdict::Strip
                } else {
                    Verdict::Hints
                },
                reason,
                asked: None,
                mode: Mode::Active,
                hints: Vec::new(),
                capacity: Arc::default(),
            },
        };
        decided.level()
    }

    fn short(hinted: u32) -> Reason {
        Reason::PortBelowMinimum {
            port: "http".into(),
            zone: "a".into(),
            hinted,
            minimum: 3,
        }
    }

    #[test]
    fn slices_that_are_written_in_turn_are_told_of_once() {
        let state = state(&["one", "two"]);
        assert_eq!(level(&state, "one", None), Some(Level::INFO));
        assert_eq!(level(&state, "two", Some(short(1))), Some(Level::INFO));
        for _ in 0..2 {
            assert_eq!(level(&state, "one", None), None);
            assert_eq!(level(&state, "two", Some(short(2))), None);
        }
        assert_eq!(level(&state, "two", None), Some(Level::INFO));
        assert_eq!(level(&state, "one", None), None);
    }

    #[test]
    fn a_slice_that_is_gone_is_short_no_longer() {
        let both = state(&["one", "two"]);
        assert_eq!(level(&both, "two", Some(short(1))), Some(Level::INFO));
        let left = Arc::new(ServiceState {
            last_logged: both.last_logged.clone(),
            slices: state(&["one"]).slices.clone(),
            ..ServiceState::default()
        });
        assert_eq!(level(&left, "one", None), Some(Level::INFO));
    }

    #[test]
    fn what_stops_the_whole_service_is_news_from_any_slice() {
        let state = state(&["one", "two"]);
        assert_eq!(level(&state, "two", Some(short(1))), Some(Level::INFO));
        assert_eq!(
            level(&state, "one", Some(Reason::OptedOut)),
            Some(Level::INFO)
        );
        assert_eq!(level(&state, "one", None), Some(Level::INFO));
    }

    #[test]
    fn a_slice_that_waits_for_its_siblings_is_no_change() {
        let state = state(&["one", "two"]);
        let waits = || Some(Reason::SiblingsOutOfStep { siblings: 1 });
        assert_eq!(level(&state, "one", waits()), Some(Level::DEBUG));
        assert_eq!(level(&state, "one", None), Some(Level::INFO));
        assert_eq!(level(&state, "two", waits()), Some(Level::DEBUG));
        assert_eq!(level(&state, "one", None), None);
    }
}
