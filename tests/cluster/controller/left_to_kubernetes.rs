//! Services that only have a trafficDistribution: an upgrade from the old default, and a Namespace's annotation that is removed.

use std::time::{Duration, Instant};

use serde_json::json;

use super::stage::{Stage, metric_is};
use crate::support::endpoint::uneven;
use crate::support::objects::{TOPOLOGY_MODE, mode, no_selector, service, slice, traffic};
use crate::support::slices;
use crate::support::wait::within;
use crate::support::world::say;

const SERVICES: [&str; 2] = ["near", "close"];

pub async fn hints_do_not_outlive_the_opt_in() {
    let mut stage = Stage::start([2; 3]).await;
    let old = stage
        .replica("z-1")
        .with("--traffic-distribution", "Overlap");
    stage.enter(&old).await;
    stage.leader(&[&old]).await;
    let by_hand = service("by-hand", &[traffic("PreferSameZone"), no_selector()]);
    let services = [
        service(SERVICES[0], &[traffic("PreferSameZone")]),
        service(SERVICES[1], &[traffic("PreferClose")]),
        by_hand,
    ];
    stage.create_services(&services).await;
    stage
        .create_slice(&slice("by-hand", "by-hand", &uneven(), &[]))
        .await;
    for name in SERVICES {
        stage.pods(name, [4, 4, 1], 2).await;
    }
    are_hinted(&stage, [3, 3, 3]).await;
    slices::assert_hinted(&stage.slices("by-hand").await, [3, 3, 3]);

    // As a Deployment does: the new replica comes before the old one goes.
    let new = stage.replica("z-2").without("--traffic-distribution");
    stage.enter(&new).await;
    old.stop().await;
    let took = are_hinted(&stage, [4, 4, 1]).await;
    say(&format!(
        "         upgraded: Kubernetes' own hints after {took:.1?}"
    ));
    let left = [("decision", "Untouched"), ("reason", "LeftToKubernetes")];
    metric_is(&new, "zonewise_services", &left, 3.0).await;
    metric_is(&new, "zonewise_slices_drifted", &[], 0.0).await;

    stage.patch_namespace(&mode("zonewise.dev/Overlap")).await;
    are_hinted(&stage, [3, 3, 3]).await;
    let nothing = json!({"metadata": {"annotations": {TOPOLOGY_MODE: null}}});
    stage.patch_namespace(&nothing).await;
    let took = are_hinted(&stage, [4, 4, 1]).await;
    say(&format!(
        "         the Namespace's annotation is removed: Kubernetes' own hints after {took:.1?}"
    ));
    // Kubernetes' controller does not write this one.
    slices::assert_hinted(&stage.slices("by-hand").await, [3, 3, 3]);

    metric_is(&new, "zonewise_slices_drifted", &[], 0.0).await;
    let mark = stage.audit().writes();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.patches_from(mark), []);
    are_hinted(&stage, [4, 4, 1]).await;
}

/// Waits until both Services have so many hints for each zone. How long that took.
async fn are_hinted(stage: &Stage, counts: [usize; 3]) -> Duration {
    let started = Instant::now();
    let what = format!("both are hinted {counts:?}");
    within(Duration::from_secs(30), &what, async || {
        for name in SERVICES {
            let stored = stage.slices(name).await;
            slices::exactly(counts)(&stored).map_err(|found| format!("{name}: {found}"))?;
        }
        Ok(())
    })
    .await;
    started.elapsed()
}
