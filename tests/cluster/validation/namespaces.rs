//! Scenes about annotations of Namespaces.

use serde_json::{Value, json};

use super::stage::{Stage, send};

fn threshold(value: &str) -> Value {
    json!({"metadata": {"annotations": {"zonewise.dev/overload-threshold": value}}})
}

const WRONG: &str = "overload-threshold \"20%\": it is no decimal from 0 to 10";

fn path(stage: &Stage<'_>) -> String {
    format!("/api/v1/namespaces/{}", stage.scene.namespace)
}

pub async fn a_wrong_annotation(stage: &Stage<'_>) {
    stage.warns().await;
    let (namespace, person) = (path(stage), &stage.world.client);
    let written = send(person, "PATCH", &namespace, &threshold("20%")).await;
    assert_eq!((written.code, written.warnings.len()), (200, 1));
    let warning = &written.warnings[0];
    assert!(
        warning.starts_with(&format!("zonewise: {WRONG}")),
        "{warning}"
    );
    let by_program = send(&stage.program, "PATCH", &namespace, &threshold("30%")).await;
    assert_eq!((by_program.code, by_program.warnings), (200, Vec::new()));
    let fixed = send(person, "PATCH", &namespace, &threshold("0.34")).await;
    assert_eq!((fixed.code, fixed.warnings), (200, Vec::new()));
}

pub async fn a_wrong_annotation_enforced(stage: &Stage<'_>) {
    stage.enforces().await;
    let (namespace, person) = (path(stage), &stage.world.client);
    let refused = send(person, "PATCH", &namespace, &threshold("20%")).await;
    assert_eq!(refused.code, 403);
    assert!(refused.message().contains(WRONG), "{}", refused.message());
    let by_program = send(&stage.program, "PATCH", &namespace, &threshold("20%")).await;
    assert_eq!((by_program.code, by_program.warnings), (200, Vec::new()));
    let label = json!({"metadata": {"labels": {"team": "net"}}});
    let found = send(person, "PATCH", &namespace, &label).await;
    assert_eq!((found.code, found.warnings.len()), (200, 1));
}
