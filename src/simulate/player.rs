//! Plays a trace: what the EndpointSlice controller writes goes through [`decide`], as at the webhook, and into the store;
//! then every slice whose hints a fresh decision would change is decided on again, as drift does.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::slices::{self, Endpoint, NAMESPACE, SERVICE, Slices};
use super::trace::Event;
use super::world::{NodeState, Refused, World};
use crate::cluster::slice::SliceRecord;
use crate::cluster::store::{Cluster, Resource, StoreRules, Writer};
use crate::cluster::wire::EndpointSlice;
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::planner::capacity::ZONE_LABEL;
use crate::planner::heuristic::Heuristic;
use crate::settings::Settings;
use crate::webhook::stored::{StoredEndpoints, take_stored_hints};

/// How often every slice is looked at again behind an event, at most.
const ROUNDS: usize = 3;

/// The time from one event to the next, for what depends on a clock.
const BETWEEN_EVENTS: SignedDuration = SignedDuration::from_secs(15);

/// A cluster in which a trace is played for one heuristic.
#[derive(Debug)]
pub struct Player {
    world: World,
    writer: Writer,
    cluster: Arc<Cluster>,
    settings: Settings,
    slice_size: usize,
    slices: Slices,
    slices_so_far: usize,
    now: Timestamp,
}

/// Slices that an event had written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    /// By the EndpointSlice controller.
    pub controller: u64,
    /// By drift.
    pub drift: u64,
}

/// How a slice was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The webhook was asked.
    Admitted,
    /// It was deleted, which asks nobody.
    Deleted,
}

impl Player {
    /// One with these zones, where nothing has happened yet.
    #[must_use]
    pub fn new(
        zones: &[String],
        heuristic: Heuristic,
        slice_size: usize,
        settings: Settings,
        rules: StoreRules,
    ) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let mut writer = Writer::new(rules);
        for resource in Resource::ALL {
            writer.begin(resource);
            writer.finish(resource, now);
        }
        writer.apply_service(&from_json(json!({
            "metadata": {
                "namespace": NAMESPACE,
                "name": SERVICE,
                "annotations": {"service.kubernetes.io/topology-mode": heuristic.annotation()},
            },
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10"},
        })));
        Self {
            world: World::new(zones),
            cluster: writer.cluster(),
            writer,
            settings,
            slice_size,
            slices: Slices::new(),
            slices_so_far: 0,
            now,
        }
    }

    /// Nodes and pods as they are now.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The slices as they are stored now.
    #[must_use]
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Every endpoint that is stored now.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.slices.values().flatten()
    }

    /// Lets an event happen and everybody react to it.
    ///
    /// # Errors
    /// [`Refused`] where it can't happen now.
    pub fn play(&mut self, event: &Event) -> Result<Writes, Refused> {
        self.play_watched(event, |_, _| ())
    }

    /// The same; `each_write` sees what is stored after each write.
    ///
    /// # Errors
    /// [`Refused`] where it can't happen now.
    pub fn play_watched(
        &mut self,
        event: &Event,
        mut each_write: impl FnMut(&Self, Write),
    ) -> Result<Writes, Refused> {
        let before = self.world.nodes().clone();
        self.world.apply(event)?;
        self.now = self
            .now
            .checked_add(BETWEEN_EVENTS)
            .expect("no trace is that long");
        self.take_nodes(&before);
        let controller = self.reconcile(&mut each_write);
        let drift = self.drift(&mut each_write);
        Ok(Writes { controller, drift })
    }

    fn take_nodes(&mut self, before: &std::collections::BTreeMap<String, NodeState>) {
        let nodes = self.world.nodes();
        for (name, node) in nodes
            .iter()
            .filter(|(n, node)| before.get(*n) != Some(node))
        {
            self.writer.apply_node(&node_object(name, node), self.now);
        }
        for name in before.keys().filter(|name| !nodes.contains_key(*name)) {
            self.writer.remove_node(name);
        }
        self.writer.settle(self.now);
    }

    /// The controller's writes, each of which asks the webhook; deletions do not.
    fn reconcile(&mut self, each_write: &mut impl FnMut(&Self, Write)) -> u64 {
        let changes = slices::reconcile(&self.slices, self.desired(), self.slice_size);
        let mut writes = 0;
        let created = changes
            .create
            .into_iter()
            .map(|endpoints| (None, endpoints));
        let updated = changes.update.into_iter().map(|(name, e)| (Some(name), e));
        for (name, mut endpoints) in created.chain(updated) {
            let name = name.unwrap_or_else(|| {
                self.slices_so_far += 1;
                format!("{SERVICE}-{:04}", self.slices_so_far)
            });
            let hints = self.decide(&name, &endpoints);
            hints
                .into_iter()
                .zip(&mut endpoints)
                .for_each(|(hints, endpoint)| endpoint.hints = hints);
            self.store(name, endpoints);
            each_write(self, Write::Admitted);
            writes += 1;
        }
        for name in changes.delete {
            self.slices.remove(&name);
            self.writer.remove_slice(&format!("{NAMESPACE}/{name}"));
            each_write(self, Write::Deleted);
            writes += 1;
        }
        writes
    }

    fn desired(&self) -> Vec<Endpoint> {
        let pods = self.world.pods().iter();
        pods.map(|(name, pod)| Endpoint {
            pod: name.clone(),
            ip: pod.ip,
            node: pod.node.clone(),
            zone: self.world.zone_of(pod).to_owned(),
            hints: Vec::new(),
        })
        .collect()
    }

    /// Writes again what a fresh decision would change, until it changes nothing.
    fn drift(&mut self, each_write: &mut impl FnMut(&Self, Write)) -> u64 {
        let mut writes = 0;
        for _ in 0..ROUNDS {
            let written = self.drift_round(each_write);
            writes += written;
            if written == 0 {
                break;
            }
        }
        writes
    }

    fn drift_round(&mut self, each_write: &mut impl FnMut(&Self, Write)) -> u64 {
        let mut writes = 0;
        let names: Vec<String> = self.slices.keys().cloned().collect();
        for name in names {
            if let Some(endpoints) = self.redecided(&name) {
                self.store(name, endpoints);
                each_write(self, Write::Admitted);
                writes += 1;
            }
        }
        writes
    }

    /// The endpoints of a slice as a fresh decision has them, if that changes a hint.
    fn redecided(&self, name: &str) -> Option<Vec<Endpoint>> {
        let stored = &self.slices[name];
        let hints = self.decide(name, stored);
        let is_same = hints.iter().zip(stored).all(|(hints, e)| *hints == e.hints);
        let with_hints = || {
            let endpoints = stored.iter().zip(hints);
            let endpoint = |(endpoint, hints): (&Endpoint, _)| Endpoint {
                hints,
                ..endpoint.clone()
            };
            endpoints.map(endpoint).collect()
        };
        (!is_same).then(with_hints)
    }

    /// The slices of which a fresh decision would change a hint.
    #[must_use]
    pub fn unsettled(&self) -> Vec<&str> {
        let names = self.slices.keys().map(String::as_str);
        names
            .filter(|name| self.redecided(name).is_some())
            .collect()
    }

    /// The hints that `sent` endpoints have once the webhook has answered.
    fn decide(&self, name: &str, sent: &[Endpoint]) -> Vec<Vec<Arc<str>>> {
        let object = slices::to_wire(name, sent);
        let stored = self.slices.get(name);
        let old = stored.map(|endpoints| slices::to_wire(name, endpoints));
        let mut record = SliceRecord::read(&object);
        take_stored_hints(&mut record, &object, &StoredEndpoints::of(old.as_ref()));
        let service = format!("{NAMESPACE}/{SERVICE}");
        let snapshot = Snapshot::take(&self.cluster, Some(&service));
        let decision = decide(&snapshot, Some(&service), &record, &self.settings);
        match decision.verdict {
            Verdict::Hints => named(&decision),
            Verdict::Strip => vec![Vec::new(); sent.len()],
            Verdict::Untouched => sent.iter().map(|e| e.hints.clone()).collect(),
            Verdict::Kept => unreachable!("all is known, and the Service's annotation is good"),
        }
    }

    fn store(&mut self, name: String, endpoints: Vec<Endpoint>) {
        let object: EndpointSlice<Box<str>> = slices::to_wire(&name, &endpoints);
        self.writer.apply_slice(&object);
        self.slices.insert(name, endpoints);
    }
}

fn named(decision: &Decision) -> Vec<Vec<Arc<str>>> {
    let zones = &decision.capacity.capacity.zones;
    let name = |zone: &u16| zones[usize::from(*zone)].name.clone();
    let hints = decision.hints.iter();
    hints
        .map(|hint| hint.zones().iter().map(name).collect())
        .collect()
}

fn node_object(name: &str, node: &NodeState) -> crate::cluster::wire::Node<Box<str>> {
    let ready = if node.ready { "True" } else { "Unknown" };
    from_json(json!({
        "metadata": {"name": name, "labels": {ZONE_LABEL: node.zone}},
        "status": {
            "allocatable": {"cpu": format!("{}m", node.milli_cpu)},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }))
}

fn from_json<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).expect("fields of wire types can't fail")
}
