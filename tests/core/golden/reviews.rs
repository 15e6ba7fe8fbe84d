//! Random AdmissionReviews about the slices and the Service of a cluster.

use serde_json::{Value, json};
use zonewise::cluster::store::Cluster;
use zonewise::planner::allocation::Threshold;
use zonewise::planner::heuristic::Heuristic;
use zonewise::settings::{Mode, Settings, Validation};

use super::answers;
use super::cluster::{World, service};
use super::slices::break_field;
use crate::dice::Dice;

const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The bytes of a review, the settings that it is answered with, and what the cluster has stored.
pub struct Review {
    pub body: Vec<u8>,
    pub settings: Settings,
    /// The slice that is written, as the cluster knows it.
    pub stored: Option<Value>,
}

impl Review {
    /// `before` is the cluster without the slice of the review.
    pub fn random(dice: &mut Dice, world: &mut World, before: &Cluster) -> Self {
        let settings = settings(dice);
        let (request, stored) = if dice.one_in(7) {
            (of_service(dice, world), None)
        } else {
            of_slice(dice, world, before, &settings)
        };
        Self {
            body: bytes(dice, &request),
            settings,
            stored,
        }
    }
}

fn settings(dice: &mut Dice) -> Settings {
    let mut settings = Settings {
        validation: dice.pick(&[
            Validation::Off,
            Validation::Warn,
            Validation::Warn,
            Validation::Enforce,
            Validation::Enforce,
        ]),
        traffic_distribution: Some(Heuristic::Overlap),
        replica: "zonewise-0".to_owned(),
        ..Settings::default()
    };
    match dice.below(60) {
        0 => settings.mode = Mode::Off,
        1..3 => settings.mode = Mode::Observe,
        3..6 | 29..44 => settings.traffic_distribution = None,
        6..10 => settings.traffic_distribution = Some(Heuristic::Auto),
        10..14 => settings.traffic_distribution = Some(Heuristic::PreferZone),
        14..24 => settings.default_mode = Some(dice.pick(&Heuristic::ALL)),
        24..28 => settings.threshold = Threshold::from_millionths(500_000),
        28 => settings.own_service = Some("shop/web".to_owned()),
        44..46 => settings.ignored_slice_managers = vec![MANAGER.to_owned()],
        _ => {}
    }
    settings
}

/// The request for a write of a slice, and the slice that the cluster has stored.
fn of_slice(
    dice: &mut Dice,
    world: &mut World,
    before: &Cluster,
    settings: &Settings,
) -> (Value, Option<Value>) {
    let family = world.slices.family(dice);
    let mut object = world.slices.stored(dice, "web-0", family);
    manage(dice, &mut object);
    match dice.below(60) {
        0 => put(&mut object, "metadata labels", json!({})),
        1 => {
            let labels = json!({"kubernetes.io/service-name": "nothing"});
            put(&mut object, "metadata labels", labels);
        }
        2..5 => {
            put(&mut object, "metadata namespace", json!("default"));
            let labels = json!({"kubernetes.io/service-name": "kubernetes"});
            put(&mut object, "metadata labels", labels);
        }
        _ => {}
    }
    let namespace = json!(object["metadata"]["namespace"].as_str().unwrap_or("shop"));
    let operation = dice.below(40);
    let mut stored = None;
    let mut request = request(dice, "discovery.k8s.io", "EndpointSlice", &namespace);
    match operation {
        0..2 => {
            request["operation"] = json!(dice.pick(&["DELETE", "CONNECT", "delete"]));
            request["object"] = Value::Null;
            request["oldObject"] = object.clone();
            stored = Some(object);
        }
        2..14 => {
            request["operation"] = json!("CREATE");
            if dice.one_in(3) {
                remove(&mut object["metadata"], "name");
                put(&mut object, "metadata generateName", json!("web-"));
            }
            if dice.one_in(4) {
                remove(&mut object["metadata"], "namespace");
            }
            request["object"] = object;
            request["oldObject"] = Value::Null;
        }
        _ => {
            request["operation"] = json!("UPDATE");
            if dice.one_in(2) {
                object = answers::written(&object, before, settings);
            }
            request["object"] = updated(dice, world, &object);
            stored = (!dice.one_in(10)).then(|| object.clone());
            request["oldObject"] = object;
        }
    }
    if dice.one_in(60) {
        let time = json!("2026-01-01T00:00:00Z");
        put(&mut request, "object metadata deletionTimestamp", time);
    }
    if dice.one_in(12) {
        request["dryRun"] = json!(true);
        if dice.one_in(3) {
            let label = "object metadata labels zonewise.dev/check";
            put(&mut request, label, json!("nonce-1"));
        }
    }
    for object in ["object", "oldObject"] {
        if dice.one_in(40) {
            break_field(dice, &mut request[object]);
        }
    }
    (request, stored)
}

/// A slice about to be stored in place of `stored`.
fn updated(dice: &mut Dice, world: &mut World, stored: &Value) -> Value {
    let mut object = stored.clone();
    let family = world.slices.family(dice);
    let change = dice.below(12);
    // The EndpointSlice controller writes no hints that it has not planned itself.
    let leaves_out_hints = matches!(change, 0..7) && !dice.one_in(6);
    if let Some(endpoints) = object["endpoints"].as_array_mut() {
        if leaves_out_hints {
            for endpoint in endpoints.iter_mut() {
                remove(endpoint, "hints");
            }
        }
        let last = endpoints.len().saturating_sub(1);
        match change {
            0 => endpoints.push(world.slices.endpoint(dice, family)),
            1 => drop(endpoints.pop()),
            2 => {
                if let Some(endpoint) = endpoints.first_mut() {
                    *endpoint = world.slices.endpoint(dice, family);
                }
            }
            3 if !endpoints.is_empty() => {
                let ready = json!(dice.one_in(2));
                put(&mut endpoints[last], "conditions ready", ready);
            }
            4 if !endpoints.is_empty() => endpoints.swap(0, last),
            5 if !endpoints.is_empty() => {
                put(&mut endpoints[last], "targetRef uid", json!("another"));
            }
            _ => {}
        }
    }
    match change {
        7..10 => world.slices.hint(dice, &mut object),
        10 if dice.one_in(2) => object["endpoints"] = Value::Null,
        _ => {}
    }
    match dice.below(8) {
        0..3 => {
            let annotation = format!("metadata annotations {TRIGGER_TIME}");
            put(&mut object, &annotation, json!("2026-01-01T00:00:02Z"));
        }
        3 => put(&mut object, "metadata annotations", json!({})),
        4 => put(&mut object, "metadata generation", json!(2)),
        5 if dice.one_in(2) => put(&mut object, "metadata managedFields", json!([])),
        5 => put(&mut object, "metadata labels team", json!("web")),
        _ => {}
    }
    object
}

/// Sets a field, given the keys that lead to it, unless what is on the way has another type.
fn put(mut object: &mut Value, keys: &str, value: Value) {
    for key in keys.split(' ') {
        if object.is_null() {
            *object = json!({});
        }
        let Some(members) = object.as_object_mut() else {
            return;
        };
        object = members.entry(key).or_insert(Value::Null);
    }
    *object = value;
}

fn remove(object: &mut Value, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(key);
    }
}

/// Who manages its fields, and when it was triggered, as an API server stores them.
fn manage(dice: &mut Dice, slice: &mut Value) {
    if !slice["metadata"].is_object() {
        return;
    }
    slice["metadata"]["resourceVersion"] = json!("7");
    slice["metadata"]["generation"] = json!(1);
    if dice.one_in(4) {
        return;
    }
    if slice["metadata"]["labels"].is_object() {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = MANAGER.into();
    }
    slice["metadata"]["annotations"] = json!({TRIGGER_TIME: "2026-01-01T00:00:01Z"});
    let trigger = json!({".": {}, format!("f:{TRIGGER_TIME}"): {}});
    slice["metadata"]["managedFields"] = json!([{"manager": "kube-controller-manager", "operation": "Update",
        "apiVersion": "discovery.k8s.io/v1", "time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:metadata": {"f:annotations": trigger}}}]);
}

/// The request for a write of a Service.
fn of_service(dice: &mut Dice, world: &World) -> Value {
    let namespace = json!(dice.pick(&["shop", "shop", "shop", "shop", "default"]));
    let mut request = request(dice, "", "Service", &namespace);
    let mut object = service(dice);
    object["metadata"]["namespace"] = namespace;
    let is_service = |object: &&Value| object["kind"] == "Service";
    request["oldObject"] = match dice.below(4) {
        0 => Value::Null,
        1 => object.clone(),
        _ => world.objects.iter().find(is_service).cloned().into(),
    };
    request["operation"] = match &request["oldObject"] {
        Value::Null => json!("CREATE"),
        _ => json!("UPDATE"),
    };
    if dice.one_in(10) {
        object["metadata"]["name"] = json!("new");
    }
    request["object"] = object;
    request
}

fn request(dice: &mut Dice, group: &str, kind: &str, namespace: &Value) -> Value {
    let (group, version, kind) = match dice.below(80) {
        0 => (group, "v1beta1", kind),
        1 => ("apps", "v1", kind),
        2 => (group, "v1", "Pod"),
        _ => (group, "v1", kind),
    };
    let user = match dice.below(12) {
        0..4 => {
            json!({"username": "system:serviceaccount:kube-system:endpointslice-controller",
            "groups": ["system:serviceaccounts", "system:authenticated"]})
        }
        4 => json!({"username": "deployer", "groups": ["system:serviceaccounts"]}),
        5 if dice.one_in(3) => Value::Null,
        5 => json!({"username": "system:admin", "groups": ["system:masters"]}),
        _ => json!({"username": "jane", "groups": ["system:authenticated"]}),
    };
    let mut request = json!({"uid": format!("uid-{}", dice.below(1000)), "namespace": namespace, "userInfo": user,
        "kind": {"group": group, "version": version, "kind": kind}, "dryRun": false});
    match dice.below(240) {
        0 => request["uid"] = Value::Null,
        1 => request["uid"] = json!(""),
        2 => request["dryRun"] = json!("yes"),
        3 => request["userInfo"] = json!([]),
        4 => request["namespace"] = json!(""),
        5 => request["uid"] = json!("ü\"\n"),
        6..9 => request["subResource"] = json!("status"),
        _ => {}
    }
    request
}

/// Writes a review with the members of its request in any order, and rarely breaks it. Members below are in order of their
/// names, whatever features serde_json has.
fn bytes(dice: &mut Dice, request: &Value) -> Vec<u8> {
    let mut request = request.clone();
    request.sort_all_objects();
    let members = request.as_object().into_iter().flatten();
    let mut members: Vec<String> = members
        .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
        .collect();
    members.sort_unstable();
    if dice.one_in(6) {
        dice.shuffle(&mut members);
    }
    let space = dice.pick(&["", "", "", "\n  "]);
    let mut body = format!(
        "{{\"apiVersion\":\"admission.k8s.io/v1\",{space}\"kind\":\"AdmissionReview\",{space}\"request\":{{{}}}}}",
        members.join(&format!(",{space}"))
    )
    .into_bytes();
    match dice.below(80) {
        0 => body.truncate(dice.below(body.len())),
        1 => drop(body.remove(dice.below(body.len()))),
        2 => body[dice.below(200)] = dice.pick(b"\"{}[],:\\0a\xff "),
        3 => body.extend_from_slice(b"{}"),
        4 => body = b"{\"apiVersion\":\"admission.k8s.io/v1\",\"request\":null}".to_vec(),
        _ => {}
    }
    body
}
