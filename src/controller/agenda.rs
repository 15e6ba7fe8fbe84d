//! When to look at which Service, and which slices to have written when. Knows no clock and does nothing by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
pub(super) const LONGEST_RETRY: Duration = Duration::from_mins(1);

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
    /// Others wrote it meanwhile, so that it has to be evaluated again.
    Conflict,
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
    queue: Queue,
    /// When all Services are looked at because capacity changed, and when that began to wait.
    all_at: Option<(Instant, Instant)>,
}

/// Slices that wait for their turn to be written.
#[derive(Debug, Default)]
struct Queue {
    turns: BTreeMap<u64, SliceName>,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct Service {
    look_at: Option<Instant>,
    /// That others write its slices, until they pause.
    writes: Option<Writes>,
    /// Slices written by others since the last look.
    written: HashSet<Box<str>>,
    /// Slices that differ from a fresh decision.
    slices: HashMap<Box<str>, Drifted>,
    /// Slices that we had stored a while ago.
    mended: HashMap<Box<str>, Mended>,
    in_flight: Option<InFlight>,
    /// A version that we made, until the watch shows it.
    echo: Option<(Box<str>, Key, Instant)>,
}

/// Writes of others that have not paused yet.
#[derive(Debug)]
struct Writes {
    since: Instant,
    last: Instant,
    /// They went on for so long that they are no longer waited for.
    waited_out: bool,
}

/// A slice that we had stored.
#[derive(Debug)]
struct Mended {
    /// How often in a row, each time but the first because others had undone it.
    times: u32,
    at: Instant,
    /// Whether others have written it since.
    undone: bool,
}

/// A slice that is being written by us, and what the watch has shown of it meanwhile.
#[derive(Debug)]
struct InFlight {
    slice: Box<str>,
    seen: Vec<Key>,
}

/// A slice that is not what it should be.
#[derive(Debug, Default)]
struct Drifted {
    /// How often it was tried to no avail.
    tries: u32,
    again_at: Option<Instant>,
    /// Its place in the queue.
    turn: Option<u64>,
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
            queue: Queue::default(),
            all_at: None,
        }
    }

    /// A Service changed, or slices of it were written.
    pub fn note_service(&mut self, name: &Arc<str>, change: &ServiceChange, now: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        let mut by_others = false;
        for (slice, version) in &change.written {
            if !service.is_ours(slice, *version) {
                by_others = true;
                if version.is_some() {
                    service.written.insert(slice.clone());
                    service.note_undone(slice, now);
                }
            }
        }
        if by_others || change.written.is_empty() {
            service.forget_tries();
        }
        if by_others {
            self.leave_alone(name, now);
        } else if change.written.is_empty() {
            self.look_by(name, now + self.waits.gather);
        } else {
            self.look_by(name, now);
        }
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
            service.forget_tries();
            self.look_by(&name, now);
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
        if let Some(writes) = &mut service.writes {
            writes.waited_out = now < writes.last + self.waits.quiet;
        }
        service.writes.take_if(|writes| !writes.waited_out);
        service.echo.take_if(|(_, _, until)| *until <= now);
        let written = std::mem::take(&mut service.written);
        Some((name, written))
    }

    /// Takes in which slices of a Service differ from a fresh decision; those that may be tried are queued.
    pub fn note_look(&mut self, name: &Arc<str>, drifted: &[DriftedSlice], now: Instant) {
        let Some(service) = self.services.get_mut(name) else {
            return;
        };
        let still: HashSet<&str> = drifted.iter().map(|slice| &*slice.name).collect();
        service.slices.retain(|slice, drifted| {
            let stays = still.contains(&**slice);
            if !stays {
                self.queue.leave(drifted.turn);
            }
            stays
        });
        service
            .mended
            .retain(|_, mended| now < mended.counts_until());
        for slice in drifted {
            let entry = service.slices.entry(slice.name.clone()).or_default();
            let rest = service
                .mended
                .get(&slice.name)
                .and_then(Mended::rests_until);
            if let Some(at) = rest.filter(|at| now < *at) {
                self.queue.leave(entry.turn.take());
                entry.again_at = Some(at);
                self.retries.insert((at, name.clone()));
            } else if entry.turn.is_none() && entry.may_be_tried(now) {
                let turn = self.queue.join((name.clone(), slice.name.clone()));
                entry.turn = Some(turn);
            }
        }
        if let Some(at) = service.mended.values().map(Mended::counts_until).min() {
            self.retries.insert((at, name.clone()));
        }
        let echo = service.echo.as_ref().map(|(_, _, until)| *until);
        let pause = service
            .writes
            .as_ref()
            .map(|writes| writes.last + self.waits.quiet);
        if let Some(until) = echo.into_iter().chain(pause).min() {
            self.look_by(name, until);
        } else if service.is_done() {
            self.services.remove(name);
        }
    }

    /// The next slice that may be written now; its Service is left alone until [`Self::note_outcome`].
    pub fn next_slice(&mut self) -> Option<SliceName> {
        while let Some((name, slice)) = self.queue.pop() {
            let Some(service) = self.services.get_mut(&name) else {
                continue;
            };
            if let Some(drifted) = service.slices.get_mut(&slice) {
                drifted.turn = None;
            }
            // The look that follows what is in flight, awaited or written by others queues it anew.
            if service.in_flight.is_some() || service.is_waited_for() || service.echo.is_some() {
                continue;
            }
            service.in_flight = Some(InFlight {
                slice: slice.clone(),
                seen: Vec::new(),
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
        self.look_by(name, now);
    }

    /// What came of a write.
    pub fn note_outcome(&mut self, (name, slice): &SliceName, outcome: Outcome, now: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        let seen = service.in_flight.take().map_or(Vec::new(), |f| f.seen);
        let ours = match outcome {
            Outcome::Stored(version) => Some(version),
            Outcome::Unchanged | Outcome::Gone | Outcome::Conflict | Outcome::Failed => None,
        };
        if outcome == Outcome::Gone {
            service.forget_slice(slice, &mut self.queue);
        } else if let Some(at) = service.try_later(slice, now) {
            self.retries.insert((at, name.clone()));
        }
        if let Some(version) = ours {
            let undone = seen.last().is_some_and(|last| *last != version);
            service.note_mended(slice, undone, now);
        }
        let by_others = seen.iter().any(|version| Some(*version) != ours);
        let awaited = ours.filter(|_| seen.is_empty());
        service.echo = awaited.map(|version| (slice.clone(), version, now + ECHO));
        if by_others {
            self.leave_alone(name, now);
        } else if awaited.is_some() {
            self.look_by(name, now + ECHO);
        } else {
            self.look_by(name, now);
        }
    }

    /// Schedules looks at Services whose slices may be tried again.
    pub fn take_retries(&mut self, now: Instant) {
        while self.retries.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, name)) = self.retries.pop_first()
                && self.services.contains_key(&name)
            {
                self.look_by(&name, now);
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
        !self.queue.turns.is_empty()
    }

    /// Slices that wait to be written, or to be tried again.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let open = |service: &Service| {
            let slices = service.slices.values();
            slices.filter(|slice| !slice.is_parked()).count()
        };
        self.services.values().map(open).sum()
    }

    /// Slices that are no longer tried until something changes.
    #[must_use]
    pub fn parked(&self) -> usize {
        let parked = |service: &Service| {
            let slices = service.slices.values();
            slices.filter(|slice| slice.is_parked()).count()
        };
        self.services.values().map(parked).sum()
    }

    /// Others write slices of a Service: it is looked at once they have stopped, or have gone on for too long.
    fn leave_alone(&mut self, name: &Arc<str>, now: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        let writes = service.writes.get_or_insert(Writes {
            since: now,
            last: now,
            waited_out: false,
        });
        writes.last = now;
        let pause = now + self.waits.quiet;
        if writes.waited_out {
            self.look_by(name, pause);
        } else {
            let latest = writes.since + self.waits.quiet_at_most;
            self.look_at(name, pause.min(latest).max(now));
        }
    }

    /// Looks at a Service at `at`, or before if that is planned, but not while others write its slices and are waited for.
    fn look_by(&mut self, name: &Arc<str>, at: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        let is_waited_for = service.is_waited_for();
        let stays = |planned| is_waited_for || planned <= at;
        if !service.look_at.is_some_and(stays) {
            self.look_at(name, at);
        }
    }

    fn look_at(&mut self, name: &Arc<str>, at: Instant) {
        let service = self.services.entry(name.clone()).or_default();
        if let Some(planned) = service.look_at.replace(at) {
            self.looks.remove(&(planned, name.clone()));
        }
        self.looks.insert((at, name.clone()));
    }
}

impl Queue {
    fn join(&mut self, slice: SliceName) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, slice);
        turn
    }

    fn leave(&mut self, turn: Option<u64>) {
        if let Some(turn) = turn {
            self.turns.remove(&turn);
        }
    }

    fn pop(&mut self) -> Option<SliceName> {
        self.turns.pop_first().map(|(_, slice)| slice)
    }
}

impl Service {
    /// Whether a write that the watch shows is one of ours, as far as that is known before the API server answers.
    fn is_ours(&mut self, slice: &str, version: Option<Key>) -> bool {
        if let Some(in_flight) = self.in_flight.as_mut().filter(|f| *f.slice == *slice) {
            in_flight.seen.extend(version);
            return true;
        }
        // Another version of it than ours comes before ours or in its place: either way ours is no longer awaited.
        let echo = self.echo.take_if(|(ours, ..)| **ours == *slice);
        echo.is_some_and(|(_, made, _)| Some(made) == version)
    }

    /// Whether others write its slices and are waited for.
    fn is_waited_for(&self) -> bool {
        self.writes
            .as_ref()
            .is_some_and(|writes| !writes.waited_out)
    }

    /// What was tried in vain may be tried anew. Turns are kept: else whoever is written again and again never has his.
    fn forget_tries(&mut self) {
        for slice in self.slices.values_mut() {
            slice.tries = 0;
            slice.again_at = None;
        }
    }

    /// We had a slice stored, and others have written it over already, or not.
    fn note_mended(&mut self, slice: &str, undone: bool, now: Instant) {
        let before = self.mended.get(slice);
        let before = before.filter(|before| before.undone && now < before.counts_until());
        let mended = Mended {
            times: before.map_or(1, |before| before.times.saturating_add(1)),
            at: now,
            undone,
        };
        self.mended.insert(slice.into(), mended);
    }

    /// Others wrote a slice.
    fn note_undone(&mut self, slice: &str, now: Instant) {
        if let Some(mended) = self.mended.get_mut(slice) {
            mended.undone |= now < mended.counts_until();
        }
    }

    fn forget_slice(&mut self, slice: &str, queue: &mut Queue) {
        self.mended.remove(slice);
        if let Some(slice) = self.slices.remove(slice) {
            queue.leave(slice.turn);
        }
    }

    /// When a slice may be tried again, if at all.
    fn try_later(&mut self, slice: &str, now: Instant) -> Option<Instant> {
        let drifted = self.slices.entry(slice.into()).or_default();
        drifted.tries += 1;
        drifted.again_at = (!drifted.is_parked()).then_some(now + wait_after(drifted.tries));
        drifted.again_at
    }

    fn is_done(&self) -> bool {
        self.look_at.is_none()
            && self.writes.is_none()
            && self.slices.is_empty()
            && self.mended.is_empty()
            && self.in_flight.is_none()
            && self.echo.is_none()
    }
}

impl Mended {
    /// Until when it is left as it is, because whoever undid it would only do so again.
    fn rests_until(&self) -> Option<Instant> {
        self.undone.then(|| self.at + wait_after(self.times))
    }

    /// Until when it counts that it was stored: once it was undone for longer, so that the longest rest is over by then.
    fn counts_until(&self) -> Instant {
        self.at + LONGEST_RETRY * if self.undone { 2 } else { 1 }
    }
}

/// How long something is left alone after so many tries.
pub(super) fn wait_after(tries: u32) -> Duration {
    Duration::from_secs(1 << tries.saturating_sub(1).min(6)).min(LONGEST_RETRY)
}

impl Drifted {
    fn is_parked(&self) -> bool {
        self.tries >= MOST_TRIES
    }

    fn may_be_tried(&self, now: Instant) -> bool {
        !self.is_parked() && self.again_at.is_none_or(|at| at <= now)
    }
}

#[cfg(test)]
mod tests;
