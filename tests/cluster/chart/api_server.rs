//! The rendered objects in dry runs on the API server, which rejects unknown fields.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::switches::switches;
use super::values::{merged, unusual_names, ways};
use super::{create_namespace, dry_run, install_crds, plane};
use crate::support::plane::Plane;

/// Every object of every way and switch, once, with the values or the release that it comes from.
fn rendered() -> BTreeMap<String, (Value, String)> {
    let helm = Helm::four();
    let release = Release::new("judged", "judged");
    let switched = switches()
        .into_iter()
        .map(|switch| switch.values()[1].clone());
    let usual = ways().into_iter().chain(switched);
    let usual = usual.map(|values| (release.clone(), values));
    let mut rendered = BTreeMap::new();
    for (release, values) in usual.chain(unusual_names()) {
        let source = format!("{} with {values}", release.name);
        for object in helm.objects(&release, &values).0 {
            rendered
                .entry(object.to_string())
                .or_insert_with(|| (object, source.clone()));
        }
    }
    rendered
}

fn is_custom(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().expect("it has a version");
    ["cert-manager.io/", "monitoring.coreos.com/"]
        .iter()
        .any(|group| version.starts_with(group))
}

/// Asserts that the API server accepts at least so many objects.
async fn are_accepted(client: &Client, at_least: usize, is_tried: impl Fn(&Value) -> bool) {
    let mut rendered = rendered();
    rendered.retain(|_, (object, _)| is_tried(object));
    assert!(
        rendered.len() >= at_least,
        "{} objects are rendered",
        rendered.len()
    );
    let mut namespaces = BTreeSet::new();
    for (object, source) in rendered.values() {
        if let Some(namespace) = object["metadata"]["namespace"].as_str()
            && namespaces.insert(namespace)
        {
            create_namespace(client, namespace, json!({})).await;
        }
        let tried = dry_run(client, object).await;
        tried.unwrap_or_else(|error| panic!("{source}: {error}\n{object:#}"));
    }
}

#[test]
fn every_object_is_accepted() {
    crate::run(async {
        let plane = plane().await;
        are_accepted(&plane.client, 350, |object| !is_custom(object)).await;
    });
}

#[test]
#[ignore = "needs CRDs: make ci"]
fn every_custom_resource_is_accepted() {
    crate::run(async {
        // Scenes that list every kind of object must not meet a kind that is about to be served.
        let plane = Plane::start().await;
        install_crds(&plane.client).await;
        are_accepted(&plane.client, 20, is_custom).await;
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
