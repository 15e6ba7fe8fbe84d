//! Unusual names of releases and namespaces.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::values::{certificates, merged, unusual_names};

#[test]
fn certificates_are_for_the_name_that_the_api_server_calls() {
    let helm = Helm::four();
    for (release, values) in unusual_names() {
        let objects = helm.objects(&release, &values);
        let service = objects.the("Service");
        let (name, namespace) = (
            text(&service["metadata"]["name"]),
            text(&service["metadata"]["namespace"]),
        );
        assert!(is_a_service_name(name), "{name}");
        let called =
            &objects.the("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["service"];
        assert_eq!(
            (text(&called["name"]), text(&called["namespace"])),
            (name, namespace)
        );
        let dns_name = format!("{name}.{namespace}.svc");
        assert_eq!(objects.flag("--certificate-names"), Some(dns_name.as_str()));
        assert_eq!(
            objects.flag("--own-service"),
            Some(format!("{namespace}/{name}").as_str())
        );
        let managed = helm.objects(&release, &merged(&values, &certificates("cert-manager")));
        let certificates = managed.all("Certificate");
        let server = certificates
            .iter()
            .find(|certificate| certificate["spec"]["isCA"].is_null());
        assert_eq!(
            server.expect("there is one for the server")["spec"]["dnsNames"],
            json!([dns_name])
        );
    }
}

/// A label of DNS that begins with a letter.
fn is_a_service_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(allowed)
}

#[test]
fn every_name_that_is_spoken_of_is_the_name_of_something() {
    for (release, values) in unusual_names() {
        let objects = Helm::four().objects(&release, &values);
        let name_of = |kind: &str| text(&objects.the(kind)["metadata"]["name"]);
        assert_eq!(
            objects.flag("--owner-deployment"),
            Some(name_of("Deployment"))
        );
        assert_eq!(
            objects.flag("--webhook-configuration"),
            Some(name_of("MutatingWebhookConfiguration"))
        );
        let roles = [objects.the("ClusterRole"), objects.the("Role")]
            .map(Value::to_string)
            .concat();
        for flag in [
            "--lease-name",
            "--certificate-secret",
            "--webhook-configuration",
            "--owner-deployment",
        ] {
            let named = format!(
                "\"resourceNames\":[\"{}\"]",
                objects.flag(flag).expect("the flag is given")
            );
            assert!(roles.contains(&named), "{flag}: no {named} in {roles}");
        }
        let account = objects.the("ServiceAccount");
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            let subject = &objects.the(kind)["subjects"][0];
            assert_eq!(subject["name"], account["metadata"]["name"]);
            assert_eq!(subject["namespace"], account["metadata"]["namespace"]);
        }
        assert_eq!(
            objects.the("ClusterRoleBinding")["roleRef"]["name"],
            name_of("ClusterRole")
        );
        assert_eq!(
            objects.the("RoleBinding")["roleRef"]["name"],
            name_of("Role")
        );
        let pod = &objects.the("Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    }
}

#[test]
fn no_two_releases_share_what_belongs_to_the_cluster() {
    let helm = Helm::four();
    // Joined by a dash, the first two would be the same.
    let releases = [
        ("a-zonewise", "b"),
        ("zonewise", "b-a"),
        ("zonewise", "zonewise"),
        ("zonewise", "other"),
    ];
    let names = releases.map(|(name, namespace)| {
        let objects = helm.objects(&Release::new(name, namespace), &json!({}));
        cluster_names(&objects)
    });
    let all: BTreeSet<&String> = names.iter().flatten().collect();
    assert_eq!(
        all.len(),
        names.iter().map(BTreeSet::len).sum::<usize>(),
        "{names:?}"
    );
    assert!(names[2].contains("MutatingWebhookConfiguration zonewise"));
    assert!(names[3].contains("MutatingWebhookConfiguration other.zonewise"));
}

fn cluster_names(objects: &Objects) -> BTreeSet<String> {
    let of_cluster = objects
        .0
        .iter()
        .filter(|object| object["metadata"]["namespace"].is_null());
    of_cluster
        .map(|object| {
            format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("it is text")
}
