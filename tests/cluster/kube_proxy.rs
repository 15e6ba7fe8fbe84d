//! zonewise's model of kube-proxy, judged by kube-proxy's own code: which endpoints of which slices a node uses.

mod cases;
mod ceiling;
mod ours;
mod small;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use zonewise::planner::kube_proxy::Mode;
use zonewise::report::{ServiceReport, ZoneReport};

use crate::support::for_all::{for_all, is_often, scaled};
use crate::support::kube_proxy::{KubeProxy, Node, Use};
use crate::support::world::say;
use cases::{Case, PortName};
use ours::{Ours, Seen};

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
    let cases = scaled(CASES);
    let rate = f64::from(cases) / took.as_secs_f64();
    say(&format!(
        "         {cases} cases in {took:.1?}, {rate:.0} a second: {tally:?}"
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
        "reported of one of several ports",
    ];
    for what in tried {
        let times = tally.get(what).copied().unwrap_or_default();
        assert!(is_often(times, 200), "{what}: {tally:?}");
    }
}

/// Each node uses the same endpoints behind each port, and what `explain` says of a zone is what its nodes do.
fn check(case: &Case, kube_proxy: &mut KubeProxy, tally: &mut Tally) -> TestCaseResult {
    let ours = Ours::new(case);
    let mut ports: BTreeMap<PortName, Behind> = BTreeMap::new();
    for theirs in kube_proxy.uses(&case.nodes, &case.slices_json()) {
        let port = (theirs.port.clone(), theirs.protocol.clone());
        let behind = ports.entry(port).or_insert_with_key(|port| Behind {
            seen: ours.behind(port),
            merged: case
                .mergings(port)
                .iter()
                .map(|case| ours.with_slices_of(case).behind(port))
                .collect(),
        });
        check_use(&theirs, node(case, &theirs), behind, tally)?;
    }
    check_report(case, &ours.report(), ports.iter(), tally)
}

/// The ready endpoints behind a port.
struct Behind {
    /// As zonewise merges them.
    seen: Vec<Seen>,
    /// As kube-proxy may merge them.
    merged: Vec<Vec<Seen>>,
}

fn node<'a>(case: &'a Case, theirs: &Use) -> &'a Node {
    let mut nodes = case.nodes.iter().filter(|node| node.name == theirs.node);
    nodes.next().expect("only nodes of the case are spoken of")
}

fn check_use(theirs: &Use, node: &Node, behind: &Behind, tally: &mut Tally) -> TestCaseResult {
    let used = |seen: &Vec<Seen>| ours::used(seen, node, ours::mode(seen, node));
    let possible: BTreeSet<Vec<(String, i64)>> = behind.merged.iter().map(used).collect();
    let used_by_them = ready(theirs);
    prop_assert!(
        possible.contains(&used_by_them),
        "{:?} instead of {:?} in {:?}",
        used_by_them,
        possible,
        theirs
    );
    let used_by_us = used(&behind.seen);
    prop_assert!(
        possible.contains(&used_by_us),
        "zonewise merges {:?} instead of {:?} in {:?}",
        used_by_us,
        possible,
        theirs
    );
    let mode = ours::mode(&behind.seen, node);
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

/// What a report says of each zone with capacity behind each port, where it is clear how kube-proxy merges endpoints.
fn check_report<'a>(
    case: &Case,
    report: &ServiceReport,
    ports: impl Iterator<Item = (&'a PortName, &'a Behind)>,
    tally: &mut Tally,
) -> TestCaseResult {
    let is_clear = |behind: &Behind| behind.merged.len() == 1 && !behind.seen.is_empty();
    for (port, behind) in ports.filter(|(_, behind)| is_clear(behind)) {
        let (ready, zones) = figures(report, port);
        prop_assert_eq!(ready, behind.seen.len(), "behind {:?}", port);
        count(
            tally,
            "reported of one of several ports",
            report.ports_differ,
        );
        for (node, zone) in nodes_with_zones(case, zones) {
            let is_named = behind.seen.iter().any(|endpoint| endpoint.names(node));
            let reported = if is_named {
                zone.mode
            } else {
                zone.mode_elsewhere
            };
            let mode = ours::mode(&behind.seen, node);
            prop_assert_eq!(reported, mode, "reported of {}", node.name);
            count(tally, "reported", true);
            count(
                tally,
                "reported with node hints",
                mode == Mode::PreferSameNode,
            );
        }
    }
    Ok(())
}

/// Ready endpoints behind a port and what is reported of its zones.
fn figures<'a>(
    report: &'a ServiceReport,
    (name, protocol): &PortName,
) -> (usize, &'a [ZoneReport]) {
    if !report.ports_differ {
        return (report.ready_endpoints, &report.zones);
    }
    let label = match &**protocol {
        "TCP" => name.clone(),
        other => format!("{name}/{other}"),
    };
    let mut ports = report.ports.iter();
    let ports = ports.find(|ports| ports.ports.contains(&label));
    let ports = ports.expect("every port is reported");
    (ports.ready_endpoints, &ports.zones)
}

fn nodes_with_zones<'a>(
    case: &'a Case,
    zones: &'a [ZoneReport],
) -> impl Iterator<Item = (&'a Node, &'a ZoneReport)> {
    let zone = |node: &Node| {
        let mut zones = zones.iter();
        zones.find(|zone| node.zone.as_deref() == Some(&*zone.name))
    };
    let nodes = case.nodes.iter();
    nodes.filter_map(move |node| Some((node, zone(node)?)))
}

fn count(tally: &mut Tally, what: &'static str, happened: bool) {
    *tally.entry(what).or_default() += u32::from(happened);
}
