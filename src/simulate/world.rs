//! The nodes and pods of a trace at one moment.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::Ipv4Addr;

use super::trace::{Event, Node, Pod};

/// An event that can't happen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The field of the event that says what can't be.
    pub field: &'static str,
    /// Why not.
    pub problem: String,
}

fn refuse(field: &'static str, problem: String) -> Result<(), Refused> {
    Err(Refused { field, problem })
}

/// A node as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Its zone.
    pub zone: String,
    /// Its allocatable CPU in thousandths of a CPU.
    pub milli_cpu: u64,
    /// Whether it is ready: a node of a lost zone is not.
    pub ready: bool,
}

/// A pod as it is now; it is ready as long as it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its node.
    pub node: String,
    /// Its address.
    pub ip: Ipv4Addr,
}

/// Nodes and pods, by name.
#[derive(Debug, Clone, Default)]
pub struct World {
    zones: BTreeSet<String>,
    lost: BTreeSet<String>,
    nodes: BTreeMap<String, NodeState>,
    pods: BTreeMap<String, PodState>,
    pods_ever: HashSet<String>,
}

impl World {
    /// One with these zones and nothing in them.
    #[must_use]
    pub fn new(zones: &[String]) -> Self {
        Self {
            zones: zones.iter().cloned().collect(),
            ..Self::default()
        }
    }

    /// The nodes by name.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<String, NodeState> {
        &self.nodes
    }

    /// The pods by name.
    #[must_use]
    pub fn pods(&self) -> &BTreeMap<String, PodState> {
        &self.pods
    }

    /// The zone of a pod.
    #[must_use]
    pub fn zone_of(&self, pod: &PodState) -> &str {
        &self.nodes[&pod.node].zone
    }

    /// The CPU of the ready nodes of each zone that has any: where clients are, and how many.
    #[must_use]
    pub fn milli_cpu_by_zone(&self) -> BTreeMap<&str, u64> {
        let mut zones = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.ready) {
            *zones.entry(node.zone.as_str()).or_default() += node.milli_cpu;
        }
        zones
    }

    /// Lets an event happen.
    ///
    /// # Errors
    /// [`Refused`] where it can't; what it did until then stays.
    pub fn apply(&mut self, event: &Event) -> Result<(), Refused> {
        match event {
            Event::Start { nodes, pods } => {
                nodes.iter().try_for_each(|node| self.add_node(node))?;
                pods.iter().try_for_each(|pod| self.add_pod(pod))
            }
            Event::PodAdded(pod) => self.add_pod(pod),
            Event::PodRemoved { pod } => self.remove_pod(pod),
            Event::PodReplaced { pod, by } => {
                self.remove_pod(pod)?;
                self.add_pod(by)
            }
            Event::NodeAdded(node) => self.add_node(node),
            Event::NodeRemoved { node } => self.remove_node(node),
            Event::NodeResized { node, milli_cpu } => self.resize_node(node, *milli_cpu),
            Event::ZoneLost { zone } => self.lose_zone(zone),
            Event::ZoneBack { zone } => self.restore_zone(zone),
        }
    }

    fn add_pod(&mut self, pod: &Pod) -> Result<(), Refused> {
        match self.nodes.get(&pod.node) {
            None => return refuse("node", format!("there is no node {} now", pod.node)),
            Some(node) if !node.ready => {
                return refuse(
                    "node",
                    format!("{} is not ready: its zone is lost", pod.node),
                );
            }
            Some(_) => {}
        }
        if let Some((other, _)) = self.pods.iter().find(|(_, other)| other.ip == pod.ip) {
            return refuse("ip", format!("{} is the address of {other} now", pod.ip));
        }
        if !self.pods_ever.insert(pod.pod.clone()) {
            return refuse("pod", format!("a pod {} was there before", pod.pod));
        }
        let state = PodState {
            node: pod.node.clone(),
            ip: pod.ip,
        };
        self.pods.insert(pod.pod.clone(), state);
        Ok(())
    }

    fn remove_pod(&mut self, pod: &str) -> Result<(), Refused> {
        match self.pods.remove(pod) {
            Some(_) => Ok(()),
            None => refuse("pod", format!("there is no pod {pod} now")),
        }
    }

    fn add_node(&mut self, node: &Node) -> Result<(), Refused> {
        if !self.zones.contains(&node.zone) {
            return refuse("zone", format!("the header has no zone {}", node.zone));
        }
        if self.lost.contains(&node.zone) {
            return refuse("zone", format!("{} is lost", node.zone));
        }
        check_cpu(node.milli_cpu)?;
        if self.nodes.contains_key(&node.node) {
            return refuse("node", format!("there is a node {} already", node.node));
        }
        let state = NodeState {
            zone: node.zone.clone(),
            milli_cpu: node.milli_cpu,
            ready: true,
        };
        self.nodes.insert(node.node.clone(), state);
        Ok(())
    }

    fn remove_node(&mut self, node: &str) -> Result<(), Refused> {
        if self.nodes.remove(node).is_none() {
            return refuse("node", format!("there is no node {node} now"));
        }
        self.pods.retain(|_, pod| pod.node != node);
        Ok(())
    }

    fn resize_node(&mut self, node: &str, milli_cpu: u64) -> Result<(), Refused> {
        check_cpu(milli_cpu)?;
        match self.nodes.get_mut(node) {
            Some(state) => {
                state.milli_cpu = milli_cpu;
                Ok(())
            }
            None => refuse("node", format!("there is no node {node} now")),
        }
    }

    fn lose_zone(&mut self, zone: &str) -> Result<(), Refused> {
        if !self.zones.contains(zone) || !self.lost.insert(zone.to_owned()) {
            return refuse("zone", format!("there is no zone {zone} now"));
        }
        self.set_ready(zone, false);
        let nodes = &self.nodes;
        self.pods.retain(|_, pod| nodes[&pod.node].zone != zone);
        Ok(())
    }

    fn restore_zone(&mut self, zone: &str) -> Result<(), Refused> {
        if !self.lost.remove(zone) {
            return refuse("zone", format!("zone {zone} is not lost"));
        }
        self.set_ready(zone, true);
        Ok(())
    }

    fn set_ready(&mut self, zone: &str, ready: bool) {
        let of_zone = self.nodes.values_mut().filter(|node| node.zone == zone);
        of_zone.for_each(|node| node.ready = ready);
    }
}

/// Below what a store caps a node at, far above any node.
const MOST_MILLI_CPU: u64 = 1_000_000_000;

fn check_cpu(milli_cpu: u64) -> Result<(), Refused> {
    if (1..=MOST_MILLI_CPU).contains(&milli_cpu) {
        return Ok(());
    }
    refuse(
        "milliCpu",
        format!("{milli_cpu} is not between 1 and {MOST_MILLI_CPU}"),
    )
}
