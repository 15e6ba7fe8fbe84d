//! Two replicas of which one leads, until it can't: in the midst of its work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::stage::{Stage, metric_is, names, node_name};
use super::way::Way;
use crate::support::replica::Replica;
use crate::support::wait::eventually;
use crate::support::world::say;

pub async fn leaders_come_and_go() {
    let mut stage = Stage::start([3; 3]).await;
    let services = names(8);
    let way = Way::to(stage.api_port()).await;
    // So slow that a leader can be stopped while it works.
    let slow = |replica: Replica| replica.with("--drift-pace", "2");
    let first = slow(stage.replica("z-1"));
    stage.enter(&first).await;
    stage.leader(&[&first]).await;
    // The EndpointSlice controller has no part in these.
    stage.services_by_hand(&services, [7, 7, 7]).await;
    stage.is_fresh(&services, [12; 3]).await;
    is_told(&stage, &services, &[ENABLED]).await;
    let second = slow(stage.replica_by("z-2", Some(way.port)));
    stage.enter(&second).await;
    at_rest(&[&first, &second]).await;
    metric_is(&second, "zonewise_leader", &[], 0.0).await;

    let (mark, lost) = (stage.audit().writes(), node_name("zone-a", 2));
    stage.label_zone(&lost, None).await;
    has_patched(&stage, mark, "z-1").await;
    first.kill();
    let killed = Instant::now();
    stage.leader(&[&second]).await;
    let led = killed.elapsed();
    stage.is_bare(&services).await;
    say(&format!(
        "         the leader was killed: another leads after {led:.1?}, and all is mended after {:.1?}",
        killed.elapsed()
    ));
    assert_each_by_one_of_two(&stage, mark);
    is_told(&stage, &services, &[ENABLED, DISABLED]).await;

    first.start().await;
    at_rest(&[&first, &second]).await;
    metric_is(&first, "zonewise_leader", &[], 0.0).await;
    let mark = stage.audit().writes();
    stage.label_zone(&lost, Some("zone-a")).await;
    has_patched(&stage, mark, "z-2").await;
    // It hears nothing new from now on, so the API server must not ask it either.
    stage.lose(&second);
    way.cut();
    let cut = Instant::now();
    stage.leader(&[&first]).await;
    let led = cut.elapsed();
    metric_is(&second, "zonewise_leader", &[], 0.0).await;
    stage.is_fresh(&services, [12; 3]).await;
    say(&format!(
        "         the leader was cut off: another leads after {led:.1?}, and all is mended after {:.1?}",
        cut.elapsed()
    ));
    assert_each_by_one_of_two(&stage, mark);
    is_told(&stage, &services, &[ENABLED, DISABLED, ENABLED]).await;
    assert_eq!(stage.events().await[&lost].len(), 1);

    way.mend();
    at_rest(&[&first, &second]).await;
    metric_is(&first, "zonewise_leader", &[], 1.0).await;
    metric_is(&second, "zonewise_leader", &[], 0.0).await;
}

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

async fn at_rest(replicas: &[&Replica]) {
    for replica in replicas {
        metric_is(replica, "zonewise_slices_drifted", &[], 0.0).await;
        metric_is(replica, "zonewise_slices_parked", &[], 0.0).await;
    }
}

async fn has_patched(stage: &Stage, mark: usize, name: &str) {
    eventually(&format!("{name} has patched a slice"), async || {
        let patches = stage.patches_from(mark);
        let has_patched = patches.iter().any(|(by, _)| by == name);
        has_patched
            .then_some(())
            .ok_or_else(|| format!("{patches:?}"))
    })
    .await;
}

/// Every slice that was patched was patched by one replica alone, and both have patched some.
fn assert_each_by_one_of_two(stage: &Stage, mark: usize) {
    let mut patched: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (by, slice) in stage.patches_from(mark) {
        patched.entry(slice).or_default().insert(by);
    }
    assert!(patched.values().all(|by| by.len() == 1), "{patched:?}");
    let replicas: BTreeSet<_> = patched.values().flatten().collect();
    assert_eq!(replicas.len(), 2, "{patched:?}");
}

/// Waits until these are the reasons of all events on each of the Services.
async fn is_told(stage: &Stage, services: &[String], reasons: &[&str]) {
    eventually("all are told", async || {
        let events = stage.events().await;
        for service in services {
            let told = events.get(service).into_iter().flatten();
            let told: Vec<_> = told.map(|(reason, _)| reason.as_str()).collect();
            if told != reasons {
                return Err(format!("{service}: {told:?}"));
            }
        }
        Ok(())
    })
    .await;
}
