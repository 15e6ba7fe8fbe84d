//! What else there is to know of nodes and Services, each in a sentence.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value;

use super::played::Played;
use super::split;
use crate::cluster::annotations::{ZONE_WEIGHTS, misplaced_on_service, own_keys};
use crate::cluster::files::{Objects, typed_slice};
use crate::cluster::key::Key;
use crate::cluster::slice::SliceRecord;
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::cluster::wire::{Endpoint, EndpointSlice, Service, Wire as _};
use crate::decide::{Verdict, is_ignored};
use crate::planner::capacity::{ZONE_LABEL, Zone};
use crate::settings::Settings;
use crate::words;

/// How many misspelt annotations of a Service are named.
const MOST_MISSPELT: usize = 10;

/// What may be wrong with nodes: cordoned ones, empty zone labels, and zones that may be one.
pub(super) fn of_nodes(nodes: &[Value], capacity: &MeasuredCapacity) -> Vec<String> {
    let zones = &capacity.capacity.zones;
    let found = [cordoned(nodes, capacity), empty_labels(nodes)];
    found.into_iter().flatten().chain(alike(zones)).collect()
}

fn name(object: &Value) -> &str {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn zone_label(node: &Value) -> Option<&str> {
    node.get("metadata")?
        .get("labels")?
        .get(ZONE_LABEL)?
        .as_str()
}

/// Names cordoned nodes that count, and how to leave out a zone in which every node is cordoned.
fn cordoned(nodes: &[Value], capacity: &MeasuredCapacity) -> Option<String> {
    let ignored = |node: &Value| {
        let mut ignored = capacity.capacity.ignored.iter();
        ignored.any(|(ignored, _)| **ignored == *name(node))
    };
    let counted: Vec<&Value> = nodes.iter().filter(|node| !ignored(node)).collect();
    let is_cordoned =
        |node: &Value| node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let cordoned = counted.iter().filter(|node| is_cordoned(node));
    let names: Vec<&str> = cordoned.map(|node| name(node)).collect();
    if names.is_empty() {
        return None;
    }
    let is_in_use = |zone: &&Zone| {
        let of_zone = |node: &&&Value| zone_label(node) == Some(&*zone.name);
        counted
            .iter()
            .filter(of_zone)
            .any(|node| !is_cordoned(node))
    };
    let zones = &capacity.capacity.zones;
    let in_use: Vec<&Zone> = zones.iter().filter(is_in_use).collect();
    let counted = format!(
        "The CPU of cordoned nodes counts: {}.",
        words::first(&names)
    );
    if in_use.is_empty() || in_use.len() == zones.len() {
        return Some(counted);
    }
    let shut = zones.iter().filter(|zone| !is_in_use(zone));
    let shut: Vec<&str> = shut.map(|zone| &*zone.name).collect();
    Some(format!(
        "{counted} To keep no endpoints for {}, annotate Services with {ZONE_WEIGHTS}: \"{}\".",
        words::first(&shut),
        weights(&in_use)
    ))
}

/// The zones with their CPU in the smallest whole numbers, as the annotation has them.
fn weights(zones: &[&Zone]) -> String {
    const MOST: u64 = 1_000_000;
    let gcd = |mut one: u64, mut other: u64| {
        while other != 0 {
            (one, other) = (other, one % other);
        }
        one
    };
    let cpus = || zones.iter().map(|zone| zone.cpu.0);
    let unit = cpus().fold(0, gcd).max(1);
    let unit = unit.max(cpus().max().unwrap_or(0).div_ceil(MOST));
    let weight = |zone: &&Zone| format!("{}={}", zone.name, (zone.cpu.0 / unit).max(1));
    let weights: Vec<String> = zones.iter().map(weight).collect();
    weights.join(",")
}

fn empty_labels(nodes: &[Value]) -> Option<String> {
    let empty = nodes.iter().filter(|node| zone_label(node) == Some(""));
    let names: Vec<&str> = empty.map(name).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    (!names.is_empty()).then(|| {
        format!(
            "The label {ZONE_LABEL} is empty on node{plural} {}, which counts as no label.",
            words::first(&names)
        )
    })
}

/// Zones whose names differ in case and punctuation alone.
fn alike(zones: &[Zone]) -> impl Iterator<Item = String> {
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for zone in zones {
        let plain = zone.name.to_lowercase().replace(['-', '_', '.'], "");
        alike.entry(plain).or_default().push(&zone.name);
    }
    let several = alike.into_values().filter(|names| names.len() > 1);
    several.map(|names| {
        format!(
            "The zones {} differ in case or punctuation alone: if they are one zone, give their nodes the same label.",
            words::first(&names)
        )
    })
}

/// What there is to know of a Service (`namespace/name`) and its slices.
pub(super) fn of_service(
    cluster: &Cluster,
    objects: &Objects,
    service: &str,
    played: &Played,
    settings: &Settings,
) -> Vec<String> {
    let slices: Vec<EndpointSlice<Box<str>>> = played.read.iter().filter_map(typed_slice).collect();
    let endpoints = || {
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.items());
        endpoints
            .filter_map(|endpoint| endpoint.get())
            .filter(|endpoint| endpoint.is_ready())
    };
    let hints = played.deciding.verdict == Verdict::Hints;
    let notes = [
        ignored(&played.before, settings),
        other_zone(cluster, endpoints()),
        hints.then(|| not_for_cilium(endpoints())).flatten(),
    ];
    let misspelt = misspelt(objects, service);
    notes.into_iter().flatten().chain(misspelt).collect()
}

fn ignored(slices: &[std::sync::Arc<SliceRecord>], settings: &Settings) -> Option<String> {
    let ignored: Vec<_> = slices
        .iter()
        .filter(|slice| is_ignored(slice, settings))
        .collect();
    if ignored.is_empty() || ignored.len() == slices.len() {
        return None;
    }
    let mut managers: Vec<&str> = ignored
        .iter()
        .filter_map(|slice| slice.manager.as_str())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    let (count, them) = (
        words::count(ignored.len(), "slice"),
        if ignored.len() == 1 { "it" } else { "them" },
    );
    Some(format!(
        "These figures are for data planes that do not read the {count} of {}; kube-proxy reads {them}.",
        words::first(&managers)
    ))
}

fn other_zone<'e>(
    cluster: &Cluster,
    endpoints: impl Iterator<Item = &'e Endpoint<Box<str>>>,
) -> Option<String> {
    let differs = |endpoint: &&Endpoint<Box<str>>| {
        let zone = Key::of_present(endpoint.zone.text());
        let node = Key::of_present(endpoint.node_name.text());
        let of_node = node.and_then(|node| cluster.zone_of_node(node));
        zone.zip(of_node)
            .is_some_and(|(zone, of_node)| zone != of_node)
    };
    let differing: Vec<_> = endpoints.filter(differs).collect();
    let first = differing.first()?;
    let more = match differing.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "The zone of endpoint {}{more}, {:?}, is not that of its Node {}; zonewise and kube-proxy go by the endpoint.",
        first.address().unwrap_or_default(),
        first.zone.text().unwrap_or_default(),
        first.node_name.text().unwrap_or_default()
    ))
}

fn not_for_cilium<'e>(
    mut endpoints: impl Iterator<Item = &'e Endpoint<Box<str>>>,
) -> Option<String> {
    let has_no_zone =
        |endpoint: &&Endpoint<Box<str>>| endpoint.zone.text().is_none_or(str::is_empty);
    let first = endpoints.find(has_no_zone)?;
    Some(format!(
        "Cilium follows no hint of this Service, since the ready endpoint {} has no field zone.",
        first.address().unwrap_or_default()
    ))
}

/// Annotations of the Service that look like zonewise's and do nothing.
fn misspelt(objects: &Objects, service: &str) -> Vec<String> {
    let (namespace, name) = split(service);
    let is_it = |object: &&Value| {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        text("/metadata/name") == Some(name)
            && text("/metadata/namespace").unwrap_or("default") == namespace
    };
    let object = objects.services.iter().find(is_it);
    let object = object.and_then(|object| Service::<Box<str>>::deserialize(object).ok());
    let metadata = object.as_ref().and_then(|object| object.metadata());
    let misspelt = own_keys(metadata).filter_map(misplaced_on_service);
    misspelt
        .take(MOST_MISSPELT)
        .map(|sentence| sentence[..1].to_uppercase() + &sentence[1..] + ".")
        .collect()
}
