//! What zonewise takes kube-proxy to do: its own merging of slices and its own model of kube-proxy.

use std::sync::Arc;

use serde_json::Value;
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::key::Key;
use zonewise::cluster::slice::{EndpointRecord, PortKey, SliceRecord};
use zonewise::cluster::store::{Cluster, StoreRules};
use zonewise::decide::Snapshot;
use zonewise::decide::endpoint_set::{Backend, EndpointSet};
use zonewise::decide::ports::{self, PortGroup};
use zonewise::planner::kube_proxy::{self, Mode, Naming, ReadyEndpoint};
use zonewise::report::{Filter, Report, ServiceReport};
use zonewise::settings::{self, Settings};

use super::cases::{Case, NAME, NAMESPACE, PortName};
use crate::support::kube_proxy::Node;

/// A case as zonewise stores it.
pub struct Ours {
    cluster: Arc<Cluster>,
    objects: Objects,
    records: Vec<SliceRecord>,
}

/// A ready endpoint behind a port.
pub struct Seen {
    /// Its address, and the number of the port.
    pub endpoint: (String, i64),
    zones: Vec<Key>,
    nodes: Vec<String>,
}

impl Seen {
    /// As kube-proxy on a node sees it.
    fn on(&self, node: &Node) -> ReadyEndpoint {
        fn naming<T: PartialEq>(names: &[T], this: &T) -> Naming {
            match names {
                [] => Naming::Nothing,
                names if names.contains(this) => Naming::This,
                _ => Naming::Others,
            }
        }
        let zone = Key::of(node.zone.as_deref().unwrap_or_default());
        ReadyEndpoint {
            nodes: naming(&self.nodes, &node.name),
            zones: naming(&self.zones, &zone),
        }
    }

    /// Whether it is hinted for a node.
    pub fn names(&self, node: &Node) -> bool {
        self.nodes.contains(&node.name)
    }
}

impl Ours {
    pub fn new(case: &Case) -> Self {
        let objects = Objects {
            namespaces: Vec::new(),
            nodes: case.nodes_json(),
            services: vec![Case::service_json()],
            slices: case.slices_json(),
        };
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        Self {
            cluster: objects.load(StoreRules::default(), now).cluster(),
            records: read(&objects.slices),
            objects,
        }
    }

    /// The same nodes with the slices of another case.
    pub fn with_slices_of(&self, case: &Case) -> Self {
        let slices = case.slices_json();
        Self {
            cluster: self.cluster.clone(),
            records: read(&slices),
            objects: Objects {
                slices,
                ..self.objects.clone()
            },
        }
    }

    /// The ready endpoints behind a port.
    pub fn behind(&self, port: &PortName) -> Vec<Seen> {
        let slices: Vec<&SliceRecord> = self.records.iter().collect();
        let snapshot = Snapshot::take(&self.cluster, Some(&service()));
        let stand = |record: &EndpointRecord| snapshot.stand(record);
        let set = EndpointSet::gather_stored(&slices, snapshot.capacity(), stand);
        let groups = ports::uneven(&slices).expect("there are few ports");
        let group = groups.iter().find(|group| self.is_of(group, port));
        let backends = match group {
            Some(group) => set.behind(group),
            None if self.with_port(port).is_empty() => Vec::new(),
            None => (0..set.members().len()).map(Backend::behind_all).collect(),
        };
        let seen = |backend: Backend<'_>| {
            let copy = set.usable_copies(backend).next();
            self.seen(copy.expect("one copy is used").1, port)
        };
        backends.into_iter().map(seen).collect()
    }

    /// Whether a group stands for a port: it is one for each set of slices, and of numbers in them.
    fn is_of(&self, group: &PortGroup<'_>, port: &PortName) -> bool {
        let with_port = self.with_port(port);
        let number_in = |slice: &usize| self.number_in(*slice, port);
        let same_numbers = |(one, other): (&usize, &usize)| {
            let in_group = group.number_in(*one) == group.number_in(*other);
            in_group == (number_in(one) == number_in(other))
        };
        let pairs = with_port
            .iter()
            .flat_map(|one| with_port.iter().map(move |other| (one, other)));
        group.slices == with_port && pairs.into_iter().all(same_numbers)
    }

    /// The numbers of the slices that have a port.
    fn with_port(&self, port: &PortName) -> Vec<usize> {
        let has = |slice: &SliceRecord| slice.ports.contains(&key(port));
        let numbers = 0..self.records.len();
        numbers
            .filter(|&number| has(&self.records[number]))
            .collect()
    }

    fn number_in(&self, slice: usize, port: &PortName) -> i64 {
        let slice = &self.records[slice];
        let mut ports = slice.ports.iter().zip(&slice.port_numbers);
        let found = ports.find(|(known, _)| **known == key(port));
        *found.expect("the slice has the port").1
    }

    fn seen(&self, record: &EndpointRecord, port: &PortName) -> Seen {
        let place = |slice: &SliceRecord| {
            let mut places = slice.endpoints.iter();
            places.position(|candidate| std::ptr::eq(candidate, record))
        };
        let slices = self.records.iter().enumerate();
        let mut found = slices.filter_map(|(number, slice)| place(slice).map(|e| (number, e)));
        let (number, e) = found.next().expect("the record is in a slice");
        let nodes = self.objects.slices[number]["endpoints"][e]["hints"]["forNodes"].as_array();
        Seen {
            endpoint: (record.address.to_string(), self.number_in(number, port)),
            zones: record.hints.zones().to_vec(),
            nodes: nodes
                .into_iter()
                .flatten()
                .filter_map(|node| node["name"].as_str())
                .map(str::to_owned)
                .collect(),
        }
    }

    /// What `explain` shows, of the slices as they are.
    pub fn report(&self) -> ServiceReport {
        let settings = Settings {
            mode: settings::Mode::Off,
            ..Settings::default()
        };
        let report = Report::new(&self.cluster, &settings, &self.objects, &Filter::default());
        let [service] = <[ServiceReport; 1]>::try_from(report.services).expect("one Service");
        service
    }
}

fn read(slices: &[Value]) -> Vec<SliceRecord> {
    let read = |slice: &Value| SliceRecord::read(&typed_slice(slice).expect("a slice"));
    slices.iter().map(read).collect()
}

fn service() -> String {
    format!("{NAMESPACE}/{NAME}")
}

fn key((name, protocol): &PortName) -> PortKey {
    PortKey {
        name: name.as_str().into(),
        protocol: protocol.as_str().into(),
    }
}

/// What kube-proxy on a node does with endpoints.
pub fn mode(endpoints: &[Seen], node: &Node) -> Mode {
    kube_proxy::mode(endpoints.iter().map(|endpoint| endpoint.on(node)))
}

/// Those that it uses in a mode, in order.
pub fn used(endpoints: &[Seen], node: &Node, mode: Mode) -> Vec<(String, i64)> {
    let is_used = |endpoint: &&Seen| match mode {
        Mode::PreferSameNode => endpoint.on(node).nodes == Naming::This,
        Mode::PreferSameZone => endpoint.on(node).zones == Naming::This,
        Mode::Cluster(_) => true,
    };
    let used = endpoints.iter().filter(is_used);
    let mut used: Vec<_> = used.map(|endpoint| endpoint.endpoint.clone()).collect();
    used.sort();
    used
}
