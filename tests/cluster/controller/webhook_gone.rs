//! Writes that nobody is asked about: without a webhook configuration, and without a replica.

use super::stage::{Stage, metric_is, names, number};
use crate::support::endpoint::spread;
use crate::support::objects::{mode, no_selector, service, slice};
use crate::support::wait::eventually;
use crate::support::world::say;

pub async fn the_webhook_comes_back() {
    let mut stage = Stage::start([3; 3]).await;
    let replica = stage
        .replica("z-1")
        .with("--webhook-configuration", "zonewise");
    stage.enter(&replica).await;
    stage.leader(&[&replica]).await;
    let mut services = names(6);
    stage.services(&services, [7, 7, 7], 3).await;
    let by_hand = service("by-hand", &[mode("Auto"), no_selector()]);
    stage.create_services(&[by_hand]).await;
    stage.is_fresh(&services, [12; 3]).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;
    metric_is(&replica, "zonewise_bypassed_writes_total", &[], 0.0).await;

    let bare = slice("by-hand", "by-hand", &spread("10.9.0", [4, 4, 4]), &[]);
    stage.delete_webhook(&bare).await;
    stage.add_nodes([6, 0, 0], 3).await;
    stage.create_slice(&bare).await;
    // Of the slice by hand, tried three times: the EndpointSlice controller may give the others new hints first.
    eventually("patches come to nothing", async || {
        let result = [("result", "unchanged")];
        let unchanged = number(&replica, "zonewise_drift_patches_total", &result);
        (unchanged > 2.5)
            .then_some(())
            .ok_or_else(|| format!("{unchanged}"))
    })
    .await;
    metric_is(&replica, "zonewise_bypassed_writes_total", &[], 1.0).await;
    services.push("by-hand".to_owned());
    stage.register_webhook().await;
    let took = stage.is_fresh(&services, [36, 12, 12]).await;
    say(&format!(
        "         the webhook configuration is back: fresh after {took:.1?}"
    ));
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    assert!(replica.stop().await.success());
    stage.pods("web-0", [12, 0, 0], 3).await;
    stage.has_ready("web-0", 33).await;
    stage.delete_nodes("zone-a", 3..9).await;
    let bare = slice("by-hand-2", "by-hand", &spread("10.9.1", [4, 4, 4]), &[]);
    stage.create_slice(&bare).await;
    replica.start().await;
    let took = stage.is_fresh(&services, [12; 3]).await;
    say(&format!(
        "         a replica is back: fresh after {took:.1?}"
    ));
}
