//! Whole decisions on slices none of which is hinted yet.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use zonewise::decide::{Decision, Verdict};

use super::checks::{HINTED_FAMILIES, check_completeness, check_guarantee, check_ports};
use super::cluster::{
    CLEAR_TWINS, Endpoint, Family, Twin, World, endpoint, http_slice, two_equal_nodes, worlds,
    worlds_with_changing_ports,
};
use super::model;
use crate::for_all::{for_all, is_often};

/// What stands for slices that are hinted among the reasons why others are not.
const HINTED: &str = "Hints";

/// All that random worlds come to.
const REASONS: [&str; 7] = [
    HINTED,
    "InsufficientNodeInfo",
    "InsufficientNumberOfEndpoints",
    "MinAllocationExceedsOverloadThreshold",
    "NoZoneSpecified",
    "NodesReadyInOneZoneOnly",
    "PortBelowMinimum",
];

/// Why all slices of a family were decided on as they were; nothing where it has no slice.
fn reason_for(
    world: &World,
    decisions: &[Decision],
    family: Family,
) -> Result<Option<&'static str>, TestCaseError> {
    let decided = world.slices.iter().zip(decisions);
    let of_family = decided.filter(|(slice, _)| slice.family == family);
    let mut reasons = BTreeSet::new();
    for (slice, decision) in of_family {
        let reason = decision
            .reason
            .as_ref()
            .map_or(HINTED, |reason| reason.word());
        let expected = match reason {
            HINTED => Verdict::Hints,
            "UnsupportedAddressType" => Verdict::Untouched,
            _ => Verdict::Strip,
        };
        prop_assert_eq!(decision.verdict, expected, "{}: {}", slice.name, reason);
        reasons.insert(reason);
    }
    prop_assert!(
        reasons.len() <= 1,
        "slices of one set disagree: {:?}",
        reasons
    );
    Ok(reasons.into_iter().next())
}

pub fn has_uneven_ports(world: &World, family: Family) -> bool {
    let slices = world.slices.iter().filter(|slice| slice.family == family);
    let ports: BTreeSet<_> = slices
        .map(|slice| slice.ports.usable())
        .filter(|ports| !ports.is_empty())
        .collect();
    ports.len() > 1
}

#[test]
fn slices_are_hinted_whole_and_only_where_all_and_each_port_meet_the_guarantee() {
    let reasons: RefCell<BTreeMap<&str, u32>> = RefCell::default();
    for_all(20_000, worlds(CLEAR_TWINS), |world| {
        let decisions = world.decide_each();
        let hints = world.hints_after(&decisions);
        let cpus = model::capacity(&world).unwrap_or_default();
        check_completeness(&world, &hints, &cpus)?;
        for family in HINTED_FAMILIES {
            let Some(reason) = reason_for(&world, &decisions, family)? else {
                continue;
            };
            *reasons.borrow_mut().entry(reason).or_default() += 1;
            let refusal = model::refusal(&world, family);
            match reason {
                HINTED => {
                    prop_assert_eq!(refusal, None);
                    check_guarantee(&world, &hints, &cpus, family)?;
                }
                "PortBelowMinimum" => {
                    prop_assert_eq!(refusal, None);
                    prop_assert!(
                        has_uneven_ports(&world, family),
                        "all ports have all endpoints"
                    );
                }
                _ => prop_assert_eq!(Some(reason), refusal),
            }
        }
        let reason = reason_for(&world, &decisions, Family::Fqdn)?;
        prop_assert!(
            reason.is_none_or(|reason| reason == "UnsupportedAddressType"),
            "{:?}",
            reason
        );
        Ok(())
    });
    let reasons = reasons.into_inner();
    let times = |reason: &str| reasons.get(reason).copied().unwrap_or_default();
    assert!(is_often(times(HINTED), 1000), "{reasons:?}");
    assert!(
        REASONS.into_iter().all(|r| is_often(times(r), 20)),
        "{reasons:?}"
    );
    assert!(reasons.keys().all(|r| REASONS.contains(r)), "{reasons:?}");
}

#[test]
fn each_port_meets_the_guarantee_while_the_numbers_of_ports_change() {
    let hinted: Cell<u32> = Cell::default();
    for_all(20_000, worlds_with_changing_ports(CLEAR_TWINS), |world| {
        let decisions = world.decide_each();
        let hints = world.hints_after(&decisions);
        let cpus = model::capacity(&world).unwrap_or_default();
        check_completeness(&world, &hints, &cpus)?;
        for family in HINTED_FAMILIES {
            if reason_for(&world, &decisions, family)? == Some(HINTED) {
                hinted.set(hinted.get() + 1);
                let ports = model::behind_each_port(&world, family);
                check_ports(&world, &hints, &cpus, ports)?;
            }
        }
        Ok(())
    });
    assert!(is_often(hinted.get(), 1000), "{} are hinted", hinted.get());
}

/// The hint of each ready endpoint by slice and address; copies of an address have the same in a slice.
type HintsByAddress = BTreeMap<(String, String), Option<String>>;

fn hints_by_address(world: &World) -> Result<HintsByAddress, TestCaseError> {
    let hints = world.hints_after(&world.decide_each());
    let mut by_address = HintsByAddress::new();
    for (slice, hints) in world.slices.iter().zip(hints) {
        for (endpoint, hint) in slice
            .endpoints
            .iter()
            .zip(hints)
            .filter(|(e, _)| e.is_ready())
        {
            let place = (slice.name.clone(), endpoint.address.clone());
            let before = by_address.insert(place.clone(), hint.clone());
            prop_assert!(
                before.is_none_or(|before| before == hint),
                "{:?} has two hints",
                place
            );
        }
    }
    Ok(by_address)
}

#[test]
fn no_order_of_nodes_slices_and_endpoints_shows_through() {
    for_all(
        20_000,
        (worlds(CLEAR_TWINS), any::<u64>()),
        |(world, seed)| {
            prop_assert_eq!(
                hints_by_address(&world)?,
                hints_by_address(&world.shuffled(seed))?
            );
            Ok(())
        },
    );
}

#[test]
fn no_order_shows_through_even_where_two_running_pods_have_one_address() {
    for_all(
        20_000,
        (worlds(&[Twin::Running]), any::<u64>()),
        |(world, seed)| {
            prop_assert_eq!(
                hints_by_address(&world)?,
                hints_by_address(&world.shuffled(seed))?
            );
            Ok(())
        },
    );
}

// === The smallest clusters that showed a bug ===

fn hints(slices: &[&[Endpoint]]) -> Vec<Vec<Option<String>>> {
    let slices = slices
        .iter()
        .zip(1..)
        .map(|(endpoints, i)| http_slice(i, endpoints.to_vec()))
        .collect();
    let world = World {
        nodes: two_equal_nodes(),
        slices,
    };
    world.hints_after(&world.decide_each())
}

fn in_zones(zones: &[&str]) -> Vec<Option<String>> {
    zones.iter().map(|zone| Some((*zone).to_owned())).collect()
}

#[test]
fn a_pod_that_terminates_does_not_hide_the_one_that_runs_under_its_address_in_another_slice() {
    let ended = Endpoint {
        ready: Some(false),
        terminating: true,
        ..endpoint(1, "zone-a")
    };
    let decided = hints(&[&[ended, endpoint(2, "zone-b")], &[endpoint(1, "zone-a")]]);
    assert_eq!(
        decided,
        [in_zones(&["zone-b", "zone-b"]), in_zones(&["zone-a"])]
    );
}

#[test]
fn a_pod_that_terminates_and_is_published_as_ready_has_the_hint_of_the_one_that_runs() {
    let ending = Endpoint {
        terminating: true,
        ..endpoint(1, "zone-b")
    };
    let decided = hints(&[&[ending, endpoint(2, "zone-a")], &[endpoint(1, "zone-a")]]);
    assert_eq!(
        decided,
        [in_zones(&["zone-a", "zone-b"]), in_zones(&["zone-a"])]
    );
}

#[test]
fn of_two_running_pods_under_one_address_in_one_slice_the_last_counts() {
    let pods = [
        endpoint(1, "zone-a"),
        endpoint(1, "zone-b"),
        endpoint(2, "zone-a"),
    ];
    let [first, second, other] = pods.clone();
    let last_in_b = hints(&[&pods]);
    assert_eq!(last_in_b, [in_zones(&["zone-b", "zone-b", "zone-a"])]);
    let last_in_a = hints(&[&[second, first, other]]);
    assert_eq!(last_in_a, [in_zones(&["zone-a", "zone-a", "zone-b"])]);
}
