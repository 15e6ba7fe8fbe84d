//! Scenes about the CPU of zones and the nodes that it is counted from.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::{EQUAL, UNEVEN_PODS};
use crate::support::objects::{UNMANAGED, deployment, node};
use crate::support::scene::Scene;
use crate::support::slices::{
    assert_guaranteed, assert_hinted, assert_unhinted, endpoints, ready_count,
};

/// A network for the pods of a node that is there for one scene.
const NETWORK: [&str; 3] = ["10.200.0.0/16", "10.201.0.0/16", "10.202.0.0/16"];

fn no_zone() -> Value {
    json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}})
}

pub async fn equal_zones(scene: &Scene<'_>) {
    scene.auto("web").await;
    let before = scene.answers("Hints", "");
    scene.pods("web", &UNEVEN_PODS).await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    assert!(scene.answers("Hints", "") > before);
    scene.logged("web", "Hints", "").await;
    assert_hinted(&scene.rewrite("web", None).await, [3, 3, 3]);
}

pub async fn uneven_zones(scene: &Scene<'_>) {
    let big = node("big-a", "zone-a", 8, &NETWORK[..1], &[]);
    scene.world.add_node(&big).await;
    scene.world.capacity_is([12, 4, 4]).await;
    scene.auto("web").await;
    scene.create(&deployment("web", 10)).await;
    assert_guaranteed(&scene.slices_with_ready("web", 10).await, [12, 4, 4]);
    assert_hinted(&scene.rewrite("web", None).await, [6, 2, 2]);
}

pub async fn fewer_endpoints_than_zones(scene: &Scene<'_>) {
    scene.auto("web").await;
    scene.create(&deployment("web", 6)).await;
    assert_hinted(&scene.slices_with_ready("web", 6).await, [2, 2, 2]);
    let two = json!({"spec": {"replicas": 2}});
    scene.patch::<Deployment>("web", &two).await;
    let two = |slices: &[EndpointSlice]| endpoints(slices).count() == 2 && ready_count(slices) == 2;
    assert_unhinted(&scene.slices_once("web", "two endpoints", two).await);
    let reason = "InsufficientNumberOfEndpoints";
    let told = scene.logged("web", "Strip", reason).await.message;
    assert!(told.contains("2 ready endpoints for 3 zones"), "{told}");
    assert_unhinted(&scene.rewrite("web", Some("zone-a")).await);
}

pub async fn node_without_zone(scene: &Scene<'_>) {
    scene.auto("web").await;
    scene
        .pods("web", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    assert_hinted(&scene.slices_with_ready("web", 6).await, [2, 2, 2]);

    let stray = node("stray", "", 4, &NETWORK[..1], &[no_zone()]);
    scene.world.add_node(&stray).await;
    scene.world.knows_nodes(7).await;
    assert_unhinted(&scene.rewrite("web", Some("zone-a")).await);
    let told = scene.logged("web", "Strip", "InsufficientNodeInfo").await;
    let named = "ode stray has no label topology.kubernetes.io/zone";
    assert!(told.message.contains(named), "{}", told.message);

    scene.world.remove_added_nodes().await;
    assert_hinted(&scene.rewrite("web", None).await, [2, 2, 2]);
}

pub async fn nodes_left_out(scene: &Scene<'_>) {
    let world = scene.world;
    let role = |name: &str| {
        let label = format!("node-role.kubernetes.io/{name}");
        json!({"metadata": {"labels": {label: ""}}})
    };
    let not_ready = json!({
        "metadata": {"labels": {UNMANAGED: ""}},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    let extra = [
        (
            "control-plane",
            "zone-a",
            vec![role("control-plane"), no_zone()],
        ),
        ("master", "zone-b", vec![role("master")]),
        ("lost", "zone-c", vec![not_ready]),
    ];
    for ((name, zone, changes), network) in extra.into_iter().zip(NETWORK) {
        let large = node(name, zone, 64, &[network], &changes);
        world.add_node(&large).await;
    }
    world.knows_nodes(9).await;
    world.capacity_is(EQUAL).await;
    scene.auto("web").await;
    scene.pods("web", &UNEVEN_PODS).await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    assert_hinted(&scene.rewrite("web", None).await, [3, 3, 3]);
}
