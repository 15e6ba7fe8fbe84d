//! Slices that nobody writes: those whose hints differ from a fresh decision are written without a change, so that the
//! API server asks the webhook about them again.
//!
//! Every replica looks, for its metrics; the one that leads writes. The permissions it needs: `patch` on
//! `endpointslices.discovery.k8s.io`, and `get` on its `mutatingwebhookconfigurations.admissionregistration.k8s.io`
//! where that is named.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::agenda::{Agenda, Outcome, SliceName, Waits};
use super::events::{self, Events, ServiceSet};
use super::lease::Claim;
use super::look::{self, State};
use super::metrics::ControllerMetrics;
use crate::cluster::key::Key;
use crate::cluster::slice::AddressType;
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::cluster::wire::{EndpointSlice, Wire as _};
use crate::decide::Verdict;
use crate::planner::reason::Reason;
use crate::settings::{Mode, Settings};
use crate::words::{self, with_causes};

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

/// How long a call may take: less than the lease's margin.
const CALL_TIME: Duration = Duration::from_secs(4);

/// How often the webhook configuration is looked at.
const CONFIGURATION_LOOK: Duration = Duration::from_secs(10);

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

/// Runs until the process ends.
pub async fn run(drift: Drift) {
    let changes = drift.cluster.changes();
    while !drift.cluster.all_synced() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    changes.want();
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
        observed: None,
        writes_fail: false,
        drift,
    };
    loop {
        work.step();
        work.wait().await;
    }
}

struct Work {
    drift: Drift,
    agenda: Agenda,
    /// What the metrics say of each Service and address type.
    states: HashMap<Arc<str>, Vec<(AddressType, &'static str, &'static str)>>,
    calls: JoinSet<Call>,
    /// The term of leadership that is being served.
    term: Option<u64>,
    /// The posting of events in this term.
    telling: Option<AbortOnDropHandle<()>>,
    next_write: Instant,
    next_full_look: Instant,
    next_configuration_look: Instant,
    /// The version of the webhook configuration when it was last seen.
    configuration: Option<String>,
    /// The capacity whose nodes people were last told of, in this term.
    observed: Option<Arc<MeasuredCapacity>>,
    /// Whether the last write failed, and people know.
    writes_fail: bool,
}

/// A call that has ended.
enum Call {
    Slice(SliceName, Written),
    /// The version of the webhook configuration; no text where there is none.
    Configuration(String),
    /// It could not be asked for.
    NoConfiguration,
}

/// What came of a write; what is the matter where it failed.
type Written = Result<Outcome, String>;

impl Work {
    fn step(&mut self) {
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
        self.look_at_due(now);
        self.write_due();
        self.look_at_configuration(now);
        self.tell_waiting();
    }

    fn take_term(&mut self, now: Instant) {
        let term = self.drift.claim.term();
        if term == self.term {
            return;
        }
        self.term = term;
        self.configuration = None;
        self.observed = None;
        self.telling = term.map(|_| {
            let (events, claim) = (self.drift.events.clone(), self.drift.claim.clone());
            let posting = async move { events.run(|| claim.holds()).await };
            AbortOnDropHandle::new(tokio::spawn(posting))
        });
        self.drift.metrics.leader.set(i64::from(term.is_some()));
        // What another did or gave up meanwhile is not known.
        self.agenda = Agenda::new(self.drift.settings.waits);
        if term.is_some() {
            self.next_configuration_look = now;
            self.look_at_all(now);
        }
    }

    fn look_at_all(&mut self, now: Instant) {
        self.next_full_look = now + self.drift.settings.full_look;
        let known = self.drift.cluster.service_names();
        let mut names: HashSet<Arc<str>> = known.into_iter().map(Arc::from).collect();
        names.extend(self.states.keys().cloned());
        self.agenda.look_at_all(names, now);
        let uid = |set: &ServiceSet| {
            let state = self
                .drift
                .cluster
                .service(&format!("{}/{}", set.namespace, set.name))?;
            Some(state.service.as_ref()?.uid.clone())
        };
        let is_there = |set: &ServiceSet| uid(set).is_some_and(|uid| uid == set.uid);
        self.drift.events.keep_services(is_there);
    }

    fn look_at_due(&mut self, now: Instant) {
        let started = std::time::Instant::now();
        let mut looked = false;
        while let Some((name, written)) = self.agenda.next_look(now) {
            looked = true;
            self.observe_nodes();
            let look = look::look(&self.drift.cluster, &self.drift.decisions, &name);
            if self.term.is_some() {
                let bypassed = |slice: &&look::DriftedSlice| {
                    slice.was_bypassed && written.contains(&slice.name)
                };
                let bypassed = look.drifted.iter().filter(bypassed).count();
                self.drift.metrics.bypassed.inc_by(bypassed as u64);
            }
            self.agenda.note_look(&name, &look.drifted, now);
            self.note_states(&name, &look.states);
        }
        if looked {
            let took = started.elapsed().as_secs_f64();
            self.drift.metrics.replanning.observe(took);
        }
    }

    fn note_states(&mut self, name: &Arc<str>, states: &[State]) {
        if self.term.is_some() && !self.drift.cluster.capacity().frozen {
            self.observe(name, states);
        }
        let words: Vec<_> = states
            .iter()
            .map(|state| {
                let reason = state.decision.reason.as_ref();
                let reason = reason.map_or("", |reason| reason.word());
                (state.address_type, state.decision.verdict.word(), reason)
            })
            .collect();
        let before = if words.is_empty() {
            self.states.remove(name)
        } else {
            self.states.insert(name.clone(), words.clone())
        };
        self.drift
            .metrics
            .move_services(before.unwrap_or_default(), words);
    }

    /// Has people told of what changed for a Service. That a slice waits for others is over soon and no news.
    fn observe(&self, name: &str, states: &[State]) {
        let Some(state) = self.drift.cluster.service(name) else {
            return;
        };
        let (Some((namespace, name)), Some(service)) = (name.split_once('/'), &state.service)
        else {
            return;
        };
        for state in states {
            let waits = matches!(
                state.decision.reason,
                Some(Reason::SiblingsOutOfStep { .. })
            );
            let (verdict, reason) = (state.decision.verdict, state.decision.reason.as_ref());
            let Some(told) = events::State::of(verdict, reason).filter(|_| !waits) else {
                continue;
            };
            let set = ServiceSet {
                namespace: namespace.into(),
                name: name.into(),
                uid: service.uid.clone(),
                address_type: state.address_type,
            };
            let standing = state.is_carried_out && state.decision.verdict == Verdict::Hints;
            self.drift
                .events
                .observe(set, told, standing, || sentence(state));
        }
    }

    /// Has people told of the nodes first: they may be why Services lose their hints.
    fn observe_nodes(&mut self) {
        let capacity = self.drift.cluster.capacity();
        let is_known = |observed: &Arc<_>| Arc::ptr_eq(observed, &capacity);
        if self.term.is_none() || capacity.frozen || self.observed.as_ref().is_some_and(is_known) {
            return;
        }
        let insufficient = &capacity.capacity.insufficient;
        self.drift.events.observe_nodes(insufficient, false);
        self.observed = Some(capacity);
    }

    fn may_write(&self) -> bool {
        self.drift.decisions.mode == Mode::Active
            && self.drift.claim.holds()
            && !self.drift.cluster.capacity().frozen
    }

    fn write_due(&mut self) {
        while self.may_write() && self.calls.len() < MOST_CALLS && self.next_write <= Instant::now()
        {
            let Some(slice) = self.agenda.next_slice() else {
                return;
            };
            let now = Instant::now();
            let (cluster, settings) = (&self.drift.cluster, &self.drift.decisions);
            if !look::is_drifted(cluster, settings, &slice.0, &slice.1) {
                self.agenda.drop_slice(&slice, now);
                continue;
            }
            self.next_write = now + self.pause();
            let before = version_of(cluster, &slice);
            let client = self.drift.client.clone();
            self.calls.spawn(async move {
                let written = ask_again(client, &slice, before).await;
                Call::Slice(slice, written)
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
        if self.term.is_none() || now < self.next_configuration_look {
            return;
        }
        self.next_configuration_look = now + CONFIGURATION_LOOK;
        let (client, name) = (self.drift.client.clone(), name.clone());
        self.calls
            .spawn(async move { configuration(client, &name).await });
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
        if self.term.is_some() && self.drift.settings.webhook_configuration.is_some() {
            until = until.min(self.next_configuration_look);
        }
        let changes = self.drift.cluster.changes();
        tokio::select! {
            () = changes.wait() => {}
            () = self.drift.claim.changed() => {}
            () = sleep_until(until) => {}
            Some(call) = self.calls.join_next() => self.take_in(call),
        }
    }

    fn take_in(&mut self, call: Result<Call, tokio::task::JoinError>) {
        let now = Instant::now();
        match call {
            Ok(Call::Slice(slice, written)) => {
                self.tell_failure(&slice, &written);
                let outcome = written.unwrap_or(Outcome::Failed);
                self.drift.metrics.count_patch(outcome);
                self.agenda.note_outcome(&slice, outcome, now);
            }
            Ok(Call::Configuration(version)) => {
                let before = self.configuration.replace(version.clone());
                if before.is_some_and(|before| before != version) {
                    tracing::info!("the webhook configuration changed: all Services are looked at");
                    self.look_at_all(now);
                }
            }
            Ok(Call::NoConfiguration) => {}
            // Ends the task, and with it the process: a slice that stays in flight would be left alone for ever.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Of writes that fail one after another the first is told.
    fn tell_failure(&mut self, (service, slice): &SliceName, written: &Written) {
        let told = std::mem::replace(&mut self.writes_fail, written.is_err());
        if let (Err(error), false) = (written, told) {
            tracing::warn!(
                service = &**service,
                slice = &**slice,
                error,
                "can't have a slice written anew; trying again (zonewise needs permission to patch \
                 endpointslices.discovery.k8s.io in every namespace)"
            );
        }
    }
}

fn sentence(state: &State) -> String {
    match &state.decision.reason {
        Some(reason) => reason.message(),
        None => format!(
            "{} serve {} in proportion to their CPU.",
            words::count(state.hinted, "ready endpoint"),
            words::count(state.decision.capacity.weights.len(), "zone")
        ),
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

/// Has the API server write a slice as it is, which it does not without asking the webhook. An empty patch is the only
/// right form: one that writes hints would own the list of endpoints from then on.
async fn ask_again(client: Client, (service, slice): &SliceName, before: Option<Key>) -> Written {
    let namespace = service
        .split_once('/')
        .map_or("", |(namespace, _)| namespace);
    let url = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let parameters = PatchParams {
        field_manager: Some("zonewise".into()),
        ..PatchParams::default()
    };
    let request = kube::core::Request::new(url)
        .patch(slice, &parameters, &Patch::Merge(json!({})))
        .map_err(|error| with_causes(&error))?;
    let answer = client.request::<EndpointSlice<Box<str>>>(request);
    match timeout(CALL_TIME, answer).await {
        Ok(Ok(stored)) => {
            let version = stored.metadata().and_then(|m| m.resource_version.text());
            let version = Key::of(version.unwrap_or_default());
            if Some(version) == before {
                Ok(Outcome::Unchanged)
            } else {
                Ok(Outcome::Stored(version))
            }
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(Outcome::Gone),
        Ok(Err(error)) => Err(with_causes(&error)),
        Err(_) => Err(format!("no answer within {CALL_TIME:.0?}")),
    }
}

async fn configuration(client: Client, name: &str) -> Call {
    let url = format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}");
    let Ok(request) = hyper::Request::get(url).body(Vec::new()) else {
        return Call::NoConfiguration;
    };
    let answer = timeout(CALL_TIME, client.request::<serde_json::Value>(request)).await;
    match answer {
        Ok(Ok(object)) => {
            let version = object.pointer("/metadata/resourceVersion");
            Call::Configuration(version.map(ToString::to_string).unwrap_or_default())
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Call::Configuration(String::new())
        }
        Ok(Err(error)) => {
            tracing::debug!(
                error = with_causes(&error),
                "can't get the webhook configuration"
            );
            Call::NoConfiguration
        }
        Err(_) => Call::NoConfiguration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_number_of_nodes() {
        let millis = |nodes| (1000.0 / pace_for(nodes)).round();
        let pauses = [0, 3, 400, 5000, 20_000].map(millis);
        let expected = [20.0, 20.0, 40.0, 500.0, 1000.0];
        assert!(
            pauses
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 0.5),
            "{pauses:?}"
        );
    }
}
