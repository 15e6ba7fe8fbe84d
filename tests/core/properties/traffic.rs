//! What kube-proxy does with any hints, against what Kubernetes says in words.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use zonewise::planner::kube_proxy::{self, ClusterBecause, Mode, Naming, ReadyEndpoint, Traffic};

use super::model;
use crate::for_all::for_all;

#[test]
fn the_mode_of_kube_proxy_tells_which_endpoints_it_uses_and_why() {
    let hints = || btree_set(0u8..4, 0..=3);
    // Half of the cases have no node hints, as nearly all clusters.
    let nodes = || prop_oneof![Just(BTreeSet::new()), btree_set(0u8..4, 1..=3)];
    let endpoints = prop_oneof![
        vec((Just(BTreeSet::new()), hints()), 0..8),
        vec((nodes(), hints()), 0..4)
    ];
    for_all(
        20_000,
        (endpoints, 0u8..4, 0u8..4),
        |(endpoints, node, zone)| {
            let naming = |names: &BTreeSet<u8>, this| match names {
                names if names.is_empty() => Naming::Nothing,
                names if names.contains(&this) => Naming::This,
                _ => Naming::Others,
            };
            let seen = |(nodes, zones): &(BTreeSet<u8>, BTreeSet<u8>)| ReadyEndpoint {
                nodes: naming(nodes, node),
                zones: naming(zones, zone),
            };
            let mode = kube_proxy::mode(endpoints.iter().map(seen));
            let on_node = endpoints.iter().all(|(nodes, _)| !nodes.is_empty())
                && endpoints.iter().any(|(nodes, _)| nodes.contains(&node));
            let bare = endpoints.iter().any(|(_, zones)| zones.is_empty());
            let named = endpoints.iter().any(|(_, zones)| zones.contains(&zone));
            let holds = match mode {
                Mode::PreferSameNode => on_node,
                Mode::PreferSameZone => !on_node && named && !bare,
                Mode::Cluster(ClusterBecause::NoReadyEndpoint) => endpoints.is_empty(),
                Mode::Cluster(ClusterBecause::EndpointWithoutHint) => !on_node && bare,
                Mode::Cluster(ClusterBecause::ZoneNotNamed) => {
                    !on_node && !named && !bare && !endpoints.is_empty()
                }
            };
            prop_assert!(holds, "{:?}", mode);
            let zones: Vec<_> = endpoints.into_iter().map(|(_, zones)| zones).collect();
            let used = model::used_in_zone(&zones, zone);
            match mode {
                Mode::PreferSameNode => {}
                Mode::PreferSameZone => {
                    prop_assert!(used.iter().all(|&e| zones[e].contains(&zone)));
                }
                Mode::Cluster(_) => prop_assert_eq!(used.len(), zones.len()),
            }
            Ok(())
        },
    );
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
            ..kube_proxy::Endpoint::default()
        };
        let traffic = Traffic::follow(&weights, &endpoints.iter().map(known).collect::<Vec<_>>());
        let (loads, in_zone) = model::traffic(&weights, &endpoints);
        prop_assert!(
            (traffic.in_zone_share.unwrap_or(0.0) - in_zone).abs() < 1e-9,
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
