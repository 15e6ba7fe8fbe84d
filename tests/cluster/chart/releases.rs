//! Installed, upgraded twice, rolled back, switched off and uninstalled by the real helm, on the real API server.
//!
//! zonewise does not run here: the test does to the cluster what its leader does. No kubelet runs pods either.

use std::path::{Path, PathBuf};

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::helm::{Helm, Release, text};
use super::remains::remains;
use super::tools::{copy, text_of};
use super::values::{CA, base64};
use super::{api_for, plane};
use crate::support::wait::eventually;

/// What the leader puts into the webhook configuration.
const BUNDLE: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

/// A release on the cluster.
struct Installed<'a> {
    helm: &'a Helm,
    release: Release,
    client: Client,
    kubeconfig: &'a Path,
}

impl Installed<'_> {
    fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        let kubeconfig = text(self.kubeconfig);
        let more = [
            "--namespace",
            &self.release.namespace,
            "--kubeconfig",
            &kubeconfig,
        ];
        self.helm.run(&[arguments, &more].concat())
    }

    fn install(&self, chart: &Path, values: &Value) -> String {
        let file = text(&self.helm.values_file(values));
        let arguments = [
            "install",
            &self.release.name,
            &text(chart),
            "--create-namespace",
            "--values",
            &file,
        ];
        self.helm(&arguments)
            .unwrap_or_else(|said| panic!("{said}"))
    }

    fn try_upgrade(&self, values: &Value) -> Result<String, String> {
        let file = text(&self.helm.values_file(values));
        let chart = text(&self.release.chart);
        let arguments = [
            "upgrade",
            &self.release.name,
            &chart,
            "--reset-values",
            "--values",
            &file,
        ];
        self.helm(&arguments)
    }

    fn upgrade(&self, values: &Value) {
        self.try_upgrade(values)
            .unwrap_or_else(|said| panic!("{values}: {said}"));
    }

    async fn find(&self, object: &Value) -> Option<DynamicObject> {
        let api = api_for(&self.client, object)
            .await
            .expect("its kind is served");
        let name = object["metadata"]["name"].as_str().expect("it has a name");
        api.get_opt(name).await.expect("the API server answers")
    }

    async fn own(&self, api_version: &str, kind: &str, name: &str) -> Option<DynamicObject> {
        let metadata = json!({"name": name, "namespace": self.release.namespace});
        self.find(&json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
            .await
    }

    fn webhook_name(&self) -> String {
        format!("{}.{}", self.release.namespace, self.release.name)
    }

    async fn webhook(&self) -> Option<Value> {
        let metadata = json!({"name": self.webhook_name()});
        let found = self
            .find(&json!({"apiVersion": ADMISSION, "kind": WEBHOOKS, "metadata": metadata}))
            .await;
        found.map(|found| found.data["webhooks"][0].clone())
    }

    async fn ca_bundle(&self) -> Value {
        self.webhook()
            .await
            .expect("there is a webhook configuration")["clientConfig"]["caBundle"]
            .clone()
    }

    /// What the leader does: it keeps its certificates in a Secret, holds a Lease, and puts the CA where it belongs.
    async fn lead(&self) {
        let deployment = self
            .own("apps/v1", "Deployment", &self.release.name)
            .await
            .expect("there is a Deployment");
        let owner = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": self.release.name, "uid": deployment.metadata.uid,
        }]);
        let metadata = |name: String| json!({"name": name, "namespace": self.release.namespace, "ownerReferences": owner});
        let secret = metadata(format!("{}-certificates", self.release.name));
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"ca.crt": "mine"}});
        let lease = metadata(self.release.name.clone());
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease, "spec": {}});
        for object in [secret, lease] {
            let api = api_for(&self.client, &object)
                .await
                .expect("its kind is served");
            let object = serde_json::from_value(object).expect("it is an object");
            api.create(&PostParams::default(), &object)
                .await
                .expect("it is made");
        }
        self.put_ca().await;
    }

    async fn put_ca(&self) {
        let webhook =
            json!({"name": "endpointslices.zonewise.dev", "clientConfig": {"caBundle": BUNDLE}});
        let metadata = json!({"name": self.webhook_name()});
        let mine = json!({"apiVersion": ADMISSION, "kind": WEBHOOKS, "metadata": metadata, "webhooks": [webhook]});
        let api = api_for(&self.client, &mine)
            .await
            .expect("its kind is served");
        let params = PatchParams::apply("zonewise").force();
        api.patch(&self.webhook_name(), &params, &Patch::Apply(mine))
            .await
            .expect("the CA is put in");
    }

    /// The Secret and the Deployment that owns it, as long as they are the same.
    async fn certificates(&self) -> (Option<String>, Value) {
        let name = format!("{}-certificates", self.release.name);
        let secret = self
            .own("v1", "Secret", &name)
            .await
            .expect("the Secret is there");
        (
            secret.metadata.uid,
            json!([secret.metadata.owner_references, secret.data["data"]]),
        )
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const WEBHOOKS: &str = "MutatingWebhookConfiguration";

/// The chart as an older version of it.
fn older_chart(folder: &Path) -> PathBuf {
    copy(&super::tools::chart(), folder);
    let chart = folder.join("zonewise");
    let text =
        text_of("charts/zonewise/Chart.yaml").replace("\nversion: ", "\nversion: 0.0.1-before-");
    std::fs::write(chart.join("Chart.yaml"), text).expect("Chart.yaml can be written");
    chart
}

/// The chart with the values that `trafficDistribution` replaces.
fn chart_before_traffic_distribution(folder: &Path) -> PathBuf {
    let chart = older_chart(folder);
    let values = text_of("charts/zonewise/values.yaml");
    let before = "\nhonorTrafficDistribution: true\ndefaultHeuristic: Overlap\n";
    let values = values.replace("\ntrafficDistribution: None\n", before);
    assert!(values.contains(before));
    std::fs::write(chart.join("values.yaml"), values).expect("values.yaml can be written");
    chart
}

#[test]
fn values_of_an_older_chart_that_come_with_reuse_values_are_ignored() {
    crate::run(async {
        let plane = plane().await;
        let helm = Helm::four();
        let installed = Installed {
            helm: &helm,
            release: Release::new("zonewise-reused", "zonewise-reused-lives"),
            client: plane.client.clone(),
            kubeconfig: plane.kubeconfig(),
        };
        let folder = TempDir::new().expect("a temporary folder can be made");
        installed.install(
            &chart_before_traffic_distribution(folder.path()),
            &json!({}),
        );
        let chart = text(&installed.release.chart);
        let name = &installed.release.name;
        let notes = installed.helm(&["upgrade", name, &chart, "--reuse-values"]);
        let notes = notes.unwrap_or_else(|said| panic!("{said}"));
        for part in [
            "Ignored: honorTrafficDistribution and defaultHeuristic.",
            "--reuse-values --set trafficDistribution=Overlap",
        ] {
            assert!(notes.contains(part), "{part:?} in {notes}");
        }
        let deployment = installed.own("apps/v1", "Deployment", name).await;
        let deployment = deployment.expect("there is a Deployment").data;
        let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        assert!(
            arguments.contains("\"--traffic-distribution=None\""),
            "{arguments}"
        );
        assert!(!arguments.contains("honor"), "{arguments}");
        installed
            .helm(&["uninstall", name])
            .unwrap_or_else(|said| panic!("{said}"));
    });
}

async fn live(helm: &Helm, name: &str) {
    let plane = plane().await;
    let (client, kubeconfig) = (plane.client.clone(), plane.kubeconfig());
    let release = Release::new(name, &format!("{name}-lives"));
    let installed = Installed {
        helm,
        release,
        client,
        kubeconfig,
    };
    let folder = TempDir::new().expect("a temporary folder can be made");
    let older =
        json!({"fullnameOverride": name, "webhook": {"timeoutSeconds": 2}, "replicaCount": 1});
    let newer =
        json!({"fullnameOverride": name, "ports": {"webhook": 10250}, "service": {"port": 8443}});
    let newest = json!({"fullnameOverride": name, "webhook": {"objectSelector": {"matchLabels": {"zonewise.dev/hints": "enabled"}}}});

    let notes = installed.install(&older_chart(folder.path()), &older);
    assert!(
        notes.contains(&format!(
            "kubectl delete mutatingwebhookconfiguration {}",
            installed.webhook_name()
        )),
        "{notes}"
    );
    assert!(notes.contains("--reuse-values --set mode=Off"), "{notes}");
    assert_eq!(installed.ca_bundle().await, Value::Null);
    installed.lead().await;
    let certificates = installed.certificates().await;

    installed.upgrade(&newer);
    assert_eq!(installed.ca_bundle().await, BUNDLE);
    let webhook = installed.webhook().await.expect("it is there");
    assert_eq!(
        (
            &webhook["timeoutSeconds"],
            &webhook["clientConfig"]["service"]["port"]
        ),
        (&json!(1), &json!(8443))
    );

    installed.upgrade(&newest);
    assert_eq!(installed.ca_bundle().await, BUNDLE);
    let webhook = installed.webhook().await.expect("it is there");
    assert_eq!(
        webhook["objectSelector"]["matchLabels"]["zonewise.dev/hints"],
        "enabled"
    );
    assert_eq!(webhook["clientConfig"]["service"]["port"], 443);

    installed
        .helm(&["rollback", name, "1"])
        .unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(installed.ca_bundle().await, BUNDLE);
    let webhook = installed.webhook().await.expect("it is there");
    assert_eq!(
        (&webhook["timeoutSeconds"], &webhook["objectSelector"]),
        (&json!(2), &json!({}))
    );

    installed.upgrade(&json!({"fullnameOverride": name, "mode": "Off"}));
    assert_eq!(installed.webhook().await, None);
    installed.upgrade(&newest);
    assert_eq!(
        installed.ca_bundle().await,
        Value::Null,
        "the leader puts it in again"
    );
    installed.put_ca().await;
    assert_eq!(installed.certificates().await, certificates);

    installed
        .helm(&["uninstall", name])
        .unwrap_or_else(|said| panic!("{said}"));
    eventually("nothing is left", async || {
        let remains = remains(&installed.client, &installed.release).await;
        remains
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{remains:?}"))
    })
    .await;
}

#[test]
fn a_release_of_helm_4_lives_and_leaves_nothing() {
    crate::run(async {
        live(&Helm::four(), "zonewise-four").await;
    });
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn a_release_of_helm_3_lives_and_leaves_nothing() {
    crate::run(async {
        live(&Helm::three(), "zonewise-three").await;
    });
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn a_release_of_helm_3_goes_on_under_helm_4() {
    crate::run(async {
        let plane = plane().await;
        let (client, kubeconfig) = (plane.client.clone(), plane.kubeconfig());
        let release = Release::new("zonewise-moved", "zonewise-moved-lives");
        let values = |seconds: u32| json!({"webhook": {"timeoutSeconds": seconds}});
        let three = Helm::three();
        let before = Installed {
            helm: &three,
            release: release.clone(),
            client: client.clone(),
            kubeconfig,
        };
        before.install(&release.chart, &values(2));
        before.lead().await;
        let four = Helm::four();
        let after = Installed {
            helm: &four,
            release,
            client,
            kubeconfig,
        };
        after.upgrade(&values(3));
        assert_eq!(after.ca_bundle().await, BUNDLE);
        assert_eq!(
            after.webhook().await.expect("it is there")["timeoutSeconds"],
            3
        );
    });
}

/// From certificates of zonewise's own to provided ones and back, by the way that docs/upgrading.md says.
async fn to_provided_and_back(helm: &Helm, name: &str, straight: impl Fn(Result<String, String>)) {
    let plane = plane().await;
    let (client, kubeconfig) = (plane.client.clone(), plane.kubeconfig());
    let provided = json!({"secretName": "mine", "caBundle": CA});
    let provided = json!({"certificates": {"mode": "provided", "provided": provided}});
    let release = Release::new(name, &format!("{name}-lives"));
    let installed = Installed {
        helm,
        release,
        client,
        kubeconfig,
    };
    installed.install(&installed.release.chart, &json!({}));
    installed.lead().await;
    straight(installed.try_upgrade(&provided));
    installed.upgrade(&json!({"mode": "Off"}));
    installed.upgrade(&provided);
    assert_eq!(installed.ca_bundle().await, base64(CA));
    installed.upgrade(&json!({}));
    assert_eq!(installed.ca_bundle().await, Value::Null);
    installed.put_ca().await;
    assert_eq!(installed.ca_bundle().await, BUNDLE);
}

#[test]
fn under_helm_4_another_way_to_certificates_needs_the_webhook_off_in_between() {
    crate::run(async {
        let conflict = |said: Result<String, String>| {
            let said = said.expect_err("it is a conflict");
            assert!(said.contains("conflict with \"zonewise\""), "{said}");
            assert!(said.contains("caBundle"), "{said}");
        };
        to_provided_and_back(&Helm::four(), "zonewise-other-four", conflict).await;
    });
}

#[test]
#[ignore = "needs helm 3: make ci"]
fn under_helm_3_another_way_to_certificates_may_go_straight() {
    crate::run(async {
        let goes = |said: Result<String, String>| assert!(said.is_ok(), "{said:?}");
        to_provided_and_back(&Helm::three(), "zonewise-other-three", goes).await;
    });
}

/// The chart with a webhook of another name.
fn renamed_webhook(folder: &Path) -> PathBuf {
    copy(&super::tools::chart(), folder);
    let chart = folder.join("zonewise");
    let template = chart.join("templates/mutatingwebhookconfiguration.yaml");
    let text = std::fs::read_to_string(&template).expect("the template can be read");
    let renamed = text.replace("endpointslices.zonewise.dev", "slices.zonewise.dev");
    assert_ne!(renamed, text);
    std::fs::write(&template, renamed).expect("the template can be written");
    chart
}

#[test]
fn under_helm_4_a_webhook_of_another_name_is_refused_while_the_ca_bundle_is_there() {
    crate::run(async {
        let plane = plane().await;
        let (client, kubeconfig) = (plane.client.clone(), plane.kubeconfig());
        let helm = Helm::four();
        let mut installed = Installed {
            helm: &helm,
            release: Release::new("zonewise-renamed", "zonewise-renamed-lives"),
            client,
            kubeconfig,
        };
        installed.install(&installed.release.chart, &json!({}));
        installed.lead().await;
        let folder = TempDir::new().expect("a temporary folder can be made");
        installed.release.chart = renamed_webhook(folder.path());
        let said = installed
            .try_upgrade(&json!({}))
            .expect_err("it is refused");
        assert!(said.contains("sideEffects: Required value"), "{said}");
        assert_eq!(installed.ca_bundle().await, BUNDLE);
        installed.upgrade(&json!({"mode": "Off"}));
        installed.upgrade(&json!({}));
        let webhook = installed.webhook().await.expect("it is there");
        assert_eq!(webhook["name"], "slices.zonewise.dev");
    });
}
