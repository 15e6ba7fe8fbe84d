//! zonewise's namespace, Deployment, permissions and webhook configurations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use zonewise::controller::certificates::contents::Contents;

use crate::support::metrics;
use crate::support::objects::{self, from_json};
use crate::support::plane::Plane;
use crate::support::replica::{Certificates, Replica};
use crate::support::wait::within;
use crate::support::webhook::Registration;

pub const SECRET: &str = "zonewise-certificates";

/// What a scene has. Its parts end in the order in which they stand here.
pub struct Stage {
    pub client: Client,
    /// Of zonewise's namespace, and of the webhook configurations.
    pub name: String,
    pub dir: TempDir,
    plane: Arc<Plane>,
}

impl Stage {
    /// A namespace on the control plane that scenes share.
    pub async fn start(scene: &str) -> Self {
        Self::on(Plane::shared().await, &crate::namespace_of(scene)).await
    }

    /// The same on another control plane that has the first nodes.
    pub async fn on(plane: Arc<Plane>, name: &str) -> Self {
        let stage = Self {
            client: plane.client.clone(),
            name: name.to_owned(),
            dir: TempDir::new().expect("a temporary folder can be made"),
            plane,
        };
        stage.prepare().await;
        stage
    }

    async fn prepare(&self) {
        let namespace: Namespace = from_json(json!({"metadata": {"name": self.name}}));
        self.create(Api::all(self.client.clone()), namespace).await;
        let deployment: Deployment = objects::deployment("zonewise", 0);
        self.create(self.own(), deployment).await;
        self.permit().await;
        objects::free_lease(&self.client, &self.name).await;
    }

    /// What docs/controller.md and docs/certificates.md say that it needs, and no more.
    async fn permit(&self) {
        let anywhere = json!({"metadata": {"name": self.name}, "rules": [
            {"apiGroups": [""], "resources": ["namespaces", "nodes", "services"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch", "patch"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "list"]},
            {"apiGroups": ["admissionregistration.k8s.io"],
             "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
             "resourceNames": [self.name], "verbs": ["get", "patch"]},
        ]});
        let own = json!({"metadata": {"name": "zonewise"}, "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["zonewise"],
             "verbs": ["get", "update"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get", "update"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["zonewise"], "verbs": ["get"]},
        ]});
        let binding = |kind: &str, name: &str| {
            json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": "zonewise", "namespace": self.name}],
            })
        };
        let client = || self.client.clone();
        let role: ClusterRole = from_json(anywhere);
        let bound: ClusterRoleBinding = from_json(binding("ClusterRole", &self.name));
        let own_role: Role = from_json(own);
        let own_bound: RoleBinding = from_json(binding("Role", "zonewise"));
        self.create(Api::all(client()), role).await;
        self.create(Api::all(client()), bound).await;
        self.create(self.own(), own_role).await;
        self.create(self.own(), own_bound).await;
    }

    async fn create<K>(&self, api: Api<K>, object: K)
    where
        K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
    {
        let created = api.create(&PostParams::default(), &object).await;
        created.expect("the object is created");
    }

    /// The API of a kind in zonewise's namespace.
    pub fn own<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn mutating(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    pub fn validating(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    // === Webhook configurations ===

    /// Installs both as Helm does, with no CA bundle. The API server calls this port.
    pub async fn install(&self, port: u16) {
        self.install_mutating(port).await;
        self.install_validating(port).await;
    }

    pub async fn install_mutating(&self, port: u16) {
        self.register(port, &[]).await;
    }

    /// Registers `/mutate` for the slices of this namespace, in place of what was registered before.
    pub async fn register(&self, port: u16, ca: &[u8]) {
        let own = json!({"matchLabels": {"kubernetes.io/metadata.name": self.name}});
        let registration = Registration::of(&self.name, own);
        registration.register(&self.client, port, ca).await;
    }

    /// One that is called for nothing.
    async fn install_validating(&self, port: u16) {
        let configuration: ValidatingWebhookConfiguration = from_json(json!({
            "metadata": {"name": self.name},
            "webhooks": [{
                "name": "services.zonewise.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/validate")},
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "rules": [{"apiGroups": ["zonewise.test"], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["nothing"]}],
            }],
        }));
        self.create(self.validating(), configuration).await;
    }

    /// The CA bundle of the one webhook of each.
    pub async fn bundles(&self) -> Result<[Vec<u8>; 2], String> {
        let mutating = self.mutating().get(&self.name).await;
        let mutating = mutating.map_err(|error| error.to_string())?;
        let validating = self.validating().get(&self.name).await;
        let validating = validating.map_err(|error| error.to_string())?;
        let first = mutating.webhooks.into_iter().flatten().next();
        let second = validating.webhooks.into_iter().flatten().next();
        let first = first.and_then(|webhook| webhook.client_config.ca_bundle);
        let second = second.and_then(|webhook| webhook.client_config.ca_bundle);
        Ok([first, second].map(|bundle| bundle.map(|bytes| bytes.0).unwrap_or_default()))
    }

    // === Replicas ===

    /// A replica that makes certificates that last for an hour; not yet started.
    pub fn replica(&self, name: &str) -> Replica {
        // The flags that name these files are taken away again.
        let certificates = Certificates::generate(&self.dir.path().join("unused"));
        self.replica_with(name, &certificates)
            .without("--tls-cert-file")
            .without("--tls-private-key-file")
            .with("--certificate-secret", SECRET)
            .with("--certificate-names", "zonewise.zonewise.svc,127.0.0.1")
            .with("--certificate-lifetime", "1h")
            .with("--ca-lifetime", "2h")
            .with("--validating-webhook-configuration", &self.name)
    }

    /// A replica with certificates of files; not yet started.
    pub fn replica_with(&self, name: &str, certificates: &Certificates) -> Replica {
        Replica::new(name, self.dir.path(), &self.kubeconfig(), certificates)
            .with("--replica-name", name)
            .with("--shutdown-delay-duration", "0s")
            .with("--lease-namespace", &self.name)
            .with("--owner-deployment", "zonewise")
            .with("--webhook-configuration", &self.name)
    }

    fn kubeconfig(&self) -> PathBuf {
        let path = self.dir.path().join("zonewise.kubeconfig");
        self.plane.impersonate(&self.user(), &path);
        path
    }

    /// zonewise's user.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:zonewise", self.name)
    }

    // === What there is ===

    /// What the Secret holds.
    pub async fn secret(&self) -> Result<Secret, String> {
        let secret = self.own::<Secret>().get(SECRET).await;
        secret.map_err(|error| error.to_string())
    }

    /// What the Secret holds, read.
    pub async fn contents(&self) -> Result<Contents, String> {
        let data = data(&self.secret().await?);
        Ok(Contents::read(&data))
    }

    /// Waits until all is in order: a CA, a certificate that each of these replicas serves and knows to be trusted, and
    /// the CA in both configurations.
    pub async fn is_in_order(&self, replicas: &[&Replica]) -> Contents {
        within(Duration::from_mins(1), "all is in order", async || {
            let contents = self.contents().await?;
            let (Some(_), Some(server)) = (&contents.signing, &contents.server) else {
                return Err("the Secret lacks a CA or a certificate".to_owned());
            };
            let bundle = contents.bundle_pem().into_bytes();
            if self.bundles().await? != [bundle.clone(), bundle] {
                return Err("a CA bundle is not that of the Secret".to_owned());
            }
            let until = server.leaf.validity.until.unix_timestamp();
            for replica in replicas {
                serves_until(replica, until)?;
            }
            Ok(contents)
        })
        .await
    }

    /// Requests of zonewise that the API server refused, for want of permission or for what was sent.
    pub fn refused(&self) -> Vec<String> {
        let refused = |entry: &Value| {
            let code = entry["responseStatus"]["code"].as_u64().unwrap_or_default();
            // It was deleted, or another was faster, or the scene ended its process in the middle of the request.
            let message = entry["responseStatus"]["message"].as_str();
            let is_cut_off = message.is_some_and(|message| message.ends_with("context canceled"));
            let is_aborted = is_cut_off && [499, 500, 504].contains(&code);
            code >= 400 && code != 404 && code != 409 && !is_aborted
        };
        let requests = self.requests();
        let refused = requests.iter().filter(|entry| refused(entry));
        refused.map(ToString::to_string).collect()
    }

    /// What it may do for certificates, and never did.
    pub fn unused(&self) -> Vec<String> {
        let requests = self.requests();
        let used = |verb: &str, resource: &str| {
            let is_it = |entry: &Value| {
                let ok = entry["responseStatus"]["code"]
                    .as_u64()
                    .is_some_and(|code| code < 300);
                ok && entry["verb"] == verb && entry["objectRef"]["resource"] == resource
            };
            requests.iter().any(is_it)
        };
        let permitted = [
            ("create", "secrets"),
            ("get", "secrets"),
            ("update", "secrets"),
            ("get", "deployments"),
            ("get", "mutatingwebhookconfigurations"),
            ("patch", "mutatingwebhookconfigurations"),
            ("get", "validatingwebhookconfigurations"),
            ("patch", "validatingwebhookconfigurations"),
        ];
        let unused = permitted
            .into_iter()
            .filter(|(verb, resource)| !used(verb, resource));
        unused
            .map(|(verb, resource)| format!("{verb} {resource}"))
            .collect()
    }

    /// Requests of zonewise, from the audit log.
    pub fn requests(&self) -> Vec<Value> {
        let user = self.user();
        let entries = self.plane.audit.entries_with(&user);
        let is_by_it = |entry: &Value| entry["impersonatedUser"]["username"] == *user;
        entries.into_iter().filter(is_by_it).collect()
    }

    /// Writes of slices that the API server refused, or stored without an answer of the webhook, but for the first so many.
    pub fn faults_from(&self, mark: usize) -> Vec<String> {
        self.plane.audit.faults(Some(&self.name)).split_off(mark)
    }

    /// A Service whose slices are written by hand.
    pub async fn service(&self, name: &str) {
        let by_hand = [objects::no_selector(), objects::mode("Auto")];
        let service: Service = objects::service(name, &by_hand);
        let services: Api<Service> = self.own();
        let parameters = PatchParams::apply("zonewise-tests");
        let mut object = serde_json::to_value(&service).expect("a Service is JSON");
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Service");
        let applied = services
            .patch(name, &parameters, &Patch::Apply(object))
            .await;
        applied.expect("the Service is there");
    }
}

/// The `data` of a Secret.
pub fn data(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}

/// Whether a replica tells that it serves a certificate that ends then, and that it is trusted.
fn serves_until(replica: &Replica, until: i64) -> Result<(), String> {
    let text = replica.metrics()?;
    let metric = "zonewise_certificate_expiration_timestamp_seconds";
    let told = metrics::sum(&text, metric, &[("usage", "serving")]);
    let trusted = metrics::sum(&text, "zonewise_certificate_trusted", &[]);
    #[expect(clippy::cast_precision_loss)]
    if (told - until as f64).abs() > 0.5 {
        return Err(format!("what is served ends at {told} and not at {until}"));
    }
    if trusted < 0.5 {
        return Err("what is served is not trusted".to_owned());
    }
    Ok(())
}

/// The sum of the samples of a replica's metric with these labels.
pub fn number(replica: &Replica, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let text = replica.metrics().unwrap_or_else(|error| panic!("{error}"));
    metrics::sum(&text, metric, labels)
}
