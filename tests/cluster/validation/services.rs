//! Scenes about annotations of Services.

use serde_json::{Value, json};

use super::stage::{Stage, path, send};
use crate::support::endpoint::spread;
use crate::support::objects::{TOPOLOGY_MODE, mode, no_selector, service};

const TOLD: &str = "zonewise: there is no annotation zonewise.dev/overload-treshold; zonewise.dev/overload-threshold may be meant";

fn misspelt_service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": {
            TOPOLOGY_MODE: "Auto",
            "zonewise.dev/overload-treshold": "0.3",
        }},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    })
}

pub async fn a_misspelt_annotation(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.warns().await;
    let (services, person) = (path(scene, "services"), &stage.world.client);
    let dry = format!("{services}?dryRun=All");
    for path in [&dry, &services] {
        let written = send(person, "POST", path, &misspelt_service("web")).await;
        assert_eq!(
            (written.code, written.warnings),
            (201, vec![TOLD.to_owned()])
        );
    }
    let by_program = send(
        &stage.program,
        "POST",
        &services,
        &misspelt_service("other"),
    )
    .await;
    assert_eq!((by_program.code, by_program.warnings), (201, Vec::new()));
    let removed = json!({"metadata": {"annotations": {"zonewise.dev/overload-treshold": null}}});
    let mended = send(person, "PATCH", &format!("{services}/web"), &removed).await;
    assert_eq!((mended.code, mended.warnings), (200, Vec::new()));
}

pub async fn a_service_that_gets_hints(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.warns().await;
    let change = [mode("zonewise.dev/Overlap"), no_selector()];
    scene.service(&service("web", &change)).await;
    let slice = scene
        .write("web-1", "web", &spread("10.9.0", [2, 2, 1]))
        .await;
    scene.is_known(&slice, "web").await;
    let web = format!("{}/web", path(scene, "services"));
    let threshold = |value: &str| json!({"metadata": {"annotations": {"zonewise.dev/overload-threshold": value}}});
    let right = send(&stage.world.client, "PATCH", &web, &threshold("0.35")).await;
    assert_eq!((right.code, right.warnings), (200, Vec::new()));
    let wrong = send(&stage.world.client, "PATCH", &web, &threshold("35%")).await;
    assert_eq!(wrong.code, 200);
    assert!(
        wrong.warnings.len() == 1
            && wrong.warnings[0].starts_with("zonewise: overload-threshold \"35%\":"),
        "{:?}",
        wrong.warnings
    );
}

pub async fn a_misspelt_annotation_enforced(stage: &Stage<'_>) {
    let scene = &stage.scene;
    stage.enforces().await;
    let (services, person) = (path(scene, "services"), &stage.world.client);
    let refused = send(person, "POST", &services, &misspelt_service("web")).await;
    assert_eq!(refused.code, 403);
    let told = TOLD.trim_start_matches("zonewise: ");
    assert!(refused.message().contains(told), "{}", refused.message());
    let by_program = send(&stage.program, "POST", &services, &misspelt_service("web")).await;
    assert_eq!((by_program.code, by_program.warnings), (201, Vec::new()));
    let label = json!({"metadata": {"labels": {"team": "net"}}});
    let found = send(person, "PATCH", &format!("{services}/web"), &label).await;
    assert_eq!((found.code, found.warnings), (200, vec![TOLD.to_owned()]));
}
