//! What `zonewise strip` takes away and what it leaves.

use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::checks::forget_webhook;
use super::command::{Said, end, run, start};
use crate::support::endpoint::{With as _, ready, uneven};
use crate::support::objects::{self, from_json, mode, no_selector, service, traffic};
use crate::support::scene::Scene;
use crate::support::slices::{self, name_of, version_of};
use crate::support::wait::eventually;
use crate::support::webhook::Registration;
use crate::support::world::World;

async fn strip(scene: &Scene<'_>, more: &[&str]) -> Said {
    let kubeconfig = scene.world.kubeconfig().display().to_string();
    let arguments = ["strip", "--kubeconfig", &kubeconfig, "-n", &scene.namespace];
    let opt_in = ["--traffic-distribution", "Overlap"];
    run(&[&arguments[..], &opt_in, more].concat()).await
}

/// Names and versions: another version, and it was written.
async fn stored(scene: &Scene<'_>, service: &str) -> Vec<(String, String)> {
    let slices = scene.slices(service).await;
    let of = |slice: &EndpointSlice| (name_of(slice).to_owned(), version_of(slice).to_owned());
    slices.iter().map(of).collect()
}

/// The API server stops asking zonewise a moment after its configuration is gone.
async fn without_webhook(scene: &Scene<'_>, service: &str) {
    forget_webhook(scene.world).await;
    is_not_hinted(scene, service).await;
}

async fn is_not_hinted(scene: &Scene<'_>, service: &str) {
    let probe = objects::slice("is-it-asked", service, &uneven(), &[]);
    eventually("zonewise hints nothing any more", async || {
        slices::unhinted(&[scene.dry_run(&probe).await])
    })
    .await;
}

pub async fn strip_while_active(world: &World) {
    let scene = Scene::begin(world, "strip-active").await;
    scene.auto_by_hand("web").await;
    let hinted = scene.write("web-1", "web", &uneven()).await;
    slices::assert_hinted(&[hinted], [3, 3, 3]);
    let before = stored(&scene, "web").await;
    for arguments in [&["--yes"][..], &["--dry-run"], &["--yes", "web"]] {
        let said = strip(&scene, arguments).await;
        assert_eq!((said.code, &*said.out), (Some(1), ""), "{said:?}");
        let told = "error: the hints of strip-active/web-1 come back";
        assert!(
            said.err.starts_with(told) && said.err.contains("set mode: Off first"),
            "{said:?}"
        );
    }
    let said = strip(&scene, &[]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.err
            .contains("there is no terminal to ask on: give --yes"),
        "{said:?}"
    );
    assert_eq!(stored(&scene, "web").await, before);
}

/// Services of each kind, hinted by an Active zonewise.
async fn services(scene: &Scene<'_>) {
    scene.auto_by_hand("web").await;
    scene.auto_by_hand("api").await;
    scene.write("web-1", "web", &uneven()).await;
    scene.write("web-2", "web", &[]).await;
    scene.write("api-1", "api", &uneven()).await;
    scene
        .service(&service("near", &[traffic("PreferSameZone")]))
        .await;
    scene
        .pods("near", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    scene.slices_with_ready("near", 6).await;
    let vendor = service("vendor", &[mode("example.com/theirs"), no_selector()]);
    scene.service(&vendor).await;
    let theirs = ready("10.9.0.1", "zone-a").hinted("zone-b");
    scene.write("vendor-1", "vendor", &[theirs]).await;
    let own = scene.slices("near").await;
    slices::assert_hinted(&own, [2, 2, 2]);
}

pub async fn strip_once_off(world: &World) {
    let scene = Scene::begin(world, "strip-off").await;
    let off = world.another_replica("off").with("--mode", "Off");
    let off = off.with("--controller", "false");
    off.start().await;
    services(&scene).await;
    Registration::everywhere("zonewise")
        .register(&world.client, off.webhook_port, &world.ca())
        .await;
    is_not_hinted(&scene, "web").await;

    let all = ["web", "api", "near", "vendor"];
    let versions = async || {
        let mut versions = Vec::new();
        for service in all {
            versions.extend(stored(&scene, service).await);
        }
        versions
    };
    let before = versions().await;
    let said = strip(&scene, &["--dry-run"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out,
        "strip-off/api-1 would lose 9 hints\nstrip-off/web-1 would lose 9 hints\n\
         2 slices would be stripped; 1 slice left as Kubernetes itself writes them\n"
    );
    assert_eq!(versions().await, before, "a dry run stores nothing");

    let said = strip(&scene, &["--yes", "web"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.out, "strip-off/web-1 lost 9 hints\n1 slice stripped\n");
    assert_eq!(said.err, "");
    slices::assert_unhinted(&scene.slices("web").await);
    slices::assert_hinted(&scene.slices("api").await, [3, 3, 3]);

    let said = strip(&scene, &["--yes"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    slices::assert_unhinted(&scene.slices("api").await);
    let after = versions().await;
    let untouched = |name: &str| {
        let of = |all: &[(String, String)]| all.iter().find(|(n, _)| n.starts_with(name)).cloned();
        assert_eq!(of(&after), of(&before), "{name} was written");
    };
    for name in ["near-", "vendor-1", "web-2"] {
        untouched(name);
    }

    let said = strip(&scene, &["--yes"]).await;
    assert_eq!(said.code, Some(0));
    assert!(
        said.out
            .starts_with("no slice has hints that zonewise may have given; 1 slice left"),
        "{said:?}"
    );
    let said = strip(&scene, &["--yes", "nothing"]).await;
    assert_eq!(said.code, Some(2));
    assert!(
        said.err
            .contains("there is no Service nothing in namespace strip-off"),
        "{said:?}"
    );
    scene.no_pods().await;
}

/// Starts a strip that waits seconds between two slices, and waits until the first is done.
async fn begin_slowly(scene: &Scene<'_>, first: &str) -> std::process::Child {
    let kubeconfig = scene.world.kubeconfig().display().to_string();
    let child = start(&[
        "strip",
        "--kubeconfig",
        &kubeconfig,
        "-n",
        &scene.namespace,
        "--yes",
        "--pace",
        "0.25",
    ]);
    eventually("the first slice is stripped", async || {
        let first: EndpointSlice = scene.api().get(first).await.expect("it is there");
        slices::unhinted(&[first])
    })
    .await;
    child
}

pub async fn strip_beside_other_writers(world: &World) {
    let scene = Scene::begin(world, "strip-beside").await;
    scene.auto_by_hand("web").await;
    for name in ["web-1", "web-2"] {
        scene.write(name, "web", &uneven()).await;
    }
    without_webhook(&scene, "web").await;
    let mark = world.audit().writes();
    let child = begin_slowly(&scene, "web-1").await;
    // What strip has read of the second is no longer so.
    let mut endpoints = serde_json::to_value(&scene.slices("web").await[1].endpoints).unwrap();
    endpoints.as_array_mut().unwrap().remove(0);
    let patch: Value = json!({"metadata": {"labels": {"touched": "yes"}}, "endpoints": endpoints});
    let touched: EndpointSlice = scene.patch("web-2", &patch).await;
    assert_eq!(slices::ready_count(&[touched]), 8);
    let said = end(child).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let all = scene.slices("web").await;
    slices::assert_unhinted(&all);
    assert_eq!(slices::ready_count(&all), 17, "what the other wrote stays");
    assert!(
        said.out.contains("strip-beside/web-2 lost 8 hints\n"),
        "{said:?}"
    );
    let writes = world.audit().writes_from(mark);
    let conflicts = writes
        .iter()
        .filter(|w| w.slice() == "strip-beside/web-2" && w.code() == 422);
    assert_eq!(
        conflicts.count(),
        1,
        "the first patch was of another version"
    );

    let before = scene
        .write("web-3", "web", &hinted_by_hand("10.9.3.1"))
        .await;
    scene
        .write("web-0", "web", &hinted_by_hand("10.9.3.2"))
        .await;
    let child = begin_slowly(&scene, "web-0").await;
    let told = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(
        told.is_ok_and(|status| status.success()),
        "kill -INT failed"
    );
    let said = end(child).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(
        said.err,
        "error: stopped: 1 slice done, 1 left; run it again to go on\n"
    );
    let after: EndpointSlice = scene.api().get("web-3").await.expect("it is there");
    assert_eq!(version_of(&after), version_of(&before));
}

fn hinted_by_hand(address: &str) -> Vec<k8s_openapi::api::discovery::v1::Endpoint> {
    vec![ready(address, "zone-a").hinted("zone-a")]
}

pub async fn strip_of_services_that_change(world: &World) {
    let scene = Scene::begin(world, "strip-changes").await;
    for name in ["a", "b", "c"] {
        scene.auto_by_hand(name).await;
        scene.write(&format!("{name}-1"), name, &uneven()).await;
    }
    without_webhook(&scene, "a").await;
    let before = stored(&scene, "b").await;
    let child = begin_slowly(&scene, "a-1").await;
    let opts_out =
        json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Disabled"}}});
    let _: Service = scene.patch("b", &opts_out).await;
    let said = end(child).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out,
        "strip-changes/a-1 lost 9 hints\nstrip-changes/c-1 lost 9 hints\n\
         2 slices stripped; 1 slice had nothing to lose any more\n"
    );
    assert_eq!(stored(&scene, "b").await, before);
}

/// Has the API server refuse each write of a slice with the label `refused`.
async fn refuse(scene: &Scene<'_>, slice: &EndpointSlice) -> Api<ValidatingWebhookConfiguration> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(scene.world.client.clone());
    let configuration = from_json(json!({
        "metadata": {"name": "refuses"},
        "webhooks": [{
            "name": "refuses.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "objectSelector": {"matchLabels": {"refused": "yes"}},
            "rules": [{"apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"],
                       "resources": ["endpointslices"]}],
        }],
    }));
    let created = api.create(&PostParams::default(), &configuration).await;
    created.expect("it is created");
    let slices: Api<EndpointSlice> = scene.api();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("a write is refused", async || {
        match slices.replace(name_of(slice), &dry, slice).await {
            Ok(_) => Err("it is not".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    api
}

pub async fn strip_of_what_can_not_be_written(world: &World) {
    let scene = Scene::begin(world, "strip-refused").await;
    scene.auto_by_hand("web").await;
    for name in ["web-1", "web-2", "web-3"] {
        scene.write(name, "web", &uneven()).await;
    }
    without_webhook(&scene, "web").await;
    let label = |name: &str| json!({"metadata": {"labels": {name: "yes"}}});
    let refused: EndpointSlice = scene.patch("web-1", &label("refused")).await;
    let _: EndpointSlice = scene.patch("web-2", &label("team")).await;
    let policies = refuse(&scene, &refused).await;

    let said = strip(&scene, &["--yes", "-l", "team=yes"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out,
        "strip-refused/web-2 lost 9 hints\n1 slice stripped\n"
    );
    let said = strip(&scene, &["--yes"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(
        said.out,
        "strip-refused/web-3 lost 9 hints\n1 slice stripped\n"
    );
    assert!(
        said.err.starts_with("not stripped: strip-refused/web-1: ")
            && said
                .err
                .contains("error: 1 slice could not be stripped; run it again"),
        "{said:?}"
    );
    let said = strip(&scene, &["--yes"]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err.starts_with(
            "error: no slice can be stripped, as dry runs show: strip-refused/web-1: "
        ),
        "{said:?}"
    );
    let said = strip(&scene, &["--yes", "-l", "team in"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(!said.err.contains("permission"), "{said:?}");
    let deleted = policies.delete("refuses", &DeleteParams::default()).await;
    deleted.expect("it is deleted");
}
