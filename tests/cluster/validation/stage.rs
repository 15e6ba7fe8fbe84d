//! A scene with a validating webhook, and two replicas of which one is behind that: one that warns, one that refuses.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use hyper::header::{HeaderValue, WARNING};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::metrics;
use crate::support::objects::{TOPOLOGY_MODE, from_json};
use crate::support::plane::Shared;
use crate::support::replica::Replica;
use crate::support::scene::Scene;
use crate::support::wait::eventually;
use crate::support::world::World;

/// A service account with every right.
pub const DEPLOYER: &str = "system:serviceaccount:default:deployer";

pub struct Stage<'w> {
    /// A namespace, with a validating webhook of its own.
    pub scene: Scene<'w>,
    /// The world around it. Its replica warns.
    pub world: &'w World,
    /// A replica that refuses.
    pub enforcing: Arc<Replica>,
    /// A service account's client.
    pub program: Client,
}

/// Whose writes the API server asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// Everybody's, so that those of programs come as far as zonewise.
    All,
    /// Those of people alone, as in the chart.
    People,
}

/// What came back with a write.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub code: u16,
    pub warnings: Vec<String>,
    /// The object as stored, or why it is not.
    pub body: Value,
}

impl Written {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A replica that refuses, for all scenes.
async fn enforcing(world: &World) -> Arc<Replica> {
    static ENFORCING: Shared<Replica> = Shared::new();
    ENFORCING
        .get(async || {
            let replica = world
                .another_replica("enforcing")
                .with("--validation", "enforce")
                .with("--controller", "false");
            replica.start().await;
            replica
        })
        .await
}

impl<'w> Stage<'w> {
    pub async fn set(world: &'w World, scene: &str) -> Self {
        let groups = ["system:masters"];
        let program = world.plane().config_as(DEPLOYER, &groups).await;
        Self {
            scene: Scene::begin(world, &crate::namespace_of(scene)).await,
            world,
            enforcing: enforcing(world).await,
            program: Client::try_from(program).expect("the kubeconfig makes a client"),
        }
    }

    /// From now on who makes a fault is warned.
    pub async fn warns(&self) {
        self.judged_by(&self.world.replica, Writers::All).await;
        eventually("the API server asks the replica that warns", async || {
            let typo = self.typo().await;
            if typo.code < 300 && typo.warnings.len() == 1 {
                Ok(())
            } else {
                Err(format!("{typo:?}"))
            }
        })
        .await;
    }

    /// From now on it is refused.
    pub async fn enforces(&self) {
        self.judged_by(&self.enforcing, Writers::People).await;
        eventually("the API server asks the replica that refuses", async || {
            let typo = self.typo().await;
            if typo.code == 403 {
                Ok(())
            } else {
                Err(format!("{typo:?}"))
            }
        })
        .await;
    }

    /// What comes of a Service with an annotation that there is none of, in a dry run.
    pub async fn typo(&self) -> Written {
        let service = json!({
            "metadata": {"name": "is-it-asked", "annotations": {
                TOPOLOGY_MODE: "Auto",
                "zonewise.dev/overload-treshold": "0.3",
            }},
            "spec": {"ports": [{"port": 80}]},
        });
        let path = format!("{}?dryRun=All", path(&self.scene, "services"));
        send(&self.world.client, "POST", &path, &service).await
    }

    /// A kubeconfig of a cluster that is not there.
    pub fn nowhere(&self) -> String {
        let path = self.world.dir().join("nowhere");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "x", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        });
        std::fs::write(&path, kubeconfig.to_string()).expect("a file can be written");
        path.display().to_string()
    }

    /// From now on the API server asks this replica.
    pub async fn judged_by(&self, replica: &Replica, writers: Writers) {
        let configurations: Api<ValidatingWebhookConfiguration> =
            Api::all(self.world.client.clone());
        let namespace = &self.scene.namespace;
        let configuration =
            configuration(namespace, replica.webhook_port, &self.world.ca(), writers);
        let params = PatchParams::apply("zonewise-tests").force();
        configurations
            .patch(namespace, &params, &Patch::Apply(&configuration))
            .await
            .expect("the webhook is registered");
    }

    /// Where the API server did without an answer of the validating webhooks, or could not evaluate their conditions.
    pub async fn failed_open(&self) -> Vec<String> {
        let request = hyper::Request::get("/metrics").body(Vec::new());
        let request = request.expect("a path is all it needs");
        let text = self.world.client.request_text(request).await;
        let text = text.expect("the API server has metrics");
        let failures = [
            "apiserver_admission_webhook_fail_open_count",
            "apiserver_admission_match_condition_evaluation_errors_total",
        ];
        let of = |webhook: &str| -> Vec<String> {
            let name = name_of(&self.scene.namespace, webhook);
            let labels = [("name", &*name)];
            let samples = failures.map(|metric| metrics::samples(&text, metric, &labels));
            let counted = samples
                .into_iter()
                .flatten()
                .filter(|(_, value)| *value > 0.0);
            counted.map(|(line, _)| line.to_owned()).collect()
        };
        [of(SERVICES), of(NAMESPACES), of(SLICES)].concat()
    }
}

/// Has zonewise observe a scene's Namespace, and waits until it does.
pub async fn observe(scene: &Scene<'_>) {
    let namespaces: Api<Namespace> = Api::all(scene.world.client.clone());
    let observe = json!({"metadata": {"annotations": {"zonewise.dev/mode": "Observe"}}});
    let params = PatchParams::default();
    namespaces
        .patch(&scene.namespace, &params, &Patch::Merge(&observe))
        .await
        .expect("the Namespace is patched");
}

/// The path of a scene's objects.
pub fn path(scene: &Scene<'_>, resource: &str) -> String {
    let group = if resource == "services" {
        "api/v1"
    } else {
        "apis/discovery.k8s.io/v1"
    };
    format!("/{group}/namespaces/{}/{resource}", scene.namespace)
}

/// Sends an object or a merge patch.
pub async fn send(client: &Client, method: &str, path: &str, object: &Value) -> Written {
    let kind = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(object.to_string().into_bytes()))
        .expect("it is a request");
    let answer = client.send(request).await.expect("the API server answers");
    let (head, body) = answer.into_parts();
    let body = body
        .collect()
        .await
        .expect("the answer is whole")
        .to_bytes();
    let warnings = head.headers.get_all(WARNING).iter();
    Written {
        code: head.status.as_u16(),
        warnings: warnings.filter_map(text_of).collect(),
        body: serde_json::from_slice(&body).expect("the API server speaks JSON"),
    }
}

/// The text of `299 - "text"`.
fn text_of(warning: &HeaderValue) -> Option<String> {
    let text = String::from_utf8_lossy(warning.as_bytes()).into_owned();
    let text = text.strip_prefix("299 - \"")?.strip_suffix('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

const SERVICES: &str = "services";
const NAMESPACES: &str = "namespaces";
const SLICES: &str = "hints";

/// The name of a scene's webhook, by which the API server's metrics know it.
fn name_of(namespace: &str, webhook: &str) -> String {
    format!("{namespace}.{webhook}.zonewise.dev")
}

fn configuration(
    namespace: &str,
    port: u16,
    ca: &[u8],
    writers: Writers,
) -> ValidatingWebhookConfiguration {
    let webhook = |name: &str, [group, resource, scope]: [&str; 3], conditions: &[String]| {
        let conditions = conditions.iter().enumerate();
        let condition = |(i, cel): (usize, &String)| json!({"name": format!("condition-{i}"), "expression": cel});
        json!({
            "name": name_of(namespace, name),
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/validate"),
                "caBundle": STANDARD.encode(ca),
            },
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [resource],
                "scope": scope,
            }],
            "matchConditions": conditions.map(condition).collect::<Vec<_>>(),
        })
    };
    let mut of_all = vec![of_chart("is-not-being-deleted")];
    if writers == Writers::People {
        of_all.push(of_chart("is-by-a-person"));
    }
    let with = |name: &str| [&of_all[..], &[of_chart(name)]].concat();
    let (annotated, hinted) = (with("has-a-topology-annotation"), with("has-hints"));
    from_json(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [
            webhook(SERVICES, ["", "services", "Namespaced"], &annotated),
            webhook(NAMESPACES, ["", "namespaces", "Cluster"], &annotated),
            webhook(SLICES, ["discovery.k8s.io", "endpointslices", "Namespaced"], &hinted),
        ],
    }))
}

/// The expression of a match condition in the chart's template.
fn of_chart(name: &str) -> String {
    let template =
        include_str!("../../../charts/zonewise/templates/validatingwebhookconfiguration.yaml");
    let name = format!("- name: {name}");
    let mut lines = template.lines().skip_while(|line| line.trim() != name);
    let line = lines.nth(1).expect("the template has the condition");
    let (_, expression) = line.split_once('"').expect("it is quoted");
    expression.trim_end_matches('"').to_owned()
}
