//! Nodes without a zone, nodes that come, and nodes that go all at once.

use std::time::Duration;

use serde_json::json;

use super::ledger::Ledger;
use super::stage::{Stage, assert_in_time, metric_is, names, node_name};
use crate::support::objects::{self, UNMANAGED, ZONES};
use crate::support::wait::eventually;
use crate::support::world::say;

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

pub async fn a_node_loses_its_zone() {
    let mut stage = Stage::start([4; 3]).await;
    let replica = stage.replica("z-1").with("--node-grace", "2s");
    stage.enter(&replica).await;
    stage.leader(&[&replica]).await;
    let services = names(12);
    // Those without pods have no other writer than drift.
    stage.services(&services[..6], [4, 3, 2], 3).await;
    stage.services_by_hand(&services[6..], [4, 3, 2]).await;
    stage.is_fresh(&services, [16; 3]).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;
    told_last_of(&stage, &services, ENABLED).await;
    let before = stage.events().await;

    // No pod of the Services is on this node: they know the zones of all their endpoints.
    let lost = node_name("zone-a", 3);
    stage.label_zone(&lost, None).await;
    // From when the node no longer counts, as it would have been left out for its grace.
    metric_is(
        &replica,
        "zonewise_nodes",
        &[("state", "Insufficient")],
        1.0,
    )
    .await;
    let took = stage.is_bare(&services).await;
    say(&format!(
        "         {lost} lost its zone: all stripped after {took:.1?}"
    ));
    assert_in_time("stripping", took, Duration::from_secs(5));
    told_last_of(&stage, &services, DISABLED).await;
    let stripped = [("decision", "Strip"), ("reason", "InsufficientNodeInfo")];
    metric_is(&replica, "zonewise_services", &stripped, 12.0).await;

    stage.label_zone(&lost, Some("zone-a")).await;
    let took = stage.is_fresh(&services, [16; 3]).await;
    say(&format!(
        "         and it has one again: all hinted after {took:.1?}"
    ));
    told_last_of(&stage, &services, ENABLED).await;

    let events = stage.events().await;
    let on_node = &events[&lost];
    assert_eq!(on_node.len(), 1, "{on_node:?}");
    assert_eq!(on_node[0].0, "InsufficientNodeInfo");
    for service in &services {
        // A Service may have been told of before it had enough endpoints.
        let told = &events[service][before.get(service).map_or(0, Vec::len)..];
        let reasons: Vec<_> = told.iter().map(|(reason, _)| reason.as_str()).collect();
        assert_eq!(reasons, [DISABLED, ENABLED], "{service}: {told:?}");
        assert!(told[0].1.contains(&lost), "{told:?}");
    }
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

/// Waits until this was the last thing told of each of these Services.
async fn told_last_of(stage: &Stage, services: &[String], reason: &str) {
    eventually(&format!("{reason} is told of all"), async || {
        let events = stage.events().await;
        let last = |service: &String| Some(&events.get(service)?.last()?.0);
        let missing = services
            .iter()
            .find(|s| last(s).is_none_or(|r| r != reason));
        missing.map_or(Ok(()), |missing| {
            Err(format!("{missing}: {:?}", events.get(missing)))
        })
    })
    .await;
}

pub async fn new_nodes_and_a_freeze() {
    let mut stage = Stage::start([4, 4, 10]).await;
    // Long enough for all nodes to become NotReady, on a busy machine too.
    let replica = stage
        .replica("z-1")
        .with("--node-grace", "30s")
        .with("--drift-gather", "4s");
    stage.enter(&replica).await;
    stage.leader(&[&replica]).await;
    let services = names(6);
    // The nodes that have pods stay Ready.
    stage.services(&services, [4, 4, 10], 1).await;
    stage.is_fresh(&services, [16, 16, 40]).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    let ledger = Ledger::open(&stage.client).await;
    let mark = stage.audit().writes();
    twenty_nodes_that_get_their_zones_late(&stage).await;
    metric_is(&replica, "zonewise_nodes", &[("state", "Counted")], 38.0).await;
    let patched = stage.patches_from(mark);
    assert_eq!(patched, [], "nothing is to be mended");
    assert!(ledger.hints_changed_since(0).is_empty());

    let gone: Vec<String> = (1..4)
        .flat_map(|number| ["zone-a", "zone-b"].map(|zone| node_name(zone, number)))
        .chain((1..4).map(|number| node_name("zone-c", number)))
        .chain((0..20).map(|number| format!("new-{number}")))
        .collect();
    ready(&stage, &gone, "False").await;
    metric_is(&replica, "zonewise_frozen", &[], 1.0).await;
    // Longer than changes of capacity are gathered.
    tokio::time::sleep(Duration::from_secs(8)).await;
    metric_is(&replica, "zonewise_frozen", &[], 1.0).await;
    ready(&stage, &gone, "True").await;
    metric_is(&replica, "zonewise_frozen", &[], 0.0).await;
    stage.is_fresh(&services, [36, 32, 84]).await;
    assert_eq!(stage.patches_from(mark), []);
    assert!(ledger.hints_changed_since(0).is_empty());
    let events = stage.events().await;
    assert!(
        events.keys().all(|object| services.contains(object)),
        "{events:?}"
    );
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

/// Nodes that are Ready for three seconds before their cloud gives them a zone; in proportion to those that are there.
async fn twenty_nodes_that_get_their_zones_late(stage: &Stage) {
    let name = |number: usize| format!("new-{number}");
    let nodes: Vec<_> = (0..20)
        .map(|number| {
            let network = format!("10.9.{number}.0/24");
            let no_zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
            objects::node(&name(number), "", 4, &[&network], &[no_zone])
        })
        .collect();
    stage.create_nodes(&nodes).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for number in 0..20 {
        // 5, 4 and 11.
        let zone = match number {
            0..5 => ZONES[0],
            5..9 => ZONES[1],
            _ => ZONES[2],
        };
        stage.label_zone(&name(number), Some(zone)).await;
    }
}

/// Has these nodes say that they are Ready or not, and KWOK say nothing for them.
async fn ready(stage: &Stage, nodes: &[String], status: &str) {
    for node in nodes {
        let unmanaged = json!({"metadata": {"labels": {UNMANAGED: "true"}}});
        stage.patch_node(node, &unmanaged).await;
        stage.node_is_ready(node, status).await;
    }
}
