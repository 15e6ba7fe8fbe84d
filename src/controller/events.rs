//! Events on Services and Nodes, at transitions only.
//!
//! A Service gets a Normal `TopologyAwareHintsEnabled` when its hints come, and a Warning `TopologyAwareHintsDisabled` with
//! the reason's sentence when they go or the reason becomes another. A Node gets a Warning `InsufficientNodeInfo` when it
//! makes capacity insufficient, before the Services that lose their hints by it.
//!
//! What was last told of an object is known from the Events themselves: each is numbered, and its name is derived from
//! its object, its number and what it says. A new leader reads them ([`Events::run`] begins with that) and goes on from
//! the last; of two replicas that see the same transition one is told that the Event exists, which is as good as having
//! posted it. Hashes are of SHA-256, so that replicas of different builds derive the same names. API servers keep Events
//! for an hour: where none stands any more, what a new leader finds may be [assumed](Events::assume) to be told.
//!
//! ```text
//! drift ─ observe ─▶ Transitions ─ what differs from what was told ─▶ run ─▶ POST events.k8s.io/v1
//!                         ▲                                            │
//!                         └── the Events that stand (list, at first) ──┘
//! ```
//!
//! It needs this, in every namespace, and nothing more:
//!
//! ```yaml
//! rules:
//!   - apiGroups: [events.k8s.io]
//!     resources: [events]
//!     verbs: [create, list]
//! ```

mod record;
mod transitions;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::record::Posted;
use self::transitions::{Notice, Resolution, Subject, Transitions};
use super::call::sentence_of;
use super::lease::WRITE_TIME;
use crate::cluster::slice::AddressType;
use crate::decide::Verdict;
use crate::planner::capacity::InsufficientNode;
use crate::planner::reason::Reason;

pub use self::record::CONTROLLER;

/// The endpoints of one Service and address type: what hints are on or off for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceSet {
    /// The Service's namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid, without which `kubectl describe service` does not find the Event.
    pub uid: Box<str>,
    /// The type of the addresses.
    pub address_type: AddressType,
}

/// What there is to tell of an object. Another sentence for the same state is no news.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// Hints are on.
    Enabled,
    /// Hints are off, or a Node can't be counted, for the reason with this word.
    Disabled(Cow<'static, str>),
    /// An annotation can't be used, so that nothing changes: its key and value.
    Mistaken(Box<str>),
    /// Nothing is told: nobody asks for hints, or the Node is as it should be.
    Silent,
}

impl State {
    /// What a decision has to tell; nothing where it is none ([`Verdict::Kept`]) or is over soon, and the state before
    /// stays.
    ///
    /// Hints that the user switched off are no matter for a warning.
    #[must_use]
    pub fn of(verdict: Verdict, reason: Option<&Reason>) -> Option<Self> {
        match (verdict, reason) {
            (_, Some(Reason::InvalidAnnotation { key, value, .. })) => {
                Some(Self::Mistaken(format!("{key}={value}").into()))
            }
            (Verdict::Kept, _) | (_, Some(Reason::SiblingsOutOfStep { .. })) => None,
            (Verdict::Hints, _) => Some(Self::Enabled),
            (Verdict::Untouched, _) | (Verdict::Strip, Some(Reason::OptedOut) | None) => {
                Some(Self::Silent)
            }
            (Verdict::Strip, Some(reason)) => Some(Self::Disabled(reason.word().into())),
        }
    }
}

/// How fast Events are written.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The least time between two writes.
    pub gap: Duration,
    /// How long one call may take.
    pub call_time: Duration,
}

impl Default for Pace {
    /// Five a second.
    fn default() -> Self {
        Self {
            gap: Duration::from_millis(200),
            call_time: WRITE_TIME,
        }
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored.
    Posted,
    /// It was stored before, by an earlier try or another replica.
    AlreadyExists,
    /// The API server will not have it, and it is not tried again.
    Refused,
    /// There was no answer, or one that may be another next time: it is tried again.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Posted,
        Self::AlreadyExists,
        Self::Refused,
        Self::Failed,
    ];

    /// The word for it in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Posted => "posted",
            Self::AlreadyExists => "already_exists",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Writes so far, for metrics.
#[derive(Debug, Default)]
pub struct EventCounts([AtomicU64; Outcome::ALL.len()]);

impl EventCounts {
    /// How many writes ended so.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// What is to be told, and the way to tell it.
pub struct Events {
    client: Client,
    instance: String,
    pace: Pace,
    transitions: Mutex<Transitions>,
    changed: Notify,
    counts: EventCounts,
}

impl Events {
    /// Nothing is told yet. `instance` is the replica's name, as the Events' `reportingInstance`.
    #[must_use]
    pub fn new(client: Client, instance: &str, pace: Pace) -> Self {
        Self {
            client,
            instance: instance.to_owned(),
            pace,
            transitions: Mutex::default(),
            changed: Notify::new(),
            counts: EventCounts::default(),
        }
    }

    /// Takes a state as told where no Event says what was told last: what is stored shows it to be no news.
    pub fn assume(&self, service: ServiceSet, state: State) {
        self.transitions().assume(Subject::Service(service), state);
    }

    /// Takes in how it stands with the hints of a Service. The sentence is only asked for where it may be posted.
    pub fn observe(&self, service: ServiceSet, state: State, sentence: impl FnOnce() -> String) {
        let subject = Subject::Service(service);
        self.transitions().observe(subject, state, sentence);
        self.changed.notify_one();
    }

    /// Takes in all the nodes that make capacity insufficient; whether to [assume](Self::assume) that they were told of.
    pub fn observe_nodes(&self, insufficient: &[InsufficientNode], standing: bool) {
        self.transitions().observe_nodes(insufficient, standing);
        self.changed.notify_one();
    }

    /// Forgets the Services that are no longer there.
    pub fn keep_services(&self, exists: impl Fn(&ServiceSet) -> bool) {
        self.transitions().keep_services(exists);
    }

    /// Forgets a Service that is no longer there under this uid.
    pub fn keep_service(&self, namespace: &str, name: &str, uid: Option<&str>) {
        let is_other = |set: &ServiceSet| (&*set.namespace, &*set.name) != (namespace, name);
        self.keep_services(|set| is_other(set) || uid == Some(&*set.uid));
    }

    /// Writes so far.
    #[must_use]
    pub fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// Another leadership begins, or none: what was told is worth remembering, what was observed so far is not. Whatever
    /// still [runs](Self::run) is to be dropped.
    pub fn step_down(&self) {
        self.transitions().step_down();
    }

    /// Reads what was told so far, then posts what differs from it, for as long as this replica leads.
    ///
    /// `may_write` is asked right before each call, and what it gives is kept until that has ended; when it gives nothing,
    /// this ends. It is to be dropped when leadership ends, since without anything to post nothing is asked; a call that is
    /// under way then still comes to its end. What was observed since [`Self::step_down`] counts.
    pub async fn run<W: Send + 'static>(&self, may_write: impl Fn() -> Option<W> + Send + Sync) {
        let mut spell = Spell::default();
        if !self.learn(&may_write, &mut spell).await {
            return;
        }
        let mut pauses = DefaultBackoff::default();
        let mut next_write = Instant::now();
        loop {
            self.something_waits().await;
            sleep_until(next_write).await;
            let Some(write) = may_write() else {
                return;
            };
            let Some(notice) = self.transitions().next(Timestamp::now()) else {
                continue;
            };
            next_write = Instant::now() + self.pace.gap;
            if self.post(&notice, write, &mut spell).await == Outcome::Failed {
                sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            } else {
                pauses.reset();
            }
        }
    }

    async fn something_waits(&self) {
        while !self.transitions().is_waiting() {
            self.changed.notified().await;
        }
    }

    /// Whether what was told so far is known now; else the leadership ended first.
    async fn learn<W: Send>(
        &self,
        may_write: &(impl Fn() -> Option<W> + Sync),
        spell: &mut Spell,
    ) -> bool {
        let mut pauses = DefaultBackoff::default();
        let term = self.transitions().term();
        while may_write().is_some() {
            match self.list().await {
                Ok(posted) => {
                    self.transitions().learn(term, posted);
                    spell.end();
                    return true;
                }
                Err(error) => spell.tell(Trouble::Listing, || {
                    tracing::warn!(
                        error,
                        "can't list the Events that stand, without which none is posted; trying again (zonewise needs \
                         permission to list and create events.events.k8s.io in every namespace)"
                    );
                }),
            }
            sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
        false
    }

    async fn list(&self) -> Result<Vec<Posted>, String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let mut page = ListParams::default()
            .fields(&format!("reportingController={CONTROLLER}"))
            .limit(PAGE_SIZE);
        let mut posted = Vec::new();
        loop {
            let list = timeout(LIST_TIME, events.list(&page)).await;
            let list = list
                .map_err(|_| format!("no answer within {LIST_TIME:.0?}"))?
                .map_err(|error| sentence_of(&error))?;
            posted.extend(list.items.iter().filter_map(Posted::read));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(posted),
            }
        }
    }

    async fn post(
        &self,
        notice: &Notice,
        write: impl Send + 'static,
        spell: &mut Spell,
    ) -> Outcome {
        let event = record::event(notice, &self.instance);
        let namespace = notice.subject.namespace_of_events();
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let limit = self.pace.call_time;
        let call = tokio::spawn(async move {
            let created = timeout(limit, events.create(&PostParams::default(), &event)).await;
            drop(write);
            created
        });
        let created = call.await;
        let created = created.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let (outcome, error) = match created {
            Ok(Ok(_)) => (Outcome::Posted, String::new()),
            Ok(Err(error)) => (outcome_of(&error), sentence_of(&error)),
            Err(_) => (
                Outcome::Failed,
                format!("no answer within {:.0?}", self.pace.call_time),
            ),
        };
        match outcome {
            Outcome::Posted | Outcome::AlreadyExists => spell.end(),
            Outcome::Refused => spell.tell(Trouble::Refusal, || {
                tracing::warn!(
                    namespace,
                    error,
                    "the API server refuses an Event, which is left out"
                );
            }),
            Outcome::Failed => spell.tell(Trouble::Failure, || {
                tracing::warn!(namespace, error, "can't post an Event; trying again");
            }),
        }
        self.counts.count(outcome);
        self.transitions().resolve(notice, resolution_of(outcome));
        outcome
    }

    fn transitions(&self) -> MutexGuard<'_, Transitions> {
        self.transitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Between tries, should the pauses ever run out.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How many Events come in one page of a list.
const PAGE_SIZE: u32 = 500;

/// How long a page may take: the API server looks through all Events of the cluster for ours.
const LIST_TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Listing,
    Refusal,
    Failure,
}

/// A time in which calls fail alike, of which the first is told.
#[derive(Debug, Default)]
struct Spell(Option<Trouble>);

impl Spell {
    fn tell(&mut self, trouble: Trouble, tell: impl FnOnce()) {
        if self.0.replace(trouble) != Some(trouble) {
            tell();
        }
    }

    fn end(&mut self) {
        self.0 = None;
    }
}

/// An answer that is not about the Event itself may be another next time.
fn outcome_of(error: &kube::Error) -> Outcome {
    const UNAUTHORIZED: u16 = 401;
    const FORBIDDEN: u16 = 403;
    const REQUEST_TIMEOUT: u16 = 408;
    const TOO_MANY_REQUESTS: u16 = 429;
    match error {
        kube::Error::Api(status) if status.is_already_exists() => Outcome::AlreadyExists,
        kube::Error::Api(status) => match status.code {
            // Permissions come; a namespace that is being terminated does not come back.
            FORBIDDEN if !status.message.contains("being terminated") => Outcome::Failed,
            UNAUTHORIZED | REQUEST_TIMEOUT | TOO_MANY_REQUESTS => Outcome::Failed,
            400..=499 => Outcome::Refused,
            _ => Outcome::Failed,
        },
        _ => Outcome::Failed,
    }
}

fn resolution_of(outcome: Outcome) -> Resolution {
    match outcome {
        Outcome::Posted | Outcome::AlreadyExists => Resolution::Told,
        Outcome::Refused => Resolution::LeftOut,
        Outcome::Failed => Resolution::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_the_decision_means_to_people() {
        let of = |verdict, reason: Reason| State::of(verdict, Some(&reason));
        assert_eq!(State::of(Verdict::Hints, None), Some(State::Enabled));
        assert_eq!(
            of(Verdict::Strip, Reason::TooManyPorts),
            Some(State::Disabled("TooManyPorts".into()))
        );
        assert_eq!(of(Verdict::Strip, Reason::OptedOut), Some(State::Silent));
        assert_eq!(
            of(Verdict::Untouched, Reason::NotOptedIn),
            Some(State::Silent)
        );
        assert_eq!(of(Verdict::Kept, Reason::NotSynced), None);
        let mistake = |value: &str| Reason::InvalidAnnotation {
            kind: "Service",
            name: "shop/web".into(),
            key: "zonewise.dev/zone-weights",
            value: value.into(),
            problem: "it is not ZONE=WEIGHT".into(),
        };
        let told = of(Verdict::Kept, mistake("a"));
        assert!(told.is_some() && told != of(Verdict::Kept, mistake("b")));
        let waits = Reason::SiblingsOutOfStep { siblings: 2 };
        assert_eq!(of(Verdict::Strip, waits), None);
    }

    #[test]
    fn a_spell_is_told_once() {
        let mut spell = Spell::default();
        let mut told = Vec::new();
        for trouble in [
            Some(Trouble::Failure),
            Some(Trouble::Failure),
            Some(Trouble::Refusal),
            Some(Trouble::Refusal),
            None,
            Some(Trouble::Refusal),
        ] {
            match trouble {
                Some(trouble) => spell.tell(trouble, || told.push(trouble)),
                None => spell.end(),
            }
        }
        assert_eq!(told, [Trouble::Failure, Trouble::Refusal, Trouble::Refusal]);
    }
}
