//! When to look at which Service, and which slices to have written when. Knows no clock and does nothing by itself.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::look::DriftedSlice;
use crate::cluster::changes::ServiceChange;
use crate::cluster::key::Key;

/// Waiting times.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// How long changes that are no writes of slices are gathered.
    pub gather: Duration,
    /// How long no slice of a Service must have been written: a write in between gives the EndpointSlice controller
    /// conflicts, and each makes it wait.
    pub quiet: Duration,
    /// How long a Service is left alone at the most because its slices are being written.
    pub quiet_at_most: Duration,
}

/// The longest gathering, in times of the shortest.
const GATHER_AT_MOST: u32 = 5;

/// How often a slice is tried that does not become what it should: after 1, 2, 4 … seconds, and then no more until
/// something changes.
const MOST_TRIES: u32 = 8;

/// The longest wait between two tries.
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// How long a stored write may take to come back by the watch.
const ECHO: Duration = Duration::from_secs(5);

/// A slice of a Service, both by name; the Service as `namespace/name`.
pub type SliceName = (Arc<str>, Box<str>);

/// What came of asking the API server to write a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was stored anew with this version.
    Stored(Key),
    /// Nothing changed.
    Unchanged,
    /// It is gone.
    Gone,
    /// The call failed.
    Failed,
}

/// What is to be done, and when.
#[derive(Debug)]
pub struct Agenda {
    waits: Waits,
    services: HashMap<Arc<str>, Service>,
    looks: BTreeSet<(Instant, Arc<str>)>,
    retries: BTreeSet<(Instant, Arc<str>)>,
    queue: VecDeque<SliceName>,
    queued: HashSet<SliceName>,
    /// When all Services are looked at because capacity changed, and when that began to wait.
    all_at: Option<(Instant, Instant)>,
}

#[derive(Debug, Default)]
struct Service {
    look_at: Option<Instant>,
    /// When others began to write its slices and when they last did, while that goes on.
    writes: Option<(Instant, Instant)>,
    /// Slices written by others since the last look.
    written: HashSet<Box<str>>,
    slices: HashMap<Box<str>, Tried>,
    in_flight: Option<InFlight>,
    /// A version that we made, until the watch shows it.
    echo: Option<(Box<str>, Key, Instant)>,
}

/// A slice that is being written by us, and what the watch has shown of it meanwhile.
#[derive(Debug)]
struct InFlight {
    slice: Box<str>,
    seen: Option<Key>,
}

/// A slice that does not become what it should.
#[derive(Debug, Default)]
struct Tried {
    times: u32,
    again_at: Option<Instant>,
}

impl Agenda {
    /// Nothing to do yet.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        Self {
            waits,
            services: HashMap::new(),
            looks: BTreeSet::new(),
            retries: BTreeSet::new(),
            queue: VecDeque::new(),
            queued: HashSet::new(),
            all_at: None,
        }
    }

    /// A Service changed, or slices of it were written.
    pub fn note_service(&mut self, name: &Arc<str>, change: &ServiceChange, now: Instant) {
        let waits = self.waits;
        let service = self.services.entry(name.clone()).or_default();
        let mut by_others = false;
        for (slice, version) in &change.written {
            if !service.is_ours(slice, *version) {
                by_others = true;
                if version.is_some() {
                    service.written.insert(slice.clone());
                }
            }
        }
        let at = if by_others {
            let since = service.writes.map_or(now, |(since, _)| since);
            service.writes = Some((since, now));
            service.slices.clear();
            (now + waits.quiet)
                .min(since + waits.quiet_at_most)
                .max(now)
        } else if change.written.is_empty() {
            service.slices.clear();
            service.earliest(now).max(now + waits.gather)
        } else {
            service.earliest(now)
        };
        self.look_later(name, at, by_others);
    }

    /// Capacity changed: all Services are looked at once it has stopped changing for a while.
    pub fn note_capacity(&mut self, now: Instant) {
        let since = self.all_at.map_or(now, |(_, since)| since);
        let latest = since + self.waits.gather * GATHER_AT_MOST;
        self.all_at = Some(((now + self.waits.gather).min(latest), since));
    }

    /// Whether it is time to look at all Services.
    pub fn take_all(&mut self, now: Instant) -> bool {
        self.all_at.take_if(|(at, _)| *at <= now).is_some()
    }

    /// Looks at all of these, each as soon as nobody else writes its slices, and tries anew what was given up.
    pub fn look_at_all(&mut self, names: impl IntoIterator<Item = Arc<str>>, now: Instant) {
        for name in names {
            let service = self.services.entry(name.clone()).or_default();
            service.slices.clear();
            let at = service.earliest(now);
            self.look_later(&name, at, false);
        }
    }

    /// The next Service to look at now, and which slices others have written since the last look.
    pub fn next_look(&mut self, now: Instant) -> Option<(Arc<str>, HashSet<Box<str>>)> {
        let (at, _) = self.looks.first()?;
        if *at > now {
            return None;
        }
        let (_, name) = self.looks.pop_first()?;
        let service = self.services.get_mut(&name)?;
        service.look_at = None;
        service.writes = None;
        let written = std::mem::take(&mut service.written);
        Some((name, written))
    }

    /// Takes in which slices of a Service differ from a fresh decision; those that may be tried are queued.
    pub fn note_look(&mut self, name: &Arc<str>, drifted: &[DriftedSlice], now: Instant) {
        let Some(service) = self.services.get_mut(name) else {
            return;
        };
        let still = |slice: &str| drifted.iter().any(|drifted| *drifted.name == *slice);
        service.slices.retain(|slice, _| still(slice));
        for slice in drifted {
            let tried = service.slices.entry(slice.name.clone()).or_default();
            let waits = tried.times >= MOST_TRIES || tried.again_at.is_some_and(|at| at > now);
            let entry = (name.clone(), slice.name.clone());
            if !waits && self.queued.insert(entry.clone()) {
                self.queue.push_back(entry);
            }
        }
        if service.is_done() {
            self.services.remove(name);
        }
    }

    /// The next slice that may be written now; its Service is left alone until [`Self::note_outcome`].
    pub fn next_slice(&mut self, now: Instant) -> Option<SliceName> {
        while let Some((name, slice)) = self.queue.pop_front() {
            self.queued.remove(&(name.clone(), slice.clone()));
            // A look that is due, or that follows what is in flight, queues it anew.
            let Some(service) = self.services.get_mut(&name) else {
                continue;
            };
            let echoes = service
                .echo
                .as_ref()
                .is_some_and(|(_, _, until)| *until > now);
            if service.in_flight.is_some() || service.writes.is_some() || echoes {
                continue;
            }
            service.in_flight = Some(InFlight {
                slice: slice.clone(),
                seen: None,
            });
            return Some((name, slice));
        }
        None
    }

    /// A slice that was taken needs no write after all.
    pub fn drop_slice(&mut self, (name, _): &SliceName, now: Instant) {
        if let Some(service) = self.services.get_mut(name) {
            service.in_flight = None;
        }
        self.look_later(name, now, false);
    }

    /// What came of a write.
    pub fn note_outcome(&mut self, (name, slice): &SliceName, outcome: Outcome, now: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        let seen = service
            .in_flight
            .take()
            .and_then(|in_flight| in_flight.seen);
        let mut look_at = now;
        match outcome {
            Outcome::Gone => {
                service.slices.remove(slice);
            }
            Outcome::Stored(version) => match seen {
                None => {
                    service.echo = Some((slice.clone(), version, now + ECHO));
                    look_at = now + ECHO;
                }
                Some(seen) if seen == version => {}
                Some(_) => {
                    service.writes = Some((now, now));
                    look_at = now + self.waits.quiet;
                }
            },
            Outcome::Unchanged | Outcome::Failed => {}
        }
        if outcome != Outcome::Gone
            && let Some(at) = service.try_later(slice, now)
        {
            self.retries.insert((at, name.clone()));
        }
        self.look_later(name, look_at, false);
    }

    /// Schedules looks at Services whose slices may be tried again.
    pub fn take_retries(&mut self, now: Instant) {
        while self.retries.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, name)) = self.retries.pop_first() {
                self.look_later(&name, now, false);
            }
        }
    }

    /// When something is due next.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        let look = self.looks.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, _)| *at);
        let all = self.all_at.map(|(at, _)| at);
        look.into_iter().chain(retry).chain(all).min()
    }

    /// Whether slices are queued to be written.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Slices that wait to be written, or to be tried again.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let open = |service: &Service| {
            let slices = service.slices.values();
            slices.filter(|tried| tried.times < MOST_TRIES).count()
        };
        self.services.values().map(open).sum()
    }

    /// Slices that are no longer tried until something changes.
    #[must_use]
    pub fn parked(&self) -> usize {
        let parked = |service: &Service| {
            let slices = service.slices.values();
            slices.filter(|tried| tried.times >= MOST_TRIES).count()
        };
        self.services.values().map(parked).sum()
    }

    /// Looks at a Service at `at`: later than planned only if it must `wait`.
    fn look_later(&mut self, name: &Arc<str>, at: Instant, wait: bool) {
        let service = self.services.entry(name.clone()).or_default();
        if let Some(planned) = service.look_at {
            if !wait && planned <= at {
                return;
            }
            self.looks.remove(&(planned, name.clone()));
        }
        service.look_at = Some(at);
        self.looks.insert((at, name.clone()));
    }
}

impl Service {
    /// When it may be looked at: not while others write its slices.
    fn earliest(&self, now: Instant) -> Instant {
        self.look_at
            .filter(|_| self.writes.is_some())
            .unwrap_or(now)
    }

    /// Whether a write that the watch shows is one of ours.
    fn is_ours(&mut self, slice: &str, version: Option<Key>) -> bool {
        if let Some(in_flight) = self.in_flight.as_mut().filter(|f| *f.slice == *slice) {
            in_flight.seen = version;
            return true;
        }
        self.echo
            .take_if(|(ours, made, _)| **ours == *slice && Some(*made) == version)
            .is_some()
    }

    /// When a slice may be tried again, if at all.
    fn try_later(&mut self, slice: &str, now: Instant) -> Option<Instant> {
        let tried = self.slices.entry(slice.into()).or_default();
        tried.times += 1;
        let wait = Duration::from_secs(1 << (tried.times - 1).min(6)).min(LONGEST_RETRY);
        tried.again_at = (tried.times < MOST_TRIES).then_some(now + wait);
        tried.again_at
    }

    fn is_done(&self) -> bool {
        self.look_at.is_none()
            && self.writes.is_none()
            && self.slices.is_empty()
            && self.in_flight.is_none()
            && self.echo.is_none()
    }
}
