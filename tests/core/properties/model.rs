//! What must come out, worked out a second time and in the plainest way.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Endpoint, Family, NodeState, Place, Ports, Slice, World};

/// A threshold in millionths of the average load.
pub const KUBERNETES: u32 = 200_000;

/// `ceil(cpu · endpoints / (total · (1 + threshold)))` for each zone.
pub fn minima(cpus: &[u64], endpoints: usize, millionths: u32) -> Vec<u128> {
    let total: u128 = cpus.iter().map(|&cpu| u128::from(cpu)).sum();
    let whole = total * (1_000_000 + u128::from(millionths));
    cpus.iter()
        .map(|&cpu| (u128::from(cpu) * endpoints as u128 * 1_000_000).div_ceil(whole))
        .collect()
}

/// Whether every zone can have its minimum, and an endpoint at all.
pub fn fits(cpus: &[u64], endpoints: usize, millionths: u32) -> bool {
    endpoints >= cpus.len()
        && minima(cpus, endpoints, millionths).iter().sum::<u128>() <= endpoints as u128
}

/// The zones that have too few of the endpoints that are hinted, `counts` for each zone.
pub fn zones_below_minimum(cpus: &[u64], counts: &[usize], millionths: u32) -> Vec<usize> {
    let minima = minima(cpus, counts.iter().sum(), millionths);
    (0..cpus.len())
        .filter(|&zone| (counts[zone] as u128) < minima[zone])
        .collect()
}

/// The zones where an endpoint would carry more than the average and the threshold on top: the same, said in loads.
pub fn zones_overloaded(cpus: &[u64], counts: &[usize], millionths: u32) -> Vec<usize> {
    let total: u128 = cpus.iter().map(|&cpu| u128::from(cpu)).sum();
    let endpoints = counts.iter().sum::<usize>() as u128;
    let load = |zone: usize| u128::from(cpus[zone]) * endpoints * 1_000_000;
    let ceiling = |zone: usize| total * counts[zone] as u128 * (1_000_000 + u128::from(millionths));
    (0..cpus.len())
        .filter(|&zone| load(zone) > ceiling(zone))
        .collect()
}

/// The CPU of each zone by name, or Kubernetes' word for why it can't be known.
pub fn capacity(world: &World) -> Result<BTreeMap<String, u64>, &'static str> {
    let mut zones = BTreeMap::new();
    for node in world
        .nodes
        .iter()
        .filter(|node| node.state == NodeState::Ready)
    {
        match (&node.zone, node.millicores) {
            (Some(zone), 1..) => *zones.entry(zone.clone()).or_default() += node.millicores,
            _ => return Err("InsufficientNodeInfo"),
        }
    }
    match zones.len() {
        0 => Err("InsufficientNodeInfo"),
        1 => Err("NodesReadyInOneZoneOnly"),
        _ => Ok(zones),
    }
}

/// A place of an endpoint in a world: the number of its slice and its number in there.
pub type Spot = (usize, usize);

/// Name and protocol of a port.
pub type PortName = (String, String);

fn slices_of(world: &World, family: Family) -> impl Iterator<Item = (usize, &Slice)> {
    world
        .slices
        .iter()
        .enumerate()
        .filter(move |(_, slice)| slice.family == family)
}

/// The ports of a family, each with the ready endpoints behind it as kube-proxy knows them: one for each address, and
/// a pod that runs rather than one that terminates.
pub fn behind_each_port(world: &World, family: Family) -> BTreeMap<PortName, Vec<Spot>> {
    let slices = || slices_of(world, family);
    let ports: BTreeSet<PortName> = slices()
        .flat_map(|(_, slice)| slice.ports.usable())
        .collect();
    let behind = |port: &PortName| {
        let with_port = slices().filter(|(_, slice)| slice.ports.usable().contains(port));
        merge(with_port, |ports| ports.number(port))
    };
    ports
        .into_iter()
        .map(|port| (port.clone(), behind(&port)))
        .collect()
}

/// The ready endpoints of a family behind any port.
pub fn behind_any_port(world: &World, family: Family) -> Vec<Spot> {
    let slices = slices_of(world, family);
    let http = ("http".to_owned(), "TCP".to_owned());
    merge(
        slices.filter(|(_, slice)| !slice.ports.usable().is_empty()),
        |ports| ports.number(&http),
    )
}

fn merge<'a>(
    slices: impl Iterator<Item = (usize, &'a Slice)>,
    number: impl Fn(Ports) -> Option<u16>,
) -> Vec<Spot> {
    let slices: Vec<(usize, &Slice)> = slices.collect();
    let numbers: BTreeSet<u16> = slices
        .iter()
        .filter_map(|(_, slice)| number(slice.ports))
        .collect();
    let mut merged: BTreeMap<(&str, Option<u16>), (Spot, &Endpoint)> = BTreeMap::new();
    for (s, slice) in slices {
        // An address with two numbers of a port is two endpoints.
        let number = number(slice.ports).filter(|_| numbers.len() > 1);
        for (e, endpoint) in slice.endpoints.iter().enumerate() {
            let known = merged.get(&(&*endpoint.address, number));
            // In one slice the last that runs counts; of several slices it may be any.
            let better = |(spot, known): &(Spot, &Endpoint)| {
                !endpoint.terminating && (known.terminating || spot.0 == s)
            };
            if known.is_none_or(better) {
                merged.insert((&endpoint.address, number), ((s, e), endpoint));
            }
        }
    }
    merged
        .into_values()
        .filter(|(_, endpoint)| endpoint.is_ready())
        .map(|(spot, _)| spot)
        .collect()
}

/// Why the slices of a family must be stripped, as far as that is known without a plan.
pub fn refusal(world: &World, family: Family) -> Option<&'static str> {
    let zones = match capacity(world) {
        Ok(zones) => zones,
        Err(reason) => return Some(reason),
    };
    let ready = behind_any_port(world, family);
    if ready
        .iter()
        .any(|&(s, e)| !is_placed(world, &world.slices[s].endpoints[e]))
    {
        return Some("NoZoneSpecified");
    }
    let cpus: Vec<u64> = zones.into_values().collect();
    let shortfall = |endpoints: usize| {
        if endpoints < cpus.len() {
            return Some("InsufficientNumberOfEndpoints");
        }
        (!fits(&cpus, endpoints, KUBERNETES)).then_some("MinAllocationExceedsOverloadThreshold")
    };
    let of_all = shortfall(ready.len())?;
    // Where ports differ, the first that is short is named.
    let ports = behind_each_port(world, family).into_values();
    let ports = ports.filter(|ready| !ready.is_empty());
    let of_port = ports.map(|ready| ready.len()).find_map(shortfall);
    Some(of_port.unwrap_or(of_all))
}

/// Whether an endpoint has a zone or a node with one.
fn is_placed(world: &World, endpoint: &Endpoint) -> bool {
    let node_has_zone = |name: &String| {
        world
            .nodes
            .iter()
            .any(|node| node.name == *name && node.zone.is_some())
    };
    match &endpoint.place {
        Place { zone: Some(_), .. } => true,
        Place { zone: None, node } => node.as_ref().is_some_and(node_has_zone),
    }
}

/// The endpoints that kube-proxy in `zone` uses, given the zones that each ready endpoint is hinted for: Kubernetes'
/// `CategorizeEndpoints` in words.
pub fn used_in_zone(hints: &[BTreeSet<u8>], zone: u8) -> Vec<usize> {
    let all: Vec<usize> = (0..hints.len()).collect();
    if hints.iter().any(BTreeSet::is_empty) {
        return all;
    }
    let named: Vec<usize> = all
        .iter()
        .copied()
        .filter(|&endpoint| hints[endpoint].contains(&zone))
        .collect();
    if named.is_empty() { all } else { named }
}

/// How much each endpoint gets, where 1 is the average, and the part of all traffic that stays in its zone. Endpoints
/// are given by their zone, which has traffic when it has a weight, and by the zones that they are hinted for.
pub fn traffic(weights: &[u64], endpoints: &[(u8, BTreeSet<u8>)]) -> (Vec<f64>, f64) {
    let hints: Vec<BTreeSet<u8>> = endpoints.iter().map(|(_, hints)| hints.clone()).collect();
    let total = weights.iter().sum::<u64>() as f64;
    let (mut loads, mut in_zone) = (vec![0.0; endpoints.len()], 0.0);
    for (zone, &weight) in (0u8..).zip(weights) {
        let used = used_in_zone(&hints, zone);
        for &endpoint in &used {
            let part = weight as f64 / total / used.len() as f64;
            loads[endpoint] += part * endpoints.len() as f64;
            in_zone += if endpoints[endpoint].0 == zone {
                part
            } else {
                0.0
            };
        }
    }
    (loads, in_zone)
}
