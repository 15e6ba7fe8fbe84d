//! A mutating webhook that is asked after zonewise's and takes the hint of the first endpoint away.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::support::objects::from_json;
use crate::support::scene::Scene;

/// API servers ask webhooks in the order of their configurations' names.
const NAME: &str = "zz-breaker";

pub struct Breaker {
    handle: Handle<SocketAddr>,
    client: Client,
}

impl Breaker {
    /// Registers it for a scene's slices.
    pub async fn begin(scene: &Scene<'_>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("it can be told so");
        let port = listener.local_addr().expect("it has an address").port();
        let handle = Handle::new();
        let server = axum_server::from_tcp(listener)
            .expect("it can be listened on")
            .acceptor(axum_server::tls_rustls::RustlsAcceptor::new(tls(scene)))
            .handle(handle.clone())
            .serve(
                Router::new()
                    .route("/", post(break_hint))
                    .into_make_service(),
            );
        tokio::spawn(server);
        let client = scene.world.client.clone();
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let configuration = configuration(port, &scene.world.ca(), &scene.namespace);
        configurations
            .create(&PostParams::default(), &configuration)
            .await
            .expect("the webhook is registered");
        Self { handle, client }
    }

    pub async fn end(self) {
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(self.client);
        let deleted = configurations.delete(NAME, &DeleteParams::default()).await;
        deleted.expect("the webhook is taken away");
        self.handle.shutdown();
    }
}

/// With the certificate that replicas serve.
fn tls(scene: &Scene<'_>) -> RustlsConfig {
    let read = |name: &str| std::fs::read(scene.world.dir().join(name));
    let (certificate, key) = (read("tls.crt"), read("tls.key"));
    let certificate = certificate.expect("there is a certificate");
    let key = key.expect("there is a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = rustls_pki_types::pem::PemObject::pem_slice_iter(&certificate);
    let chain: Result<Vec<_>, _> = chain.collect();
    let key = rustls_pki_types::pem::PemObject::from_pem_slice(&key).expect("the key is PEM");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(chain.expect("the certificate is PEM"), key)
        .expect("they belong together");
    RustlsConfig::from_config(Arc::new(config))
}

async fn break_hint(body: Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let patch = json!([{"op": "remove", "path": "/endpoints/0/hints"}]);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()),
        },
    });
    ([(CONTENT_TYPE, "application/json")], answer.to_string())
}

fn configuration(port: u16, ca: &[u8], namespace: &str) -> MutatingWebhookConfiguration {
    from_json(json!({
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": "breaker.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/"),
                "caBundle": STANDARD.encode(ca),
            },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{
                "apiGroups": ["discovery.k8s.io"],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["endpointslices"],
            }],
        }],
    }))
}
