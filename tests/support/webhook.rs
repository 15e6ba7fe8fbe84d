//! The webhook as the API server knows it.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::objects::from_json;

/// The webhook's name, by which the API server's metrics know it.
pub const NAME: &str = "endpointslices.zonewise.dev";

/// Registers `/mutate` on a loopback port, in place of what was registered before.
pub async fn register(client: &Client, port: u16, ca: &[u8]) {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = configuration(port, ca);
    let params = PatchParams::apply("zonewise-tests").force();
    configurations
        .patch("zonewise", &params, &Patch::Apply(&configuration))
        .await
        .expect("the webhook is registered");
}

fn configuration(port: u16, ca: &[u8]) -> MutatingWebhookConfiguration {
    use base64::Engine as _;
    from_json(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "zonewise"},
        "webhooks": [{
            "name": NAME,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/mutate"),
                "caBundle": base64::engine::general_purpose::STANDARD.encode(ca),
            },
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "rules": [{
                "apiGroups": ["discovery.k8s.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["endpointslices"],
            }],
            "matchConditions": [
                {"name": "ip-addresses", "expression": "object.addressType != 'FQDN'"},
                {"name": "of-a-service", "expression": OF_A_SERVICE},
                {"name": "not-the-api-servers", "expression": NOT_THE_API_SERVERS},
            ],
        }],
    }))
}

const OF_A_SERVICE: &str =
    "has(object.metadata.labels) && 'kubernetes.io/service-name' in object.metadata.labels";

const NOT_THE_API_SERVERS: &str = "request.namespace != 'default' || !has(object.metadata.labels) || \
     !('kubernetes.io/service-name' in object.metadata.labels) || \
     object.metadata.labels['kubernetes.io/service-name'] != 'kubernetes'";
