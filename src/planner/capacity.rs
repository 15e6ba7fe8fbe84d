//! Each zone's share of CPU over the nodes of the cluster, and which nodes keep it from being known.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::quantity::Millicores;
use super::reason::Reason;

/// The label that kube-proxy reads a node's zone from (k8s.io/api/core/v1 `LabelTopologyZone`).
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// What a node says of its CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cpu {
    /// No allocatable CPU is stated.
    Missing,
    /// A text that apimachinery refuses as a quantity.
    Unreadable(Box<str>),
    /// That many millicores, possibly zero.
    Millicores(Millicores),
}

impl Cpu {
    /// Whether it is a number above zero.
    #[must_use]
    pub fn counts(&self) -> bool {
        matches!(self, Self::Millicores(cpu) if *cpu > Millicores(0))
    }
}

/// A node, as far as capacity is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Box<str>,
    /// The value of [`ZONE_LABEL`], where it is not empty.
    pub zone: Option<Arc<str>>,
    /// Its allocatable CPU.
    pub cpu: Cpu,
    /// Whether its `Ready` condition is `True`.
    pub ready: bool,
    /// Set where its labels leave it out.
    pub excluded: Option<Excluded>,
    /// Whether its cloud may still be giving it a zone: young, or tainted as uninitialized.
    pub settling: bool,
}

/// Why a node's labels leave it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excluded {
    /// It has one such as `node-role.kubernetes.io/control-plane`.
    ByLabel,
    /// It has not those that nodes need to count.
    NotSelected,
}

impl Node {
    /// Whether it has all that a counted node needs.
    #[must_use]
    pub fn has_capacity(&self, measure: Measure) -> bool {
        self.zone.is_some() && (measure == Measure::Nodes || self.cpu.counts())
    }
}

/// What zones are measured by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Measure {
    /// The allocatable CPU of their nodes.
    #[default]
    Cpu,
    /// The number of their nodes.
    Nodes,
}

/// How capacity is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapacityRules {
    /// What zones are measured by.
    pub measure: Measure,
    /// The part of the counted nodes that may lack zone or CPU, in millionths: hints then go on without them.
    pub tolerance: u32,
}

/// Something that a counted node needs and does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The label [`ZONE_LABEL`], or a value for it.
    Zone,
    /// Allocatable CPU.
    Cpu,
    /// Allocatable CPU above zero.
    CpuAboveZero,
    /// Allocatable CPU that parses; with the text that does not.
    ReadableCpu(Box<str>),
}

impl Missing {
    /// The word for it in JSON: `zone` or `cpu`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Zone => "zone",
            Self::Cpu | Self::CpuAboveZero | Self::ReadableCpu(_) => "cpu",
        }
    }
}

/// A counted node without zone or CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsufficientNode {
    /// Its name.
    pub name: Box<str>,
    /// What it lacks; never empty.
    pub missing: Vec<Missing>,
}

/// Why a node does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ignored {
    /// It has a control plane's label.
    ControlPlane,
    /// It has not the labels that nodes need to count.
    NotSelected,
    /// Its `Ready` condition is not `True`.
    NotReady,
    /// It lacks zone or CPU and is so new that it may still get them.
    Settling,
}

impl Ignored {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::ControlPlane,
        Self::NotSelected,
        Self::NotReady,
        Self::Settling,
    ];

    /// The word for it in JSON and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ControlPlane => "ControlPlane",
            Self::NotSelected => "NotSelected",
            Self::NotReady => "NotReady",
            Self::Settling => "Settling",
        }
    }
}

/// A zone with counted capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub name: Arc<str>,
    /// The sum over its counted nodes.
    pub cpu: Millicores,
    /// Number of counted nodes.
    pub nodes: u32,
}

/// What the nodes say of the zones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Zones with capacity, in the order of their names; a zone's number everywhere else is its place here.
    pub zones: Vec<Zone>,
    /// Counted nodes without zone or CPU, in the order of their names.
    pub insufficient: Vec<InsufficientNode>,
    /// Nodes that do not count, in the order of their names.
    pub ignored: Vec<(Box<str>, Ignored)>,
    /// How it was measured.
    pub rules: CapacityRules,
}

impl Capacity {
    /// Sums up `nodes`, in whatever order they come.
    pub fn measure<'a>(nodes: impl IntoIterator<Item = &'a Node>, rules: CapacityRules) -> Self {
        Self::measure_as(nodes.into_iter().map(|node| (node, node.ready)), rules)
    }

    /// The same, where it is said for each node whether it is taken for Ready.
    pub fn measure_as<'a>(
        nodes: impl IntoIterator<Item = (&'a Node, bool)>,
        rules: CapacityRules,
    ) -> Self {
        let mut zones: BTreeMap<&Arc<str>, (Millicores, u32)> = BTreeMap::new();
        let mut capacity = Self {
            rules,
            ..Self::default()
        };
        for (node, ready) in nodes {
            match assess(node, ready, rules.measure) {
                Assessment::Counts { zone, cpu } => {
                    let (sum, count) = zones.entry(zone).or_default();
                    sum.0 = sum.0.saturating_add(cpu.0);
                    *count += 1;
                }
                Assessment::Ignored(because) => capacity.ignored.push((node.name.clone(), because)),
                Assessment::Insufficient(missing) => {
                    capacity.insufficient.push(InsufficientNode {
                        name: node.name.clone(),
                        missing,
                    });
                }
            }
        }
        capacity.zones = zones
            .into_iter()
            .map(|(name, (cpu, nodes))| Zone {
                name: name.clone(),
                cpu,
                nodes,
            })
            .collect();
        capacity
            .insufficient
            .sort_unstable_by(|a, b| a.name.cmp(&b.name));
        capacity.ignored.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        capacity
    }

    /// The weight of each zone's share, in zone order: its millicores, or its nodes.
    #[must_use]
    pub fn weights(&self) -> Vec<u64> {
        let weight = |zone: &Zone| match self.rules.measure {
            Measure::Cpu => zone.cpu.0,
            Measure::Nodes => zone.nodes.into(),
        };
        self.zones.iter().map(weight).collect()
    }

    /// The share of a zone, between 0 and 1, for people, JSON and metrics; decisions use the exact weights.
    #[must_use]
    pub fn share(&self, zone: usize) -> f64 {
        let weights = self.weights();
        super::counts::ratio(weights[zone], weights.iter().sum())
    }

    /// Number of counted nodes with zone and CPU.
    #[must_use]
    pub fn sufficient_nodes(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.nodes)).sum()
    }

    /// Counted nodes without zone or CPU, where there are more of them than are tolerated.
    #[must_use]
    pub fn culprits(&self) -> &[InsufficientNode] {
        let insufficient = self.insufficient.len() as u64;
        let counted = insufficient + self.sufficient_nodes();
        let is_tolerated = insufficient * 1_000_000 <= counted * u64::from(self.rules.tolerance);
        if is_tolerated && !self.zones.is_empty() {
            return &[];
        }
        &self.insufficient
    }

    /// Why no Service can be hinted with these nodes, or nothing where one can.
    #[must_use]
    pub fn obstacle(&self) -> Option<Reason> {
        if !self.culprits().is_empty() || self.zones.is_empty() {
            return Some(Reason::insufficient_node_info(&self.insufficient));
        }
        if let [zone] = self.zones.as_slice() {
            return Some(Reason::NodesReadyInOneZoneOnly {
                zone: zone.name.clone(),
                nodes: zone.nodes,
            });
        }
        None
    }
}

enum Assessment<'a> {
    Counts { zone: &'a Arc<str>, cpu: Millicores },
    Ignored(Ignored),
    Insufficient(Vec<Missing>),
}

fn assess(node: &Node, ready: bool, measure: Measure) -> Assessment<'_> {
    match node.excluded {
        Some(Excluded::ByLabel) => return Assessment::Ignored(Ignored::ControlPlane),
        Some(Excluded::NotSelected) => return Assessment::Ignored(Ignored::NotSelected),
        None => {}
    }
    if !ready {
        return Assessment::Ignored(Ignored::NotReady);
    }
    let cpu = match &node.cpu {
        Cpu::Millicores(cpu) if measure == Measure::Nodes => Ok(*cpu),
        _ if measure == Measure::Nodes => Ok(Millicores(0)),
        Cpu::Missing => Err(Missing::Cpu),
        Cpu::Unreadable(text) => Err(Missing::ReadableCpu(text.clone())),
        Cpu::Millicores(Millicores(0)) => Err(Missing::CpuAboveZero),
        Cpu::Millicores(cpu) => Ok(*cpu),
    };
    match (&node.zone, cpu) {
        (Some(zone), Ok(cpu)) => Assessment::Counts { zone, cpu },
        _ if node.settling => Assessment::Ignored(Ignored::Settling),
        (zone, cpu) => {
            let zone = zone.is_none().then_some(Missing::Zone);
            Assessment::Insufficient(zone.into_iter().chain(cpu.err()).collect())
        }
    }
}

/// Of the nodes that would otherwise count, those that are NotReady, and how many of them make a storm rather than less
/// capacity: more than `freeze_not_ready`, a fraction of all.
///
/// New nodes that are not Ready yet, and those that have no capacity to lose, are no storm.
pub struct NotReady<N> {
    /// The nodes.
    pub nodes: Vec<N>,
    counting: usize,
    limit: f64,
}

impl<N> NotReady<N> {
    /// Looks at nodes, of which it is said whether one that is NotReady was ever Ready, as far as is known.
    pub fn of(
        all: impl IntoIterator<Item = N>,
        node: impl Fn(&N) -> &Node,
        was_ready: impl Fn(&N) -> bool,
        measure: Measure,
        freeze_not_ready: f64,
    ) -> Self {
        let (mut nodes, mut counting) = (Vec::new(), 0);
        for item in all {
            let node = node(&item);
            match assess(node, true, measure) {
                Assessment::Counts { .. } | Assessment::Insufficient(_) if node.ready => {
                    counting += 1;
                }
                Assessment::Counts { .. } if was_ready(&item) => nodes.push(item),
                _ => {}
            }
        }
        Self {
            nodes,
            counting,
            limit: freeze_not_ready,
        }
    }

    /// How many of them have to be NotReady for a storm, if so many are.
    #[must_use]
    pub fn storm(&self) -> Option<usize> {
        let all = (self.nodes.len() + self.counting) as u64;
        let is_storm = |&lost: &usize| super::counts::ratio(lost as u64, all) > self.limit;
        let lost = Some(self.nodes.len()).filter(is_storm)?;
        (1..=lost).find(is_storm)
    }
}

/// Number of nodes that do not count for being NotReady.
#[must_use]
pub fn not_ready(capacity: &Capacity) -> u64 {
    let not_ready = |(_, because): &&(Box<str>, Ignored)| *because == Ignored::NotReady;
    capacity.ignored.iter().filter(not_ready).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(nodes: &[Node]) -> Capacity {
        Capacity::measure(nodes, CapacityRules::default())
    }

    #[test]
    fn nodes_that_lack_something_are_tolerated_up_to_a_part_of_those_that_count() {
        let mut nodes: Vec<Node> = (0..18)
            .map(|i| node(&format!("n{i}"), ["a", "b"][i % 2], 1))
            .collect();
        nodes.push(node("bare", "", 1));
        nodes.push(node("idle", "a", 0));
        let obstacle = |tolerance, nodes: &[Node]| {
            let rules = CapacityRules {
                tolerance,
                ..CapacityRules::default()
            };
            Capacity::measure(nodes, rules).obstacle()
        };
        assert_eq!(obstacle(100_000, &nodes), None);
        let tolerant = CapacityRules {
            tolerance: 100_000,
            ..CapacityRules::default()
        };
        let culprits = |rules| Capacity::measure(&nodes, rules).culprits().len();
        assert_eq!(
            (culprits(tolerant), culprits(CapacityRules::default())),
            (0, 2)
        );
        assert!(obstacle(99_999, &nodes).is_some() && obstacle(0, &nodes).is_some());
        assert_eq!(obstacle(0, &nodes[..18]), None);
        assert!(
            obstacle(1_000_000, &nodes[18..]).is_some(),
            "no zone at all"
        );
    }

    #[test]
    fn zones_can_be_measured_by_their_nodes_which_then_need_no_cpu() {
        let nodes = [
            node("n1", "a", 8000),
            node("n2", "b", 1000),
            node("n3", "b", 0),
        ];
        let rules = CapacityRules {
            measure: Measure::Nodes,
            ..CapacityRules::default()
        };
        let capacity = Capacity::measure(&nodes, rules);
        assert_eq!(
            (capacity.weights(), capacity.obstacle()),
            (vec![1, 2], None)
        );
        assert_eq!(measure(&nodes).weights(), [8000, 1000]);
    }

    #[test]
    fn nodes_without_the_labels_that_are_asked_for_do_not_count() {
        let other = Node {
            excluded: Some(Excluded::NotSelected),
            zone: None,
            ..node("gpu", "c", 1)
        };
        let capacity = measure(&[other, node("n1", "a", 1), node("n2", "b", 1)]);
        assert_eq!(capacity.ignored, [("gpu".into(), Ignored::NotSelected)]);
        assert_eq!(capacity.obstacle(), None);
    }

    fn is_storm(nodes: &[Node], freeze_not_ready: f64) -> bool {
        let was_ready = |node: &&Node| !node.settling;
        NotReady::of(
            nodes,
            |node| node,
            was_ready,
            Measure::Cpu,
            freeze_not_ready,
        )
        .storm()
        .is_some()
    }

    fn node(name: &str, zone: &str, millicores: u64) -> Node {
        Node {
            name: name.into(),
            zone: (!zone.is_empty()).then(|| zone.into()),
            cpu: Cpu::Millicores(Millicores(millicores)),
            ready: true,
            excluded: None,
            settling: false,
        }
    }

    #[test]
    fn cpu_is_summed_by_zone_and_zones_go_by_name() {
        let nodes = [
            node("n3", "b", 500),
            node("n1", "a", 1000),
            node("n2", "a", 500),
        ];
        let capacity = measure(&nodes);
        let zones: Vec<_> = capacity
            .zones
            .iter()
            .map(|z| (&*z.name, z.cpu.0, z.nodes))
            .collect();
        assert_eq!(zones, [("a", 1500, 2), ("b", 500, 1)]);
        assert!((capacity.share(0) - 0.75).abs() < f64::EPSILON);
        assert_eq!(capacity.obstacle(), None);
    }

    #[test]
    fn control_plane_and_not_ready_nodes_are_left_out() {
        let control_plane = Node {
            excluded: Some(Excluded::ByLabel),
            zone: None,
            ..node("cp", "a", 1)
        };
        let not_ready = Node {
            ready: false,
            ..node("nr", "a", 1)
        };
        let capacity = measure(&[
            control_plane,
            not_ready,
            node("n", "a", 1),
            node("m", "b", 1),
        ]);
        assert_eq!(
            capacity.ignored,
            [
                ("cp".into(), Ignored::ControlPlane),
                ("nr".into(), Ignored::NotReady)
            ]
        );
        assert_eq!(capacity.obstacle(), None);
    }

    #[test]
    fn a_node_without_zone_or_cpu_is_named_with_what_it_lacks() {
        let capacity = measure(&[node("n1", "", 0), node("n2", "a", 1), node("n3", "b", 1)]);
        assert_eq!(
            capacity.insufficient[0].missing,
            [Missing::Zone, Missing::CpuAboveZero]
        );
        let message = capacity.obstacle().unwrap().message();
        assert!(
            message.contains("n1") && message.contains(ZONE_LABEL),
            "{message}"
        );
    }

    #[test]
    fn a_new_node_may_still_get_its_zone() {
        let new = Node {
            settling: true,
            ..node("n1", "", 1000)
        };
        let capacity = measure(&[new, node("n2", "a", 1), node("n3", "b", 1)]);
        assert_eq!(capacity.obstacle(), None);
        assert_eq!(capacity.ignored, [("n1".into(), Ignored::Settling)]);
    }

    #[test]
    fn a_storm_is_more_than_the_stated_part_of_the_nodes() {
        let down = |i: usize| Node {
            ready: false,
            ..node(&format!("d{i}"), "a", 1)
        };
        let up = |i: usize| node(&format!("u{i}"), "a", 1);
        let nodes = |d: usize, u: usize| (0..d).map(down).chain((0..u).map(up)).collect::<Vec<_>>();
        assert!(!is_storm(&nodes(11, 9), 0.55));
        assert!(is_storm(&nodes(12, 9), 0.55));
        assert!(!is_storm(&[], 0.55));
    }

    #[test]
    fn nodes_that_come_or_never_counted_are_no_storm() {
        let down = |node: Node| Node {
            ready: false,
            ..node
        };
        let new = Node {
            settling: true,
            ..node("new", "a", 1)
        };
        let excluded = Node {
            excluded: Some(Excluded::ByLabel),
            ..node("cp", "a", 1)
        };
        for lost in [new, excluded, node("bare", "", 1), node("idle", "a", 0)] {
            let nodes = [node("up", "a", 1), down(lost)];
            assert!(!is_storm(&nodes, 0.0), "{:?}", nodes[1]);
        }
        let insufficient = [node("up", "", 1), down(node("down", "a", 1))];
        assert!(!is_storm(&insufficient, 0.5), "it counts on both sides");
    }
}
