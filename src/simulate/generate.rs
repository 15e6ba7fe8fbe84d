//! Traces like real life, from a seed.
//!
//! A trace is a row of episodes: rolling updates, scaling, nodes that come, are drained, fail or change their size, and
//! zones that are lost and come back. Pods go where a scheduler would put them: roughly by CPU.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::trace::{Event, Header, Node, Pod, Trace, VERSION};
use super::world::World;

/// What a random trace is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Events behind the start.
    pub events: usize,
    /// The fewest and the most pods.
    pub pods: (usize, usize),
    /// The fewest and the most zones, at most 26.
    pub zones: (usize, usize),
    /// How much happens to nodes.
    pub node_changes: NodeChanges,
}

/// How many of the episodes of a trace are about nodes and zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum NodeChanges {
    /// One in six, and one in a hundred is an outage of a zone.
    #[default]
    Few,
    /// Two in five, and three in a hundred are outages: worse than most clusters ever see.
    Many,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            events: 200,
            pods: (6, 90),
            zones: (2, 4),
            node_changes: NodeChanges::default(),
        }
    }
}

/// Allocatable CPU of nodes of 2, 4, 8 and 16 CPUs, as clouds leave it.
const NODE_SIZES: [u64; 4] = [1930, 3920, 7910, 15_890];

const MOST_NODES_OF_ZONE: usize = 6;

/// SplitMix64, so that a seed gives the same trace in every version and on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }

    fn between(&mut self, (least, most): (usize, usize)) -> usize {
        least + self.below(most - least + 1)
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).for_each(|last| items.swap(last, self.below(last + 1)));
    }
}

/// Makes a trace up.
#[must_use]
pub fn generate(seed: u64, shape: Shape) -> Trace {
    let mut dice = Dice(seed);
    let zones = dice.between(shape.zones);
    let zones = (b'a'..).take(zones);
    let zones: Vec<String> = zones.map(|z| format!("zone-{}", char::from(z))).collect();
    let mut author = Author {
        world: World::new(&zones),
        events: Vec::with_capacity(shape.events + 1),
        addresses: BTreeMap::new(),
        pods_so_far: 0,
        nodes_so_far: 0,
        in_outage: false,
        zones,
        dice,
        shape,
    };
    author.start();
    while !author.is_done() {
        author.episode();
    }
    Trace {
        header: Header {
            version: VERSION,
            seed: Some(seed),
            zones: author.zones,
        },
        events: author.events,
    }
}

struct Author {
    dice: Dice,
    shape: Shape,
    zones: Vec<String>,
    world: World,
    events: Vec<Event>,
    /// For each node, its number and how many addresses it gave out.
    addresses: BTreeMap<String, (u32, u32)>,
    pods_so_far: usize,
    nodes_so_far: u32,
    in_outage: bool,
}

impl Author {
    fn is_done(&self) -> bool {
        self.events.len() > self.shape.events
    }

    fn emit(&mut self, event: Event) {
        if !self.is_done() {
            self.world
                .apply(&event)
                .expect("only what can happen is made up");
            self.events.push(event);
        }
    }

    fn start(&mut self) {
        let mut nodes = Vec::new();
        for zone in self.zones.clone() {
            for _ in 0..self.dice.between((1, 4)) {
                nodes.push(self.new_node(zone.clone()));
            }
        }
        let with_nodes = Event::Start {
            nodes: nodes.clone(),
            pods: Vec::new(),
        };
        let empty = self.world.clone();
        self.world.apply(&with_nodes).expect("all nodes are new");
        let mut pods = Vec::new();
        for _ in 0..self.dice.between(self.shape.pods) {
            let pod = self.new_pod(None);
            let added = Event::PodAdded(pod.clone());
            self.world.apply(&added).expect("the pod is new");
            pods.push(pod);
        }
        self.world = empty;
        self.emit(Event::Start { nodes, pods });
    }

    fn episode(&mut self) {
        let drawn = self.dice.below(100);
        match self.shape.node_changes {
            NodeChanges::Few => match drawn {
                0..40 => self.rolling_update(),
                40..70 => self.scale(),
                70..82 => self.restart_pod(),
                82..88 => self.add_node(),
                88..93 => self.drain_node(),
                93..96 => self.fail_node(),
                96..99 => self.resize_node(),
                _ => self.outage(),
            },
            NodeChanges::Many => match drawn {
                0..30 => self.rolling_update(),
                30..55 => self.scale(),
                55..67 => self.add_node(),
                67..77 => self.drain_node(),
                77..83 => self.fail_node(),
                83..90 => self.resize_node(),
                90..97 => self.restart_pod(),
                _ => self.outage(),
            },
        }
    }

    fn rolling_update(&mut self) {
        let mut old = self.pods();
        self.dice.shuffle(&mut old);
        // Half of them are of a part: a canary, or one that is rolled back.
        if self.dice.below(2) == 0 {
            let part = self.dice.between((1, old.len().max(1)));
            old.truncate(part);
        }
        for pod in old {
            self.replace(pod);
        }
    }

    fn replace(&mut self, pod: String) {
        let avoided = self.world.pods()[&pod].node.clone();
        // Mostly on another node.
        let avoided = (self.dice.below(5) > 0).then_some(avoided);
        let by = self.new_pod(avoided.as_deref());
        self.emit(Event::PodReplaced { pod, by });
    }

    fn scale(&mut self) {
        let now = self.world.pods().len();
        let (least, most) = self.shape.pods;
        let step = self.dice.between((1, (now / 4).max(2)));
        if self.dice.below(2) == 0 {
            self.add_pods(step.min(most.saturating_sub(now)));
        } else {
            let mut pods = self.pods();
            self.dice.shuffle(&mut pods);
            pods.truncate(step.min(now.saturating_sub(least)));
            for pod in pods {
                self.emit(Event::PodRemoved { pod });
            }
        }
    }

    fn add_pods(&mut self, number: usize) {
        for _ in 0..number {
            let pod = self.new_pod(None);
            self.emit(Event::PodAdded(pod));
        }
    }

    fn add_node(&mut self) {
        let zones = self.world.milli_cpu_by_zone();
        let zones: Vec<&str> = zones.into_keys().collect();
        let zone = self.dice.of(&zones).to_owned();
        if self.nodes_of(&zone).len() < MOST_NODES_OF_ZONE {
            let node = self.new_node(zone);
            self.emit(Event::NodeAdded(node));
        }
    }

    /// A node that is not the last of its zone.
    fn spare_node(&mut self) -> Option<String> {
        let nodes: Vec<String> = self
            .world
            .nodes()
            .iter()
            .filter(|(_, node)| node.ready && self.nodes_of(&node.zone).len() > 1)
            .map(|(name, _)| name.clone())
            .collect();
        (!nodes.is_empty()).then(|| nodes[self.dice.below(nodes.len())].clone())
    }

    fn drain_node(&mut self) {
        let Some(node) = self.spare_node() else {
            return;
        };
        let on_node = self.world.pods().iter().filter(|(_, pod)| pod.node == node);
        let on_node: Vec<String> = on_node.map(|(name, _)| name.clone()).collect();
        for pod in on_node {
            let by = self.new_pod(Some(&node));
            self.emit(Event::PodReplaced { pod, by });
        }
        self.emit(Event::NodeRemoved { node });
    }

    fn fail_node(&mut self) {
        let Some(node) = self.spare_node() else {
            return;
        };
        let before = self.world.pods().len();
        self.emit(Event::NodeRemoved { node });
        self.add_pods(before - self.world.pods().len());
    }

    fn resize_node(&mut self) {
        let nodes = self.world.nodes().iter().filter(|(_, node)| node.ready);
        let nodes: Vec<(String, u64)> = nodes
            .map(|(name, node)| (name.clone(), node.milli_cpu))
            .collect();
        let (node, now) = nodes[self.dice.below(nodes.len())].clone();
        let milli_cpu = self.dice.of(&NODE_SIZES);
        if milli_cpu != now {
            self.emit(Event::NodeResized { node, milli_cpu });
        }
    }

    fn restart_pod(&mut self) {
        let pods = self.pods();
        if pods.is_empty() {
            return;
        }
        let pod = pods[self.dice.below(pods.len())].clone();
        self.emit(Event::PodRemoved { pod });
        self.add_pods(1);
    }

    /// A zone is lost that has no more than half of the nodes: with more of them NotReady at once capacity is frozen, and
    /// what is measured here says nothing of the plans.
    fn outage(&mut self) {
        if self.in_outage {
            return;
        }
        let most = self.world.nodes().len() / 2;
        let zones = self.world.milli_cpu_by_zone();
        let zones: Vec<&str> = zones
            .into_keys()
            .filter(|zone| self.nodes_of(zone).len() <= most)
            .collect();
        if zones.is_empty() {
            return;
        }
        let zone = self.dice.of(&zones).to_owned();
        self.in_outage = true;
        let before = self.world.pods().len();
        self.emit(Event::ZoneLost { zone: zone.clone() });
        self.add_pods(before - self.world.pods().len());
        for _ in 0..self.dice.below(3) {
            self.episode();
        }
        self.emit(Event::ZoneBack { zone });
        self.in_outage = false;
    }

    fn pods(&self) -> Vec<String> {
        self.world.pods().keys().cloned().collect()
    }

    fn nodes_of(&self, zone: &str) -> Vec<&str> {
        let nodes = self.world.nodes().iter();
        nodes
            .filter(|(_, node)| node.zone == zone)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn new_node(&mut self, zone: String) -> Node {
        self.nodes_so_far += 1;
        let node = format!("node-{}", self.nodes_so_far);
        self.addresses.insert(node.clone(), (self.nodes_so_far, 0));
        Node {
            node,
            zone,
            milli_cpu: self.dice.of(&NODE_SIZES),
        }
    }

    fn new_pod(&mut self, avoided: Option<&str>) -> Pod {
        let node = self.place(avoided);
        self.pods_so_far += 1;
        let ip = self.address_on(&node);
        Pod {
            pod: format!("web-{}", self.pods_so_far),
            node,
            ip,
        }
    }

    /// A node for a pod: of two that are drawn by their CPU, the one with fewer pods for its CPU. Other workloads, which
    /// a trace does not show, keep a real scheduler from doing better.
    fn place(&mut self, avoided: Option<&str>) -> String {
        let load = |name: &str| {
            let pods = self.world.pods().values();
            let pods = pods.filter(|pod| pod.node == name).count() as u64 + 1;
            pods * 1_000_000 / self.world.nodes()[name].milli_cpu
        };
        let ready = self.world.nodes().iter().filter(|(_, node)| node.ready);
        let all: Vec<(&str, u64)> = ready
            .map(|(n, node)| (n.as_str(), node.milli_cpu))
            .collect();
        let others: Vec<(&str, u64)> = all
            .iter()
            .copied()
            .filter(|(name, _)| Some(*name) != avoided)
            .collect();
        let nodes = if others.is_empty() { all } else { others };
        let first = draw_by_cpu(&mut self.dice, &nodes);
        let second = draw_by_cpu(&mut self.dice, &nodes);
        if load(second) < load(first) {
            second
        } else {
            first
        }
        .to_owned()
    }

    /// The next address of the node's network that is free, as kubelets give them out: one after the other, and all over
    /// again.
    fn address_on(&mut self, node: &str) -> Ipv4Addr {
        const OF_NODE: u32 = 250;
        let (number, given) = self
            .addresses
            .get_mut(node)
            .expect("every node has a network");
        loop {
            let ip = Ipv4Addr::from_bits(
                Ipv4Addr::new(10, 64, 0, 2).to_bits() + *number * 256 + *given % OF_NODE,
            );
            *given += 1;
            if self.world.pods().values().all(|pod| pod.ip != ip) {
                return ip;
            }
        }
    }
}

fn draw_by_cpu<'a>(dice: &mut Dice, nodes: &[(&'a str, u64)]) -> &'a str {
    let total: u64 = nodes.iter().map(|(_, cpu)| cpu).sum();
    let mut drawn = dice.next() % total;
    for &(name, cpu) in nodes {
        if drawn < cpu {
            return name;
        }
        drawn -= cpu;
    }
    unreachable!("what is drawn is below the total")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_one_trace_and_another_gives_another() {
        let shape = Shape::default();
        assert_eq!(generate(7, shape), generate(7, shape));
        assert_ne!(generate(7, shape), generate(8, shape));
    }

    #[test]
    fn traces_have_their_length_and_every_kind_of_event() {
        let mut words = BTreeSet::new();
        for seed in 0..60 {
            let shape = Shape {
                node_changes: [NodeChanges::Few, NodeChanges::Many][usize::from(seed >= 30)],
                ..Shape::default()
            };
            let trace = generate(seed, shape);
            assert_eq!(trace.events.len(), 201);
            words.extend(trace.events.iter().map(Event::word));
        }
        assert_eq!(words.len(), 9, "{words:?}");
    }
}
