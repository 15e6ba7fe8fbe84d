//! The cluster, helm, and what runs there.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::pods::Pods;
use crate::chart::helm::{Helm, said, text};
use crate::chart::tools::root;
use crate::support::objects::{self, ZONES, from_json};
use crate::support::plane::Plane;
use crate::support::proxy::Proxy;
use crate::support::{metrics, webhook, world};

/// zonewise's namespace.
pub const NAMESPACE: &str = "zonewise";

/// Where Services are that want hints.
pub const SHOP: &str = "shop";

/// All that runs. Its parts end in the order in which they stand here.
pub struct Site {
    /// Stands for the webhook's Service: the API server calls here.
    pub proxy: Proxy,
    /// What the kubelet would run.
    pub pods: Pods,
    /// Of an administrator.
    pub client: Client,
    /// The real one.
    pub helm: Helm,
    /// Ends with the site.
    pub dir: TempDir,
    plane: Arc<Plane>,
}

impl Site {
    /// A cluster of three zones with nothing prepared.
    pub async fn start() -> Self {
        let plane = Arc::new(Plane::start().await);
        let client = plane.client.clone();
        let namespace: Namespace = from_json(json!({"metadata": {"name": SHOP}}));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.expect("the namespace is created");
        for zone in ZONES {
            let number = zone.bytes().last().unwrap_or_default();
            let network = format!("10.{number}.0.0/16");
            let node = objects::node(&zone.replace("zone", "node"), zone, 4, &[&network], &[]);
            world::create_node(&client, &node).await;
        }
        Self {
            proxy: Proxy::over(&[]),
            pods: Pods::default(),
            client,
            helm: Helm::four(),
            dir: TempDir::new().expect("a temporary folder can be made"),
            plane,
        }
    }

    /// A command of helm on this cluster, from the root of the project.
    pub fn helm_command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.helm.command(arguments);
        command
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .current_dir(root());
        command
    }

    /// Runs it.
    pub fn helm(&self, arguments: &[&str]) -> String {
        let mut command = self.helm_command(arguments);
        let output = tokio::task::block_in_place(|| command.output()).expect("helm runs");
        said(&output).unwrap_or_else(|said| panic!("helm {arguments:?}: {said}"))
    }

    /// Objects of a kind in zonewise's namespace.
    pub fn own<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Objects of a kind in the shop.
    pub fn shop<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), SHOP)
    }

    /// The API server's audit log.
    pub fn audit_log(&self) -> String {
        self.plane.audit.text()
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> String {
        text(self.plane.kubeconfig())
    }

    /// A kubeconfig with a token of a ServiceAccount in zonewise's namespace, and nothing else that opens a door.
    pub async fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = self.own();
        let request: TokenRequest = from_json(json!({"spec": {"audiences": []}, "metadata": {}}));
        let parameters = PostParams::default();
        let answer = accounts.create_token_request(account, &parameters, &request);
        let answer = answer.await.expect("the ServiceAccount gets a token");
        let token = answer.status.expect("an answer").token;
        let own = Kubeconfig::read_from(self.plane.kubeconfig());
        let own = own.expect("the kubeconfig can be read");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": own.clusters,
            "users": [{"name": "pod", "user": {"token": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": own.clusters[0].name, "user": "pod", "namespace": NAMESPACE}}],
            "current-context": "pod",
        });
        let path = self.dir.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).expect("the kubeconfig can be written");
        path
    }

    // === The webhook ===

    /// The webhook's URL on loopback.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/mutate", self.proxy.port)
    }

    /// Objects of the webhook configuration's kind.
    pub fn configurations(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    /// Has the API server call a URL in place of what it calls now.
    pub async fn call(&self, url: &str) {
        self.call_by(|path| json!({"url": url.replace("/mutate", path), "service": null}))
            .await;
    }

    /// Has it call the Service, as the chart says, where no process is to be reached.
    pub async fn call_the_service(&self) {
        let service = |path: &str| json!({"name": "zonewise", "namespace": NAMESPACE, "path": path, "port": 443});
        self.call_by(|path| json!({"url": null, "service": service(path)}))
            .await;
    }

    async fn call_by(&self, client_config: impl Fn(&str) -> Value) {
        let parameters = PatchParams::apply("zonewise-tests");
        let patch = |names: &[&str], path: &str| {
            let webhook = |name| json!({"name": name, "clientConfig": client_config(path)});
            let webhooks: Vec<Value> = names.iter().map(webhook).collect();
            Patch::Strategic(json!({"webhooks": webhooks}))
        };
        let configurations = self.configurations();
        let mutating = patch(&[webhook::NAME], "/mutate");
        let patched = configurations.patch("zonewise", &parameters, &mutating);
        patched.await.expect("the webhook configuration is changed");
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let validating = patch(
            &[
                "services.zonewise.dev",
                "namespaces.zonewise.dev",
                "hints.zonewise.dev",
            ],
            "/validate",
        );
        let patched = configurations.patch("zonewise", &parameters, &validating);
        patched.await.expect("the webhook configuration is changed");
    }

    /// The one webhook.
    pub async fn webhook(&self) -> MutatingWebhook {
        let configuration = self.configurations().get("zonewise").await;
        let configuration = configuration.expect("there is a webhook configuration");
        let webhooks = configuration.webhooks.into_iter().flatten();
        webhooks.last().expect("it has a webhook")
    }

    /// The CA bundle of the one webhook.
    pub async fn bundle(&self) -> Option<Vec<u8>> {
        let bundle = self.webhook().await.client_config.ca_bundle;
        bundle.map(|bundle| bundle.0).filter(|it| !it.is_empty())
    }

    /// The Secret with the certificates.
    pub async fn secret(&self) -> Result<Secret, String> {
        let secret = self.own::<Secret>().get("zonewise-certificates").await;
        secret.map_err(|error| error.to_string())
    }

    /// How often the API server went on without the webhook.
    pub async fn failed_open(&self) -> f64 {
        let request = hyper::Request::get("/metrics").body(Vec::new());
        let request = request.expect("a path is all it needs");
        let text = self.client.request_text(request).await;
        let text = text.expect("the API server has metrics");
        let metric = "apiserver_admission_webhook_fail_open_count";
        metrics::sum(&text, metric, &[("name", webhook::NAME)])
    }
}

/// What a Secret holds under a key.
pub fn held(secret: &Secret, key: &str) -> Vec<u8> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map(|value| value.0.clone()).unwrap_or_default()
}

/// As JSON, for what is easier to look up there.
pub fn json_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).expect("Kubernetes objects are JSON")
}
