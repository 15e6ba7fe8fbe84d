//! Scenes about hints of slices.

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::Client;
use serde_json::{Value, json};

use super::breaker::Breaker;
use super::stage::{Stage, Writers, Written, observe, path, send};
use crate::support::endpoint::{With as _, spread, uneven};
use crate::support::objects::{service, traffic};
use crate::support::scene::Scene;
use crate::support::slices::{self, assert_hinted, is_ready, zone_hints};
use crate::support::wait::eventually;

const OVERLOADED: &str = "an endpoint would carry 200% above the average (20% is allowed): zone-c has 1 of 9 endpoints and needs 3";

/// Changes a slice's endpoints to these.
async fn change(
    client: &Client,
    scene: &Scene<'_>,
    slice: &str,
    endpoints: &[Endpoint],
) -> Written {
    change_by(
        client,
        &format!("{}/{slice}", path(scene, "endpointslices")),
        endpoints,
    )
    .await
}

async fn change_by(client: &Client, path: &str, endpoints: &[Endpoint]) -> Written {
    send(client, "PATCH", path, &json!({"endpoints": endpoints})).await
}

/// Each endpoint hinted for its own zone.
fn for_own_zones(endpoints: &[Endpoint]) -> Vec<Endpoint> {
    let own = |endpoint: &Endpoint| {
        let zone = endpoint.zone.clone();
        endpoint.clone().hinted_only(zone.as_deref())
    };
    endpoints.iter().map(own).collect()
}

fn hints(written: &Value) -> Vec<Value> {
    let endpoints = written["endpoints"].as_array();
    let endpoints = endpoints.into_iter().flatten();
    endpoints
        .map(|endpoint| endpoint["hints"].clone())
        .collect()
}

/// A Service by hand in a Namespace where zonewise observes, and its slice without hints.
async fn observed(scene: &Scene<'_>) -> EndpointSlice {
    observe(scene).await;
    scene.auto_by_hand("web").await;
    let probe = crate::support::objects::slice("probe", "web", &uneven(), &[]);
    eventually("zonewise observes", async || {
        slices::unhinted(&[scene.dry_run(&probe).await])
    })
    .await;
    scene.write("web-1", "web", &uneven()).await
}

pub async fn hints_by_hand_are_replaced(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.warns().await;
    scene.auto_by_hand("web").await;
    let stored = scene.write("web-1", "web", &uneven()).await;
    assert_hinted(std::slice::from_ref(&stored), [3, 3, 3]);
    let by_hand: Vec<Endpoint> = uneven().into_iter().map(|e| e.hinted("zone-a")).collect();
    let written = change(&stage.world.client, scene, "web-1", &by_hand).await;
    assert_eq!(
        (written.code, written.warnings),
        (
            200,
            vec!["zonewise: zonewise decides on the hints of this slice; those that were sent are not stored".to_owned()]
        )
    );
    assert_hinted(&scene.slices("web").await, [3, 3, 3]);
    let by_program = change(&stage.program, scene, "web-1", &by_hand).await;
    assert_eq!((by_program.code, by_program.warnings), (200, Vec::new()));
    assert_hinted(&scene.slices("web").await, [3, 3, 3]);
}

pub async fn a_partial_hint_where_zonewise_observes(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.warns().await;
    observed(scene).await;
    let mut by_hand = for_own_zones(&uneven());
    by_hand[0].hints = None;
    let told = "zonewise: 1 of 9 ready endpoints has no zone hint, so kube-proxy follows none of the hints";
    let web = format!("{}/web-1", path(scene, "endpointslices"));
    let dry = format!("{web}?dryRun=All");
    for path in [&dry, &web] {
        let written = change_by(&stage.world.client, path, &by_hand).await;
        assert_eq!(
            (written.code, &written.warnings),
            (200, &vec![told.to_owned()])
        );
        let bare = hints(&written.body)
            .iter()
            .filter(|hint| hint.is_null())
            .count();
        assert_eq!(bare, 1, "it is stored as it was sent");
    }
    let by_program = change(&stage.program, scene, "web-1", &by_hand).await;
    assert_eq!((by_program.code, by_program.warnings), (200, Vec::new()));
}

pub async fn another_webhook_breaks_a_hint(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.warns().await;
    scene.auto_by_hand("web").await;
    scene.write("web-1", "web", &uneven()).await;
    let breaker = Breaker::begin(scene).await;
    let touch = json!({"metadata": {"labels": {"team": "net"}}});
    let web = format!("{}/web-1", path(scene, "endpointslices"));
    let told = "zonewise: 1 of 9 ready endpoints has no zone hint, so kube-proxy follows none of the hints";
    eventually("the other webhook is asked", async || {
        let dry = format!("{web}?dryRun=All");
        let written = send(&stage.world.client, "PATCH", &dry, &touch).await;
        if written.warnings == [told] {
            Ok(())
        } else {
            Err(format!("{:?}", written.warnings))
        }
    })
    .await;
    let written = send(&stage.world.client, "PATCH", &web, &touch).await;
    assert_eq!(
        (written.code, written.warnings),
        (200, vec![told.to_owned()])
    );
    breaker.end().await;
}

pub async fn hints_by_hand_that_overload_enforced(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.enforces().await;
    let stored = observed(scene).await;
    let by_hand = for_own_zones(&uneven());
    let web = format!("{}/web-1", path(scene, "endpointslices"));
    let dry = format!("{web}?dryRun=All");
    // The replica that refuses may hear of the Service a moment later.
    eventually("the dry run is refused", async || {
        let written = change_by(&stage.world.client, &dry, &by_hand).await;
        if written.code == 403 {
            Ok(())
        } else {
            Err(format!("{written:?}"))
        }
    })
    .await;
    let refused = change_by(&stage.world.client, &web, &by_hand).await;
    assert_eq!(refused.code, 403);
    assert!(
        refused.message().contains(OVERLOADED),
        "{}",
        refused.message()
    );
    assert_eq!(scene.slices("web").await, [stored]);
    let fewer = for_own_zones(&spread("10.9.0", [4, 3, 1]));
    let others = change_by(&stage.world.client, &dry, &fewer).await;
    assert_eq!(others.code, 200, "endpoints changed too: {others:?}");
    assert_eq!(others.warnings.len(), 1, "{others:?}");
    let by_program = change_by(&stage.program, &web, &by_hand).await;
    assert_eq!((by_program.code, by_program.warnings), (200, Vec::new()));
    let label = json!({"metadata": {"labels": {"team": "net"}}});
    let found = send(&stage.world.client, "PATCH", &web, &label).await;
    assert_eq!(
        (found.code, found.warnings),
        (200, vec![format!("zonewise: {OVERLOADED}")])
    );
}

pub async fn the_controller_is_not_asked_about_enforced(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.enforces().await;
    observe(scene).await;
    scene
        .service(&service("web", &[traffic("PreferSameZone")]))
        .await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 1), ("node-c", 1)])
        .await;
    let stored = scene
        .slices_once("web", "six ready, hinted by Kubernetes", |slices| {
            let ready = slices::endpoints(slices).filter(|endpoint| is_ready(endpoint));
            let own = ready.filter(|e| zone_hints(e).first().copied() == e.zone.as_deref());
            own.count() == 6
        })
        .await;
    assert_eq!(
        slices::hinted(&stored),
        Ok([4, 1, 1]),
        "which overloads two"
    );
    let not_people = stage.enforcing.admissions(&[("reason", "NotAPerson")]);
    assert!(
        not_people < 0.5,
        "programs cost no call by the chart's conditions, and cost {not_people}"
    );
    scene.no_pods().await;
}

pub async fn a_replica_that_knows_nothing_yet(stage: &Stage<'_>) {
    let scene = &stage.scene;
    let blind = stage
        .world
        .another_replica("blind")
        .with("--validation", "enforce")
        .with("--controller", "false")
        .with("--kubeconfig", &stage.nowhere());
    blind.begin();
    eventually("the replica listens", async || blind.metrics().map(drop)).await;
    stage.judged_by(&blind, Writers::All).await;
    let services = path(scene, "services");
    let typo = json!({
        "metadata": {"name": "web", "annotations": {"zonewise.dev/overload-treshold": "0.3"}},
        "spec": {"ports": [{"port": 80}]},
    });
    eventually(
        "the API server asks the replica that knows nothing",
        async || {
            let path = format!("{services}?dryRun=All");
            let written = send(&stage.world.client, "POST", &path, &typo).await;
            let asked =
                blind.metrics().is_ok() && blind.admissions(&[("reason", "NotSynced")]) > 0.0;
            if asked && written.code == 201 && written.warnings.is_empty() {
                Ok(())
            } else {
                Err(format!("{written:?}"))
            }
        },
    )
    .await;
    stage.warns().await;
}
