//! The chart, installed by helm or rendered and sent in dry runs. These scenes share a control plane of their own, since the
//! chart installs objects that belong to the whole cluster.
//!
//! Needs helm 4 (`make chart-tools`). Scenes that need helm 3 or CRDs are ignored; `make ci` runs them.

mod api_server;
mod chosen;
#[path = "../chart/helm.rs"]
#[allow(dead_code, reason = "the tests of the chart alone use the rest")]
pub mod helm;
mod releases;
pub mod remains;
#[path = "../chart/switches.rs"]
#[allow(dead_code, reason = "the tests of the chart alone use the rest")]
mod switches;
#[path = "../chart/tools.rs"]
pub mod tools;
#[path = "../chart/values.rs"]
#[allow(dead_code, reason = "the tests of the chart alone use the rest")]
mod values;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use crate::support::plane::{Plane, Shared};
use crate::support::wait::eventually;
use tools::tool;

/// The control plane of the chart's scenes.
async fn plane() -> Arc<Plane> {
    static SHARED: Shared<Plane> = Shared::new();
    SHARED.get(Plane::start).await
}

/// Installs the CRDs of the Prometheus operator and of cert-manager.
async fn install_crds(client: &Client) {
    let folder = tool("ZONEWISE_CRDS", "crds", "", "");
    for file in std::fs::read_dir(&folder)
        .expect("there are CRDs")
        .flatten()
    {
        let text = std::fs::read_to_string(file.path()).expect("a CRD can be read");
        let crd: DynamicObject = serde_saphyr::from_str(&text).expect("a CRD is YAML");
        let api = api_for(client, &json!(crd))
            .await
            .expect("the API server knows CRDs");
        api.create(&PostParams::default(), &crd)
            .await
            .expect("the CRD is taken");
        let name = crd.metadata.name.unwrap_or_default();
        eventually(&format!("{name} is served"), async || {
            let crd = api.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = crd.data["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let established = conditions
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True");
            established
                .then_some(())
                .ok_or_else(|| format!("{conditions:?}"))
        })
        .await;
    }
}

/// Creates a namespace with these labels unless it is there.
pub async fn create_namespace(client: &Client, name: &str, labels: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let api: Api<Namespace> = Api::all(client.clone());
    let params = PatchParams::apply("zonewise-tests");
    api.patch(name, &params, &Patch::Apply(namespace))
        .await
        .expect("the namespace is made");
}

/// Where objects of this one's kind are.
pub async fn api_for(client: &Client, object: &Value) -> Result<Api<DynamicObject>, String> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let types = object.types.as_ref().ok_or("an object has a kind")?;
    let kind = GroupVersionKind::try_from(types).map_err(|error| error.to_string())?;
    let (resource, capabilities) = pinned_kind(client, &kind)
        .await
        .map_err(|error| format!("{kind:?}: {error}"))?;
    let client = client.clone();
    match (capabilities.scope, object.metadata.namespace) {
        (Scope::Cluster, None) => Ok(Api::all_with(client, &resource)),
        (Scope::Namespaced, Some(namespace)) => {
            Ok(Api::namespaced_with(client, &namespace, &resource))
        }
        (scope, namespace) => Err(format!(
            "{kind:?} is {scope:?} and has namespace {namespace:?}"
        )),
    }
}

/// Has the API server judge an object, every field of it, and store nothing.
pub async fn dry_run(client: &Client, object: &Value) -> Result<(), String> {
    let api = api_for(client, object).await?;
    let name = object["metadata"]["name"]
        .as_str()
        .ok_or("an object has a name")?;
    let params = PatchParams::apply("zonewise-tests")
        .dry_run()
        .validation_strict();
    let judged = api.patch(name, &params, &Patch::Apply(object)).await;
    judged.map(|_| ()).map_err(|error| error.to_string())
}
