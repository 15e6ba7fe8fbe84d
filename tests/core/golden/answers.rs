//! What an answer does, without the sentences that it says it in.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use zonewise::cluster::store::Cluster;
use zonewise::settings::Settings;
use zonewise::webhook::mutate::{Answer, mutate};
use zonewise::webhook::validate::validate;

/// What one endpoint does with a review.
pub struct Effect {
    /// `Hints`, `Denied` and the like; nothing where the body is no review.
    pub verdict: &'static str,
    /// The reason's word; empty where there is none.
    pub reason: &'static str,
    /// What is hashed.
    pub line: String,
}

pub fn of_mutate(body: &[u8], cluster: &Cluster, settings: &Settings) -> Effect {
    effect("mutate", mutate(body, cluster, settings).ok())
}

pub fn of_validate(body: &[u8], cluster: &Cluster, settings: &Settings) -> Effect {
    effect("validate", validate(body, cluster, settings).ok())
}

fn effect(path: &str, answer: Option<Answer>) -> Effect {
    let mut line = String::from(path);
    let Some(answer) = answer else {
        line.push_str(" no review");
        return Effect {
            verdict: "",
            reason: "",
            line,
        };
    };
    let review: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    assert_eq!(review["kind"], "AdmissionReview", "{review}");
    let response = &review["response"];
    let (operation, verdict, reason) = (answer.operation.word(), answer.decision, answer.reason);
    let warnings = response["warnings"].as_array().map_or(0, Vec::len);
    write!(
        line,
        " {} uid={} allowed={} {operation} {verdict} {reason:?} warnings={warnings}",
        review["apiVersion"], response["uid"], response["allowed"]
    )
    .expect("a String takes everything");
    if let Some(code) = response.pointer("/status/code") {
        write!(line, " code={code}").expect("a String takes everything");
    }
    if let Some(patch) = patch(response) {
        assert_eq!(response["patchType"], "JSONPatch", "{response}");
        write!(line, " patch={patch}").expect("a String takes everything");
    }
    Effect {
        verdict,
        reason,
        line,
    }
}

fn patch(response: &Value) -> Option<Value> {
    let patch = BASE64.decode(response["patch"].as_str()?);
    let patch = patch.expect("the patch is base64");
    let mut patch: Value = serde_json::from_slice(&patch).expect("the patch is JSON");
    patch.sort_all_objects();
    Some(patch)
}

/// A slice as it is stored after a controller created it.
pub fn written(slice: &Value, cluster: &Cluster, settings: &Settings) -> Value {
    let review = json!({"request": {"uid": "u", "operation": "CREATE", "namespace": "shop", "object": slice,
        "kind": {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"}}});
    let answer = mutate(review.to_string().as_bytes(), cluster, settings).expect("it is a review");
    let answer: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    let mut stored = slice.clone();
    if let Some(patch) = patch(&answer["response"]) {
        let patch: json_patch::Patch = serde_json::from_value(patch).expect("it is a JSON patch");
        json_patch::patch(&mut stored, &patch).expect("the patch fits the slice");
    }
    stored
}
