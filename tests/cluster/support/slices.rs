//! What slices say, and what they must say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::objects::ZONES;

/// All endpoints of some slices.
pub fn endpoints(slices: &[EndpointSlice]) -> impl Iterator<Item = &Endpoint> {
    slices.iter().flat_map(|slice| &slice.endpoints)
}

/// Whether kube-proxy takes an endpoint for ready.
#[must_use]
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint
        .conditions
        .as_ref()
        .and_then(|conditions| conditions.ready)
        .unwrap_or(true)
}

/// How many ready endpoints there are, copies included.
#[must_use]
pub fn ready_count(slices: &[EndpointSlice]) -> usize {
    endpoints(slices)
        .filter(|endpoint| is_ready(endpoint))
        .count()
}

/// The zones that an endpoint is hinted for.
#[must_use]
pub fn zone_hints(endpoint: &Endpoint) -> Vec<&str> {
    let zones = endpoint
        .hints
        .as_ref()
        .and_then(|hints| hints.for_zones.as_deref());
    zones
        .unwrap_or_default()
        .iter()
        .map(|zone| zone.name.as_str())
        .collect()
}

/// The nodes that an endpoint is hinted for.
#[must_use]
pub fn node_hints(endpoint: &Endpoint) -> Vec<&str> {
    let nodes = endpoint
        .hints
        .as_ref()
        .and_then(|hints| hints.for_nodes.as_deref());
    nodes
        .unwrap_or_default()
        .iter()
        .map(|node| node.name.as_str())
        .collect()
}

/// How many addresses are hinted for each zone, if all is as a plan of Auto must be: every ready endpoint has one zone
/// hint and no node hint, copies of an address have the same, and endpoints that are not ready name only zones that ready
/// ones name.
pub fn hinted(slices: &[EndpointSlice]) -> Result<[usize; 3], String> {
    let mut zone_of: BTreeMap<&str, &str> = BTreeMap::new();
    let mut not_ready: Vec<(&str, &str)> = Vec::new();
    for endpoint in endpoints(slices) {
        let address = endpoint.addresses[0].as_str();
        let zones = zone_hints(endpoint);
        match (is_ready(endpoint), zones.as_slice()) {
            (false, zones) => not_ready.extend(zones.iter().map(|zone| (address, *zone))),
            (true, [zone]) if ZONES.contains(zone) => {
                if zone_of
                    .insert(address, zone)
                    .is_some_and(|before| before != *zone)
                {
                    return Err(format!("{address} is hinted for two zones"));
                }
            }
            (true, zones) => return Err(format!("{address} is ready and hinted for {zones:?}")),
        }
        if !node_hints(endpoint).is_empty() {
            return Err(format!("{address} has a node hint"));
        }
    }
    let is_named = |zone: &str| zone_of.values().any(|named| *named == zone);
    if let Some((address, zone)) = not_ready.into_iter().find(|(_, zone)| !is_named(zone)) {
        return Err(format!("{address} is not ready and alone names {zone}"));
    }
    Ok(ZONES.map(|zone| zone_of.values().filter(|hinted| **hinted == zone).count()))
}

/// The guarantee: `hinted`, and every zone with its minimum, which is `ceil(share * N / 1.2)`.
pub fn guaranteed(slices: &[EndpointSlice], cpus: [u32; 3]) -> Result<[usize; 3], String> {
    let counts = hinted(slices)?;
    let cpus = cpus.map(|cpus| cpus as usize);
    let (endpoints, total): (usize, usize) = (counts.iter().sum(), cpus.iter().sum());
    let minimum = cpus.map(|cpus| (10 * cpus * endpoints).div_ceil(12 * total));
    if (0..3).all(|zone| counts[zone] >= minimum[zone]) {
        return Ok(counts);
    }
    Err(format!("hinted {counts:?}, which is below {minimum:?}"))
}

/// Nothing is hinted.
pub fn unhinted(slices: &[EndpointSlice]) -> Result<(), String> {
    match endpoints(slices).find(|endpoint| endpoint.hints.is_some()) {
        Some(endpoint) => Err(format!("{} has hints", endpoint.addresses[0])),
        None => Ok(()),
    }
}

/// Fails unless the slices are hinted as Auto must, so many for each zone.
pub fn assert_hinted(slices: &[EndpointSlice], counts: [usize; 3]) {
    assert_eq!(hinted(slices), Ok(counts), "\n{}", describe(slices));
}

/// Fails unless the slices are hinted with the guarantee, for zones of so many CPUs.
pub fn assert_guaranteed(slices: &[EndpointSlice], cpus: [u32; 3]) {
    if let Err(fault) = guaranteed(slices, cpus) {
        panic!("{fault}\n{}", describe(slices));
    }
}

/// Fails if anything is hinted.
pub fn assert_unhinted(slices: &[EndpointSlice]) {
    assert_eq!(unhinted(slices), Ok(()), "\n{}", describe(slices));
}

/// For [`Scene::touch_until`](super::scene::Scene::touch_until): hinted as Auto must, so many for each zone.
pub fn exactly(counts: [usize; 3]) -> impl Fn(&[EndpointSlice]) -> Result<(), String> {
    move |slices| match hinted(slices)? {
        found if found == counts => Ok(()),
        found => Err(format!("hinted {found:?} instead of {counts:?}")),
    }
}

/// The name of a slice.
#[must_use]
pub fn name_of(slice: &EndpointSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

/// The resourceVersion of a slice.
#[must_use]
pub fn version_of(slice: &EndpointSlice) -> &str {
    slice
        .metadata
        .resource_version
        .as_deref()
        .unwrap_or_default()
}

/// Slices for people.
#[must_use]
pub fn describe(slices: &[EndpointSlice]) -> String {
    let mut text = String::new();
    for slice in slices {
        let (name, version) = (name_of(slice), version_of(slice));
        let ports: Vec<_> = slice
            .ports
            .iter()
            .flatten()
            .map(|port| (&port.name, port.port))
            .collect();
        let _ = writeln!(
            text,
            "  {name} {} version {version} ports {ports:?}",
            slice.address_type
        );
        let annotations = slice.metadata.annotations.clone().unwrap_or_default();
        let _ = writeln!(text, "    annotations {annotations:?}");
        for endpoint in &slice.endpoints {
            let ready = if is_ready(endpoint) {
                "ready"
            } else {
                "not ready"
            };
            let (zone, node) = (endpoint.zone.as_deref(), endpoint.node_name.as_deref());
            let (zones, nodes) = (zone_hints(endpoint), node_hints(endpoint));
            let _ = writeln!(
                text,
                "    {} {ready} in {zone:?} on {node:?}: {zones:?} {nodes:?}",
                endpoint.addresses[0]
            );
        }
    }
    text
}
