//! Objects in which anything may stand anywhere.

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// A kind that is watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Node,
    Service,
    EndpointSlice,
}

/// An object that has every field that is read.
fn full(kind: Kind) -> Value {
    let metadata = json!({
        "name": "web",
        "generateName": "web-",
        "namespace": "shop",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"kubernetes.io/service-name": "web", "topology.kubernetes.io/zone": "zone-a"},
        "annotations": {"service.kubernetes.io/topology-mode": "Auto"},
    });
    match kind {
        Kind::Node => json!({
            "metadata": metadata,
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready"}]},
            "status": {
                "allocatable": {"cpu": "4"},
                "capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }),
        Kind::Service => json!({
            "metadata": metadata,
            "spec": {
                "clusterIP": "10.96.0.1",
                "externalIPs": ["192.0.2.1"],
                "internalTrafficPolicy": "Local",
                "trafficDistribution": "PreferClose",
                "ports": [{"name": "http", "nodePort": 30000}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        }),
        Kind::EndpointSlice => json!({
            "metadata": metadata,
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "web-0",
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-0", "uid": "1"},
                "deprecatedTopology": {"a": "b"},
                "nodeName": "node-0",
                "zone": "zone-a",
                "hints": {"forZones": [{"name": "zone-a"}], "forNodes": [{"name": "node-0"}]},
            }],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "appProtocol": "http"}],
        }),
    }
}

/// The JSON pointers to everything below `value`.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, child)| (key.replace('/', "~1"), child))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, child)| (i.to_string(), child))
            .collect(),
        _ => Vec::new(),
    };
    let below = |(key, child): (String, &Value)| {
        let deeper: Vec<String> = pointers(child)
            .into_iter()
            .map(|rest| format!("/{key}{rest}"))
            .collect();
        std::iter::once(format!("/{key}")).chain(deeper)
    };
    children.into_iter().flat_map(below).collect()
}

/// Any JSON, often with keys that have a meaning somewhere.
pub fn anything() -> impl Strategy<Value = Value> {
    let known = [
        "name",
        "metadata",
        "labels",
        "annotations",
        "ready",
        "conditions",
        "forZones",
        "port",
        "addresses",
        "zone",
        "cpu",
        "uid",
        "key",
        "type",
        "status",
        "",
        "é\u{0}\"\\",
        "$serde_json::private::RawValue",
        "$serde_json::private::Number",
    ];
    let texts = prop_oneof![
        select(vec!["True", "IPv4", "zone-a", "4", "web", ""]).prop_map(String::from),
        any::<String>()
    ];
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        3 => texts.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let keys =
            prop_oneof![3 => select(known.to_vec()).prop_map(String::from), 1 => any::<String>()];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            hash_map(keys, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Objects of every kind, with anything at one to four of their fields.
pub fn odd_objects() -> impl Strategy<Value = (Kind, Value)> {
    odd_objects_of(vec![Kind::Node, Kind::Service, Kind::EndpointSlice])
}

/// The same for EndpointSlices alone.
pub fn odd_slices() -> impl Strategy<Value = Value> {
    odd_objects_of(vec![Kind::EndpointSlice]).prop_map(|(_, slice)| slice)
}

fn odd_objects_of(kinds: Vec<Kind>) -> impl Strategy<Value = (Kind, Value)> {
    (select(kinds), vec((any::<Index>(), anything()), 1..=4)).prop_map(|(kind, oddities)| {
        let mut object = full(kind);
        for (place, odd) in oddities {
            let pointers = pointers(&object);
            if !pointers.is_empty() {
                let pointer: &String = place.get(&pointers);
                *object
                    .pointer_mut(pointer)
                    .expect("a pointer from the object itself") = odd;
            }
        }
        (kind, object)
    })
}
