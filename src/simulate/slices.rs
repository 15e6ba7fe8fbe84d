//! The slices that the EndpointSlice controller writes: `reconcileByPortMapping` and `finalize` of k8s.io/endpointslice,
//! for one Service whose pods have one set of ports.
//!
//! Where the controller follows the order of a map, names decide here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::cluster::loose::Loose;
use crate::cluster::slice::SERVICE_NAME_LABEL;
use crate::cluster::wire;

/// The namespace of the Service.
pub const NAMESPACE: &str = "simulated";
/// The name of the Service.
pub const SERVICE: &str = "web";

/// An endpoint: a pod, and the zones that it is hinted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The pod's name, which stands for its uid too.
    pub pod: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Its node.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// The zones that it is hinted for.
    pub hints: Vec<Arc<str>>,
}

impl Endpoint {
    fn to_wire(&self) -> wire::Endpoint<Box<str>> {
        let names = self
            .hints
            .iter()
            .map(|zone| Loose::Value(wire::HintName { name: text(zone) }));
        let hints = wire::Hints {
            for_zones: Loose::Value(names.collect()),
            for_nodes: Loose::Absent,
        };
        wire::Endpoint {
            addresses: Loose::Value(vec![text(&self.ip.to_string())]),
            target_ref: Loose::Value(wire::TargetRef {
                uid: text(&self.pod),
            }),
            node_name: text(&self.node),
            zone: text(&self.zone),
            hints: if self.hints.is_empty() {
                Loose::Absent
            } else {
                Loose::Value(hints)
            },
            // Ready, since it does not say otherwise.
            ..Default::default()
        }
    }
}

fn text(text: &str) -> Loose<Box<str>> {
    Loose::Value(text.into())
}

/// A slice as an object.
#[must_use]
pub fn to_wire(name: &str, endpoints: &[Endpoint]) -> wire::EndpointSlice<Box<str>> {
    let labels = serde_json::json!({ SERVICE_NAME_LABEL: SERVICE });
    wire::EndpointSlice {
        metadata: Loose::Value(wire::Metadata {
            name: text(name),
            namespace: text(NAMESPACE),
            labels: Loose::Value(serde_json::from_value(labels).expect("labels are pairs")),
            ..Default::default()
        }),
        address_type: text("IPv4"),
        endpoints: Loose::Value(
            endpoints
                .iter()
                .map(|e| Loose::Value(e.to_wire()))
                .collect(),
        ),
        ports: Loose::Value(vec![Loose::Value(wire::Port {
            name: text("http"),
            port: Loose::Value(8080),
            ..Default::default()
        })]),
    }
}

/// Slices by name.
pub type Slices = BTreeMap<String, Vec<Endpoint>>;

/// What the controller writes. Endpoints that are kept in a slice that is written have no hints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Slices to create, without a name.
    pub create: Vec<Vec<Endpoint>>,
    /// Slices to update.
    pub update: Slices,
    /// Slices to delete.
    pub delete: BTreeSet<String>,
}

/// What the controller changes so that `stored` slices, of at most `most` endpoints each, hold the `desired` endpoints.
#[must_use]
pub fn reconcile(stored: &Slices, desired: Vec<Endpoint>, most: usize) -> Changes {
    let mut desired: BTreeMap<String, Endpoint> =
        desired.into_iter().map(|e| (e.pod.clone(), e)).collect();
    let mut changes = Changes::default();
    let mut unchanged = BTreeSet::new();
    for (name, endpoints) in stored {
        let kept = endpoints.iter().filter_map(|e| desired.remove(&e.pod));
        let kept: Vec<Endpoint> = kept.collect();
        if kept.len() == endpoints.len() {
            unchanged.insert(name.as_str());
        } else if kept.is_empty() {
            changes.delete.insert(name.clone());
        } else {
            changes.update.insert(name.clone(), kept);
        }
    }
    let mut new: Vec<Endpoint> = desired.into_values().collect();
    fill_changed(&mut changes.update, &mut new, most);
    while !new.is_empty() {
        let fitting = fitting(stored, &unchanged, new.len(), most);
        let mut filled = match fitting {
            Some(name) => bare(&stored[name]),
            None => Vec::new(),
        };
        fill(&mut filled, &mut new, most);
        match fitting {
            Some(name) => {
                unchanged.remove(name);
                changes.update.insert(name.to_owned(), filled);
            }
            None => changes.create.push(filled),
        }
    }
    rather_update(&mut changes);
    changes
}

/// The fullest first.
fn fill_changed(changed: &mut Slices, new: &mut Vec<Endpoint>, most: usize) {
    let mut fullest: Vec<&mut Vec<Endpoint>> = changed.values_mut().collect();
    fullest.sort_by_key(|endpoints| std::cmp::Reverse(endpoints.len()));
    for endpoints in fullest {
        fill(endpoints, new, most);
    }
}

fn fill(endpoints: &mut Vec<Endpoint>, new: &mut Vec<Endpoint>, most: usize) {
    let room = most.saturating_sub(endpoints.len()).min(new.len());
    endpoints.extend(new.drain(..room));
}

/// Of the unchanged slices that have room for all, the one that is fullest then.
fn fitting<'a>(
    stored: &Slices,
    unchanged: &BTreeSet<&'a str>,
    new: usize,
    most: usize,
) -> Option<&'a str> {
    let room = |name: &&str| most.checked_sub(stored[*name].len() + new);
    let able = unchanged.iter().filter(|_| new < most);
    let able = able.filter_map(|name| Some((room(name)?, *name)));
    able.min().map(|(_, name)| name)
}

fn bare(endpoints: &[Endpoint]) -> Vec<Endpoint> {
    let bare = |endpoint: &Endpoint| Endpoint {
        hints: Vec::new(),
        ..endpoint.clone()
    };
    endpoints.iter().map(bare).collect()
}

/// Rather than to delete a slice and to create another, the controller updates the one.
fn rather_update(changes: &mut Changes) {
    while !changes.create.is_empty()
        && let Some(name) = changes.delete.pop_first()
    {
        let endpoints = changes.create.pop().expect("there is one to create");
        changes.update.insert(name, endpoints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(pod: u8) -> Endpoint {
        Endpoint {
            pod: format!("p{pod}"),
            ip: Ipv4Addr::new(10, 0, 0, pod),
            node: "n1".into(),
            zone: "zone-a".into(),
            hints: vec!["zone-a".into()],
        }
    }

    fn pods(endpoints: &[Endpoint]) -> Vec<&str> {
        endpoints.iter().map(|e| e.pod.as_str()).collect()
    }

    fn stored(slices: &[&[u8]]) -> Slices {
        let slices = slices.iter().zip(1..);
        slices
            .map(|(pods, i)| (format!("s{i}"), pods.iter().map(|&p| endpoint(p)).collect()))
            .collect()
    }

    fn reconciled(slices: &[&[u8]], desired: &[u8]) -> Changes {
        let desired = desired.iter().map(|&p| bare(&[endpoint(p)]).remove(0));
        reconcile(&stored(slices), desired.collect(), 3)
    }

    #[test]
    fn nothing_is_written_where_nothing_changed() {
        assert_eq!(reconciled(&[&[1, 2]], &[1, 2]), Changes::default());
    }

    #[test]
    fn a_slice_that_lost_a_pod_gets_the_new_one_and_loses_its_hints() {
        let changes = reconciled(&[&[1, 2, 3], &[4]], &[1, 3, 4, 5]);
        assert_eq!(pods(&changes.update["s1"]), ["p1", "p3", "p5"]);
        assert_eq!(changes.update.len(), 1);
        assert!(changes.update["s1"].iter().all(|e| e.hints.is_empty()));
    }

    #[test]
    fn new_pods_go_to_the_fullest_slice_that_has_room_for_all_and_else_to_a_new_one() {
        let changes = reconciled(&[&[1], &[2, 3]], &[1, 2, 3, 4]);
        assert_eq!(pods(&changes.update["s2"]), ["p2", "p3", "p4"]);
        assert!(changes.update["s2"].iter().all(|e| e.hints.is_empty()));
        let changes = reconciled(&[&[1, 2], &[3, 4]], &[1, 2, 3, 4, 5, 6]);
        assert_eq!(pods(&changes.create[0]), ["p5", "p6"]);
    }

    #[test]
    fn an_emptied_slice_goes_or_takes_what_would_else_be_created() {
        let changes = reconciled(&[&[1], &[2]], &[2]);
        assert_eq!(changes.delete, BTreeSet::from(["s1".to_owned()]));
        let changes = reconciled(&[&[1], &[2, 3, 4]], &[2, 3, 4, 5]);
        assert_eq!(pods(&changes.update["s1"]), ["p5"]);
        assert!(changes.delete.is_empty() && changes.create.is_empty());
    }
}
