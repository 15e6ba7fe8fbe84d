//! What a Node says, for capacity.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::loose::{Loose, Number};
use super::wire::{Node, Wire};
use crate::planner::capacity::{self, Cpu, ZONE_LABEL};
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
    /// How long a node may lack zone or CPU before that counts.
    pub grace: Duration,
}

impl Default for NodeRules {
    fn default() -> Self {
        Self {
            excluded_labels: CONTROL_PLANE_LABELS.map(str::to_owned).to_vec(),
            grace: Duration::from_mins(1),
        }
    }
}

/// A Node as it is kept: what capacity needs, and until when it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// What capacity needs; `settling` as of the time it was read or last looked at.
    pub node: capacity::Node,
    uninitialized: bool,
    new_until: Option<Timestamp>,
    /// When it was last known to be Ready, if it was and is not.
    ready_until: Option<Timestamp>,
}

impl NodeRecord {
    /// Reads a Node. One without a creationTimestamp is old.
    #[must_use]
    pub fn read(wire: &Node<Box<str>>, rules: &NodeRules, now: Timestamp) -> Self {
        let metadata = wire.metadata();
        let label = |key: &str| metadata.and_then(|m| m.label(key));
        let has_label = |key: &String| {
            metadata
                .and_then(|m| m.labels.get())
                .is_some_and(|labels| labels.has(key))
        };
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
                excluded: rules.excluded_labels.iter().any(has_label),
                settling: false,
            },
            uninitialized: has_taint(wire, UNINITIALIZED_TAINT),
            new_until: created.and_then(|at: Timestamp| at.checked_add(rules.grace).ok()),
            ready_until: None,
        };
        record.look_at_clock(now);
        record
    }

    /// Brings `settling` up to date.
    pub fn look_at_clock(&mut self, now: Timestamp) {
        self.node.settling = self.uninitialized || self.new_until.is_some_and(|until| now < until);
    }

    /// Takes over what was known of the node and can't be read from it.
    pub fn remember(&mut self, before: Option<&Self>, now: Timestamp) {
        self.ready_until = match before {
            _ if self.node.ready => None,
            Some(before) if before.node.ready => Some(now),
            before => before.and_then(|before| before.ready_until),
        };
    }

    /// Whether it counted at `since` or later, and is NotReady now.
    #[must_use]
    pub fn has_gone_since(&self, since: Timestamp) -> bool {
        !self.node.excluded && self.ready_until.is_some_and(|until| until >= since)
    }

    /// When `settling` will change by itself.
    #[must_use]
    pub fn settles_at(&self) -> Option<Timestamp> {
        self.new_until
            .filter(|_| self.node.settling && !self.uninitialized)
    }
}

fn is_ready(wire: &Node<Box<str>>) -> bool {
    let conditions = wire
        .status
        .get()
        .map_or(&[][..], |status| status.conditions.items());
    let ready = conditions
        .iter()
        .filter_map(|c| c.get())
        .find(|c| c.kind.text() == Some("Ready"));
    ready.is_some_and(|condition| condition.status.text() == Some("True"))
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
        assert!(record.node.ready && !record.node.excluded && !record.node.settling);
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
