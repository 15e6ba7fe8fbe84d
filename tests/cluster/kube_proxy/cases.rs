//! Random Services with slices that a plan of zonewise would never give, and the nodes that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::support::kube_proxy::Node;

pub const NAMESPACE: &str = "shop";
pub const NAME: &str = "web";

#[derive(Clone, PartialEq)]
pub struct Case {
    pub nodes: Vec<Node>,
    pub slices: Vec<Slice>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// Nothing is `null`.
    pub ports: Option<Vec<Port>>,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Port {
    pub name: Option<&'static str>,
    pub protocol: Option<&'static str>,
    pub number: Option<i64>,
}

#[derive(Clone, PartialEq)]
pub struct Endpoint {
    pub address: String,
    pub conditions: Conditions,
    pub zone: Option<String>,
    pub node: Option<String>,
    /// The zones that it is hinted for; nothing is no list at all.
    pub zones: Option<Vec<String>>,
    /// The nodes that it is hinted for.
    pub nodes: Option<Vec<String>>,
}

/// Each as it stands, or absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

/// Name and protocol, which are `""` and `TCP` where a slice does not say.
pub type PortName = (String, String);

/// The number of a slice and that of an endpoint in there.
pub type Spot = (usize, usize);

/// One line for each slice and endpoint, so that a case that fails is read at a glance.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let zone = node.zone.as_deref().unwrap_or("no zone");
            write!(f, "\n{} in {zone}", node.name)?;
        }
        for (slice, name) in self.slices.iter().zip(0..) {
            write!(f, "\n{}", slice_name(name))?;
            let ports = slice.ports.as_deref().unwrap_or_default();
            for Port {
                name,
                protocol,
                number,
            } in ports
            {
                write!(f, " {name:?} {protocol:?} {number:?};")?;
            }
            for endpoint in &slice.endpoints {
                write!(f, "\n    {}", endpoint.to_json())?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

impl Port {
    /// Its name and protocol, if kube-proxy can use it, and its number.
    pub fn usable(&self) -> Option<(PortName, i64)> {
        let number = self.number.filter(|&number| number != 0)?;
        let name = self.name.unwrap_or_default().to_owned();
        Some(((name, self.protocol.unwrap_or("TCP").to_owned()), number))
    }

    fn to_json(self) -> Value {
        json!({"name": self.name, "protocol": self.protocol, "port": self.number})
    }
}

impl Endpoint {
    /// Running, ready and without hints.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            conditions: Conditions {
                ready: None,
                serving: None,
                terminating: None,
            },
            zone: None,
            node: None,
            zones: None,
            nodes: None,
        }
    }

    /// The same, hinted for these zones.
    pub fn for_zones(mut self, zones: &[&str]) -> Self {
        self.zones = Some(zones.iter().map(|&zone| zone.to_owned()).collect());
        self
    }

    pub fn is_terminating(&self) -> bool {
        self.conditions.terminating == Some(true)
    }

    fn is_ready(&self) -> bool {
        self.conditions.ready != Some(false)
    }

    /// What kube-proxy makes of it: two copies that come to the same need not be told apart.
    fn meaning(&self) -> (bool, BTreeSet<&String>, BTreeSet<&String>) {
        let (zones, nodes) = (self.zones.iter(), self.nodes.iter());
        (
            self.is_ready(),
            zones.flatten().collect(),
            nodes.flatten().collect(),
        )
    }

    fn to_json(&self) -> Value {
        let names = |names: &Option<Vec<String>>| {
            let names = names.iter().flatten();
            names
                .map(|name| json!({"name": name}))
                .collect::<Vec<Value>>()
        };
        let mut json = json!({"addresses": [self.address], "conditions": {}});
        let Conditions {
            ready,
            serving,
            terminating,
        } = self.conditions;
        let conditions = [
            ("ready", ready),
            ("serving", serving),
            ("terminating", terminating),
        ];
        for (name, value) in conditions {
            if let Some(value) = value {
                json["conditions"][name] = value.into();
            }
        }
        let place = [("zone", &self.zone), ("nodeName", &self.node)];
        for (name, value) in place {
            if let Some(value) = value {
                json[name] = value.as_str().into();
            }
        }
        if self.zones.is_some() {
            json["hints"]["forZones"] = names(&self.zones).into();
        }
        if self.nodes.is_some() {
            json["hints"]["forNodes"] = names(&self.nodes).into();
        }
        json
    }
}

fn slice_name(number: usize) -> String {
    format!("{NAME}-{number}")
}

impl Slice {
    fn to_json(&self, number: usize) -> Value {
        let ports = self
            .ports
            .as_ref()
            .map(|ports| ports.iter().map(|port| port.to_json()).collect::<Vec<_>>());
        let endpoints: Vec<Value> = self.endpoints.iter().map(Endpoint::to_json).collect();
        json!({
            "kind": "EndpointSlice",
            "metadata": {
                "name": slice_name(number),
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": NAME},
            },
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": endpoints,
        })
    }

    /// The number of a port that kube-proxy can use.
    fn number_of(&self, name: &PortName) -> Option<i64> {
        let usable = self.ports.iter().flatten().filter_map(Port::usable);
        let mut named = usable.filter(|(known, _)| known == name);
        named.next().map(|(_, number)| number)
    }
}

impl Case {
    pub fn slices_json(&self) -> Vec<Value> {
        let slices = self.slices.iter().zip(0..);
        slices
            .map(|(slice, number)| slice.to_json(number))
            .collect()
    }

    /// The Service, which needs to say nothing.
    pub fn service_json() -> Value {
        json!({
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"clusterIP": "10.96.0.1"},
        })
    }

    pub fn nodes_json(&self) -> Vec<Value> {
        let zone = |node: &Node| match &node.zone {
            Some(zone) => json!({"topology.kubernetes.io/zone": zone}),
            None => json!({}),
        };
        let node = |node: &Node| {
            json!({
                "kind": "Node",
                "metadata": {"name": node.name, "labels": zone(node)},
                "status": {
                    "allocatable": {"cpu": "4"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        };
        self.nodes.iter().map(node).collect()
    }

    /// The case again and again, once for each way in which kube-proxy may merge what is behind a port: there every address
    /// and number is left once.
    ///
    /// A copy that terminates gives way to one that does not. Of several others in one slice the last counts, and of several
    /// that terminate the first; of several slices Kubernetes leaves it open: it depends on the order in which it goes
    /// through its map of slices.
    pub fn mergings(&self, port: &PortName) -> Vec<Self> {
        let mut cases = vec![self.clone()];
        for copies in self.copies(port).into_values() {
            let mut candidates = self.seen_in_their_slices(&copies);
            let terminates = |&(s, e): &Spot| self.slices[s].endpoints[e].is_terminating();
            if !candidates.iter().all(terminates) {
                candidates.retain(|spot| !terminates(spot));
            }
            let meaning = |&(s, e): &Spot| self.slices[s].endpoints[e].meaning();
            candidates.sort_by(|a, b| meaning(a).cmp(&meaning(b)));
            candidates.dedup_by(|a, b| meaning(a) == meaning(b));
            let with_one = |case: &Self| {
                let one = candidates
                    .iter()
                    .map(|kept| case.without(copies.iter().filter(|&spot| spot != kept)));
                one.collect::<Vec<_>>()
            };
            cases = cases.iter().flat_map(with_one).collect();
        }
        cases
    }

    /// Of copies, those that are not hidden by others in the same slice.
    fn seen_in_their_slices(&self, copies: &[Spot]) -> Vec<Spot> {
        let mut seen: BTreeMap<usize, Spot> = BTreeMap::new();
        for &(s, e) in copies {
            let terminates = self.slices[s].endpoints[e].is_terminating();
            if !terminates || !seen.contains_key(&s) {
                seen.insert(s, (s, e));
            }
        }
        seen.into_values().collect()
    }

    /// Where each address stands behind a port, for each number of it.
    fn copies(&self, port: &PortName) -> BTreeMap<(&str, i64), Vec<Spot>> {
        let mut copies: BTreeMap<(&str, i64), Vec<Spot>> = BTreeMap::new();
        for (s, slice) in self.slices.iter().enumerate() {
            let Some(number) = slice.number_of(port) else {
                continue;
            };
            for (e, endpoint) in slice.endpoints.iter().enumerate() {
                copies
                    .entry((&*endpoint.address, number))
                    .or_default()
                    .push((s, e));
            }
        }
        copies
    }

    /// Spots keep their numbers: what is taken away is neither ready nor serving, and has an address of its own.
    fn without<'a>(&self, spots: impl Iterator<Item = &'a Spot>) -> Self {
        let mut case = self.clone();
        for &(s, e) in spots {
            let mut gone = Endpoint::new(&format!("10.9.{s}.{e}"));
            gone.conditions.ready = Some(false);
            case.slices[s].endpoints[e] = gone;
        }
        case
    }
}

// === Random ones ===

/// How endpoints of a Service are hinted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Style {
    /// None.
    Bare,
    /// As it falls out.
    Mixed,
    /// All.
    Whole,
}

/// Zones and nodes that there may be; hints know some more.
const ZONES: usize = 8;
const HINTED_ZONES: usize = 10;
const HINTED_NODES: usize = 8;

/// Up to 7 nodes in 8 zones or without one, and up to 5 slices with 16 endpoints.
pub fn cases() -> impl Strategy<Value = Case> {
    let style = |bare, whole| {
        prop_oneof![
            bare => Just(Style::Bare),
            1 => Just(Style::Mixed),
            whole => Just(Style::Whole),
        ]
    };
    let zone = prop_oneof![30 => (0..ZONES).prop_map(Some), 1 => Just(None)];
    // Few zones make hints that name one of the nodes' zones, and those that name none.
    let zones = (1..=ZONES, 1..=HINTED_ZONES);
    let slices = (ports(), vec(option::weighted(0.25, ports()), 1..=5));
    (
        zones,
        vec(zone, 1..=7),
        slices,
        (style(1, 5), style(4, 2)),
        vec(pod(), 0..=12),
    )
        .prop_map(
            |((zones, hinted_zones), nodes, (ports, slices), styles, pods)| {
                let node = |(i, zone): (usize, Option<usize>)| Node {
                    name: node_name(i),
                    zone: zone.map(|zone| zone_name(zone % zones)),
                };
                let slice = |own: Option<Option<Vec<Port>>>| Slice {
                    ports: own.unwrap_or_else(|| ports.clone()),
                    endpoints: Vec::new(),
                };
                let mut case = Case {
                    nodes: nodes.into_iter().enumerate().map(node).collect(),
                    slices: slices.into_iter().map(slice).collect(),
                };
                for (number, pod) in pods.into_iter().enumerate() {
                    pod.place_into(&mut case.slices, number, styles, hinted_zones);
                }
                case
            },
        )
}

fn zone_name(number: usize) -> String {
    format!("zone-{number}")
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// Ports of different names, or `null`.
fn ports() -> impl Strategy<Value = Option<Vec<Port>>> {
    let port = |names: &'static [Option<&'static str>]| {
        let number = prop_oneof![
            6 => Just(Some(80)),
            2 => Just(Some(8080)),
            1 => select(vec![None, Some(0)]),
        ];
        let protocol = prop_oneof![4 => select(vec![None, Some("TCP")]), 1 => Just(Some("UDP"))];
        (select(names), protocol, number).prop_map(|(name, protocol, number)| Port {
            name,
            protocol,
            number,
        })
    };
    let http = port(&[Some("http")]);
    let unnamed = port(&[None, Some("")]);
    let two = (port(&[Some("http")]), port(&[Some("grpc"), Some(""), None]));
    prop_oneof![
        8 => http.prop_map(|port| Some(vec![port])),
        2 => unnamed.prop_map(|port| Some(vec![port])),
        6 => two.prop_map(|(one, other)| Some(vec![one, other])),
        1 => select(vec![None, Some(Vec::new())]),
    ]
}

#[derive(Debug, Clone)]
struct Pod {
    slice: usize,
    /// One of the few addresses that several pods may have; else it has its own.
    shared_address: Option<usize>,
    /// Another slice that has it just so, since it moves there.
    moves_to: Option<usize>,
    conditions: Conditions,
    zone: Option<usize>,
    node: Option<usize>,
    hinted_zones: BTreeSet<usize>,
    hinted_nodes: BTreeSet<usize>,
}

fn pod() -> impl Strategy<Value = Pod> {
    let hinted_zones = prop_oneof![
        3 => btree_set(0..HINTED_ZONES, 0..=2),
        1 => btree_set(0..HINTED_ZONES, 0..=8),
    ];
    (
        (
            0usize..5,
            option::weighted(0.2, 0usize..3),
            option::weighted(0.1, 0usize..5),
        ),
        conditions(),
        (option::of(0..HINTED_ZONES), option::of(0..HINTED_NODES)),
        (hinted_zones, btree_set(0..HINTED_NODES, 0..=2)),
    )
        .prop_map(
            |((slice, shared_address, moves_to), conditions, (zone, node), hinted)| Pod {
                slice,
                shared_address,
                moves_to,
                conditions,
                zone,
                node,
                hinted_zones: hinted.0,
                hinted_nodes: hinted.1,
            },
        )
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let odds = |yes, no, absent| prop_oneof![yes => Just(Some(true)), no => Just(Some(false)), absent => Just(None)];
    (odds(5, 2, 3), odds(3, 2, 3), odds(2, 3, 4)).prop_map(|(ready, serving, terminating)| {
        Conditions {
            ready,
            serving,
            terminating,
        }
    })
}

impl Pod {
    fn place_into(
        self,
        slices: &mut [Slice],
        number: usize,
        (zones, nodes): (Style, Style),
        hinted_zones: usize,
    ) {
        let address = self.shared_address.map_or_else(
            || format!("10.0.1.{number}"),
            |shared| format!("10.0.0.{shared}"),
        );
        let some_zone = number % hinted_zones;
        let hinted_zones: BTreeSet<usize> = self
            .hinted_zones
            .iter()
            .map(|zone| zone % hinted_zones)
            .collect();
        let endpoint = Endpoint {
            address,
            conditions: self.conditions,
            zone: self.zone.map(zone_name),
            node: self.node.map(node_name),
            zones: hints(zones, &hinted_zones, some_zone, zone_name),
            nodes: hints(nodes, &self.hinted_nodes, number % HINTED_NODES, node_name),
        };
        if let Some(slice) = self.moves_to {
            slices[slice % slices.len()]
                .endpoints
                .push(endpoint.clone());
        }
        slices[self.slice % slices.len()].endpoints.push(endpoint);
    }
}

/// Where all are hinted, one that would not be gets a hint for `instead`.
fn hints(
    style: Style,
    numbers: &BTreeSet<usize>,
    instead: usize,
    name: impl Fn(usize) -> String,
) -> Option<Vec<String>> {
    match style {
        Style::Bare => None,
        Style::Whole if numbers.is_empty() => Some(vec![name(instead)]),
        Style::Mixed | Style::Whole => Some(numbers.iter().map(|&number| name(number)).collect()),
    }
}
