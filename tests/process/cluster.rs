//! A small cluster as files tell of it, and slices and reviews as an API server sends them.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// The zones of [`sample`], in order.
pub const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// The annotation that the EndpointSlice controller changes with each of its writes.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Three zones of equal CPU, the Services `shop/web` and `shop/api`, which opt in, and `shop/plain`, which does not.
pub fn sample() -> String {
    let nodes = nodes(&[("zone-a", 4), ("zone-b", 4), ("zone-c", 4)]);
    let plain = "---\napiVersion: v1\nkind: Service\nmetadata: {name: plain, namespace: shop}\n\
                 spec: {clusterIP: 10.96.0.99, ports: [{name: http, port: 80}]}\n";
    nodes + &service("web", "Auto") + &service("api", "Auto") + plain
}

/// One Ready node for each zone, with so many cores.
pub fn nodes(zones: &[(&str, u32)]) -> String {
    let mut text = String::new();
    for (zone, cores) in zones {
        write!(
            text,
            "---\napiVersion: v1\nkind: Node\n\
             metadata: {{name: node-{zone}, labels: {{topology.kubernetes.io/zone: {zone}}}}}\n\
             status: {{allocatable: {{cpu: \"{cores}\"}}, conditions: [{{type: Ready, status: \"True\"}}]}}\n"
        )
        .unwrap();
    }
    text
}

/// The Service `shop/{name}` with a topology mode.
pub fn service(name: &str, mode: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\n\
         metadata: {{name: {name}, namespace: shop, annotations: {{service.kubernetes.io/topology-mode: {mode}}}}}\n\
         spec: {{clusterIP: 10.96.0.12, ports: [{{name: http, port: 80}}]}}\n"
    )
}

/// The ready endpoint 10.0.0.{number}, without hints.
pub fn endpoint(number: usize, zone: &str) -> Value {
    json!({
        "addresses": [format!("10.0.{}.{}", number / 250, number % 250 + 1)],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": format!("node-{zone}"),
        "targetRef": {
            "kind": "Pod", "namespace": "shop", "name": format!("pod-{number}"), "uid": format!("uid-{number}"),
        },
        "zone": zone,
    })
}

/// Ready endpoints, one for each of these zones.
pub fn endpoints(zones: &[&str]) -> Vec<Value> {
    zones
        .iter()
        .enumerate()
        .map(|(number, zone)| endpoint(number, zone))
        .collect()
}

/// Something to change about an endpoint or a slice.
pub trait With {
    /// The same with a field, given as a JSON pointer to a place whose parent is there, set.
    fn with(self, pointer: &str, value: Value) -> Self;

    /// The same without a field.
    fn without(self, pointer: &str) -> Self;
}

impl With for Value {
    fn with(mut self, pointer: &str, value: Value) -> Self {
        parent(&mut self, pointer).insert(last(pointer), value);
        self
    }

    fn without(mut self, pointer: &str) -> Self {
        parent(&mut self, pointer).remove(&last(pointer));
        self
    }
}

fn parent<'a>(value: &'a mut Value, pointer: &str) -> &'a mut serde_json::Map<String, Value> {
    let (parent, _) = pointer.rsplit_once('/').unwrap();
    value
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .unwrap()
}

fn last(pointer: &str) -> String {
    let (_, last) = pointer.rsplit_once('/').unwrap();
    last.replace("~1", "/").replace("~0", "~")
}

/// The hints that name one zone.
pub fn hints(zone: &str) -> Value {
    json!({"forZones": [{"name": zone}]})
}

/// The slice with each endpoint hinted for the zone at its place.
pub fn hinted(slice: &Value, zones: &[&str]) -> Value {
    let count = slice["endpoints"].as_array().map_or(0, Vec::len);
    assert_eq!(count, zones.len(), "a zone for each endpoint");
    let hint = |slice: Value, (i, zone): (usize, &&str)| {
        slice.with(&format!("/endpoints/{i}/hints"), hints(zone))
    };
    zones.iter().enumerate().fold(slice.clone(), hint)
}

/// The slice `shop/web-1` of `shop/web`.
pub fn web(endpoints: Vec<Value>) -> Value {
    slice_of("web", endpoints)
}

/// The first slice of a Service of the namespace `shop`.
pub fn slice_of(service: &str, endpoints: Vec<Value>) -> Value {
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"),
            "namespace": "shop",
            "uid": "7e7bd3fc-41b4-4d6f-a6b1-8d6d0f2f9d3e",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": service,
            },
            "annotations": {TRIGGER_TIME: "2026-01-01T00:00:00Z"},
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:ports": {}}}],
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    slice["endpoints"] = Value::Array(endpoints);
    slice
}

/// One endpoint in each zone, which needs no more than own-zone hints.
pub fn balanced() -> Value {
    web(endpoints(&ZONES))
}

/// The uid of every review here.
pub const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";

/// An AdmissionReview about a slice, with all that an API server says in one.
pub fn review(operation: &str, object: &Value, old: Option<&Value>) -> Value {
    let kind = json!({"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"});
    let resource =
        json!({"group": "discovery.k8s.io", "version": "v1", "resource": "endpointslices"});
    let mut review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "shop",
            "operation": operation,
            "userInfo": {
                "username": "system:serviceaccount:kube-system:endpointslice-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": format!("{}Options", capitalized(operation)), "apiVersion": "meta.k8s.io/v1"},
        },
    });
    if let Some(name) = object
        .pointer("/metadata/name")
        .or_else(|| old?.pointer("/metadata/name"))
    {
        review["request"]["name"] = name.clone();
    }
    review
}

fn capitalized(word: &str) -> String {
    word[..1].to_owned() + &word[1..].to_lowercase()
}
