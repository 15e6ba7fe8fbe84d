//! What is rendered, judged by the real API server: a dry run on the server, with unknown fields refused.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::switches::switches;
use super::values::{merged, unusual_names, ways};
use super::{create_namespace, dry_run, plane};

/// Judges each object once.
#[derive(Default)]
struct Judge {
    seen: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl Judge {
    async fn judge(&mut self, client: &Client, objects: &Objects, what: &str) {
        for object in &objects.0 {
            if let Some(namespace) = object["metadata"]["namespace"].as_str()
                && self.namespaces.insert(namespace.to_owned())
            {
                create_namespace(client, namespace, json!({})).await;
            }
            if self.seen.insert(object.to_string()) {
                let judged = dry_run(client, object).await;
                judged.unwrap_or_else(|error| panic!("{what}: {error}\n{object:#}"));
            }
        }
    }
}

#[test]
fn every_object_of_every_way_and_switch_is_taken() {
    crate::run(async {
        let plane = plane().await;
        let client = plane.client.clone();
        let helm = Helm::four();
        let mut judge = Judge::default();
        let release = Release::new("judged", "judged");
        let switched = switches()
            .into_iter()
            .map(|switch| switch.values()[1].clone());
        for values in ways().into_iter().chain(switched) {
            judge
                .judge(
                    &client,
                    &helm.objects(&release, &values),
                    &values.to_string(),
                )
                .await;
        }
        for (release, values) in unusual_names() {
            judge
                .judge(&client, &helm.objects(&release, &values), &release.name)
                .await;
        }
        assert!(
            judge.seen.len() > 300,
            "{} objects were judged",
            judge.seen.len()
        );
    });
}

#[test]
fn a_field_that_there_is_not_is_refused() {
    crate::run(async {
        let plane = plane().await;
        let client = plane.client.clone();
        create_namespace(&client, "judged", json!({})).await;
        let objects = Helm::four().objects(&Release::new("judged", "judged"), &json!({}));
        for (kind, field) in [
            ("Deployment", "replica"),
            ("Service", "ipFamilie"),
            ("PodDisruptionBudget", "max"),
        ] {
            let wrong = merged(objects.the(kind), &json!({"spec": {field: 1}}));
            let said = dry_run(&client, &wrong).await.expect_err("it is refused");
            assert!(said.contains(field), "{said}");
        }
    });
}

/// The pod that a Deployment, or the helm test, would have made.
fn pods(objects: &Objects) -> Vec<Value> {
    let template = &objects.the("Deployment")["spec"]["template"];
    let metadata = json!({"name": "replica", "namespace": "restricted"});
    let replica =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    let hooks = objects.hooks();
    let test = hooks
        .into_iter()
        .find(|hook| hook["kind"] == "Pod")
        .cloned();
    [Some(replica), test].into_iter().flatten().collect()
}

#[test]
fn pods_are_let_into_a_restricted_namespace() {
    crate::run(async {
        let plane = plane().await;
        let client = plane.client.clone();
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"});
        create_namespace(&client, "restricted", labels).await;
        let helm = Helm::four();
        let release = Release::new("zonewise", "restricted");
        let low_port = json!({"ports": {"webhook": 443}});
        for values in ways().into_iter().chain([low_port]) {
            for pod in pods(&helm.objects(&release, &values)) {
                dry_run(&client, &pod)
                    .await
                    .unwrap_or_else(|error| panic!("{values}: {error}"));
            }
        }
        for (values, fault) in [
            (json!({"hostNetwork": true}), "host namespaces"),
            (
                json!({"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}),
                "unrestricted capabilities",
            ),
        ] {
            let pods = pods(&helm.objects(&release, &values));
            let said = dry_run(&client, &pods[0]).await.expect_err("it is refused");
            assert!(
                said.contains("violates PodSecurity") && said.contains(fault),
                "{said}"
            );
        }
    });
}
