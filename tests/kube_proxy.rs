//! zonewise's model of kube-proxy, judged by kube-proxy's own code: which endpoints of which slices a node uses.
//!
//! Needs the test control plane's program (`make controlplane`).

#[path = "kube_proxy/cases.rs"]
mod cases;
#[path = "kube_proxy/ours.rs"]
mod ours;
#[path = "kube_proxy/small.rs"]
mod small;
mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use zonewise::planner::kube_proxy::Mode;

use cases::{Case, PortName};
use ours::{Ours, Seen};
use support::for_all::for_all;
use support::kube_proxy::{KubeProxy, Node, Use};
use support::world::say;

const CASES: u32 = 10_000;

/// How often something came up that the cases are meant to try.
type Tally = BTreeMap<&'static str, u32>;

#[test]
fn the_model_of_kube_proxy_uses_the_endpoints_that_kube_proxy_itself_uses() {
    let (kube_proxy, tally) = (RefCell::new(KubeProxy::start()), RefCell::default());
    let started = Instant::now();
    for_all(CASES, cases::cases(), |case| {
        check(&case, &mut kube_proxy.borrow_mut(), &mut tally.borrow_mut())
    });
    let (tally, took): (Tally, _) = (tally.into_inner(), started.elapsed());
    let rate = f64::from(CASES) / took.as_secs_f64();
    say(&format!(
        "         {CASES} cases in {took:.1?}, {rate:.0} a second: {tally:?}"
    ));
    let tried = [
        "PreferSameNode",
        "PreferSameZone",
        "no endpoint is ready",
        "a ready endpoint has no zone hint",
        "no endpoint names the zone",
        "endpoints that end are used",
        "one of several mergings",
        "reported",
        "reported with node hints",
    ];
    for what in tried {
        assert!(tally.get(what) > Some(&500), "{what}: {tally:?}");
    }
}

/// Each node uses the same endpoints behind each port, whether these are merged for the port alone or for all ports, and
/// what `explain` says of a zone is what its nodes do.
fn check(case: &Case, kube_proxy: &mut KubeProxy, tally: &mut Tally) -> TestCaseResult {
    let ours = Ours::new(case);
    let mut mergings: BTreeMap<PortName, Vec<Vec<Seen>>> = BTreeMap::new();
    for theirs in kube_proxy.uses(&case.nodes, &case.slices_json()) {
        let port = (theirs.port.clone(), theirs.protocol.clone());
        let possible = mergings.entry(port.clone()).or_insert_with(|| {
            let mergings = case.mergings(&port).into_iter();
            mergings
                .map(|case| Ours::new(&case).behind_alone(&port))
                .collect()
        });
        let node = node(case, &theirs);
        check_port(&ours, &theirs, node, &port, possible, tally)?;
    }
    check_report(case, &ours, &mergings, tally)
}

fn node<'a>(case: &'a Case, theirs: &Use) -> &'a Node {
    let mut nodes = case.nodes.iter().filter(|node| node.name == theirs.node);
    nodes.next().expect("only nodes of the case are spoken of")
}

fn check_port(
    ours: &Ours,
    theirs: &Use,
    node: &Node,
    port: &PortName,
    possible: &[Vec<Seen>],
    tally: &mut Tally,
) -> TestCaseResult {
    let used = |seen: &Vec<Seen>| ours::used(seen, node, ours::mode(seen, node));
    let possible: BTreeSet<Vec<(String, i64)>> = possible.iter().map(used).collect();
    let used_by_them = ready(theirs);
    prop_assert!(
        possible.contains(&used_by_them),
        "{} uses {:?} for {:?}, the model {:?}",
        node.name,
        used_by_them,
        port,
        possible
    );
    let ways = [
        ("alone", ours.behind_alone(port)),
        ("among all", ours.behind_among_all(port)),
    ];
    for (way, seen) in &ways {
        let used = used(seen);
        prop_assert!(
            possible.contains(&used),
            "{} uses one of {:?} for {:?}, and {:?} merged {}",
            node.name,
            possible,
            port,
            used,
            way
        );
    }
    let mode = ours::mode(&ways[0].1, node);
    let ends = used_by_them.is_empty() && theirs.cluster.iter().flatten().count() > 0;
    count(tally, mode.because().unwrap_or(mode.word()), true);
    count(tally, "endpoints that end are used", ends);
    count(tally, "one of several mergings", possible.len() > 1);
    Ok(())
}

/// The ready endpoints that kube-proxy uses, in order.
fn ready(theirs: &Use) -> Vec<(String, i64)> {
    let used = theirs.cluster.iter().flatten().filter(|used| used.ready);
    let mut used: Vec<_> = used.map(|used| (used.address.clone(), used.port)).collect();
    used.sort();
    used
}

/// What a report says of each zone with capacity, where all slices have the same ports and it is clear how kube-proxy
/// merges them.
fn check_report(
    case: &Case,
    ours: &Ours,
    mergings: &BTreeMap<PortName, Vec<Vec<Seen>>>,
    tally: &mut Tally,
) -> TestCaseResult {
    let report = ours.report();
    if report.ports_differ {
        return Ok(());
    }
    for seen in mergings.values() {
        let [seen] = &seen[..] else { continue };
        if seen.is_empty() {
            continue;
        }
        prop_assert_eq!(report.ready_endpoints, seen.len());
        for zone in &report.zones {
            let in_zone = |node: &&Node| node.zone.as_deref() == Some(&*zone.name);
            for node in case.nodes.iter().filter(in_zone) {
                let is_named = seen.iter().any(|endpoint| endpoint.names(node));
                let reported = if is_named {
                    zone.mode
                } else {
                    zone.mode_elsewhere
                };
                prop_assert_eq!(
                    reported,
                    ours::mode(seen, node),
                    "reported of {}",
                    node.name
                );
                count(tally, "reported", true);
                count(
                    tally,
                    "reported with node hints",
                    zone.mode == Mode::PreferSameNode,
                );
            }
        }
    }
    Ok(())
}

fn count(tally: &mut Tally, what: &'static str, happened: bool) {
    *tally.entry(what).or_default() += u32::from(happened);
}
