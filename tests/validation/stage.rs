//! The world with a validating webhook in it, and two replicas behind that: one that warns, one that refuses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use hyper::header::{HeaderValue, WARNING};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::support::metrics;
use crate::support::objects::{TOPOLOGY_MODE, from_json};
use crate::support::replica::Replica;
use crate::support::scene::Scene;
use crate::support::wait::eventually;
use crate::support::world::World;

/// A service account with every right.
pub const DEPLOYER: &str = "system:serviceaccount:default:deployer";

pub struct Stage {
    /// Its replica, which is behind the mutating webhook, warns.
    pub world: World,
    /// Refuses.
    pub enforcing: Replica,
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

impl Stage {
    pub async fn set() -> Self {
        let warns = |replica: Replica| replica.with("--validation", "warn");
        let world = World::start_by(warns).await;
        let enforcing = world
            .another_replica("enforcing")
            .with("--validation", "enforce")
            .with("--controller", "false");
        enforcing.start().await;
        let program = client_as(&world, DEPLOYER).await;
        let stage = Self {
            world,
            enforcing,
            program,
        };
        stage.warns().await;
        stage
    }

    /// From now on who makes a fault is warned.
    pub async fn warns(&self) {
        self.judged_by(&self.world.replica, Writers::All).await;
        eventually("the API server asks the replica that warns", async || {
            let typo = self.typo("web", "is-it-asked", true).await;
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
            let typo = self.typo("web", "is-it-asked", true).await;
            if typo.code == 403 {
                Ok(())
            } else {
                Err(format!("{typo:?}"))
            }
        })
        .await;
    }

    /// Creates a Service in `default` with an annotation that there is none of, as a dry run at will.
    async fn typo(&self, name: &str, value: &str, dry_run: bool) -> Written {
        let service = json!({
            "metadata": {"name": name, "annotations": {
                TOPOLOGY_MODE: "Auto",
                "zonewise.dev/overload-treshold": value,
            }},
            "spec": {"ports": [{"port": 80}]},
        });
        let query = if dry_run { "?dryRun=All" } else { "" };
        let path = format!("/api/v1/namespaces/default/services{query}");
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
        let configuration = configuration(replica.webhook_port, &self.world.ca(), writers);
        let params = PatchParams::apply("zonewise-tests").force();
        configurations
            .patch("zonewise", &params, &Patch::Apply(&configuration))
            .await
            .expect("the webhook is registered");
    }

    /// Whether the API server did without an answer of the validating webhooks.
    pub async fn failed_open(&self) -> Vec<String> {
        let request = hyper::Request::get("/metrics").body(Vec::new());
        let request = request.expect("a path is all it needs");
        let text = self.world.client.request_text(request).await;
        let text = text.expect("the API server has metrics");
        let metric = "apiserver_admission_webhook_fail_open_count";
        let of = |name| -> Vec<String> {
            let labels = [("name", name)];
            let samples = metrics::samples(&text, metric, &labels);
            let counted = samples.filter(|(_, value)| *value > 0.0);
            counted.map(|(line, _)| line.to_owned()).collect()
        };
        [of(SERVICES), of(SLICES)].concat()
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

/// A client of somebody else with every right.
async fn client_as(world: &World, user: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(world.kubeconfig()).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.expect("the kubeconfig is complete");
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    Client::try_from(config).expect("the kubeconfig makes a client")
}

const SERVICES: &str = "services.zonewise.dev";
const SLICES: &str = "hints.zonewise.dev";

fn configuration(port: u16, ca: &[u8], writers: Writers) -> ValidatingWebhookConfiguration {
    let webhook = |name: &str, group: &str, resource: &str, conditions: &[String]| {
        let conditions = conditions.iter().enumerate();
        let condition = |(i, cel): (usize, &String)| json!({"name": format!("condition-{i}"), "expression": cel});
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/validate"),
                "caBundle": STANDARD.encode(ca),
            },
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "rules": [{
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [resource],
            }],
            "matchConditions": conditions.map(condition).collect::<Vec<_>>(),
        })
    };
    let speaks = |of: &str| of_chart("define \"zonewise.speaks\"").replace("{{ . }}", of);
    let mut of_all = vec![quoted(&of_chart("name: is-not-being-deleted"))];
    if writers == Writers::People {
        of_all.push(quoted(&of_chart("name: is-by-a-person")));
    }
    let old = format!("oldObject != null && {}", speaks("oldObject"));
    let speaks = format!("({}) || ({old})", speaks("object"));
    let of_services = [&of_all[..], &[speaks]].concat();
    from_json(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "zonewise"},
        "webhooks": [
            webhook(SERVICES, "", "services", &of_services),
            webhook(SLICES, "discovery.k8s.io", "endpointslices", &of_all),
        ],
    }))
}

/// The line of the chart's template behind the one with this text.
fn of_chart(text: &str) -> String {
    let template =
        include_str!("../../charts/zonewise/templates/validatingwebhookconfiguration.yaml");
    let mut lines = template
        .lines()
        .skip_while(|line| !line.contains(text))
        .skip(1);
    lines
        .next()
        .expect("the template has a line behind it")
        .to_owned()
}

/// What stands in the quotes of `expression: "…"`.
fn quoted(line: &str) -> String {
    let (_, text) = line.split_once('"').expect("it is quoted");
    text.trim_end_matches('"').to_owned()
}
