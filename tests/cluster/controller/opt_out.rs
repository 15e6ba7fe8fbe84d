//! A Service that opts out by name, in again, and then says nothing; a Namespace that asks for it, and no more.

use std::time::Duration;

use serde_json::json;

use super::ledger::Ledger;
use super::stage::{Stage, metric_is};
use crate::support::endpoint::spread;
use crate::support::objects::{TOPOLOGY_MODE, mode, slice};
use crate::support::wait::eventually;
use crate::support::world::say;

pub async fn an_opt_out_strips_all() {
    let mut stage = Stage::start([2; 3]).await;
    let replica = stage.replica("z-1");
    stage.enter(&replica).await;
    stage.leader(&[&replica]).await;
    let services = ["web".to_owned()];
    stage.services(&services, [3, 3, 3], 2).await;
    let by_hand = slice("by-hand", "web", &spread("10.9.0", [2, 2, 2]), &[]);
    stage.create_slice(&by_hand).await;
    stage.is_fresh(&services, [8; 3]).await;
    let hinted = [("decision", "Hints")];
    metric_is(&replica, "zonewise_services", &hinted, 1.0).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    let ledger = Ledger::open(&stage.client).await;
    stage.patch_service("web", &mode("Disabled")).await;
    let took = stage.is_bare(&services).await;
    say(&format!(
        "         Disabled: stripped after {took:.1?}, with {} versions stored",
        ledger.mark()
    ));
    eventually("both slices are stored without", async || {
        let changed = ledger.hints_changed_since(0);
        (changed.len() == 2)
            .then_some(())
            .ok_or_else(|| format!("{changed:?}"))
    })
    .await;
    let opted_out = [("decision", "Strip"), ("reason", "OptedOut")];
    metric_is(&replica, "zonewise_services", &opted_out, 1.0).await;
    metric_is(&replica, "zonewise_services", &hinted, 0.0).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    let (mark, stored) = (stage.audit().writes(), ledger.mark());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.patches_from(mark), []);
    assert_eq!(ledger.since(stored).len(), 0);
    let events = stage.events().await;
    let told = events.get("web").map_or(0, Vec::len);
    assert!(told <= 1, "an opt-out is no news: {events:?}");

    stage.patch_service("web", &mode("Auto")).await;
    stage.is_fresh(&services, [8; 3]).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;
    eventually("that hints are back is told once", async || {
        let events = stage.events().await;
        let told = events.get("web").into_iter().flatten().skip(told);
        let told: Vec<_> = told.map(|(reason, _)| reason.as_str()).collect();
        (told == ["TopologyAwareHintsEnabled"])
            .then_some(())
            .ok_or_else(|| format!("{told:?}"))
    })
    .await;
    let nothing = json!({"metadata": {"annotations": {TOPOLOGY_MODE: null}}});
    stage.patch_service("web", &nothing).await;
    let took = stage.is_bare(&services).await;
    say(&format!(
        "         nothing is asked for any more: stripped after {took:.1?}"
    ));
    stage.patch_namespace(&mode("Auto")).await;
    stage.is_fresh(&services, [8; 3]).await;
    stage.patch_namespace(&nothing).await;
    let took = stage.is_bare(&services).await;
    say(&format!(
        "         nor by the Namespace: stripped after {took:.1?}"
    ));
    let not_asked = [("decision", "Untouched"), ("reason", "NotOptedIn")];
    metric_is(&replica, "zonewise_services", &not_asked, 1.0).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;
    assert_eq!(stage.complaints(), Vec::<String>::new());
}
