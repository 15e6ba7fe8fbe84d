//! Slices that nobody writes: those whose hints differ from a fresh decision are written without a change, so that the
//! API server asks the webhook about them again.
//!
//! Every replica looks, for its metrics; the one that leads writes. The permissions it needs: `patch` on
//! `endpointslices.discovery.k8s.io`, and `get` on its `mutatingwebhookconfigurations.admissionregistration.k8s.io`
//! where that is named.

mod telling;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::agenda::{Agenda, Outcome, SliceName, Waits};
use super::calls::{self, Answer, Configuration, Write};
use super::events::{Events, ServiceSet};
use super::lease::Claim;
use super::look::{self, DriftedSlice, Look, Panicked, State};
use super::metrics::ControllerMetrics;
use super::scope::{self, Scope};
use crate::cluster::key::Key;
use crate::cluster::slice::AddressType;
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::decide::Verdict;
use crate::settings::Settings;

/// How drift is worked on.
#[derive(Debug, Clone)]
pub struct DriftSettings {
    /// Waiting times.
    pub waits: Waits,
    /// Slices a second; by default as many as suit the number of nodes.
    pub pace: Option<f64>,
    /// How often every Service is looked at, whatever has changed.
    pub full_look: Duration,
    /// The webhook configuration that calls this program: when it changes, what was given up is tried again.
    pub webhook_configuration: Option<String>,
}

/// How many calls are under way at once: each is for another Service.
const MOST_CALLS: usize = 8;

/// How often the webhook configuration is looked at.
const CONFIGURATION_LOOK: Duration = Duration::from_secs(10);

/// For how long Services are looked at before others have a turn.
const STRETCH: Duration = Duration::from_millis(10);

/// A Service with more endpoints is looked at apart: that takes time with the square of their number.
const LARGE: usize = 1000;

/// What drift works with.
pub struct Drift {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// How decisions are made.
    pub decisions: Arc<Settings>,
    /// How drift is worked on.
    pub settings: DriftSettings,
    /// The API server.
    pub client: Client,
    /// Whether this replica leads.
    pub claim: Claim,
    /// What is told to people.
    pub events: Arc<Events>,
    /// What it counts.
    pub metrics: ControllerMetrics,
}

impl Drift {
    /// Waits until all that is watched has been listed.
    pub async fn has_synced(&self) {
        while !self.cluster.all_synced() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Runs until the process ends, on a cluster that has synced.
pub async fn run(drift: Drift) {
    drift.cluster.changes().want();
    let now = Instant::now();
    let mut work = Work {
        agenda: Agenda::new(drift.settings.waits),
        states: HashMap::new(),
        calls: JoinSet::new(),
        term: None,
        telling: None,
        next_write: now,
        next_full_look: now,
        next_configuration_look: now,
        configuration: None,
        configuration_asked: false,
        configuration_fails: false,
        asking: HashSet::new(),
        left_behind: HashMap::new(),
        first_looks: HashSet::new(),
        observed: None,
        panicking: HashSet::new(),
        writes_fail: false,
        drift,
    };
    loop {
        work.step().await;
        work.wait().await;
    }
}

struct Work {
    drift: Drift,
    agenda: Agenda,
    /// What the metrics say of each Service and address type.
    states: HashMap<Arc<str>, Words>,
    calls: JoinSet<Call>,
    /// The term of leadership that is being served.
    term: Option<u64>,
    /// The posting of events in this term.
    telling: Option<AbortOnDropHandle<()>>,
    next_write: Instant,
    next_full_look: Instant,
    next_configuration_look: Instant,
    /// The webhook configuration as it was last seen in this term.
    configuration: Option<Configuration>,
    /// Whether it was asked for since this term began: before that nobody knows which slices the API server asks about.
    configuration_asked: bool,
    /// Whether it could not be asked for, and people know.
    configuration_fails: bool,
    /// Services that asked for hints when they were last looked at.
    asking: HashSet<Arc<str>>,
    /// Slices with hints of Services that asked for them and now ask for nothing: each is to lose them once.
    left_behind: HashMap<Arc<str>, HashSet<Box<str>>>,
    /// Services that were there when this term began and have not been looked at since.
    first_looks: HashSet<Arc<str>>,
    /// The capacity whose nodes people were last told of, in this term.
    observed: Option<Arc<MeasuredCapacity>>,
    /// Services on which deciding panics, and people know.
    panicking: HashSet<Arc<str>>,
    /// Whether the last write failed, and people know.
    writes_fail: bool,
}

/// The words of the decision and its reason for each address type.
type Words = Vec<(AddressType, &'static str, &'static str)>;

/// A call that has ended.
enum Call {
    Slice(SliceName, Answer<Outcome>),
    Configuration(Answer<Configuration>),
}

impl Work {
    async fn step(&mut self) {
        let now = Instant::now();
        self.take_term(now);
        let changed = self.drift.cluster.changes().take();
        for (name, change) in changed.services {
            self.agenda.note_service(&Arc::from(name), &change, now);
        }
        if changed.capacity {
            self.agenda.note_capacity(now);
        }
        if self.agenda.take_all(now) || now >= self.next_full_look {
            self.look_at_all(now);
        }
        self.agenda.take_retries(now);
        self.look_at_due(now).await;
        self.write_due();
        self.look_at_configuration(now);
        self.tell_waiting();
    }

    fn take_term(&mut self, now: Instant) {
        let term = self.drift.claim.term();
        if term != self.term {
            self.begin_term(term, now);
        }
        if let (Some(term), None) = (self.term, &self.telling) {
            self.telling = Some(self.tell_while(term));
        }
    }

    fn begin_term(&mut self, term: Option<u64>, now: Instant) {
        self.term = term;
        self.configuration = None;
        self.configuration_asked = self.drift.settings.webhook_configuration.is_none();
        self.observed = None;
        self.telling = None;
        self.drift.events.step_down();
        self.drift.metrics.leader.set(i64::from(term.is_some()));
        // What another did or gave up meanwhile is not known, nor what it would have looked at next.
        self.agenda = Agenda::new(self.drift.settings.waits);
        let names = self.look_at_all(now);
        self.first_looks = names.into_iter().filter(|_| term.is_some()).collect();
        self.next_configuration_look = now;
    }

    /// Has all Services looked at; their names.
    fn look_at_all(&mut self, now: Instant) -> HashSet<Arc<str>> {
        self.next_full_look = now + self.drift.settings.full_look;
        let known = self.drift.cluster.service_names();
        let mut names: HashSet<Arc<str>> = known.into_iter().map(Arc::from).collect();
        names.extend(self.states.keys().cloned());
        self.agenda.look_at_all(names.iter().cloned(), now);
        self.first_looks.retain(|name| names.contains(name));
        let uid = |set: &ServiceSet| {
            let state = self
                .drift
                .cluster
                .service(&format!("{}/{}", set.namespace, set.name))?;
            Some(state.service.as_ref()?.uid.clone())
        };
        let is_there = |set: &ServiceSet| uid(set).is_some_and(|uid| uid == set.uid);
        self.drift.events.keep_services(is_there);
        names
    }

    async fn look_at_due(&mut self, now: Instant) {
        let (mut stretch, mut took) = (Instant::now(), Duration::ZERO);
        while let Some((name, written)) = self.agenda.next_look(now) {
            let began = Instant::now();
            let look = look_at(&self.drift.cluster, &self.drift.decisions, &name).await;
            took += began.elapsed();
            match look {
                Ok(look) => self.take_look(&name, &look, &written, now),
                Err(panicked) => self.take_panic(&name, &panicked, now),
            }
            if stretch.elapsed() >= STRETCH {
                yield_now().await;
                stretch = Instant::now();
            }
        }
        if !took.is_zero() {
            self.drift.metrics.replanning.observe(took.as_secs_f64());
        }
    }

    fn take_look(
        &mut self,
        name: &Arc<str>,
        look: &Look,
        written: &HashSet<Box<str>>,
        now: Instant,
    ) {
        self.panicking.remove(name);
        let drifted = self.asked_about(name, &look.drifted);
        if self.term.is_some() && self.configuration_asked && look.is_active() {
            let bypassed =
                |slice: &&DriftedSlice| slice.was_bypassed && written.contains(&slice.name);
            let bypassed = drifted.iter().filter(bypassed).count();
            self.drift.metrics.bypassed.inc_by(bypassed as u64);
        }
        let left_behind = self.left_behind(name, look);
        let mut to_write = self.to_write(look, &drifted, written).to_vec();
        to_write.extend(left_behind);
        self.agenda.note_look(name, &to_write, now);
        // One that never had a slice has nothing to be forgotten: each look would go through all that is remembered.
        if look.states.is_empty()
            && self.states.contains_key(name)
            && let Some((namespace, service)) = name.split_once('/')
        {
            let events = &self.drift.events;
            events.keep_service(namespace, service, look.uid.as_deref());
        }
        if self.term.is_some() && !self.drift.cluster.capacity().frozen {
            self.observe(name, look);
        }
        let words = |state: &State| {
            let decision = &state.decision;
            let verdict = decision.verdict.word();
            (state.address_type, verdict, decision.reason_word())
        };
        self.note_words(name, look.states.iter().map(words).collect());
    }

    /// Slices that keep hints which nobody looks after any more. A Service whose opt-in is taken away has the EndpointSlice
    /// controller strip those that it manages; a Namespace's, or a flag of ours, is nothing to it.
    fn left_behind(&mut self, name: &Arc<str>, look: &Look) -> Vec<DriftedSlice> {
        if look.asks() {
            self.asking.insert(name.clone());
        } else if !look.is_unclear() && self.asking.remove(name) && look.asks_for_nothing() {
            let state = self.drift.cluster.service(name);
            let slices = state.iter().flat_map(|state| state.slices.iter());
            let names = slices.map(|slice| slice.name.clone());
            self.left_behind.insert(name.clone(), names.collect());
        }
        let Some(slices) = self.left_behind.get_mut(name) else {
            return Vec::new();
        };
        let (cluster, settings) = (&self.drift.cluster, &self.drift.decisions);
        let without_hints = Some(Write::WithoutHints);
        slices.retain(|slice| look::due(cluster, settings, name, slice, true) == without_hints);
        let drifted = slices.iter().map(|slice| DriftedSlice {
            name: slice.clone(),
            was_bypassed: false,
        });
        let drifted = drifted.filter(|_| look.is_active()).collect();
        if slices.is_empty() {
            self.left_behind.remove(name);
        }
        drifted
    }

    fn is_left_behind(&self, (service, slice): &SliceName) -> bool {
        let slices = self.left_behind.get(service);
        slices.is_some_and(|slices| slices.contains(slice))
    }

    fn take_panic(&mut self, name: &Arc<str>, panicked: &Panicked, now: Instant) {
        self.drift.metrics.panicked.inc();
        if self.panicking.insert(name.clone()) {
            tracing::warn!(
                service = &**name,
                "deciding panicked, which it never should: the hints of this Service stay as they are"
            );
        }
        self.agenda.note_look(name, &[], now);
        self.first_looks.remove(name);
        let words = |address_type: &AddressType| (*address_type, Verdict::Kept.word(), "Panic");
        self.note_words(name, panicked.address_types.iter().map(words).collect());
    }

    fn note_words(&mut self, name: &Arc<str>, words: Words) {
        let before = if words.is_empty() {
            self.states.remove(name)
        } else {
            self.states.insert(name.clone(), words.clone())
        };
        self.drift
            .metrics
            .move_services(before.unwrap_or_default(), words);
    }

    /// What is to be written of what a look shows. While capacity is held as it was, slices come to what that asks for,
    /// since hints may have followed the beginning of a storm; but what others write meanwhile is not followed.
    fn to_write<'a>(
        &self,
        look: &Look,
        drifted: &'a [DriftedSlice],
        written: &HashSet<Box<str>>,
    ) -> &'a [DriftedSlice] {
        let follows_others = self.drift.cluster.capacity().frozen && !written.is_empty();
        if follows_others || !look.is_active() {
            return &[];
        }
        drifted
    }

    /// Those about which the API server asks, as far as is known: to write others would change nothing.
    fn asked_about<'a>(
        &self,
        service: &str,
        drifted: &'a [DriftedSlice],
    ) -> Cow<'a, [DriftedSlice]> {
        let Some(state) = self.drift.cluster.service(service) else {
            return Cow::Borrowed(drifted);
        };
        let left_out = scope::left_out(self.scopes(), service, &state.slices);
        if left_out.is_empty() {
            return Cow::Borrowed(drifted);
        }
        let is_asked_about = |slice: &&DriftedSlice| !left_out.contains(&*slice.name);
        drifted.iter().filter(is_asked_about).cloned().collect()
    }

    /// What the webhooks of the configuration are asked about, as far as is known.
    fn scopes(&self) -> &[Scope] {
        let configuration = self.configuration.as_ref();
        configuration.map_or(&[], Configuration::scopes)
    }

    fn may_write(&self) -> bool {
        self.configuration_asked && self.drift.claim.holds()
    }

    fn write_due(&mut self) {
        while self.may_write() && self.calls.len() < MOST_CALLS && self.next_write <= Instant::now()
        {
            let Some(slice) = self.agenda.next_slice() else {
                return;
            };
            let now = Instant::now();
            let (cluster, settings) = (&self.drift.cluster, &self.drift.decisions);
            let left_behind = self.is_left_behind(&slice);
            let write = look::due(cluster, settings, &slice.0, &slice.1, left_behind);
            let Some(write) = write else {
                self.agenda.drop_slice(&slice, now);
                continue;
            };
            let Some(permit) = self.drift.claim.write() else {
                self.agenda.drop_slice(&slice, now);
                return;
            };
            self.next_write = now + self.pause();
            let before = version_of(cluster, &slice);
            let client = self.drift.client.clone();
            self.calls.spawn(async move {
                let outcome = calls::write(client, &slice, write, before).await;
                drop(permit);
                Call::Slice(slice, outcome)
            });
        }
    }

    /// The time between two writes: each reaches the kube-proxy of every node.
    fn pause(&self) -> Duration {
        let pace = self
            .drift
            .settings
            .pace
            .unwrap_or_else(|| pace_for(nodes(&self.drift.cluster.capacity())));
        Duration::from_secs_f64(1.0 / pace)
    }

    fn look_at_configuration(&mut self, now: Instant) {
        let Some(name) = &self.drift.settings.webhook_configuration else {
            return;
        };
        if now < self.next_configuration_look {
            return;
        }
        self.next_configuration_look = now + CONFIGURATION_LOOK;
        let (client, name) = (self.drift.client.clone(), name.clone());
        self.calls
            .spawn(async move { Call::Configuration(calls::configuration(client, &name).await) });
    }

    fn tell_waiting(&self) {
        let (waiting, parked) = (self.agenda.waiting(), self.agenda.parked());
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.drift.metrics.drifted.set(number(waiting));
        self.drift.metrics.parked.set(number(parked));
    }

    /// Waits until there may be something to do, and takes in what has come of calls.
    async fn wait(&mut self) {
        let mut until = self.next_full_look;
        if let Some(at) = self.agenda.wakes_at() {
            until = until.min(at);
        }
        if self.agenda.has_queue() && self.calls.len() < MOST_CALLS && self.may_write() {
            until = until.min(self.next_write);
        }
        if self.drift.settings.webhook_configuration.is_some() {
            until = until.min(self.next_configuration_look);
        }
        let changes = self.drift.cluster.changes();
        tokio::select! {
            () = changes.wait() => {}
            () = self.drift.claim.changed() => {}
            () = sleep_until(until) => {}
            Some(call) = self.calls.join_next() => self.take_in(call),
            () = has_ended(&mut self.telling) => {}
        }
    }

    fn take_in(&mut self, call: Result<Call, tokio::task::JoinError>) {
        let now = Instant::now();
        match call {
            Ok(Call::Slice(slice, outcome)) => {
                self.tell_failure(&slice, &outcome);
                let outcome = outcome.unwrap_or(Outcome::Failed);
                if !matches!(outcome, Outcome::Conflict | Outcome::Failed)
                    && let Some(slices) = self.left_behind.get_mut(&slice.0)
                {
                    slices.remove(&slice.1);
                }
                self.drift.metrics.count_patch(outcome);
                self.agenda.note_outcome(&slice, outcome, now);
            }
            Ok(Call::Configuration(seen)) => self.take_configuration(seen, now),
            // Ends the task, and with it the process: a slice that stays in flight would be left alone for ever.
            Err(error) => resume_unwind(error.into_panic()),
        }
    }

    fn take_configuration(&mut self, seen: Answer<Configuration>, now: Instant) {
        let told = std::mem::replace(&mut self.configuration_fails, seen.is_err());
        let is_first = !std::mem::replace(&mut self.configuration_asked, true);
        match seen {
            Ok(seen) => {
                let before = self.configuration.replace(seen);
                if before.is_some() && before != self.configuration {
                    tracing::info!("the webhook configuration changed: all Services are looked at");
                }
                if before != self.configuration {
                    self.tell_asked_for_nothing();
                }
                if is_first && scope::are_narrow(self.scopes())
                    || before.is_some() && before != self.configuration
                {
                    self.look_at_all(now);
                }
            }
            Err(error) if !told => tracing::warn!(
                error,
                "can't get the webhook configuration that --webhook-configuration names, so that its changes go unseen; \
                 trying again"
            ),
            Err(_) => {}
        }
    }

    fn tell_asked_for_nothing(&self) {
        let scopes = self.scopes();
        if !scopes.is_empty() && !scopes.iter().any(|scope| scope.covers("UPDATE")) {
            tracing::warn!(
                "no rule of the webhook configuration covers UPDATE of endpointslices in discovery.k8s.io/v1: slices that \
                 nobody writes are not mended"
            );
        }
    }

    /// Of writes that fail one after another the first is told.
    fn tell_failure(&mut self, (service, slice): &SliceName, outcome: &Answer<Outcome>) {
        let told = std::mem::replace(&mut self.writes_fail, outcome.is_err());
        if let (Err(error), false) = (outcome, told) {
            tracing::warn!(
                service = &**service,
                slice = &**slice,
                error,
                "writing a slice failed, retrying"
            );
        }
    }
}

/// Looks at a Service without holding up what else this thread has to do.
async fn look_at(
    cluster: &Arc<Cluster>,
    decisions: &Arc<Settings>,
    name: &Arc<str>,
) -> Result<Look, Panicked> {
    let state = cluster.service(name);
    let slices = state.iter().flat_map(|state| state.slices.iter());
    if slices.map(|slice| slice.endpoints.len()).sum::<usize>() <= LARGE {
        return look::look(cluster, decisions, name);
    }
    let (cluster, decisions, name) = (cluster.clone(), decisions.clone(), name.clone());
    let look = spawn_blocking(move || look::look(&cluster, &decisions, &name)).await;
    look.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// Waits for the end of the posting of events, which is then posted no more.
async fn has_ended(telling: &mut Option<AbortOnDropHandle<()>>) {
    let Some(task) = telling else {
        return std::future::pending().await;
    };
    let ended = task.await;
    *telling = None;
    if let Err(error) = ended {
        resume_unwind(error.into_panic());
    }
}

fn nodes(capacity: &MeasuredCapacity) -> usize {
    let capacity = &capacity.capacity;
    let counted: u32 = capacity.zones.iter().map(|zone| zone.nodes).sum();
    counted as usize + capacity.ignored.len() + capacity.insufficient.len()
}

/// Slices a second, so that all kube-proxies together take in no more than 10,000.
#[expect(clippy::cast_precision_loss)]
fn pace_for(nodes: usize) -> f64 {
    (10_000.0 / nodes.max(1) as f64).clamp(1.0, 50.0)
}

fn version_of(cluster: &Cluster, (service, slice): &SliceName) -> Option<Key> {
    let state = cluster.service(service)?;
    let record = state.slices.iter().find(|record| record.name == *slice)?;
    Some(record.version)
}

#[cfg(test)]
mod tests;
