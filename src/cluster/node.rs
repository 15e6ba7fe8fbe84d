//! What a Node says, for capacity.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::loose::{Loose, Number, Pairs};
use super::selector::NodeSelector;
use super::wire::{Condition, Node, Wire};
use crate::planner::capacity::{self, CapacityRules, Cpu, Excluded, ZONE_LABEL};
use crate::planner::quantity::parse_cpu;

/// The taint that cloud providers' kubelets start with, until the cloud has told the node its zone
/// (k8s.io/cloud-provider/api `TaintExternalCloudProvider`).
const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The labels that leave a node out of capacity unless the settings name others, as in Kubernetes.
pub const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// How Nodes are read.
#[derive(Debug, Clone)]
pub struct NodeRules {
    /// Labels that leave a node out, whatever their value.
    pub excluded_labels: Vec<String>,
    /// Labels that a node needs to count.
    pub selector: Option<NodeSelector>,
    /// How capacity is measured.
    pub capacity: CapacityRules,
    /// How long a new node may lack zone or CPU before that counts.
    pub grace: Duration,
    /// How long a node that has lost its zone or CPU counts as before: labels are put back, and tools flap.
    pub grace_of_loss: Duration,
}

impl Default for NodeRules {
    fn default() -> Self {
        Self {
            excluded_labels: CONTROL_PLANE_LABELS.map(str::to_owned).to_vec(),
            selector: None,
            capacity: CapacityRules::default(),
            grace: Duration::from_mins(1),
            grace_of_loss: Duration::from_mins(1),
        }
    }
}

impl NodeRules {
    fn excludes(&self, labels: Option<&Pairs<Box<str>>>) -> Option<Excluded> {
        let has_label = |key: &String| labels.is_some_and(|labels| labels.has(key));
        if self.excluded_labels.iter().any(has_label) {
            return Some(Excluded::ByLabel);
        }
        let mut selector = self.selector.iter();
        selector
            .any(|selector| !selector.takes(labels))
            .then_some(Excluded::NotSelected)
    }
}

/// A Node as it is kept: what capacity needs, and until when it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// What capacity needs; `settling`, zone and CPU as of the time it was read or last looked at.
    pub node: capacity::Node,
    uninitialized: bool,
    new_until: Option<Timestamp>,
    /// When it was last known to be Ready, if it was and is not.
    ready_until: Option<Timestamp>,
    lost: Option<Lost>,
}

/// That a node has less than before, which does not count yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lost {
    until: Timestamp,
    /// What it has.
    zone: Option<Arc<str>>,
    cpu: Cpu,
}

impl NodeRecord {
    /// Reads a Node. One without a creationTimestamp is old.
    #[must_use]
    pub fn read(wire: &Node<Box<str>>, rules: &NodeRules, now: Timestamp) -> Self {
        let metadata = wire.metadata();
        let label = |key: &str| metadata.and_then(|m| m.label(key));
        let created = metadata
            .and_then(|m| m.creation_timestamp.text())
            .and_then(|text| text.parse().ok());
        let mut record = Self {
            node: capacity::Node {
                name: metadata
                    .and_then(|m| m.name.text())
                    .unwrap_or_default()
                    .into(),
                zone: label(ZONE_LABEL)
                    .filter(|zone| !zone.is_empty())
                    .map(Arc::from),
                cpu: read_cpu(wire),
                ready: is_ready(wire),
                excluded: rules.excludes(metadata.and_then(|m| m.labels.get())),
                settling: false,
            },
            uninitialized: has_taint(wire, UNINITIALIZED_TAINT),
            new_until: created.and_then(|at: Timestamp| at.checked_add(rules.grace).ok()),
            ready_until: None,
            lost: None,
        };
        // One that was NotReady from its beginning on has never counted.
        record.ready_until = not_ready_since(wire)
            .filter(|since| record.new_until.is_none_or(|until| *since >= until))
            .map(|since| since.min(now));
        record.look_at_clock(now);
        record
    }

    /// Brings `settling`, and what a loss has left, up to date.
    pub fn look_at_clock(&mut self, now: Timestamp) {
        self.node.settling = self.uninitialized || self.new_until.is_some_and(|until| now < until);
        if let Some(lost) = self.lost.take_if(|lost| lost.until <= now) {
            (self.node.zone, self.node.cpu) = (lost.zone, lost.cpu);
        }
    }

    /// Takes over what was known of the node and can't be read from it.
    pub fn remember(&mut self, before: Option<&Self>, rules: &NodeRules, now: Timestamp) {
        let Some(before) = before else { return };
        self.ready_until = match before.ready_until {
            _ if self.node.ready => None,
            _ if before.node.ready => Some(now),
            since => since,
        };
        let measure = rules.capacity.measure;
        if before.node.has_capacity(measure)
            && !self.node.has_capacity(measure)
            && self.node.excluded.is_none()
        {
            self.lose(before, rules, now);
        }
    }

    fn lose(&mut self, before: &Self, rules: &NodeRules, now: Timestamp) {
        let until = before.lost.as_ref().map(|lost| lost.until);
        let until = until.or_else(|| now.checked_add(rules.grace_of_loss).ok());
        let Some(until) = until.filter(|until| now < *until) else {
            return;
        };
        let zone = self.node.zone.clone().or(before.node.zone.clone());
        let cpu = if self.node.cpu.counts() {
            self.node.cpu.clone()
        } else {
            before.node.cpu.clone()
        };
        self.lost = Some(Lost {
            until,
            zone: std::mem::replace(&mut self.node.zone, zone),
            cpu: std::mem::replace(&mut self.node.cpu, cpu),
        });
    }

    /// When it turned NotReady, if that is known.
    #[must_use]
    pub fn ready_until(&self) -> Option<Timestamp> {
        self.ready_until
    }

    /// Whether it has been Ready, as far as is known: one that is old is taken to have been.
    #[must_use]
    pub fn was_ready(&self) -> bool {
        self.node.ready || self.ready_until.is_some() || !self.node.settling
    }

    /// Whether it counted at `since` or later, and is NotReady now.
    #[must_use]
    pub fn has_gone_since(&self, since: Timestamp) -> bool {
        self.node.excluded.is_none() && self.ready_until.is_some_and(|until| until >= since)
    }

    /// When it will count for something else by itself.
    #[must_use]
    pub fn settles_at(&self) -> Option<Timestamp> {
        let is_new_until = self
            .new_until
            .filter(|_| self.node.settling && !self.uninitialized);
        let lost_until = self.lost.as_ref().map(|lost| lost.until);
        is_new_until.into_iter().chain(lost_until).min()
    }
}

fn ready_condition(wire: &Node<Box<str>>) -> Option<&Condition<Box<str>>> {
    let conditions = wire
        .status
        .get()
        .map_or(&[][..], |status| status.conditions.items());
    let mut conditions = conditions.iter().filter_map(Loose::get);
    conditions.find(|condition| condition.kind.text() == Some("Ready"))
}

fn is_true(condition: &Condition<Box<str>>) -> bool {
    condition.status.text() == Some("True")
}

fn is_ready(wire: &Node<Box<str>>) -> bool {
    ready_condition(wire).is_some_and(is_true)
}

fn not_ready_since(wire: &Node<Box<str>>) -> Option<Timestamp> {
    let condition = ready_condition(wire).filter(|condition| !is_true(condition))?;
    condition.last_transition_time.text()?.parse().ok()
}

fn has_taint(wire: &Node<Box<str>>, key: &str) -> bool {
    let taints = wire.spec.get().map_or(&[][..], |spec| spec.taints.items());
    taints
        .iter()
        .filter_map(|taint| taint.get()?.key.text())
        .any(|k| k == key)
}

fn read_cpu(wire: &Node<Box<str>>) -> Cpu {
    let Some(status) = wire.status.get() else {
        return Cpu::Missing;
    };
    // The API server defaults allocatable to capacity; files come without its help.
    let resources = match &status.allocatable {
        Loose::Absent => &status.capacity,
        allocatable => allocatable,
    };
    match resources.get().map(|resources| &resources.cpu) {
        Some(Loose::Value(Number(text))) => {
            parse_cpu(text).map_or_else(|_| Cpu::Unreadable(text.clone()), Cpu::Millicores)
        }
        Some(Loose::Odd) => Cpu::Unreadable("(not a text or number)".into()),
        Some(Loose::Absent) | None => Cpu::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::quantity::Millicores;

    fn read(json: &str) -> NodeRecord {
        let wire: Node<Box<str>> = serde_json::from_str(json).unwrap();
        NodeRecord::read(
            &wire,
            &NodeRules::default(),
            "2026-01-01T00:00:30Z".parse().unwrap(),
        )
    }

    #[test]
    fn a_node_is_read_for_what_capacity_needs() {
        let record = read(
            r#"{"metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"a"}},
                "status":{"allocatable":{"cpu":"3920m"},"conditions":[{"type":"Ready","status":"True"}]}}"#,
        );
        assert_eq!(record.node.zone.as_deref(), Some("a"));
        assert_eq!(record.node.cpu, Cpu::Millicores(Millicores(3920)));
        assert!(record.node.ready && record.node.excluded.is_none() && !record.node.settling);
    }

    #[test]
    fn a_node_settles_for_the_grace_or_as_long_as_its_taint_says() {
        let mut young =
            read(r#"{"metadata":{"name":"n1","creationTimestamp":"2026-01-01T00:00:00Z"}}"#);
        assert!(young.node.settling);
        assert_eq!(
            young.settles_at(),
            Some("2026-01-01T00:01:00Z".parse().unwrap())
        );
        young.look_at_clock("2026-01-01T00:01:00Z".parse().unwrap());
        assert!(!young.node.settling);
        let tainted = read(
            r#"{"metadata":{"name":"n2","creationTimestamp":"2020-01-01T00:00:00Z"},
                "spec":{"taints":[{"key":"node.cloudprovider.kubernetes.io/uninitialized"}]}}"#,
        );
        assert!(tainted.node.settling);
    }

    #[test]
    fn cpu_may_be_a_number_missing_or_odd() {
        let cpu = |json: &str| {
            read(&format!(r#"{{"status":{{"allocatable":{json}}}}}"#))
                .node
                .cpu
        };
        assert_eq!(cpu(r#"{"cpu":4}"#), Cpu::Millicores(Millicores(4000)));
        assert_eq!(cpu("{}"), Cpu::Missing);
        let capacity = read(r#"{"status":{"capacity":{"cpu":"2"}}}"#).node.cpu;
        assert_eq!(capacity, Cpu::Millicores(Millicores(2000)));
        assert_eq!(cpu(r#"{"cpu":"1e3m"}"#), Cpu::Unreadable("1e3m".into()));
        assert!(matches!(cpu(r#"{"cpu":["4"]}"#), Cpu::Unreadable(_)));
    }
}
