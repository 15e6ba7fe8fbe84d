//! Random clusters with one Service, as they would stand in the API.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zonewise::cluster::files::{self, Objects};
use zonewise::cluster::slice::SliceRecord;
use zonewise::cluster::store::{Cluster, StoreRules, Writer};
use zonewise::cluster::wire::EndpointSlice;
use zonewise::decide::{Decision, Snapshot, Verdict, decide};
use zonewise::planner::zone_set::ZoneSet;
use zonewise::settings::Settings;

use crate::dice::Dice;
use crate::now;

pub const SERVICE: &str = "shop/web";

/// A cluster with the slices of one Service that opted in.
#[derive(Clone, PartialEq)]
pub struct World {
    pub nodes: Vec<Node>,
    pub slices: Vec<Slice>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub name: String,
    pub zone: Option<String>,
    pub millicores: u64,
    pub state: NodeState,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NodeState {
    Ready,
    NotReady,
    ControlPlane,
}

#[derive(Clone, PartialEq)]
pub struct Slice {
    pub name: String,
    pub family: Family,
    pub ports: Ports,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    Ipv4,
    Ipv6,
    Fqdn,
}

/// What stands at `ports`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ports {
    Http,
    HttpOnAnotherNumber,
    HttpByUdp,
    Grpc,
    HttpAndGrpc,
    HttpAndGrpcOnAnotherNumber,
    Null,
    NoNumber,
    NoneAtAll,
}

#[derive(Clone, PartialEq)]
pub struct Endpoint {
    pub address: String,
    pub uid: String,
    /// Absent means ready.
    pub ready: Option<bool>,
    pub terminating: bool,
    pub place: Place,
    /// The zone that it is hinted for as stored.
    pub hint: Option<String>,
}

#[derive(Clone, PartialEq)]
pub struct Place {
    pub zone: Option<String>,
    pub node: Option<String>,
}

/// What a second copy of an address may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Twin {
    /// The same pod, which moves from one slice to another.
    Moved,
    /// Another pod that terminates while its IP is given out again.
    Terminating,
    /// Another pod that runs: no two should have one IP, and kube-proxy takes either.
    Running,
}

/// One line for each node and endpoint, so that a world that fails is read at a glance.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            let zone = node.zone.as_deref().unwrap_or("no zone");
            write!(
                f,
                "\n{} in {zone}: {}m, {:?}",
                node.name, node.millicores, node.state
            )?;
        }
        for slice in &self.slices {
            write!(
                f,
                "\n{} ({:?}, {:?})",
                slice.name, slice.family, slice.ports
            )?;
            slice
                .endpoints
                .iter()
                .try_for_each(|endpoint| write!(f, "\n    {endpoint:?}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { zone, node } = &self.place;
        write!(
            f,
            "{} of {} in {zone:?} on {node:?}, ready: {:?}",
            self.address, self.uid, self.ready
        )?;
        f.write_str(if self.terminating {
            ", terminating"
        } else {
            ""
        })?;
        self.hint
            .iter()
            .try_for_each(|hint| write!(f, ", hinted for {hint}"))
    }
}

/// Twins of which it is clear which kube-proxy takes.
pub const CLEAR_TWINS: &[Twin] = &[Twin::Moved, Twin::Terminating];

/// The hint of each endpoint of each slice.
pub type Hints = Vec<Vec<Option<String>>>;

impl Endpoint {
    pub fn is_ready(&self) -> bool {
        self.ready != Some(false)
    }

    fn to_json(&self) -> Value {
        let mut json = json!({
            "addresses": [self.address],
            "conditions": {"serving": true, "terminating": self.terminating},
            "targetRef": {"kind": "Pod", "uid": self.uid},
        });
        if let Some(ready) = self.ready {
            json["conditions"]["ready"] = ready.into();
        }
        if let Some(zone) = &self.place.zone {
            json["zone"] = zone.as_str().into();
        }
        if let Some(node) = &self.place.node {
            json["nodeName"] = node.as_str().into();
        }
        if let Some(hint) = &self.hint {
            json["hints"] = json!({"forZones": [{"name": hint}]});
        }
        json
    }
}

impl Ports {
    /// Whether kube-proxy can use any.
    pub fn are_usable(self) -> bool {
        !self.usable().is_empty()
    }

    /// Name and protocol of those that kube-proxy can use.
    pub fn usable(self) -> Vec<(String, String)> {
        let parts = self.parts().iter();
        parts
            .map(|(name, protocol, _)| ((*name).to_owned(), (*protocol).to_owned()))
            .collect()
    }

    /// The number of one of them.
    pub fn number(self, (name, protocol): &(String, String)) -> Option<u16> {
        let mut parts = self.parts().iter();
        let found = parts.find(|part| (part.0, part.1) == (name, protocol));
        found.map(|(_, _, number)| *number)
    }

    fn parts(self) -> &'static [(&'static str, &'static str, u16)] {
        match self {
            Self::Http => &[("http", "TCP", 80)],
            Self::HttpOnAnotherNumber => &[("http", "TCP", 8080)],
            Self::HttpByUdp => &[("http", "UDP", 80)],
            Self::Grpc => &[("grpc", "TCP", 90)],
            Self::HttpAndGrpc => &[("http", "TCP", 80), ("grpc", "TCP", 90)],
            Self::HttpAndGrpcOnAnotherNumber => &[("http", "TCP", 80), ("grpc", "TCP", 9090)],
            Self::Null | Self::NoNumber | Self::NoneAtAll => &[],
        }
    }

    fn to_json(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::NoNumber => json!([{"name": "http", "port": null}]),
            Self::Http => json!([{"name": "http", "port": 80}]),
            Self::HttpAndGrpc => {
                json!([{"name": "http", "port": 80}, {"name": "grpc", "port": 90}])
            }
            _ => {
                let port = |(name, protocol, number): &(&str, &str, u16)| json!({"name": name, "protocol": protocol, "port": number});
                self.parts().iter().map(port).collect()
            }
        }
    }
}

impl Family {
    fn word(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }

    fn address(self, pod: usize) -> String {
        match self {
            Self::Ipv4 => format!("10.0.0.{pod}"),
            Self::Ipv6 => format!("fd00::{pod:x}"),
            Self::Fqdn => format!("pod-{pod}.example"),
        }
    }
}

impl Slice {
    pub fn to_json(&self) -> Value {
        json!({
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": self.family.word(),
            "endpoints": self.endpoints.iter().map(Endpoint::to_json).collect::<Vec<_>>(),
            "ports": self.ports.to_json(),
        })
    }

    pub fn to_wire(&self) -> EndpointSlice<Box<str>> {
        files::typed_slice(&self.to_json()).expect("any object is a slice")
    }

    /// Decides on the slice as it stands, with what is stored around it.
    pub fn decide(&self, cluster: &Cluster) -> Decision {
        let snapshot = Snapshot::take(cluster, Some(SERVICE));
        decide(
            &snapshot,
            Some(SERVICE),
            &SliceRecord::read(&self.to_wire()),
            &Settings::default(),
        )
    }

    /// The hints that the slice has once `decision` is carried out.
    pub fn hints_after(&self, decision: &Decision) -> Vec<Option<String>> {
        let zones = &decision.capacity.capacity.zones;
        match decision.verdict {
            Verdict::Hints => {
                // Heuristic Auto hints each endpoint for one zone.
                let name = |hint: &ZoneSet| {
                    hint.only()
                        .map(|zone| zones[usize::from(zone)].name.to_string())
                };
                decision.hints.iter().map(name).collect()
            }
            Verdict::Strip => vec![None; self.endpoints.len()],
            Verdict::Kept | Verdict::Untouched => {
                self.endpoints.iter().map(|e| e.hint.clone()).collect()
            }
        }
    }
}

impl Node {
    fn to_json(&self) -> Value {
        let ready = if self.state == NodeState::NotReady {
            "False"
        } else {
            "True"
        };
        let mut json = json!({
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {"kubernetes.io/os": "linux"}},
            "status": {
                "allocatable": {"cpu": format!("{}m", self.millicores), "memory": "1Gi"},
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}],
            },
        });
        if let Some(zone) = &self.zone {
            json["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.as_str().into();
        }
        if self.state == NodeState::ControlPlane {
            json["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
        }
        json
    }
}

pub fn service_json() -> Value {
    json!({
        "kind": "Service",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "annotations": {"service.kubernetes.io/topology-mode": "Auto"},
        },
        "spec": {"clusterIP": "10.96.0.1"},
    })
}

impl World {
    /// Its objects.
    pub fn objects(&self) -> Objects {
        Objects {
            namespaces: Vec::new(),
            nodes: self.nodes.iter().map(Node::to_json).collect(),
            services: vec![service_json()],
            slices: self.slices.iter().map(Slice::to_json).collect(),
        }
    }

    /// A store that holds it.
    pub fn load(&self) -> Writer {
        self.objects().load(StoreRules::default(), now())
    }

    /// Decides on every slice, each beside the others as they are stored.
    pub fn decide_each(&self) -> Vec<Decision> {
        let cluster: Arc<Cluster> = self.load().cluster();
        self.slices
            .iter()
            .map(|slice| slice.decide(&cluster))
            .collect()
    }

    /// The hints that every slice has once its decision is carried out.
    pub fn hints_after(&self, decisions: &[Decision]) -> Hints {
        self.slices
            .iter()
            .zip(decisions)
            .map(|(slice, decision)| slice.hints_after(decision))
            .collect()
    }

    /// The hints that are stored.
    pub fn stored_hints(&self) -> Hints {
        self.slices
            .iter()
            .map(|slice| slice.endpoints.iter().map(|e| e.hint.clone()).collect())
            .collect()
    }

    /// The same with nodes, slices and endpoints in another order, but for copies of one address in one slice: of these
    /// kube-proxy goes by the last that runs.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut world = self.clone();
        let mut dice = Dice(seed);
        dice.shuffle(&mut world.nodes);
        dice.shuffle(&mut world.slices);
        for slice in &mut world.slices {
            let mut copies: BTreeMap<String, VecDeque<Endpoint>> = BTreeMap::new();
            for endpoint in &slice.endpoints {
                let same = copies.entry(endpoint.address.clone()).or_default();
                same.push_back(endpoint.clone());
            }
            dice.shuffle(&mut slice.endpoints);
            for endpoint in &mut slice.endpoints {
                let same = copies.get_mut(&endpoint.address);
                let next = same.and_then(VecDeque::pop_front);
                *endpoint = next.expect("each copy is there");
            }
        }
        world
    }
}

/// A node in each of `zone-a` and `zone-b`.
pub fn two_equal_nodes() -> Vec<Node> {
    let node = |(zone, number): (&&str, i32)| Node {
        name: format!("node-{number}"),
        zone: Some((*zone).to_owned()),
        millicores: 4000,
        state: NodeState::Ready,
    };
    ZONES[..2].iter().zip(0..).map(node).collect()
}

/// A ready endpoint that is not hinted.
pub fn endpoint(number: usize, zone: &str) -> Endpoint {
    Endpoint {
        address: Family::Ipv4.address(number),
        uid: format!("pod-{number}"),
        ready: Some(true),
        terminating: false,
        place: Place {
            zone: Some(zone.to_owned()),
            node: None,
        },
        hint: None,
    }
}

/// The slice `web-{number}` for port `http` over IPv4.
pub fn http_slice(number: usize, endpoints: Vec<Endpoint>) -> Slice {
    Slice {
        name: format!("web-{number}"),
        family: Family::Ipv4,
        ports: Ports::Http,
        endpoints,
    }
}

/// Zone names; the last two never have a node that counts.
const ZONES: [&str; 6] = [
    "zone-a",
    "zone-b",
    "zone-c",
    "zone-d",
    "zone-control-plane",
    "zone-without-nodes",
];

const MOST_PODS: usize = 40;

/// Clusters with two to four zones, or rarely one, with a Service of up to four slices and 40 pods, some of which stand
/// twice as one of `twins` says, and none of which is hinted.
pub fn worlds(twins: &'static [Twin]) -> impl Strategy<Value = World> {
    worlds_with(ports(), twins, MOST_PODS)
}

/// The same with few pods, for what takes long.
pub fn small_worlds(twins: &'static [Twin]) -> impl Strategy<Value = World> {
    worlds_with(ports(), twins, 12)
}

/// The same with slices of which some have the same number of one port and other numbers of another, as while the ports
/// of a Service change.
pub fn worlds_with_changing_ports(twins: &'static [Twin]) -> impl Strategy<Value = World> {
    let ports = vec![
        Ports::Http,
        Ports::HttpOnAnotherNumber,
        Ports::Grpc,
        Ports::HttpAndGrpc,
        Ports::HttpAndGrpcOnAnotherNumber,
    ];
    worlds_with(select(ports), twins, MOST_PODS)
}

fn worlds_with(
    ports: impl Strategy<Value = Ports>,
    twins: &'static [Twin],
    most_pods: usize,
) -> impl Strategy<Value = World> {
    (
        nodes(),
        vec((family(), ports), 1..=4),
        any::<bool>(),
        vec(pod(twins), 0..=most_pods),
        0u8..10,
    )
        .prop_map(|((zones, nodes), kinds, all_alike, pods, luck)| {
            let mut slices: Vec<Slice> = (1..)
                .zip(
                    kinds
                        .iter()
                        .map(|&kind| if all_alike { kinds[0] } else { kind }),
                )
                .map(|(i, (family, ports))| Slice {
                    name: format!("web-{i}"),
                    family,
                    ports,
                    endpoints: Vec::new(),
                })
                .collect();
            for (number, mut pod) in (1..).zip(pods) {
                // One pod that nobody can place is enough to strip a Service, so that few worlds have one.
                if luck == 0 && number == 1 {
                    pod.spot = Spot {
                        zone: None,
                        node: None,
                    };
                }
                pod.place_into(&mut slices, zones, number);
            }
            World { nodes, slices }
        })
}

/// How many zones the nodes are spread over, and the nodes.
fn nodes() -> impl Strategy<Value = (usize, Vec<Node>)> {
    let zones = prop_oneof![8 => Just(2usize), 8 => Just(3), 3 => Just(4), 1 => Just(1)];
    let state = prop_oneof![
        12 => Just(NodeState::Ready),
        1 => Just(NodeState::NotReady),
        1 => Just(NodeState::ControlPlane)
    ];
    let size = prop_oneof![3 => Just(4000u64), 1 => 100u64..=16_000];
    (zones, vec((size, state), 2..=9), 0u8..20).prop_map(|(zones, sizes, luck)| {
        let mut nodes: Vec<Node> = sizes
            .into_iter()
            .enumerate()
            .map(|(i, (millicores, state))| Node {
                name: format!("node-{i}"),
                zone: Some(
                    ZONES[if state == NodeState::ControlPlane {
                        4
                    } else {
                        i % zones
                    }]
                    .to_owned(),
                ),
                millicores,
                state,
            })
            .collect();
        match luck {
            19 => nodes[0].zone = None,
            18 => nodes[0].millicores = 0,
            _ => {}
        }
        (zones, nodes)
    })
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![8 => Just(Family::Ipv4), 4 => Just(Family::Ipv6), 1 => Just(Family::Fqdn)]
}

fn ports() -> impl Strategy<Value = Ports> {
    prop_oneof![
        6 => Just(Ports::Http),
        1 => Just(Ports::HttpOnAnotherNumber),
        1 => Just(Ports::HttpByUdp),
        1 => Just(Ports::Grpc),
        3 => Just(Ports::HttpAndGrpc),
        1 => select(vec![Ports::Null, Ports::NoNumber, Ports::NoneAtAll]),
    ]
}

#[derive(Debug, Clone)]
struct Pod {
    slice: usize,
    ready: Option<bool>,
    terminating: bool,
    spot: Spot,
    twin: Option<(usize, Twin, Option<bool>, Spot)>,
}

fn pod(twins: &'static [Twin]) -> impl Strategy<Value = Pod> {
    let twin = if twins.is_empty() {
        Just(None).boxed()
    } else {
        let twin = (0usize..4, select(twins), ready(), spot());
        prop_oneof![9 => Just(None), 1 => twin.prop_map(Some)].boxed()
    };
    (0usize..4, ready(), 0u8..20, spot(), twin).prop_map(|(slice, ready, luck, spot, twin)| Pod {
        slice,
        ready,
        terminating: luck == 19,
        spot,
        twin,
    })
}

fn ready() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![3 => Just(Some(true)), 2 => Just(None), 1 => Just(Some(false))]
}

/// Where a pod says that it is: in a zone of those with nodes or of those without, on a node, or both.
#[derive(Debug, Clone, Copy)]
struct Spot {
    zone: Option<Result<usize, usize>>,
    node: Option<usize>,
}

fn spot() -> impl Strategy<Value = Spot> {
    let zone = || {
        prop_oneof![12 => (0usize..4).prop_map(Ok), 1 => (4usize..6).prop_map(Err)].prop_map(Some)
    };
    // The first two nodes are in every world.
    let node = || (0usize..2).prop_map(Some);
    prop_oneof![
        4 => zone().prop_map(|zone| Spot { zone, node: None }),
        2 => (zone(), node()).prop_map(|(zone, node)| Spot { zone, node }),
        1 => node().prop_map(|node| Spot { zone: None, node }),
    ]
}

impl Spot {
    fn place(self, zones: usize) -> Place {
        let zone_name = |zone: Result<usize, usize>| {
            ZONES[zone.map_or_else(|outside| outside, |zone| zone % zones)]
        };
        Place {
            zone: self.zone.map(|zone| zone_name(zone).to_owned()),
            node: self.node.map(|node| format!("node-{node}")),
        }
    }
}

impl Pod {
    fn place_into(self, slices: &mut [Slice], zones: usize, number: usize) {
        let home = self.slice % slices.len();
        let family = slices[home].family;
        let endpoint = Endpoint {
            address: family.address(number),
            uid: format!("pod-{number}"),
            ready: self.ready,
            terminating: self.terminating && !matches!(self.twin, Some((_, Twin::Terminating, ..))),
            place: self.spot.place(zones),
            hint: None,
        };
        let twin = self.twin.map(|(slice, twin, ready, spot)| {
            let uid = format!("pod-{number}-other");
            let other = Endpoint {
                uid,
                ready,
                place: spot.place(zones),
                ..endpoint.clone()
            };
            let copy = match twin {
                Twin::Moved => endpoint.clone(),
                // Pods that terminate are ready only where a Service publishes all as ready.
                Twin::Terminating if !endpoint.is_ready() => Endpoint {
                    terminating: true,
                    ready: Some(false),
                    ..other
                },
                Twin::Terminating => Endpoint {
                    terminating: true,
                    ..other
                },
                Twin::Running => Endpoint {
                    terminating: false,
                    ..other
                },
            };
            (slice % slices.len(), copy)
        });
        slices[home].endpoints.push(endpoint);
        if let Some((slice, copy)) = twin.filter(|(slice, _)| slices[*slice].family == family) {
            slices[slice].endpoints.push(copy);
        }
    }
}
