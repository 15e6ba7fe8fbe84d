//! Nodes, Services and EndpointSlices as JSON, so that they can be as odd as they need to be.

use serde_json::{Value, json};

/// A Ready node of a zone, long there.
pub fn node(name: &str, zone: &str, cpus: u32) -> Value {
    json!({
        "metadata": {
            "name": name,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone},
        },
        "status": {
            "allocatable": {"cpu": cpus.to_string(), "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2024-01-01T00:00:00Z"}],
        },
    })
}

/// The change that makes a node Ready or not.
pub fn ready(status: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})
}

/// A Service `shop/{name}` that asks for hints.
pub fn service(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": {"service.kubernetes.io/topology-mode": "Auto"},
        },
        "spec": {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80}]},
    })
}

/// A slice `shop/{name}` of a Service.
pub fn slice(name: &str, service: &str, endpoints: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    })
}

/// One ready endpoint for each zone of `zones`, with addresses `10.0.{net}.1` and on.
pub fn endpoints(net: u8, zones: &[&str]) -> Vec<Value> {
    let endpoint = |(i, zone): (usize, &&str)| json!({"addresses": [format!("10.0.{net}.{}", i + 1)], "zone": zone, "conditions": {"ready": true}});
    zones.iter().enumerate().map(endpoint).collect()
}

/// The object with a merge patch applied.
pub fn with(mut object: Value, change: &Value) -> Value {
    json_patch::merge(&mut object, change);
    object
}
