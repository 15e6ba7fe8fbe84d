//! What kube-proxy does with any hints, against what Kubernetes says in words.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use zonewise::planner::kube_proxy::{self, ClusterBecause, Mode, ReadyEndpoint, Traffic};

use crate::{for_all, model};

#[test]
fn the_mode_of_kube_proxy_tells_which_endpoints_it_uses_and_why() {
    let endpoints = vec(btree_set(0u8..4, 0..=3), 0..8);
    for_all(10_000, (endpoints, 0u8..4), |(hints, zone)| {
        let seen = |zones: &BTreeSet<u8>| ReadyEndpoint {
            hinted: !zones.is_empty(),
            names_zone: zones.contains(&zone),
        };
        let mode = kube_proxy::mode(hints.iter().map(seen));
        let all: Vec<usize> = (0..hints.len()).collect();
        let naming: Vec<usize> = all
            .iter()
            .copied()
            .filter(|&e| hints[e].contains(&zone))
            .collect();
        let bare = hints.iter().any(BTreeSet::is_empty);
        let holds = match mode {
            Mode::PreferSameZone => !naming.is_empty() && !bare,
            Mode::Cluster(ClusterBecause::NoReadyEndpoint) => all.is_empty(),
            Mode::Cluster(ClusterBecause::EndpointWithoutHint) => bare,
            Mode::Cluster(ClusterBecause::ZoneNotNamed) => {
                naming.is_empty() && !bare && !all.is_empty()
            }
        };
        prop_assert!(holds, "{:?}", mode);
        let used = if mode == Mode::PreferSameZone {
            naming
        } else {
            all
        };
        prop_assert_eq!(used, model::used_in_zone(&hints, zone));
        Ok(())
    });
}

#[test]
fn traffic_is_what_each_zone_spreads_over_the_endpoints_that_it_uses() {
    let weights = vec(1u64..=64_000, 4);
    // A fifth zone has endpoints and no weight.
    let endpoints = vec((0u8..5, btree_set(0u8..4, 0..=3)), 0..12);
    for_all(10_000, (weights, endpoints), |(weights, endpoints)| {
        let known = |(zone, hints): &(u8, BTreeSet<u8>)| kube_proxy::Endpoint {
            zone: Some(usize::from(*zone)).filter(|&zone| zone < weights.len()),
            hinted: !hints.is_empty(),
            hints: hints.iter().copied().map(usize::from).collect(),
        };
        let traffic = Traffic::follow(&weights, &endpoints.iter().map(known).collect::<Vec<_>>());
        let (loads, in_zone) = model::traffic(&weights, &endpoints);
        prop_assert!(
            (traffic.in_zone_share - in_zone).abs() < 1e-9,
            "{} in zone",
            in_zone
        );
        let worst = loads.into_iter().map(|load| load - 1.0).reduce(f64::max);
        let agree = match (traffic.worst_overload, worst) {
            (Some(ours), Some(model)) => (ours - model).abs() < 1e-9,
            (ours, model) => ours == model,
        };
        prop_assert!(agree, "{:?} against {:?}", traffic.worst_overload, worst);
        Ok(())
    });
}
