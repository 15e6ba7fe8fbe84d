//! Which writes the API server sends by the chart's match conditions.

use serde_json::{Value, json};

use super::stage::{Stage, Writers, path, send};
use crate::support::endpoint::{With as _, spread};
use crate::support::objects::{TOPOLOGY_MODE, slice};
use crate::support::wait::eventually;

pub async fn what_is_not_annotated_or_hinted_is_not_sent(stage: &Stage<'_>) {
    let scene = &stage.scene;
    let replica = stage
        .world
        .another_replica("counting")
        .with("--validation", "warn")
        .with("--controller", "false");
    replica.start().await;
    stage.judged_by(&replica, Writers::People).await;
    let reviews = || replica.admissions(&[("webhook", "validate")]);
    eventually("the API server asks this replica", async || {
        let written = stage.typo().await;
        if reviews() > 0.0 {
            Ok(())
        } else {
            Err(format!("{written:?}"))
        }
    })
    .await;
    // By how much a person's write raises the reviews.
    let raises = async |method: &str, path: &str, object: &Value| {
        let before = reviews();
        let written = send(&stage.world.client, method, path, object).await;
        assert!(written.code < 300, "{written:?}");
        reviews() - before
    };

    let services = path(scene, "services");
    let web = format!("{services}/web");
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let plain = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    not_sent(raises("POST", &services, &plain).await);
    let theirs = annotated("example.com/topology-mode", "Auto");
    not_sent(raises("PATCH", &web, &theirs).await);
    sent(raises("PATCH", &web, &annotated(TOPOLOGY_MODE, "Overlap")).await);
    let namespace = format!("/api/v1/namespaces/{}", scene.namespace);
    not_sent(raises("PATCH", &namespace, &theirs).await);
    let observe = annotated("zonewise.dev/mode", "Observe");
    sent(raises("PATCH", &namespace, &observe).await);

    let slices = path(scene, "endpointslices");
    let web = format!("{slices}/web-1");
    let bare = spread("10.9.0", [1, 1, 1]);
    let empty = json!({
        "metadata": {"name": "web-2", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
    });
    not_sent(raises("POST", &slices, &empty).await);
    let without = serde_json::to_value(slice("web-1", "web", &bare, &[])).expect("it is JSON");
    not_sent(raises("POST", &slices, &without).await);
    let hinted: Vec<_> = bare.iter().map(|e| e.clone().hinted("zone-a")).collect();
    sent(raises("PATCH", &web, &json!({"endpoints": hinted})).await);
    sent(raises("PATCH", &web, &json!({"endpoints": bare})).await);
    not_sent(raises("PATCH", &web, &json!({"endpoints": &bare[..2]})).await);
    stage.warns().await;
}

/// The API server may try a patch again, and sends it again, where its cache was behind.
#[track_caller]
fn sent(reviews: f64) {
    assert!(reviews > 0.5, "{reviews} reviews, not one or more");
}

#[track_caller]
fn not_sent(reviews: f64) {
    assert!(reviews.abs() < 0.5, "{reviews} reviews, not none");
}
