//! The one store of what is known: a single writer, any number of readers, no lock between them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};

use super::changes::Changes;
use super::key::Key;
use super::namespace::NamespaceRecord;
use super::node::{NodeRecord, NodeRules};
use super::service::ServiceRecord;
use super::slice::{self, AddressType, SliceRecord};
use super::slices::Slices;
use super::wire::{EndpointSlice, Namespace, Node, Service, Wire};
use crate::planner::capacity::{self, Capacity, NotReady};

type FastMap<K, V> = papaya::HashMap<K, V, foldhash::fast::RandomState>;

/// A kind of object that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Nodes.
    Nodes,
    /// Namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices.
    EndpointSlices,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Nodes,
        Self::Namespaces,
        Self::Services,
        Self::EndpointSlices,
    ];

    /// The plural in URLs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
        }
    }
}

/// Capacity as decisions use it.
#[derive(Debug, Default)]
pub struct MeasuredCapacity {
    /// The zones and what keeps them from being known.
    pub capacity: Capacity,
    /// The weights of the zones' shares, in zone order.
    pub weights: Box<[u64]>,
    /// Whether it is held as it was before a storm of NotReady nodes.
    pub frozen: bool,
    /// The zones' keys, in zone order.
    keys: Box<[Key]>,
    /// Zone numbers by key, sorted.
    by_key: Box<[(Key, u16)]>,
}

impl MeasuredCapacity {
    fn new(capacity: Capacity, frozen: bool) -> Self {
        let keys: Box<[Key]> = capacity.zones.iter().map(|z| Key::of(&z.name)).collect();
        let mut by_key: Box<[_]> = keys.iter().copied().zip(0u16..).collect();
        by_key.sort_unstable();
        Self {
            keys,
            weights: capacity.weights().into(),
            by_key,
            frozen,
            capacity,
        }
    }

    /// The key of a zone with counted capacity, by its number.
    ///
    /// # Panics
    /// For a number that no zone has.
    #[must_use]
    pub fn zone_key(&self, number: u16) -> Key {
        self.keys[usize::from(number)]
    }

    /// The number of a zone with counted capacity.
    #[must_use]
    pub fn zone_number(&self, zone: Key) -> Option<u16> {
        let place = self
            .by_key
            .binary_search_by_key(&zone, |(key, _)| *key)
            .ok()?;
        Some(self.by_key[place].1)
    }
}

/// A Service and the slices that name it.
#[derive(Debug, Default)]
pub struct ServiceState {
    /// The Service, where it is known.
    pub service: Option<Arc<ServiceRecord>>,
    /// Its slices.
    pub slices: Slices,
    /// What was last decided for each address type, for the log; the meaning is the log's.
    pub last_logged: Arc<[AtomicU64; 3]>,
}

/// What is known of the cluster.
#[derive(Debug)]
pub struct Cluster {
    capacity: ArcSwap<MeasuredCapacity>,
    services: FastMap<Box<str>, Arc<ServiceState>>,
    /// Those that say something.
    namespaces: FastMap<Box<str>, Arc<NamespaceRecord>>,
    zones_of_nodes: FastMap<Key, Key>,
    synced: [AtomicBool; Resource::ALL.len()],
    unreadable: [AtomicU64; Resource::ALL.len()],
    changes: Changes,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            capacity: ArcSwap::default(),
            services: FastMap::default(),
            namespaces: FastMap::default(),
            zones_of_nodes: FastMap::default(),
            synced: std::array::from_fn(|_| AtomicBool::new(false)),
            unreadable: std::array::from_fn(|_| AtomicU64::new(0)),
            changes: Changes::default(),
        }
    }
}

impl Cluster {
    fn note_zone(&self, node: &capacity::Node) {
        let zones = self.zones_of_nodes.pin();
        match &node.zone {
            Some(zone) => zones.insert(Key::of(&node.name), Key::of(zone)),
            None => zones.remove(&Key::of(&node.name)),
        };
    }

    /// The capacity at this moment.
    #[must_use]
    pub fn capacity(&self) -> Arc<MeasuredCapacity> {
        self.capacity.load_full()
    }

    /// A Service by `namespace/name`, at this moment.
    #[must_use]
    pub fn service(&self, key: &str) -> Option<Arc<ServiceState>> {
        self.services.pin().get(key).cloned()
    }

    /// What a Namespace says, where it says anything.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<NamespaceRecord>> {
        self.namespaces.pin().get(name).cloned()
    }

    /// Whether any Node is in a zone of this name, counted or not.
    #[must_use]
    pub fn has_zone(&self, zone: &str) -> bool {
        let key = Key::of(zone);
        let zones = self.zones_of_nodes.pin();
        zones.values().any(|zone| *zone == key)
    }

    /// Every `namespace/name` that is a Service or that a slice names, in order.
    #[must_use]
    pub fn service_names(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.services.pin().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The zone of a node, where both are known.
    #[must_use]
    pub fn zone_of_node(&self, node: Key) -> Option<Key> {
        self.zones_of_nodes.pin().get(&node).copied()
    }

    /// What changed, for whoever acts on it.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether the first full list of a resource has been taken in.
    #[must_use]
    pub fn has_synced(&self, resource: Resource) -> bool {
        self.synced[resource as usize].load(Ordering::Acquire)
    }

    /// Whether all first full lists have been taken in.
    #[must_use]
    pub fn all_synced(&self) -> bool {
        Resource::ALL
            .into_iter()
            .all(|resource| self.has_synced(resource))
    }

    /// How many objects with fields of unexpected types came so far.
    #[must_use]
    pub fn unreadable_objects(&self, resource: Resource) -> u64 {
        self.unreadable[resource as usize].load(Ordering::Relaxed)
    }
}

/// How the store reads and sums up.
#[derive(Debug, Clone)]
pub struct StoreRules {
    /// How Nodes are read.
    pub nodes: NodeRules,
    /// The part of the nodes that may be NotReady before capacity is held as it was.
    pub freeze_not_ready: f64,
}

impl Default for StoreRules {
    fn default() -> Self {
        Self {
            nodes: NodeRules::default(),
            freeze_not_ready: 0.55,
        }
    }
}

/// Objects by name, each with the epoch in which it was last seen, so that a list sweeps away what it does not name.
#[derive(Debug)]
struct Seen<V> {
    epoch: u32,
    entries: HashMap<Arc<str>, (V, u32)>,
}

impl<V> Default for Seen<V> {
    fn default() -> Self {
        Self {
            epoch: 0,
            entries: HashMap::new(),
        }
    }
}

impl<V> Seen<V> {
    fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    fn insert(&mut self, name: &str, value: V) -> Option<V> {
        let epoch = self.epoch;
        if let Some((old, seen)) = self.entries.get_mut(name) {
            *seen = epoch;
            return Some(std::mem::replace(old, value));
        }
        self.entries.insert(name.into(), (value, epoch));
        None
    }

    fn get(&self, name: &str) -> Option<&V> {
        self.entries.get(name).map(|(value, _)| value)
    }

    fn remove(&mut self, name: &str) -> Option<V> {
        self.entries.remove(name).map(|(value, _)| value)
    }

    fn unseen(&self) -> Vec<Arc<str>> {
        let unseen = self
            .entries
            .iter()
            .filter(|(_, (_, seen))| *seen != self.epoch);
        unseen.map(|(name, _)| name.clone()).collect()
    }
}

/// The one that writes to a [`Cluster`].
///
/// Changes of nodes become visible with [`Writer::settle`], so that many of them cost one new capacity.
#[derive(Debug)]
pub struct Writer {
    cluster: Arc<Cluster>,
    rules: StoreRules,
    nodes: Seen<NodeRecord>,
    namespaces: Seen<()>,
    services: Seen<()>,
    /// The Service that each slice names.
    slices: Seen<Option<Box<str>>>,
    capacity_is_stale: bool,
    /// When the next young node is old.
    settles_at: Option<Timestamp>,
    nodes_listed: bool,
    weather: Weather,
}

/// A time in which so many nodes are NotReady that this tells of something else than less capacity.
#[derive(Debug)]
struct Storm {
    since: Timestamp,
    /// When it ended, if it has.
    until: Option<Timestamp>,
}

impl Storm {
    /// How far back a storm reaches: kubelets that went silent together are marked within a minute, and nodes turn
    /// NotReady one by one, so that a storm is seen only when it has taken its part of them.
    const REACH: SignedDuration = SignedDuration::from_mins(2);
}

/// How the storms have been so far.
#[derive(Debug, Default)]
struct Weather {
    storm: Option<Storm>,
}

impl Weather {
    /// Notes since when there is a storm, if there is one; nodes that were Ready at the time returned or later are held.
    fn note(&mut self, since: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let Some(since) = since else {
            if let Some(storm) = &mut self.storm {
                storm.until.get_or_insert(now);
            }
            return None;
        };
        let went_on = |until: Timestamp| now.duration_since(until) < Storm::REACH;
        // One that pauses at its edge is still the same: its first nodes are held when it comes back.
        let same = self.storm.take_if(|storm| storm.until.is_none_or(went_on));
        let since = same.map_or(since, |storm| storm.since);
        self.storm = Some(Storm { since, until: None });
        since.checked_sub(Storm::REACH).ok()
    }
}

/// When so many nodes had turned NotReady that there was a storm, if there is one: for a process that starts in one, it
/// began before.
fn storm_since<'a>(
    records: impl Iterator<Item = &'a NodeRecord>,
    rules: &StoreRules,
    now: Timestamp,
) -> Option<Timestamp> {
    let measure = rules.nodes.capacity.measure;
    let not_ready = NotReady::of(
        records,
        |record| &record.node,
        |record| record.was_ready(),
        measure,
        rules.freeze_not_ready,
    );
    let storm = not_ready.storm()?;
    let mut went: Vec<_> = not_ready
        .nodes
        .iter()
        .map(|record| record.ready_until())
        .collect();
    went.sort_unstable();
    Some(went[storm - 1].unwrap_or(now))
}

impl Writer {
    /// The writer of a new, empty cluster.
    #[must_use]
    pub fn new(rules: StoreRules) -> Self {
        Self {
            cluster: Arc::default(),
            rules,
            nodes: Seen::default(),
            namespaces: Seen::default(),
            services: Seen::default(),
            slices: Seen::default(),
            capacity_is_stale: false,
            settles_at: None,
            nodes_listed: false,
            weather: Weather::default(),
        }
    }

    /// What it writes to.
    #[must_use]
    pub fn cluster(&self) -> Arc<Cluster> {
        self.cluster.clone()
    }

    /// A full list of a resource begins.
    pub fn begin(&mut self, resource: Resource) {
        match resource {
            Resource::Nodes => self.nodes.begin(),
            Resource::Namespaces => self.namespaces.begin(),
            Resource::Services => self.services.begin(),
            Resource::EndpointSlices => self.slices.begin(),
        }
    }

    /// A full list has ended: what it did not name is gone.
    pub fn finish(&mut self, resource: Resource, now: Timestamp) {
        match resource {
            Resource::Nodes => {
                self.nodes
                    .unseen()
                    .iter()
                    .for_each(|name| self.remove_node(name));
                self.nodes_listed = true;
                self.capacity_is_stale = true;
                self.settle(now);
            }
            Resource::Namespaces => self
                .namespaces
                .unseen()
                .iter()
                .for_each(|name| self.remove_namespace(name)),
            Resource::Services => self
                .services
                .unseen()
                .iter()
                .for_each(|name| self.remove_service(name)),
            Resource::EndpointSlices => self
                .slices
                .unseen()
                .iter()
                .for_each(|name| self.remove_slice(name)),
        }
        self.cluster.synced[resource as usize].store(true, Ordering::Release);
    }

    /// A Node was added or changed.
    pub fn apply_node(&mut self, wire: &Node<Box<str>>, now: Timestamp) {
        self.note_odd(wire, Resource::Nodes);
        let mut record = NodeRecord::read(wire, &self.rules.nodes, now);
        let name = record.node.name.clone();
        record.remember(self.nodes.get(&name), &self.rules.nodes, now);
        self.cluster.note_zone(&record.node);
        let kept = record.clone();
        if self.nodes.insert(&name, record).as_ref() != Some(&kept) {
            self.capacity_is_stale = true;
        }
    }

    /// A Node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.cluster.zones_of_nodes.pin().remove(&Key::of(name));
        self.capacity_is_stale = true;
    }

    /// A Namespace was added or changed.
    pub fn apply_namespace(&mut self, wire: &Namespace<Box<str>>) {
        self.note_odd(wire, Resource::Namespaces);
        let name = wire.full_name();
        self.namespaces.insert(&name, ());
        self.update_namespace(&name, NamespaceRecord::read(wire));
    }

    /// A Namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
        self.update_namespace(name, NamespaceRecord::default());
    }

    fn update_namespace(&mut self, name: &str, record: NamespaceRecord) {
        let namespaces = self.cluster.namespaces.pin();
        let before = namespaces.get(name).map(|record| &**record);
        if *before.unwrap_or(&NamespaceRecord::default()) == record {
            return;
        }
        if record.is_silent() {
            namespaces.remove(name);
        } else {
            namespaces.insert(name.into(), Arc::new(record));
        }
        let services = self.cluster.services.pin();
        for service in services.keys() {
            if service
                .split_once('/')
                .is_some_and(|(namespace, _)| namespace == name)
            {
                self.cluster.changes.note_service(service);
            }
        }
    }

    /// A Service was added or changed.
    pub fn apply_service(&mut self, wire: &Service<Box<str>>) {
        self.note_odd(wire, Resource::Services);
        let name = wire.full_name();
        self.services.insert(&name, ());
        let record = ServiceRecord::read(wire);
        let changed = self.update(&name, |state| {
            if state.service.as_deref() == Some(&record) {
                return None;
            }
            Some(ServiceState {
                service: Some(Arc::new(record)),
                slices: state.slices.clone(),
                last_logged: state.last_logged.clone(),
            })
        });
        if changed {
            self.cluster.changes.note_service(&name);
        }
    }

    /// A Service is gone.
    pub fn remove_service(&mut self, name: &str) {
        self.services.remove(name);
        self.update(name, |state| {
            Some(ServiceState {
                service: None,
                slices: state.slices.clone(),
                ..Default::default()
            })
        });
        self.cluster.changes.note_service(name);
    }

    /// An EndpointSlice was added or changed.
    pub fn apply_slice(&mut self, wire: &EndpointSlice<Box<str>>) {
        self.note_odd(wire, Resource::EndpointSlices);
        let name = wire.full_name();
        let labels_are_odd = wire
            .metadata()
            .is_none_or(|metadata| metadata.labels.is_odd());
        let service = if labels_are_odd {
            // What it was a part of must not be planned without it.
            self.slices.get(&name).cloned().flatten()
        } else {
            slice::service_of(wire).map(Box::from)
        };
        let before = self.slices.insert(&name, service.clone()).flatten();
        let record = SliceRecord::read(wire);
        if let Some(before) = before.filter(|before| Some(before) != service.as_ref()) {
            self.take_slice_from(&before, &record.name);
        }
        if let Some(service) = service {
            let (slice, version) = (record.name.clone(), record.version);
            let changed = self.update(&service, |state| {
                Some(with_slices(state, state.slices.with(record)?))
            });
            if changed {
                self.cluster
                    .changes
                    .note_slice(&service, &slice, Some(version));
            }
        }
    }

    /// An EndpointSlice is gone.
    pub fn remove_slice(&mut self, full_name: &str) {
        let Some(service) = self.slices.remove(full_name).flatten() else {
            return;
        };
        let name = full_name
            .rsplit_once('/')
            .map_or(full_name, |(_, name)| name);
        self.take_slice_from(&service, name);
    }

    /// Brings capacity up to date with the nodes and the clock; when that will be needed again without any event.
    pub fn settle(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = self.settles_at.is_some_and(|at| at <= now);
        // Half a list says nothing of the shares.
        if !self.nodes_listed || (!due && !self.capacity_is_stale) {
            return self.settles_at;
        }
        for (record, _) in self.nodes.entries.values_mut() {
            let had_zone = record.node.zone.is_some();
            record.look_at_clock(now);
            if had_zone && record.node.zone.is_none() {
                self.cluster.note_zone(&record.node);
            }
        }
        self.capacity_is_stale = false;
        self.measure(now);
        self.settles_at = self
            .nodes
            .entries
            .values()
            .filter_map(|(record, _)| record.settles_at())
            .min();
        self.settles_at
    }

    fn measure(&mut self, now: Timestamp) {
        let next = self.measured(now);
        let current = self.cluster.capacity.load_full();
        if next.capacity == current.capacity && next.frozen == current.frozen {
            return;
        }
        if next.frozen != current.frozen {
            tracing::warn!(
                frozen = next.frozen,
                not_ready = capacity::not_ready(&next.capacity),
                "capacity is {}",
                if next.frozen {
                    "held as it was: too many nodes are NotReady at once"
                } else {
                    "measured again"
                }
            );
        }
        let measures_anew = next.frozen != current.frozen
            || next.capacity.zones != current.capacity.zones
            || next.capacity.insufficient != current.capacity.insufficient;
        self.cluster.capacity.store(Arc::new(next));
        if measures_anew {
            self.cluster.changes.note_capacity();
        }
    }

    /// Capacity as it is, or in a storm as it would be without.
    fn measured(&mut self, now: Timestamp) -> MeasuredCapacity {
        let records = || self.nodes.entries.values().map(|(record, _)| record);
        let rules = self.rules.nodes.capacity;
        let measured = Capacity::measure(records().map(|record| &record.node), rules);
        let storm = storm_since(records(), &self.rules, now);
        let Some(since) = self.weather.note(storm, now) else {
            return MeasuredCapacity::new(measured, false);
        };
        let is_held = |record: &NodeRecord| record.has_gone_since(since);
        if !records().any(is_held) {
            return MeasuredCapacity::new(measured, false);
        }
        // Node by node rather than as a sum: one that is deleted meanwhile won't come back, and a new one counts.
        let held = Capacity::measure_as(
            records().map(|record| (&record.node, record.node.ready || is_held(record))),
            rules,
        );
        let held = Capacity {
            // Which nodes do not count is told as it is.
            ignored: measured.ignored,
            ..held
        };
        MeasuredCapacity::new(held, true)
    }

    fn take_slice_from(&mut self, service: &str, name: &str) {
        self.update(service, |state| {
            Some(with_slices(state, state.slices.without(name)?))
        });
        self.cluster.changes.note_slice(service, name, None);
    }

    /// Replaces the state of a Service, if it changes; one with nothing left is forgotten.
    fn update(
        &mut self,
        name: &str,
        change: impl FnOnce(&ServiceState) -> Option<ServiceState>,
    ) -> bool {
        let services = self.cluster.services.pin();
        let current = services.get(name).cloned().unwrap_or_default();
        let Some(next) = change(&current) else {
            return false;
        };
        if next.service.is_none() && next.slices.is_empty() {
            services.remove(name);
        } else {
            services.insert(name.into(), Arc::new(next));
        }
        true
    }

    fn note_odd<W: Wire>(&self, wire: &W, resource: Resource) {
        if let Some(field) = wire.odd_field() {
            self.cluster.unreadable[resource as usize].fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                kind = W::KIND,
                name = wire.full_name(),
                field,
                "a field has an unexpected type; the object is used as far as it can be understood"
            );
        }
    }
}

fn with_slices(state: &ServiceState, slices: Slices) -> ServiceState {
    ServiceState {
        service: state.service.clone(),
        slices,
        last_logged: state.last_logged.clone(),
    }
}

/// The place of an address type in [`ServiceState::last_logged`].
#[must_use]
pub fn log_slot(address_type: AddressType) -> usize {
    address_type as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn node(name: &str, zone: &str, ready: &str) -> Node<Box<str>> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"topology.kubernetes.io/zone":"{zone}"}}}},
                "status":{{"allocatable":{{"cpu":"4"}},"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn slice(name: &str, service: &str) -> EndpointSlice<Box<str>> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop","labels":{{"kubernetes.io/service-name":"{service}"}}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    /// A writer whose list of Nodes has ended, empty.
    fn listed() -> Writer {
        let mut writer = Writer::new(StoreRules::default());
        writer.begin(Resource::Nodes);
        writer.finish(Resource::Nodes, now());
        writer
    }

    #[test]
    fn a_heartbeat_makes_no_new_capacity() {
        let mut writer = listed();
        writer.apply_node(&node("n1", "a", "True"), now());
        writer.settle(now());
        let before = writer.cluster().capacity();
        writer.apply_node(&node("n1", "a", "True"), now());
        writer.settle(now());
        assert!(Arc::ptr_eq(&before, &writer.cluster().capacity()));
        writer.apply_node(&node("n1", "b", "True"), now());
        writer.settle(now());
        assert_eq!(&*writer.cluster().capacity().capacity.zones[0].name, "b");
    }

    #[test]
    fn a_list_sweeps_away_what_it_does_not_name() {
        let mut writer = Writer::new(StoreRules::default());
        for names in [&["web-1", "web-2"][..], &["web-2"]] {
            writer.begin(Resource::EndpointSlices);
            for name in names {
                writer.apply_slice(&slice(name, "web"));
            }
            writer.finish(Resource::EndpointSlices, now());
        }
        let state = writer.cluster().service("shop/web").unwrap();
        assert_eq!(
            state.slices.iter().map(|s| &*s.name).collect::<Vec<_>>(),
            ["web-2"]
        );
        assert!(
            writer.cluster().has_synced(Resource::EndpointSlices) && !writer.cluster().all_synced()
        );
    }

    #[test]
    fn a_slice_that_changes_its_service_leaves_the_old_one() {
        let mut writer = Writer::new(StoreRules::default());
        writer.apply_slice(&slice("x", "web"));
        writer.apply_slice(&slice("x", "api"));
        assert!(writer.cluster().service("shop/web").is_none());
        assert_eq!(
            writer.cluster().service("shop/api").unwrap().slices.len(),
            1
        );
        writer.remove_slice("shop/x");
        assert!(writer.cluster().service_names().is_empty());
    }

    #[test]
    fn a_storm_holds_capacity_and_it_thaws_by_itself() {
        let mut writer = listed();
        let names: Vec<String> = (0..10).map(|i| format!("n{i}")).collect();
        let zone = |i: usize| ["a", "b"][i % 2];
        for (i, name) in names.iter().enumerate() {
            writer.apply_node(&node(name, zone(i), "True"), now());
        }
        writer.settle(now());
        let before = writer.cluster().capacity();
        for (i, name) in names.iter().enumerate().take(6) {
            writer.apply_node(&node(name, zone(i), "False"), now());
        }
        writer.settle(now());
        let frozen = writer.cluster().capacity();
        assert!(frozen.frozen);
        assert_eq!(frozen.capacity.zones, before.capacity.zones);
        writer.apply_node(&node("n0", "a", "True"), now());
        writer.settle(now());
        assert!(!writer.cluster().capacity().frozen);
    }

    /// Twenty nodes, eight of them in zone a, and how the zones were before the first of `batches` turned NotReady, each
    /// so many minutes after the one before.
    fn held_after(
        batches: &[(std::ops::Range<usize>, i64)],
    ) -> (Arc<MeasuredCapacity>, Arc<MeasuredCapacity>) {
        let mut writer = listed();
        let zone = |i: usize| ["a", "b"][usize::from(i >= 8)];
        for i in 0..20 {
            writer.apply_node(&node(&format!("n{i}"), zone(i), "True"), now());
        }
        writer.settle(now());
        let before = writer.cluster().capacity();
        let mut time = now();
        for (nodes, minutes) in batches {
            time += SignedDuration::from_mins(*minutes);
            for i in nodes.clone() {
                writer.apply_node(&node(&format!("n{i}"), zone(i), "False"), time);
                writer.settle(time);
            }
        }
        (before, writer.cluster().capacity())
    }

    #[test]
    fn a_storm_that_comes_node_by_node_is_held_as_before_its_first() {
        for batches in [
            &[(0..12, 0)][..],
            &[(0..8, 10), (8..12, 1)],
            &[(0..1, 10), (1..12, 0)],
        ] {
            let (before, held) = held_after(batches);
            assert!(held.frozen, "{batches:?}");
            assert_eq!(held.capacity.zones, before.capacity.zones, "{batches:?}");
        }
    }

    #[test]
    fn nodes_that_went_long_before_the_storm_are_not_held() {
        let (before, held) = held_after(&[(0..4, 10), (4..12, 10)]);
        assert!(held.frozen);
        assert!(held.capacity.sufficient_nodes() < before.capacity.sufficient_nodes());
    }

    /// Zones a, b and c with ten nodes each, all Ready: `a0` to `c9`.
    fn three_tens() -> Writer {
        let mut writer = listed();
        set(&mut writer, &["a", "b", "c"], 0..10, "True", now());
        writer
    }

    fn set(
        writer: &mut Writer,
        zones: &[&str],
        numbers: std::ops::Range<usize>,
        ready: &str,
        time: Timestamp,
    ) {
        for zone in zones {
            for i in numbers.clone() {
                writer.apply_node(&node(&format!("{zone}{i}"), zone, ready), time);
            }
        }
        writer.settle(time);
    }

    fn delete(writer: &mut Writer, zone: &str, numbers: std::ops::Range<usize>, time: Timestamp) {
        numbers.for_each(|i| writer.remove_node(&format!("{zone}{i}")));
        writer.settle(time);
    }

    /// Each zone with its counted nodes, such as `a10 b10`, and `frozen` where it is.
    fn zones(writer: &Writer) -> String {
        let measured = writer.cluster().capacity();
        let zones = measured.capacity.zones.iter();
        let mut words: Vec<_> = zones.map(|z| format!("{}{}", z.name, z.nodes)).collect();
        words.extend(measured.frozen.then(|| "frozen".to_owned()));
        words.join(" ")
    }

    fn minutes_later(minutes: i64) -> Timestamp {
        now() + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn a_zone_whose_nodes_are_deleted_before_or_in_a_storm_is_not_held() {
        let mut writer = three_tens();
        delete(&mut writer, "c", 0..10, minutes_later(10));
        set(&mut writer, &["a", "b"], 0..6, "False", minutes_later(11));
        assert_eq!(zones(&writer), "a10 b10 frozen");
        let mut writer = three_tens();
        set(&mut writer, &["a", "b", "c"], 0..6, "False", now());
        assert_eq!(zones(&writer), "a10 b10 c10 frozen");
        delete(&mut writer, "c", 0..10, now());
        assert_eq!(zones(&writer), "a10 b10 frozen");
    }

    #[test]
    fn a_zone_that_is_all_not_ready_is_held() {
        let mut writer = three_tens();
        set(&mut writer, &["b", "c"], 0..10, "Unknown", now());
        assert_eq!(zones(&writer), "a10 b10 c10 frozen");
        set(&mut writer, &["b"], 0..10, "True", now());
        assert_eq!(zones(&writer), "a10 b10");
    }

    #[test]
    fn nodes_that_are_deleted_in_a_storm_are_held_no_longer() {
        let mut writer = three_tens();
        set(&mut writer, &["a"], 0..10, "False", now());
        set(&mut writer, &["b"], 0..8, "False", now());
        delete(&mut writer, "a", 0..9, now());
        // Of 21 nodes 9 are NotReady.
        assert_eq!(zones(&writer), "b2 c10");
        set(&mut writer, &["c"], 0..5, "False", now());
        // Now 14 are.
        assert_eq!(zones(&writer), "a1 b10 c10 frozen");
    }

    #[test]
    fn new_nodes_that_are_not_ready_yet_are_no_storm() {
        let new = |name: &str, labels: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}},"creationTimestamp":"2026-01-01T00:00:00Z"}},
                    "status":{{"allocatable":{{"cpu":"4"}},"conditions":[{{"type":"Ready","status":"False"}}]}}}}"#
            );
            serde_json::from_str::<Node<Box<str>>>(&json).unwrap()
        };
        for labels in ["", r#""topology.kubernetes.io/zone":"b""#] {
            let mut writer = listed();
            set(&mut writer, &["a", "b"], 0..5, "True", now());
            for i in 0..20 {
                writer.apply_node(&new(&format!("new{i}"), labels), now());
            }
            set(&mut writer, &["a"], 0..1, "False", now());
            assert_eq!(zones(&writer), "a4 b5", "one of ten, whatever comes");
        }
    }

    #[test]
    fn new_nodes_that_were_ready_make_a_storm_when_they_go() {
        let young = |i: usize, ready: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"n{i}","labels":{{"topology.kubernetes.io/zone":"a"}},"creationTimestamp":"{}"}},
                    "status":{{"allocatable":{{"cpu":"1"}},"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#,
                now()
            );
            serde_json::from_str::<Node<Box<str>>>(&json).unwrap()
        };
        let mut writer = listed();
        set(&mut writer, &["b"], 0..5, "True", now());
        for ready in ["True", "False"] {
            (0..10).for_each(|i| writer.apply_node(&young(i, ready), now()));
            writer.settle(now());
        }
        assert_eq!(zones(&writer), "a10 b5 frozen");
    }

    #[test]
    fn nodes_that_come_in_a_storm_count_and_make_new_zones() {
        let mut writer = three_tens();
        set(&mut writer, &["a", "b", "c"], 0..8, "False", now());
        set(&mut writer, &["d"], 0..2, "True", now());
        assert_eq!(zones(&writer), "a10 b10 c10 d2 frozen");
    }

    #[test]
    fn a_storm_that_pauses_at_its_edge_still_holds_its_first_nodes() {
        let mut writer = three_tens();
        set(&mut writer, &["a"], 0..10, "False", now());
        set(&mut writer, &["b"], 0..7, "False", now());
        assert_eq!(zones(&writer), "a10 b10 c10 frozen");
        set(&mut writer, &["b"], 0..1, "True", minutes_later(60));
        assert_eq!(zones(&writer), "b4 c10");
        set(&mut writer, &["b"], 0..1, "False", minutes_later(61));
        assert_eq!(zones(&writer), "a10 b10 c10 frozen");
        set(&mut writer, &["b"], 0..1, "True", minutes_later(62));
        set(&mut writer, &["b"], 0..1, "False", minutes_later(70));
        assert_eq!(zones(&writer), "b4 c10 frozen", "that is another storm");
    }

    fn gone(name: &str, zone: &str, since: Timestamp) -> Node<Box<str>> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"topology.kubernetes.io/zone":"{zone}"}},
                 "creationTimestamp":"2020-01-01T00:00:00Z"}},"status":{{"allocatable":{{"cpu":"4"}},
                 "conditions":[{{"type":"Ready","status":"Unknown","lastTransitionTime":"{since}"}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_process_that_starts_in_a_storm_holds_what_another_holds_that_saw_it_come() {
        let mut writer = Writer::new(StoreRules::default());
        writer.begin(Resource::Nodes);
        set(&mut writer, &["a"], 0..10, "True", minutes_later(60));
        for i in 0..10 {
            // Those of b went within a minute, an hour ago; some of c long before, and never counted in this storm.
            let long_before = if i < 4 { -600 } else { 0 };
            writer.apply_node(
                &gone(&format!("b{i}"), "b", minutes_later(0)),
                minutes_later(60),
            );
            writer.apply_node(
                &gone(&format!("c{i}"), "c", minutes_later(long_before)),
                minutes_later(60),
            );
        }
        writer.finish(Resource::Nodes, minutes_later(60));
        assert_eq!(zones(&writer), "a10 b10 c6 frozen");
    }

    #[test]
    fn a_node_that_loses_its_zone_or_cpu_counts_as_before_for_the_grace() {
        for lacks in ["zone", "cpu"] {
            let node = |bare: bool| {
                let zone = if bare && lacks == "zone" { "" } else { "b" };
                let cpu = if bare && lacks == "cpu" { "0" } else { "4" };
                let json = format!(
                    r#"{{"metadata":{{"name":"b0","labels":{{"topology.kubernetes.io/zone":"{zone}"}}}},
                         "status":{{"allocatable":{{"cpu":"{cpu}"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
                );
                serde_json::from_str::<Node<Box<str>>>(&json).unwrap()
            };
            let mut writer = listed();
            set(&mut writer, &["a", "b"], 0..2, "True", now());
            let is_usable =
                |writer: &Writer| writer.cluster().capacity().capacity.obstacle().is_none();
            for seconds in 0..200 {
                let time = now() + SignedDuration::from_secs(seconds);
                writer.apply_node(&node(seconds % 2 == 0), time);
                writer.settle(time);
                assert_eq!(zones(&writer), "a2 b2", "it flaps, {lacks}");
            }
            writer.apply_node(&node(true), minutes_later(10));
            let until = writer.settle(minutes_later(10));
            assert_eq!(until, Some(minutes_later(11)));
            writer.apply_node(
                &node(true),
                minutes_later(10) + SignedDuration::from_secs(50),
            );
            writer.settle(minutes_later(10) + SignedDuration::from_secs(59));
            assert!(is_usable(&writer), "{lacks}");
            writer.settle(minutes_later(11));
            assert!(!is_usable(&writer), "{lacks}");
            let zone = writer.cluster().zone_of_node(Key::of("b0"));
            assert_eq!(zone.is_none(), lacks == "zone");
            writer.apply_node(&node(false), minutes_later(12));
            writer.settle(minutes_later(12));
            assert!(is_usable(&writer), "{lacks}");
        }
    }

    #[test]
    fn a_storm_outlasts_a_list() {
        let mut writer = three_tens();
        set(&mut writer, &["a", "b"], 0..10, "False", now());
        writer.begin(Resource::Nodes);
        set(&mut writer, &["a", "b"], 0..10, "False", minutes_later(60));
        set(&mut writer, &["c"], 0..10, "True", minutes_later(60));
        writer.finish(Resource::Nodes, minutes_later(60));
        assert_eq!(zones(&writer), "a10 b10 c10 frozen");
    }

    #[test]
    fn a_storm_does_not_make_up_for_a_node_without_a_zone() {
        let mut writer = listed();
        for i in 0..20 {
            writer.apply_node(&node(&format!("n{i}"), ["a", "b"][i % 2], "True"), now());
        }
        writer.apply_node(&node("bare", "", "True"), now());
        writer.settle(now());
        for i in 0..13 {
            writer.apply_node(&node(&format!("n{i}"), ["a", "b"][i % 2], "False"), now());
        }
        writer.settle(now());
        let held = writer.cluster().capacity();
        assert!(held.frozen && held.capacity.obstacle().is_some());
    }

    #[test]
    fn half_a_list_makes_no_capacity() {
        let mut writer = Writer::new(StoreRules::default());
        writer.begin(Resource::Nodes);
        writer.apply_node(&node("n1", "a", "True"), now());
        writer.settle(now());
        assert!(writer.cluster().capacity().capacity.zones.is_empty());
        writer.finish(Resource::Nodes, now());
        assert_eq!(writer.cluster().capacity().capacity.zones.len(), 1);
    }

    #[test]
    fn a_young_node_counts_against_capacity_only_after_its_grace() {
        let mut writer = listed();
        writer.apply_node(&node("n1", "a", "True"), now());
        writer.apply_node(&node("n2", "b", "True"), now());
        let young = r#"{"metadata":{"name":"n3","creationTimestamp":"2026-01-01T00:00:00Z"},
            "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
        writer.apply_node(&serde_json::from_str(young).unwrap(), now());
        let later: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(writer.settle(now()), Some(later));
        assert_eq!(writer.cluster().capacity().capacity.obstacle(), None);
        assert_eq!(writer.settle(later), None);
        assert!(writer.cluster().capacity().capacity.obstacle().is_some());
    }
}
