//! Services in the shop, their slices and the hints there.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::site::Site;
use crate::support::endpoint::uneven;
use crate::support::objects::{SERVICE_NAME, mode, no_selector, pod, service, slice, traffic};
use crate::support::slices;
use crate::support::wait::eventually;

/// The slice that the test writes.
pub const BY_HAND: &str = "by-hand-1";

/// Services that are opted in, with pods that lie unevenly: Kubernetes' own hints for `near` would be 4, 4 and 1. `left` is not,
/// so that it keeps these. One has too few pods for any hints, which is told by an event.
pub async fn open_the_shop(site: &Site) {
    for service in [
        service("web", &[mode("Auto")]),
        service(
            "near",
            &[mode("zonewise.dev/Overlap"), traffic("PreferSameZone")],
        ),
        service("left", &[traffic("PreferSameZone")]),
        service("few", &[mode("Auto")]),
        service("by-hand", &[mode("Auto"), no_selector()]),
    ] {
        let created = site
            .shop::<Service>()
            .create(&PostParams::default(), &service)
            .await;
        created.expect("the Service is created");
    }
    let places = [("node-a", 4), ("node-b", 4), ("node-c", 1)];
    for app in ["web", "near"] {
        for (node, count) in places {
            add_pods(site, app, node, count).await;
        }
    }
    for (node, count) in [("node-a", 2), ("node-c", 1)] {
        add_pods(site, "left", node, count).await;
    }
    add_pods(site, "few", "node-a", 1).await;
    let by_hand = slice(BY_HAND, "by-hand", &uneven(), &[]);
    let created = site.shop().create(&PostParams::default(), &by_hand).await;
    let _: EndpointSlice = created.expect("the slice is created");
}

/// Has pods on a node.
pub async fn add_pods(site: &Site, app: &str, node: &str, count: usize) {
    for _ in 0..count {
        let created = site
            .shop::<Pod>()
            .create(&PostParams::default(), &pod(app, node, 8080))
            .await;
        created.expect("the pod is created");
    }
}

/// The slices of a Service.
pub async fn slices_of(site: &Site, service: &str) -> Vec<EndpointSlice> {
    let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={service}"));
    let slices = site.shop::<EndpointSlice>().list(&of_service).await;
    slices.expect("slices are listed").items
}

/// Waits until a Service has so many hints for each zone.
pub async fn are_hinted(site: &Site, service: &str, counts: [usize; 3]) {
    eventually(
        &format!("{service} is hinted {counts:?}"),
        async || match slices::hinted(&slices_of(site, service).await)? {
            hinted if hinted == counts => Ok(()),
            hinted => Err(format!("{hinted:?}")),
        },
    )
    .await;
}

/// Waits until all in the shop is as zonewise would have it.
pub async fn is_in_order(site: &Site, near: [usize; 3]) {
    are_hinted(site, "web", [3, 3, 3]).await;
    are_hinted(site, "near", near).await;
    are_hinted(site, "left", [2, 0, 1]).await;
    are_hinted(site, "by-hand", [3, 3, 3]).await;
}

/// Writes the slice by hand, without hints, and gives it as stored.
pub async fn write(site: &Site, turn: usize) -> EndpointSlice {
    write_by(&site.shop(), turn).await
}

/// The same by slices of the shop.
pub async fn write_by(slices: &Api<EndpointSlice>, turn: usize) -> EndpointSlice {
    let patch: Value = json!({
        "metadata": {"annotations": {"zonewise.test/turn": turn.to_string()}},
        "endpoints": uneven(),
    });
    let written = slices
        .patch(BY_HAND, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    written.expect("the slice is written")
}
