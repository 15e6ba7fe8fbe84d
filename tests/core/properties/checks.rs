//! What the hints of any Service must be like.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::cluster::{Family, Hints, Slice, World};
use super::model::{self, KUBERNETES, PortName, Spot};

/// The CPU of each zone by name.
pub type Cpus = BTreeMap<String, u64>;

/// The families that kube-proxy uses hints for.
pub const HINTED_FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// A slice is hinted for counted zones on all of its ready endpoints, and then on the others too, or not at all. One that is
/// not ready names only zones that ready ones name behind every port.
pub fn check_completeness(world: &World, hints_of_all: &Hints, cpus: &Cpus) -> TestCaseResult {
    let slices = world.slices.iter().zip(hints_of_all);
    for (slice, hints) in slices.filter(|(slice, _)| slice.family != Family::Fqdn) {
        prop_assert_eq!(hints.len(), slice.endpoints.len());
        let mut missing = false;
        for (endpoint, hint) in slice.endpoints.iter().zip(hints) {
            let zone_counts = hint.as_ref().is_none_or(|zone| cpus.contains_key(zone));
            prop_assert!(
                zone_counts,
                "{}: {} for {:?}",
                slice.name,
                endpoint.address,
                hint
            );
            missing |= endpoint.is_ready() && hint.is_none();
        }
        let named = named_behind_ports(world, hints_of_all, slice);
        let not_ready = slice.endpoints.iter().zip(hints);
        for (endpoint, hint) in not_ready.filter(|(endpoint, _)| !endpoint.is_ready()) {
            prop_assert!(
                hint.as_ref().is_none_or(|zone| named.contains(zone)),
                "{}: {} is not ready and has {:?}",
                slice.name,
                endpoint.address,
                hint
            );
        }
        let any = hints.iter().any(Option::is_some);
        prop_assert!(!any || !missing, "{} is hinted in part", slice.name);
        prop_assert!(
            !any || slice.ports.are_usable(),
            "{} has no usable port",
            slice.name
        );
    }
    Ok(())
}

/// The zones that ready endpoints name behind every port of a slice that has some, or behind any port where none has.
fn named_behind_ports(world: &World, hints: &Hints, slice: &Slice) -> BTreeSet<String> {
    let named = |ready: Vec<Spot>| -> BTreeSet<String> {
        let hints = ready.into_iter().filter_map(|(s, e)| hints[s][e].clone());
        hints.collect()
    };
    let behind = model::behind_each_port(world, slice.family).into_iter();
    let own = behind.filter(|(port, _)| slice.ports.usable().contains(port));
    let own = own
        .map(|(_, ready)| ready)
        .filter(|ready| !ready.is_empty());
    let behind_all = own.map(named).reduce(|one, other| &one & &other);
    behind_all.unwrap_or_else(|| named(model::behind_any_port(world, slice.family)))
}

/// Each slice with a hinted endpoint has a hint on every endpoint that is not ready, unless no zone is named behind all of
/// its ports. So it is once all slices were decided on after the others.
pub fn check_not_ready(world: &World, hints: &Hints) -> TestCaseResult {
    let slices = world.slices.iter().zip(hints);
    for (slice, own) in slices.filter(|(slice, _)| HINTED_FAMILIES.contains(&slice.family)) {
        let is_whole = own.iter().all(Option::is_some) || own.iter().all(Option::is_none);
        let named = named_behind_ports(world, hints, slice);
        prop_assert!(
            is_whole || named.is_empty(),
            "{} is hinted in part",
            slice.name
        );
    }
    Ok(())
}

/// Every endpoint that kube-proxy uses is hinted, and every zone has its minimum of the endpoints behind all ports and
/// of those behind each.
pub fn check_guarantee(
    world: &World,
    hints: &Hints,
    cpus: &Cpus,
    family: Family,
) -> TestCaseResult {
    let any_port = (
        ("any".to_owned(), "port".to_owned()),
        model::behind_any_port(world, family),
    );
    let ports = model::behind_each_port(world, family).into_iter();
    check_ports(world, hints, cpus, ports.chain([any_port]))
}

/// The same of the endpoints behind some ports.
pub fn check_ports(
    world: &World,
    hints: &Hints,
    cpus: &Cpus,
    ports: impl IntoIterator<Item = (PortName, Vec<Spot>)>,
) -> TestCaseResult {
    let numbers: BTreeMap<&String, usize> = cpus.keys().zip(0..).collect();
    let cpus: Vec<u64> = cpus.values().copied().collect();
    for (port, endpoints) in ports {
        let mut counts = vec![0; cpus.len()];
        for (slice, endpoint) in endpoints {
            let hint = hints[slice][endpoint].as_ref();
            prop_assert!(
                hint.is_some(),
                "{:?}: no hint on {:?}",
                port,
                world.slices[slice].endpoints[endpoint]
            );
            counts[numbers[hint.expect("it is there")]] += 1;
        }
        let below = model::zones_below_minimum(&cpus, &counts, KUBERNETES);
        prop_assert!(
            below.is_empty(),
            "{:?}: {:?} leaves {:?} short",
            port,
            counts,
            below
        );
    }
    Ok(())
}

/// Behind each port of a slice whose endpoints are all hinted as stored, every zone has its minimum: kube-proxy follows
/// these hints and ignores others.
pub fn check_followed_hints(world: &World, slice: usize) -> TestCaseResult {
    let cpus = model::capacity(world).unwrap_or_default();
    let numbers: BTreeMap<&String, usize> = cpus.keys().zip(0..).collect();
    let cpus: Vec<u64> = cpus.values().copied().collect();
    let decided = &world.slices[slice];
    let ports = decided.ports.usable();
    let behind = model::behind_each_port(world, decided.family);
    for (port, endpoints) in behind.into_iter().filter(|(port, _)| ports.contains(port)) {
        let hints = endpoints
            .iter()
            .map(|&(s, e)| world.slices[s].endpoints[e].hint.as_ref());
        let Some(hints) = hints.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let mut counts = vec![0; cpus.len()];
        for zone in hints.iter().filter_map(|zone| numbers.get(zone)) {
            counts[*zone] += 1;
        }
        let minima = model::minima(&cpus, hints.len(), KUBERNETES);
        prop_assert!(
            counts
                .iter()
                .zip(&minima)
                .all(|(&count, &minimum)| count as u128 >= minimum),
            "{} breaks {:?}: {:?} of {:?}",
            decided.name,
            port,
            counts,
            minima
        );
    }
    Ok(())
}
