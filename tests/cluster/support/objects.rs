//! Kubernetes objects, written as the YAML that a user would write.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The zones of the cluster.
pub const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// The label that keeps KWOK's hands off a node.
pub const UNMANAGED: &str = "zonewise.test/unmanaged";

/// The label that ties a slice to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The annotation that asks for hints.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// Reads an object.
///
/// # Panics
/// When it is none of that kind.
pub fn from_json<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json)
        .unwrap_or_else(|error| panic!("not a {}: {error}", std::any::type_name::<T>()))
}

/// Applies merge patches one after another.
fn merged(mut base: Value, changes: &[Value]) -> Value {
    for change in changes {
        json_patch::merge(&mut base, change);
    }
    base
}

/// A node of `zone` with so many CPUs and a network for its pods, with changes.
#[must_use]
pub fn node(name: &str, zone: &str, cpus: u32, pod_networks: &[&str], changes: &[Value]) -> Node {
    let resources = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "1000"});
    let base = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": zone,
        }},
        "spec": {"podCIDR": pod_networks.first(), "podCIDRs": pod_networks},
        "status": {"allocatable": resources, "capacity": resources},
    });
    from_json(merged(base, changes))
}

/// A Service over the pods with the label `app: {name}`, with changes.
#[must_use]
pub fn service(name: &str, changes: &[Value]) -> Service {
    let base = json!({
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    });
    from_json(merged(base, changes))
}

/// The change that gives a Service no selector: its slices are somebody else's.
#[must_use]
pub fn no_selector() -> Value {
    json!({"spec": {"selector": null}})
}

/// The change that sets the topology annotation.
#[must_use]
pub fn mode(value: &str) -> Value {
    json!({"metadata": {"annotations": {TOPOLOGY_MODE: value}}})
}

/// The change that sets the traffic distribution.
#[must_use]
pub fn traffic(value: &str) -> Value {
    json!({"spec": {"trafficDistribution": value}})
}

/// A pod of the app, bound to a node.
#[must_use]
pub fn pod(app: &str, node: &str, port: u16) -> Pod {
    let mut spec = pod_spec(port);
    spec["nodeName"] = node.into();
    from_json(
        json!({"metadata": {"generateName": format!("{app}-{node}-"), "labels": {"app": app}}, "spec": spec}),
    )
}

/// A Deployment of the app, for the scheduler to place.
#[must_use]
pub fn deployment(app: &str, replicas: u32) -> Deployment {
    from_json(json!({
        "metadata": {"name": app},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": pod_spec(8080)},
        },
    }))
}

fn pod_spec(port: u16) -> Value {
    json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "ports": [{"name": "http", "containerPort": port}]}],
    })
}

/// A slice written by hand, with one port, with changes.
#[must_use]
pub fn slice(
    name: &str,
    service: &str,
    endpoints: &[Endpoint],
    changes: &[Value],
) -> EndpointSlice {
    let base = json!({
        "metadata": {"name": name, "labels": {
            SERVICE_NAME: service,
            "endpointslice.kubernetes.io/managed-by": "by-hand.zonewise.test",
        }},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    from_json(merged(base, changes))
}

/// Writes the Lease as a leader leaves it: the first leader of a fresh installation would wait for a full lease duration.
pub async fn free_lease(client: &Client, namespace: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "zonewise", "annotations": {"zonewise.dev/released-by": "nobody"}},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams::apply("zonewise-tests").force();
    let written = leases
        .patch("zonewise", &params, &Patch::Apply(lease))
        .await;
    written.expect("the Lease is written");
}
