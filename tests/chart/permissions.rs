//! RBAC: what the documents say, and no more than what is on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::tools::text_of;
use super::values::{certificates, merged};

/// `group/resource/name: verb` for each verb of each rule.
fn granted<'a>(roles: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    roles
        .into_iter()
        .flat_map(|role| role["rules"].as_array().expect("a role has rules"))
        .flat_map(verbs)
        .collect()
}

fn verbs(rule: &Value) -> Vec<String> {
    let texts = |field: &str| -> Vec<String> {
        let values = rule[field]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        values
            .iter()
            .map(|value| value.as_str().expect("rules hold text").to_owned())
            .collect()
    };
    let names = if rule["resourceNames"].is_null() {
        vec!["*".to_owned()]
    } else {
        texts("resourceNames")
    };
    let mut granted = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for name in &names {
                granted.extend(
                    texts("verbs")
                        .iter()
                        .map(|verb| format!("{group}/{resource}/{name}: {verb}")),
                );
            }
        }
    }
    granted
}

/// The first YAML block after a heading.
fn block(document: &str, heading: &str) -> Objects {
    let text = text_of(document);
    let (_, section) = text
        .split_once(heading)
        .unwrap_or_else(|| panic!("{document} has no {heading:?}"));
    let (_, block) = section.split_once("```yaml\n").expect("a block follows");
    let (block, _) = block.split_once("```").expect("the block ends");
    Objects::parse(block)
}

fn rendered(values: &Value) -> Objects {
    Helm::four().objects(&Release::usual(), values)
}

fn roles(objects: &Objects) -> BTreeSet<String> {
    let kinds = ["ClusterRole", "Role"];
    granted(kinds.into_iter().flat_map(|kind| objects.all(kind)))
}

#[test]
fn the_default_installation_has_what_docs_security_says() {
    let documented = block("docs/security.md", "## Permissions");
    let objects = rendered(&json!({}));
    for kind in ["ClusterRole", "Role"] {
        assert_eq!(
            granted([objects.the(kind)]),
            granted([documented.the(kind)]),
            "{kind}"
        );
    }
}

#[test]
fn helm_test_has_what_docs_security_says() {
    let documented = block("docs/security.md", "### The helm test");
    let objects = rendered(&json!({}));
    for kind in ["ClusterRole", "Role"] {
        let hooks = objects.hooks();
        let hook = hooks.iter().filter(|hook| hook["kind"] == kind).copied();
        assert_eq!(granted(hook), granted([documented.the(kind)]), "{kind}");
    }
}

#[test]
fn with_certificates_from_elsewhere_it_is_what_docs_controller_says_and_the_owner() {
    let documented = block("docs/controller.md", "## Permissions");
    let mut documented = granted([documented.the("ClusterRole"), documented.the("Role")]);
    documented.insert("apps/deployments/zonewise: get".to_owned());
    let validating = "admissionregistration.k8s.io/validatingwebhookconfigurations/zonewise: get";
    documented.insert(validating.to_owned());
    for mode in ["cert-manager", "provided"] {
        assert_eq!(roles(&rendered(&certificates(mode))), documented, "{mode}");
    }
}

#[test]
fn what_is_off_takes_its_permissions_with_it() {
    let all = roles(&rendered(&json!({})));
    let without = |values: Value| -> BTreeSet<String> {
        let left = roles(&rendered(&values));
        assert!(left.is_subset(&all), "{values}");
        all.difference(&left).cloned().collect()
    };
    let set = |items: &[&str]| -> BTreeSet<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    };
    let patch = "discovery.k8s.io/endpointslices/*: patch";
    let events = [
        "events.k8s.io/events/*: create",
        "events.k8s.io/events/*: list",
    ];
    let configurations = |verb: &str| {
        ["mutating", "validating"].map(|kind| {
            let resource = format!("{kind}webhookconfigurations");
            format!("admissionregistration.k8s.io/{resource}/zonewise: {verb}")
        })
    };
    let bundles = configurations("patch");
    let secrets = [
        "/secrets/*: create",
        "/secrets/zonewise-certificates: get",
        "/secrets/zonewise-certificates: update",
    ];

    // A Namespace may say Active all the same.
    assert_eq!(without(json!({"mode": "Observe"})), set(&[]));
    assert_eq!(without(json!({"mode": "Off"})), all);
    assert_eq!(
        without(json!({"validation": {"mode": "off"}})),
        set(&[&configurations("get")[1], &bundles[1]])
    );
    let provided = set(&[secrets[0], secrets[1], secrets[2], &bundles[0], &bundles[1]]);
    assert_eq!(without(certificates("provided")), provided);
    let off = json!({"controller": {"enabled": false}});
    let answering = merged(&certificates("provided"), &off);
    let objects = rendered(&answering);
    assert!(objects.all("Role").is_empty() && objects.all("RoleBinding").is_empty());
    let documented = block("docs/serving.md", "**Permissions.**");
    let documented = granted([documented.the("ClusterRole")]);
    assert_eq!(roles(&objects), documented);
    let leading = roles(&rendered(&certificates("provided")));
    let leads = ["create", "get", "update"].map(|verb| {
        let name = if verb == "create" { "*" } else { "zonewise" };
        format!("coordination.k8s.io/leases/{name}: {verb}")
    });
    let owner = "apps/deployments/zonewise: get";
    let read = configurations("get");
    let gone = [
        patch, events[0], events[1], &leads[0], &leads[1], &leads[2], owner, &read[0], &read[1],
    ];
    assert_eq!(
        leading
            .difference(&documented)
            .cloned()
            .collect::<BTreeSet<_>>(),
        set(&gone)
    );
}

#[test]
fn without_rbac_there_are_no_roles_and_no_helm_test() {
    let objects = rendered(&json!({"rbac": {"create": false}}));
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        assert!(objects.all(kind).is_empty(), "{kind}");
    }
    assert_eq!(objects.hooks(), Vec::<&Value>::new());
}

#[test]
fn the_helm_test_runs_as_a_service_account_that_is_there_already() {
    for create in [true, false] {
        let objects = rendered(
            &json!({"rbac": {"create": create}, "helmTest": {"serviceAccountName": "checker"}}),
        );
        let hooks = objects.hooks();
        let kinds: Vec<&Value> = hooks.iter().map(|hook| &hook["kind"]).collect();
        assert_eq!(kinds, ["Pod"]);
        assert_eq!(hooks[0]["spec"]["serviceAccountName"], "checker");
    }
}

#[test]
fn secrets_are_never_listed_and_only_one_is_read() {
    let secrets: Vec<String> = roles(&rendered(&json!({})))
        .into_iter()
        .filter(|rule| rule.starts_with("/secrets/"))
        .collect();
    assert_eq!(
        secrets,
        [
            "/secrets/*: create",
            "/secrets/zonewise-certificates: get",
            "/secrets/zonewise-certificates: update"
        ]
    );
}
