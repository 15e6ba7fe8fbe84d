//! Scenes about heuristics that share endpoints between zones. Kubernetes' own kube-proxy code says what comes of the
//! hints that are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::writes::{Controller, assert_syncs_store_nothing};
use crate::support::kube_proxy::{KubeProxy, Node};
use crate::support::objects::{ZONES, deployment, mode, service, traffic};
use crate::support::scene::Scene;
use crate::support::slices::{
    assert_hinted, assert_unhinted, describe, endpoints, is_ready, unhinted, zone_hints,
};
use crate::support::wait::eventually;
use crate::support::world::say;

const OVERLAP: &str = "zonewise.dev/Overlap";

/// The most that an endpoint may carry, where 1 is the average.
const CEILING: f64 = 1.2 + 1e-9;

/// What traffic does, in three zones of one size.
struct Traffic {
    /// Of the busiest endpoint, where 1 is the average.
    worst_load: f64,
    in_zone_share: f64,
}

/// What kube-proxy does with slices of one port whose endpoints are all ready.
fn traffic_over(kube_proxy: &mut KubeProxy, slices: &[EndpointSlice]) -> Traffic {
    let nodes = ZONES.map(|zone| Node::new(&zone.replace("zone", "node"), zone));
    let json: Vec<Value> = slices.iter().map(|s| json!(s)).collect();
    let used: BTreeMap<String, BTreeSet<String>> = kube_proxy.used_by_zone(&nodes, &json);
    let zone_of: BTreeMap<&str, &str> = endpoints(slices)
        .filter(|endpoint| is_ready(endpoint))
        .map(|e| {
            (
                e.addresses[0].as_str(),
                e.zone.as_deref().unwrap_or_default(),
            )
        })
        .collect();
    #[expect(clippy::cast_precision_loss)]
    let count = |count: usize| count as f64;
    let share = 1.0 / count(ZONES.len());
    let mut load: BTreeMap<&str, f64> = BTreeMap::new();
    let mut in_zone_share = 0.0;
    for (zone, addresses) in &used {
        let home = addresses.iter().filter(|a| zone_of[a.as_str()] == zone);
        in_zone_share += share * count(home.count()) / count(addresses.len());
        for address in addresses {
            let part = share * count(zone_of.len()) / count(addresses.len());
            *load.entry(address).or_default() += part;
        }
    }
    Traffic {
        worst_load: load.values().copied().fold(0.0, f64::max),
        in_zone_share,
    }
}

fn is_shared(slices: &[EndpointSlice]) -> bool {
    let mut ready = endpoints(slices).filter(|endpoint| is_ready(endpoint));
    ready.all(|endpoint| !zone_hints(endpoint).is_empty())
}

/// Fails unless all is hinted, no endpoint is above the ceiling and as much traffic stays in its zone.
fn assert_shared(kube_proxy: &mut KubeProxy, slices: &[EndpointSlice], in_zone_share: f64) {
    assert!(is_shared(slices), "{}", describe(slices));
    let traffic = traffic_over(kube_proxy, slices);
    assert!(
        traffic.worst_load <= CEILING && traffic.in_zone_share >= in_zone_share - 1e-9,
        "load {}, in its zone {}\n{}",
        traffic.worst_load,
        traffic.in_zone_share,
        describe(slices)
    );
}

pub async fn overlap(scene: &Scene<'_>) {
    let mut kube_proxy = KubeProxy::start();
    // All at once: hints that were right for fewer would be kept where the best are not better by much. So the Service
    // selects the pods when the controller knows each of them, which another Service shows.
    let selecting = |app: &str| json!({"spec": {"selector": {"app": app}}});
    let nothing_yet = service("web", &[mode(OVERLAP), selecting("nothing")]);
    scene.service(&nothing_yet).await;
    scene.service(&service("known", &[selecting("web")])).await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 3)])
        .await;
    scene.slices_with_ready("known", 11).await;
    scene.patch::<Service>("web", &selecting("web")).await;
    let slices = scene.slices_with_ready("web", 11).await;
    assert_shared(&mut kube_proxy, &slices, 0.698);
    // The controller strips what it does not know at every sync, and nothing of that may be stored.
    assert_syncs_store_nothing(scene, "web", Controller::Rewrites).await;
}

pub async fn more_zones_than_endpoints(scene: &Scene<'_>) {
    let mut kube_proxy = KubeProxy::start();
    let same_zone = service("two", &[traffic("PreferSameZone")]);
    scene.service(&same_zone).await;
    scene.pods("two", &[("node-a", 1), ("node-b", 1)]).await;
    let slices = scene.slices_with_ready("two", 2).await;
    // What Kubernetes itself writes.
    assert_hinted(&slices, [1, 1, 0]);
    assert_shared(&mut kube_proxy, &slices, 2.0 / 3.0);
    assert_syncs_store_nothing(scene, "two", Controller::IsContent).await;

    let same_zone = service("one", &[traffic("PreferSameZone")]);
    scene.service(&same_zone).await;
    let before = scene.answers("Untouched", "NoBetterThanNone");
    scene.pods("one", &[("node-a", 1)]).await;
    assert_hinted(&scene.slices_with_ready("one", 1).await, [1, 0, 0]);
    assert!(scene.answers("Untouched", "NoBetterThanNone") > before);
    assert_syncs_store_nothing(scene, "one", Controller::IsContent).await;

    scene.service(&service("alone", &[mode(OVERLAP)])).await;
    scene.pods("alone", &[("node-a", 1)]).await;
    assert_unhinted(&scene.slices_with_ready("alone", 1).await);

    scene.service(&service("three", &[mode(OVERLAP)])).await;
    scene.pods("three", &[("node-a", 2), ("node-b", 1)]).await;
    let slices = scene.slices_with_ready("three", 3).await;
    assert_shared(&mut kube_proxy, &slices, 2.0 / 3.0);
}

pub async fn rolling_update(scene: &Scene<'_>) {
    const REPLICAS: u32 = 5;
    let mut kube_proxy = KubeProxy::start();
    scene.service(&service("web", &[mode(OVERLAP)])).await;
    scene.create(&deployment("web", REPLICAS)).await;
    scene.slices_with_ready("web", REPLICAS as usize).await;
    let again =
        json!({"spec": {"template": {"metadata": {"annotations": {"zonewise.test/again": "1"}}}}});
    let rolled: Deployment = scene.patch("web", &again).await;
    let generation = rolled.metadata.generation;

    let (started, mut states) = (Instant::now(), 0);
    eventually("the Deployment is rolled out", async || {
        let slices = scene.slices("web").await;
        if endpoints(&slices).any(is_ready) && unhinted(&slices).is_err() {
            states += 1;
            assert_shared(&mut kube_proxy, &slices, 0.0);
        }
        let deployment = scene.api::<Deployment>().get("web").await.unwrap();
        let rollout = deployment.status.unwrap_or_default();
        let counts = [
            rollout.updated_replicas,
            rollout.available_replicas,
            rollout.replicas,
        ];
        let is_done = rollout.observed_generation == generation
            && counts
                .iter()
                .all(|count| *count == i32::try_from(REPLICAS).ok());
        is_done.then_some(()).ok_or_else(|| format!("{counts:?}"))
    })
    .await;
    say(&format!(
        "         {states} hinted states seen in {:.1?}",
        started.elapsed()
    ));
    let slices = scene.slices_with_ready("web", REPLICAS as usize).await;
    let (share, none) = (
        traffic_over(&mut kube_proxy, &slices).in_zone_share,
        1.0 / 3.0,
    );
    assert!(
        is_shared(&slices) && share > none,
        "{share}\n{}",
        describe(&slices)
    );
    scene.no_pods().await;
}

pub async fn own_zones(scene: &Scene<'_>) {
    let prefer_zone = [mode("zonewise.dev/PreferZone")];
    scene.service(&service("even", &prefer_zone)).await;
    scene
        .pods("even", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    assert_hinted(&scene.slices_with_ready("even", 6).await, [2, 2, 2]);
    scene.service(&service("uneven", &prefer_zone)).await;
    scene.pods("uneven", &[("node-a", 2), ("node-b", 1)]).await;
    assert_unhinted(&scene.slices_with_ready("uneven", 3).await);
    scene.logged("uneven", "Strip", "OwnZonesOverloaded").await;
}

pub async fn namespace_asks(scene: &Scene<'_>) {
    let namespaces: Api<Namespace> = Api::all(scene.world.client.clone());
    let annotate = async |annotations: Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let parameters = PatchParams::default();
        let patched = namespaces.patch(&scene.namespace, &parameters, &patch);
        patched.await.expect("the namespace is annotated");
    };
    annotate(json!({"service.kubernetes.io/topology-mode": OVERLAP})).await;
    scene.service(&service("web", &[])).await;
    scene
        .pods("web", &[("node-a", 2), ("node-b", 2), ("node-c", 1)])
        .await;
    scene.slices_with_ready("web", 5).await;
    let shared = |slices: &[EndpointSlice]| {
        is_shared(slices)
            .then_some(())
            .ok_or("some have no hint".to_owned())
    };
    let slices = scene.touch_until("web", "shared", shared).await;
    assert_shared(&mut KubeProxy::start(), &slices, 0.733);

    annotate(json!({"zonewise.dev/overload-threshold": "much"})).await;
    scene.touch_until("web", "kept", shared).await;
    scene.logged("web", "Kept", "InvalidAnnotation").await;
    annotate(json!({"zonewise.dev/overload-threshold": null, "zonewise.dev/mode": "Off"})).await;
    let before = scene.answers("Untouched", "ModeOff");
    scene
        .touch_until("web", "left alone", |_: &[EndpointSlice]| {
            let asked = scene.answers("Untouched", "ModeOff");
            (asked > before).then_some(()).ok_or("it is not".to_owned())
        })
        .await;
}
