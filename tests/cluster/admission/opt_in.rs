//! Scenes about what a Service says of hints.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use serde_json::json;

use super::UNEVEN_PODS;
use crate::support::endpoint::{With as _, uneven};
use crate::support::objects::{TOPOLOGY_MODE, mode, no_selector, service, traffic};
use crate::support::scene::Scene;
use crate::support::slices::{
    assert_hinted, assert_unhinted, describe, endpoints, node_hints, unhinted,
};
use crate::support::wait::eventually;
use crate::support::world::say;

/// Nine endpoints, all hinted for one zone: what nobody would plan.
fn all_for(zone: &str) -> Vec<Endpoint> {
    let hinted = uneven().into_iter().map(|endpoint| endpoint.hinted(zone));
    hinted.collect()
}

pub async fn prefer_same_zone(scene: &Scene<'_>) {
    let same_zone = service("web", &[traffic("PreferSameZone")]);
    scene.service(&same_zone).await;
    scene.pods("web", &UNEVEN_PODS).await;
    // The controller hints every endpoint for its own zone, which would be 4, 4 and 1.
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    scene.logged("web", "Hints", "").await;
}

pub async fn disabled(scene: &Scene<'_>) {
    let disabled = service("web", &[mode("Disabled"), no_selector()]);
    scene.service(&disabled).await;
    let stored = scene.write("by-hand", "web", &all_for("zone-a")).await;
    assert_unhinted(&[stored]);
    scene.logged("web", "Strip", "OptedOut").await;

    let disabled = service("kubernetes", &[mode("disabled"), traffic("PreferSameZone")]);
    scene.service(&disabled).await;
    let before = scene.answers("Untouched", "OptedOut");
    scene.pods("kubernetes", &UNEVEN_PODS).await;
    let slices = scene.slices_with_ready("kubernetes", 9).await;
    assert_hinted(&slices, [4, 4, 1]);
    assert!(scene.answers("Untouched", "OptedOut") > before);
}

pub async fn other_vendor(scene: &Scene<'_>) {
    let nearest = service("web", &[mode("vendor.example/nearest"), no_selector()]);
    scene.service(&nearest).await;
    let before = scene.answers("Untouched", "OtherHeuristic");
    let mut sent = all_for("zone-c");
    sent[8].hints = None;
    let stored = scene.write("theirs", "web", &sent).await;
    assert_eq!(stored.endpoints, sent);
    assert!(scene.answers("Untouched", "OtherHeuristic") > before);
}

pub async fn internal_traffic_local(scene: &Scene<'_>) {
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    let node_port = json!({"spec": {"type": "NodePort"}});
    let auto = [mode("Auto"), no_selector(), local, node_port];

    scene.service(&service("inside", &auto[..3])).await;
    let before = scene.answers("Untouched", "InternalTrafficPolicyLocal");
    for (name, sent) in [("bare", uneven()), ("hinted", all_for("zone-a"))] {
        let stored = scene.write(name, "inside", &sent).await;
        assert_eq!(stored.endpoints, sent);
    }
    assert!(scene.answers("Untouched", "InternalTrafficPolicyLocal") > before);

    scene.service(&service("outside", &auto)).await;
    let stored = scene.write("by-hand", "outside", &uneven()).await;
    assert_hinted(&[stored], [3, 3, 3]);
}

pub async fn annotation_removed(scene: &Scene<'_>) {
    scene.auto("web").await;
    scene.pods("web", &UNEVEN_PODS).await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    let nothing_asked = json!({"metadata": {"annotations": {TOPOLOGY_MODE: null}}});
    scene.patch::<Service>("web", &nothing_asked).await;
    let stripped = stripped_by_controller(scene, "web").await;
    assert_unhinted(&[scene.touch(&stripped[0]).await]);
    scene.logged("web", "Untouched", "NotOptedIn").await;
    scene.pods("web", &[("node-c", 1)]).await;
    assert_unhinted(&scene.slices_with_ready("web", 10).await);
}

/// The controller may strip before zonewise's watch has told of the Service's change, and the hints come back. They go
/// with its next sync.
async fn stripped_by_controller(scene: &Scene<'_>, name: &str) -> Vec<EndpointSlice> {
    const A_WHILE: Duration = Duration::from_secs(1);
    let bare = |slices: &[EndpointSlice]| unhinted(slices).is_ok();
    let mut nudges = 0;
    let slices = eventually("the controller strips", async || {
        let slices = scene.slices_once_within(A_WHILE, name, bare).await;
        if slices.is_err() {
            nudges += 1;
            scene.nudge_service(name, nudges).await;
        }
        slices.map_err(|slices| describe(&slices))
    })
    .await;
    if nudges > 0 {
        say(&format!(
            "         the controller was first; {nudges} more syncs"
        ));
    }
    slices
}

pub async fn node_hints_beside_zone_hints(scene: &Scene<'_>) {
    scene.auto_by_hand("web").await;
    let both = |endpoint: Endpoint| endpoint.hinted_for_node("node-a");
    let sent: Vec<Endpoint> = all_for("zone-a").into_iter().map(both).collect();
    let stored = scene.write("by-hand", "web", &sent).await;
    assert_hinted(&[stored], [3, 3, 3]);

    // Node hints that Kubernetes was asked for stay.
    let same_node = service("near", &[traffic("PreferSameNode")]);
    scene.service(&same_node).await;
    let before = scene.answers("Untouched", "PreferSameNode");
    scene.pods("near", &UNEVEN_PODS).await;
    let slices = scene.slices_with_ready("near", 9).await;
    let for_its_node = |endpoint: &Endpoint| {
        let node = endpoint.node_name.as_deref().unwrap_or_default();
        node_hints(endpoint) == [node]
    };
    assert!(
        endpoints(&slices).all(for_its_node),
        "{}",
        describe(&slices)
    );
    assert!(scene.answers("Untouched", "PreferSameNode") > before);
}
