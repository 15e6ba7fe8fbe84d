//! Scenes about which endpoints make a set, and what they say of themselves.

use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::EQUAL;
use crate::support::endpoint::{self, With as _, spread, uneven};
use crate::support::objects::{from_json, mode, no_selector, service, slice};
use crate::support::scene::Scene;
use crate::support::slices::{
    assert_guaranteed, assert_hinted, assert_unhinted, describe, endpoints, exactly, hinted,
    is_ready, name_of, ready_count, unhinted,
};
use crate::support::wait::eventually;

pub async fn three_slices(scene: &Scene<'_>) {
    scene.auto("web").await;
    scene
        .pods("web", &[("node-a", 100), ("node-b", 100), ("node-c", 50)])
        .await;
    let slices = scene.slices_with_ready("web", 250).await;
    assert_eq!(slices.len(), 3, "{}", describe(&slices));
    assert_guaranteed(&slices, EQUAL);
    let settled = scene.rewrite("web", None).await;
    assert_guaranteed(&settled, EQUAL);
    // What meets the guarantee stays: slices that came together are not evened out endpoint by endpoint.
    let again = scene.rewrite("web", None).await;
    assert_eq!(hinted(&again).unwrap(), hinted(&settled).unwrap());
    one_after_the_other(scene).await;
}

/// Slices that come when those before them are known have exact counts, and keep them.
async fn one_after_the_other(scene: &Scene<'_>) {
    scene.auto_by_hand("turns").await;
    let mut written = Vec::new();
    for (name, network, zones, each) in [
        ("turns-1", "10.9.1", [15, 9, 6], 10),
        ("turns-2", "10.9.2", [6, 15, 9], 20),
        ("turns-3", "10.9.3", [9, 6, 15], 30),
    ] {
        let slice = scene.write(name, "turns", &spread(network, zones)).await;
        scene.is_known(&slice, "turns").await;
        written.push(slice);
        assert_hinted(&written, [each; 3]);
    }
    let again = scene.rewrite("turns", None).await;
    assert_eq!(hinted(&again).unwrap(), hinted(&written).unwrap());
}

pub async fn dual_stack(scene: &Scene<'_>) {
    let both = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    scene.service(&service("web", &[mode("Auto"), both])).await;
    // Pods on a dual node have an address of each type, the others none of IPv6.
    let dual = [("dual-a", 3), ("dual-b", 1), ("dual-c", 1)];
    scene.pods("web", &dual).await;
    scene.pods("web", &[("node-a", 1), ("node-b", 3)]).await;
    assert_hinted(&ready_of_type(scene, "IPv4", 9).await, [3, 3, 3]);
    assert_unhinted(&ready_of_type(scene, "IPv6", 5).await);
    let reason = "MinAllocationExceedsOverloadThreshold";
    scene.logged_of_type("web", "IPv6", "Strip", reason).await;

    scene.pods("web", &[("dual-c", 1)]).await;
    assert_hinted(&ready_of_type(scene, "IPv6", 6).await, [2, 2, 2]);
    assert_guaranteed(&ready_of_type(scene, "IPv4", 10).await, EQUAL);
    for slice in scene.rewrite("web", None).await {
        assert_guaranteed(&[slice], EQUAL);
    }
}

async fn ready_of_type(scene: &Scene<'_>, address_type: &str, count: usize) -> Vec<EndpointSlice> {
    eventually(
        &format!("{count} of {address_type} are ready"),
        async || {
            let mut slices = scene.slices("web").await;
            slices.retain(|slice| slice.address_type == address_type);
            match ready_count(&slices) {
                ready if ready == count => Ok(slices),
                ready => Err(format!("{ready} are")),
            }
        },
    )
    .await
}

pub async fn ready_absent(scene: &Scene<'_>) {
    scene.auto_by_hand("web").await;
    let mut sent = uneven();
    for endpoint in &mut sent {
        endpoint.conditions = Some(EndpointConditions::default());
    }
    let stored = scene.write("by-hand", "web", &sent).await;
    let conditions = |endpoint: &Endpoint| endpoint.conditions.clone().unwrap_or_default();
    let absent = stored
        .endpoints
        .iter()
        .all(|e| conditions(e).ready.is_none());
    assert!(absent, "{stored:?}");
    assert_hinted(&[stored], [3, 3, 3]);
}

pub async fn unready_endpoints(scene: &Scene<'_>) {
    scene.auto("web").await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 2)])
        .await;
    assert_guaranteed(&scene.slices_with_ready("web", 10).await, EQUAL);
    one_pod_fails(scene, "node-b").await;
    let slices = scene.slices_with_ready("web", 9).await;
    let unready = endpoints(&slices).filter(|endpoint| !is_ready(endpoint));
    let unready: Vec<_> = unready.collect();
    assert_eq!(unready.len(), 1, "{}", describe(&slices));
    assert!(unready[0].hints.is_some(), "{}", describe(&slices));
    assert_hinted(&slices, [3, 3, 3]);

    scene.auto_by_hand("hand").await;
    let mut sent = uneven();
    sent.push(
        endpoint::ready("10.9.1.1", "zone-a")
            .unready()
            .hinted("zone-a"),
    );
    assert_hinted(&[scene.write("by-hand", "hand", &sent).await], [3, 3, 3]);
}

async fn one_pod_fails(scene: &Scene<'_>, node: &str) {
    let pods = scene.api::<Pod>();
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pod = pods.list(&on_node).await.unwrap().items.remove(0);
    let name = pod.metadata.name.unwrap_or_default();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let patch = Patch::Strategic(&not_ready);
    pods.patch_status(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

pub async fn one_name_two_numbers(scene: &Scene<'_>) {
    scene.auto("web").await;
    let (some, others) = (
        [("node-a", 4), ("node-b", 1)],
        [("node-b", 3), ("node-c", 1)],
    );
    scene.pods_listening_on(8080, "web", &some).await;
    scene.pods_listening_on(8081, "web", &others).await;
    let slices = scene.slices_with_ready("web", 9).await;
    assert_eq!(slices.len(), 2, "{}", describe(&slices));
    let one_set = exactly([3, 3, 3]);
    scene
        .touch_until("web", "one port name with two numbers", one_set)
        .await;
}

fn port(name: &str) -> Value {
    json!({"ports": [{"name": name, "port": 9090, "protocol": "TCP"}]})
}

pub async fn different_ports(scene: &Scene<'_>) {
    one_name_two_numbers(scene).await;

    // Ports of different names are planned together and hold each for itself; without a port nothing counts.
    scene.auto_by_hand("two").await;
    let no_port = json!({"ports": null});
    for (name, endpoints, ports) in [
        ("two-http", spread("10.9.2", [4, 4, 1]), port("http")),
        ("two-metrics", spread("10.9.1", [2, 2, 2]), port("metrics")),
        ("two-none", spread("10.9.3", [5, 0, 0]), no_port),
    ] {
        scene
            .create(&slice(name, "two", &endpoints, &[ports]))
            .await;
    }
    let each_for_itself = |slices: &[EndpointSlice]| {
        let named = |name| slices.iter().filter(move |slice| name_of(slice) == name);
        let of = |name| named(name).cloned().collect::<Vec<_>>();
        exactly([3, 3, 3])(&of("two-http"))?;
        exactly([2, 2, 2])(&of("two-metrics"))?;
        unhinted(&of("two-none"))
    };
    scene
        .touch_until("two", "two ports and none", each_for_itself)
        .await;

    // 14 endpoints would do, but the two of one port can't serve three zones.
    scene.auto_by_hand("short").await;
    for (name, endpoints, ports) in [
        ("short-http", spread("10.9.2", [5, 5, 2]), port("http")),
        ("short-admin", spread("10.9.1", [1, 1, 0]), port("admin")),
    ] {
        scene
            .create(&slice(name, "short", &endpoints, &[ports]))
            .await;
    }
    scene
        .touch_until("short", "a port with too few", unhinted)
        .await;
    scene.logged("short", "Strip", "PortBelowMinimum").await;
}

pub async fn one_ip_twice(scene: &Scene<'_>) {
    scene.auto_by_hand("moving").await;
    scene.write("before", "moving", &uneven()).await;
    let copy = endpoint::ready("10.9.0.9", "zone-c");
    scene
        .write("after", "moving", std::slice::from_ref(&copy))
        .await;
    let counted_once = exactly([3, 3, 3]);
    scene
        .touch_until("moving", "one IP in two slices", counted_once)
        .await;

    // A pod that is going and a new one with its address: the new one counts, as for kube-proxy.
    scene.auto_by_hand("reused").await;
    let mut old = spread("10.9.0", [4, 4, 0]);
    old.push(endpoint::ready("10.9.0.9", "zone-c").terminating());
    scene.write("old", "reused", &old).await;
    scene
        .write("new", "reused", std::slice::from_ref(&copy))
        .await;
    let the_new_one_counts = exactly([3, 3, 3]);
    scene
        .touch_until("reused", "an IP that is used again", the_new_one_counts)
        .await;

    scene.auto_by_hand("doubled").await;
    let mut sent = uneven();
    let going = endpoint::ready("10.9.0.1", "zone-a").terminating();
    sent.extend([copy, going]);
    let stored = scene.write("by-hand", "doubled", &sent).await;
    assert_hinted(&[stored], [3, 3, 3]);
}

pub async fn odd_zone(scene: &Scene<'_>) {
    const ODD: &str = "Hall 3, row B (left)";
    scene.auto_by_hand("web").await;
    let mut sent = uneven();
    sent.push(endpoint::ready("10.9.1.1", ODD));
    let stored = scene.write("by-hand", "web", &sent).await;
    assert_eq!(stored.endpoints[9].zone.as_deref(), Some(ODD));
    assert_guaranteed(&[stored], EQUAL);
}

/// An Endpoints object, which has no place for zones.
fn legacy(name: &str, counts: [usize; 3], on_nodes: bool) -> Endpoints {
    let address = |endpoint: Endpoint| {
        let zone = endpoint.zone.filter(|_| on_nodes);
        let node = zone.map(|zone| zone.replace("zone", "node"));
        json!({"ip": endpoint.addresses[0], "nodeName": node})
    };
    let addresses: Vec<Value> = spread("10.9.0", counts).into_iter().map(address).collect();
    let ports = json!([{"name": "http", "port": 8080}]);
    let subsets = json!([{"addresses": addresses, "ports": ports}]);
    from_json(json!({"metadata": {"name": name}, "subsets": subsets}))
}

pub async fn mirrored(scene: &Scene<'_>) {
    scene.auto_by_hand("on-nodes").await;
    scene.create(&legacy("on-nodes", [4, 4, 1], true)).await;
    let slices = scene.slices_with_ready("on-nodes", 9).await;
    assert!(
        endpoints(&slices).all(|e| e.zone.is_none()),
        "{}",
        describe(&slices)
    );
    assert_hinted(&slices, [3, 3, 3]);
    let more = json!({"subsets": legacy("on-nodes", [4, 4, 4], true).subsets});
    scene.patch::<Endpoints>("on-nodes", &more).await;
    let slices = scene.slices_with_ready("on-nodes", 12).await;
    assert_hinted(&slices, [4, 4, 4]);

    scene.auto_by_hand("nowhere").await;
    scene.create(&legacy("nowhere", [4, 4, 1], false)).await;
    assert_unhinted(&scene.slices_with_ready("nowhere", 9).await);
    scene.logged("nowhere", "Strip", "NoZoneSpecified").await;
}

pub async fn being_deleted(scene: &Scene<'_>) {
    let slices = scene.api::<EndpointSlice>();
    let held = json!({"metadata": {"finalizers": ["zonewise.test/held"]}});
    let let_go = json!({"metadata": {"finalizers": null}});
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    scene
        .create(&slice("going", "web", &uneven(), &[held]))
        .await;
    slices
        .delete("going", &DeleteParams::default())
        .await
        .unwrap();

    // Its eight endpoints and the one of its sibling make nine; that one alone would be nothing.
    let others = json!({"endpoints": spread("10.9.0", [1, 4, 3])});
    let stored: EndpointSlice = scene.patch("going", &others).await;
    assert!(stored.metadata.deletion_timestamp.is_some(), "{stored:?}");
    let ninth = endpoint::ready("10.9.1.1", "zone-a");
    scene.write("coming", "web", &[ninth]).await;
    let together = exactly([3, 3, 3]);
    scene
        .touch_until("web", "a slice being deleted and a new one", together)
        .await;

    scene.patch::<EndpointSlice>("going", &let_go).await;
    let alone = |slices: &[EndpointSlice]| slices.len() == 1;
    scene.slices_once("web", "one is gone", alone).await;
}
