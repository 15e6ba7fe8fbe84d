//! The webhook as the API server knows it.

use base64::Engine as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::from_json;

/// The webhook's name, by which the API server's metrics know it.
pub const NAME: &str = "endpointslices.zonewise.dev";

/// A webhook configuration.
pub struct Registration {
    name: String,
    namespaces: Option<Value>,
    timeout_seconds: u32,
}

impl Registration {
    /// For all namespaces, with the time-out of the chart.
    pub fn everywhere(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespaces: None,
            timeout_seconds: 1,
        }
    }

    /// For the namespaces that a selector takes, beside other scenes: a call may wait for the processor, which is not what
    /// these scenes are about.
    pub fn of(name: &str, namespaces: Value) -> Self {
        Self {
            name: name.to_owned(),
            namespaces: Some(namespaces),
            timeout_seconds: 10,
        }
    }

    /// Registers `/mutate` on a loopback port, in place of what was registered before under this name.
    pub async fn register(&self, client: &Client, port: u16, ca: &[u8]) {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let params = PatchParams::apply("zonewise-tests").force();
        let patch = Patch::Apply(self.configuration(port, ca));
        let registered = configurations.patch(&self.name, &params, &patch).await;
        registered.expect("the webhook is registered");
    }

    fn configuration(&self, port: u16, ca: &[u8]) -> MutatingWebhookConfiguration {
        from_json(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self.name},
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
                "timeoutSeconds": self.timeout_seconds,
                "namespaceSelector": self.namespaces,
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
}

const OF_A_SERVICE: &str =
    "has(object.metadata.labels) && 'kubernetes.io/service-name' in object.metadata.labels";

const NOT_THE_API_SERVERS: &str = "request.namespace != 'default' || !has(object.metadata.labels) || \
     !('kubernetes.io/service-name' in object.metadata.labels) || \
     object.metadata.labels['kubernetes.io/service-name'] != 'kubernetes'";
