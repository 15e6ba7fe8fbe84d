//! What `zonewise check` tells.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::command::{check, check_as, check_until, run};
use crate::support::objects::{self, from_json};
use crate::support::port::Port;
use crate::support::replica::Certificates;
use crate::support::webhook::{self, Registration};
use crate::support::world::World;

const VERSION: &str = env!("CARGO_PKG_VERSION");

const NAMES: [&str; 17] = [
    "api-server",
    "webhook-configuration",
    "webhook-rules",
    "failure-policy",
    "webhook-scope",
    "webhook-service",
    "ca-bundle",
    "served-certificate",
    "probe",
    "validating-webhook",
    "other-webhooks",
    "nodes",
    "services",
    "drift",
    "versions",
    "data-plane",
    "lease",
];

/// Changes the one webhook of the configuration.
async fn change_webhook(world: &World, changes: Value) {
    let mut webhook = changes;
    webhook["name"] = webhook::NAME.into();
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    let patch = Patch::Strategic(json!({"webhooks": [webhook]}));
    api.patch("zonewise", &PatchParams::default(), &patch)
        .await
        .expect("the configuration is changed");
}

/// Takes the webhook configuration away, if it is there.
pub async fn forget_webhook(world: &World) {
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    match api.delete("zonewise", &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        deleted => drop(deleted.expect("the configuration is deleted")),
    }
}

pub async fn check_finds_all_is_well(world: &World) {
    // The first leader needs a moment.
    let told = check_until(world, "lease", "ok", &[]).await;
    assert_eq!(told.said.code, Some(0), "{told:#?}");
    assert_eq!(told.said.err, "");
    let names: Vec<&str> = told.with_status("ok");
    assert_eq!(names, NAMES, "{:#}", told.json);
    assert_eq!(told.json["schemaVersion"], 1);
    assert_eq!(told.json["version"], VERSION);
    assert_eq!(told.json["status"], "ok");
    let probe = told.line("probe");
    assert_eq!(probe["docs"], "docs/troubleshooting.md#check-probe");
    assert_eq!(probe["advice"], Value::Null);
    // Holders are told apart by what stands behind their names.
    let (leader, _) = told.message("lease").split_once('_').expect("a holder");
    told.assert(
        "probe",
        "ok",
        &format!("was answered by {leader}, version {VERSION}, "),
    );
    told.assert("api-server", "ok", " at https://127.0.0.1:");
    told.assert("nodes", "ok", "3 zones: zone-a (2 nodes, 33%)");
    told.assert("served-certificate", "ok", "is trusted, valid until");

    let kubeconfig = world.kubeconfig().display().to_string();
    let table = run(&["check", "--kubeconfig", &kubeconfig, "--node-grace", "0s"]).await;
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(
        table
            .out
            .contains("ok       probe\n         a dry run in default was"),
        "{}",
        table.out
    );
    assert!(
        table.out.ends_with("17 ok, 0 warnings, 0 failures\n"),
        "{}",
        table.out
    );
    assert!(!table.out.contains('\u{1b}'), "colour is for terminals");
    each_line_is_documented();
}

fn each_line_is_documented() {
    let sections = include_str!("../../../docs/troubleshooting.md");
    for name in NAMES {
        let anchor = format!("<a id=\"check-{name}\"></a>");
        assert!(
            sections.contains(&anchor),
            "docs/troubleshooting.md has no {anchor}"
        );
    }
}

pub async fn check_names_a_node_without_a_zone(world: &World) {
    let nowhere = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
    let node = objects::node("node-nowhere", "zone-a", 2, &["10.77.0.0/16"], &[nowhere]);
    world.add_node(&node).await;
    let told = check(world, &[]).await;
    world.remove_added_nodes().await;
    told.assert(
        "nodes",
        "warning",
        "1 node lacks something: node-nowhere (no zone)",
    );
    assert!(
        told.line("nodes")["advice"]
            .as_str()
            .unwrap()
            .contains("topology.kubernetes.io/zone")
    );
    assert_eq!(
        (told.said.code, &told.json["status"]),
        (Some(0), &json!("warning"))
    );
}

/// A kubeconfig that plays somebody else.
fn playing(world: &World, user: &str) -> std::path::PathBuf {
    let path = world
        .dir()
        .join(format!("{}.kubeconfig", user.replace(':', "-")));
    world.plane().impersonate(user, &path);
    path
}

/// The ClusterRole and the Role that docs/check.md grants.
fn documented_roles() -> (ClusterRole, Role) {
    let text = include_str!("../../../docs/check.md");
    let (_, block) = text.split_once("```yaml\n").expect("a block of YAML");
    let (block, _) = block.split_once("```").expect("its end");
    let (cluster, own) = block.split_once("---\n").expect("two documents");
    let read = |text: &str| serde_saphyr::from_str::<Value>(text).expect("YAML");
    (from_json(read(cluster)), from_json(read(own)))
}

async fn grant(world: &World, user: &str) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = from_json(json!({"metadata": {"name": "zonewise"}}));
    let parameters = PostParams::default();
    namespaces
        .create(&parameters, &namespace)
        .await
        .expect("a namespace");
    let binding = |kind: &str| {
        json!({
            "metadata": {"name": "zonewise-check"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "zonewise-check"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        })
    };
    let (cluster, own) = documented_roles();
    let client = || world.client.clone();
    let roles: Api<ClusterRole> = Api::all(client());
    let bindings: Api<ClusterRoleBinding> = Api::all(client());
    let own_roles: Api<Role> = Api::namespaced(client(), "zonewise");
    let own_bindings: Api<RoleBinding> = Api::namespaced(client(), "zonewise");
    let (bound, own_bound) = (
        from_json(binding("ClusterRole")),
        from_json(binding("Role")),
    );
    roles.create(&parameters, &cluster).await.expect("a role");
    bindings.create(&parameters, &bound).await.expect("bound");
    own_roles.create(&parameters, &own).await.expect("a role");
    own_bindings
        .create(&parameters, &own_bound)
        .await
        .expect("bound");
}

pub async fn check_names_missing_permissions(world: &World) {
    let nobody = playing(world, "nobody");
    let told = check_as(&nobody, &[]).await;
    assert_eq!(
        (told.said.code, &told.json["status"]),
        (Some(0), &json!("warning"))
    );
    let needs = [
        (
            "webhook-configuration",
            "list mutatingwebhookconfigurations, or to get the one named zonewise",
        ),
        ("nodes", "list nodes"),
        (
            "services",
            "list nodes, namespaces, services and endpointslices in the whole cluster",
        ),
        (
            "drift",
            "list nodes, namespaces, services and endpointslices in the whole cluster",
        ),
        ("data-plane", "list daemonsets.apps"),
        ("lease", "get the Lease zonewise in namespace default"),
    ];
    for (name, needs) in needs {
        told.assert(
            name,
            "warning",
            &format!("not looked at: needs permission to {needs}"),
        );
    }
    told.assert("api-server", "ok", " at https://127.0.0.1:");

    let checker = playing(world, "checker");
    grant(world, "checker").await;
    let told = check_as(&checker, &["--namespace", "zonewise"]).await;
    assert_eq!(told.with_status("failure"), [""; 0], "{:#}", told.json);
    // The Lease of the test is in another namespace.
    assert_eq!(told.with_status("warning"), ["lease"], "{:#}", told.json);
    told.assert(
        "lease",
        "warning",
        "there is no Lease zonewise in namespace zonewise",
    );

    let told = check_as(&checker, &["--namespace", "default"]).await;
    told.assert(
        "probe",
        "warning",
        "needs permission to create endpointslices in namespace default",
    );
    let told = check(world, &["--namespace", "nowhere"]).await;
    told.assert("probe", "failure", "there is no namespace nowhere");
}

pub async fn check_explains_selectors(world: &World) {
    let labels = json!({"matchLabels": {"hints": "please"}});
    change_webhook(world, json!({"objectSelector": labels})).await;
    let told = check(world, &[]).await;
    told.assert("probe", "ok", "was answered by");
    told.assert("webhook-scope", "ok", "only slices with hints=please");

    change_webhook(
        world,
        json!({"objectSelector": {}, "namespaceSelector": labels}),
    )
    .await;
    let told = check_until(world, "probe", "warning", &[]).await;
    told.assert(
        "probe",
        "warning",
        "namespaceSelector leaves out a dry run in default",
    );
    assert_eq!(told.said.code, Some(0));
}

pub async fn check_refuses_failure_policy_fail(world: &World) {
    change_webhook(world, json!({"failurePolicy": "Fail", "timeoutSeconds": 5})).await;
    let told = check(world, &[]).await;
    change_webhook(world, json!({"failurePolicy": "Ignore"})).await;
    told.assert(
        "failure-policy",
        "failure",
        "is Fail: while zonewise is down",
    );
    assert_eq!(told.with_status("failure"), ["failure-policy"]);
    assert_eq!(
        (told.said.code, &told.json["status"]),
        (Some(1), &json!("failure"))
    );
    assert_eq!(told.said.err, "error: 1 check failed\n");
    let told = check(world, &[]).await;
    told.assert("failure-policy", "warning", "timeoutSeconds");
}

pub async fn check_sees_a_service_without_endpoints(world: &World) {
    let services: Api<Service> = Api::default_namespaced(world.client.clone());
    let spec = json!({"spec": {"ports": [{"name": "http", "port": 443}]}});
    let service = objects::service("no-zonewise", &[spec]);
    services
        .create(&PostParams::default(), &service)
        .await
        .expect("a Service");
    let way = json!({"name": "no-zonewise", "namespace": "default", "path": "/mutate"});
    change_webhook(
        world,
        json!({"clientConfig": {"url": null, "service": way}}),
    )
    .await;
    let told = check_until(world, "probe", "failure", &[]).await;
    services
        .delete("no-zonewise", &DeleteParams::default())
        .await
        .expect("it is deleted");
    told.assert(
        "webhook-service",
        "failure",
        "the Service default/no-zonewise has no ready endpoint",
    );
    told.assert(
        "probe",
        "failure",
        "went by without zonewise: its Service has no ready endpoint",
    );
    told.assert("served-certificate", "ok", "can't be reached from here");
    let told = check(world, &[]).await;
    told.assert("webhook-service", "failure", "is not there");
}

pub async fn check_sees_another_ca(world: &World) {
    let dir = world.dir().join("another-ca");
    std::fs::create_dir(&dir).expect("a folder");
    let other = Certificates::generate(&dir);
    Registration::everywhere("zonewise")
        .register(&world.client, world.proxy.port, &other.ca())
        .await;
    let told = check_until(world, "probe", "failure", &[]).await;
    told.assert(
        "served-certificate",
        "failure",
        "does not trust what 127.0.0.1:",
    );
    told.assert(
        "probe",
        "failure",
        "the CA in caBundle does not trust what is served",
    );
    told.assert("ca-bundle", "ok", "1 certificate, valid until");
    assert_eq!(told.with_status("failure"), ["served-certificate", "probe"]);
    assert_eq!(told.said.code, Some(1));
    assert_eq!(told.said.err, "error: 2 checks failed\n");
}

pub async fn check_sees_that_nobody_listens(world: &World) {
    let port = Port::reserve();
    Registration::everywhere("zonewise")
        .register(&world.client, port.number(), &world.ca())
        .await;
    let told = check_until(world, "probe", "failure", &[]).await;
    told.assert(
        "probe",
        "failure",
        "it can't be reached from here either (Connection refused",
    );
    assert_eq!(told.with_status("failure"), ["probe"]);
    assert_eq!(told.said.code, Some(1));
}

pub async fn check_sees_no_configuration(world: &World) {
    let told = check(world, &["--webhook-configuration", "missing"]).await;
    told.assert(
        "webhook-configuration",
        "failure",
        "though there is zonewise",
    );
    forget_webhook(world).await;
    let told = check(world, &[]).await;
    told.assert(
        "webhook-configuration",
        "failure",
        "so the API server never asks zonewise",
    );
    assert_eq!(told.with_status("failure"), ["webhook-configuration"]);
    assert_eq!(told.said.code, Some(1));
    told.assert("nodes", "ok", "3 zones");
}

pub async fn check_without_a_cluster(world: &World) {
    let text = std::fs::read_to_string(world.kubeconfig()).expect("the kubeconfig can be read");
    let port = Port::reserve();
    let (before, rest) = text.split_once("https://127.0.0.1:").expect("a server");
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let nobody = format!(
        "{before}https://127.0.0.1:{}{}",
        port.number(),
        &rest[end..]
    );
    let path = world.dir().join("nobody-there.kubeconfig");
    std::fs::write(&path, nobody).expect("the kubeconfig can be written");
    let told = check_as(&path, &[]).await;
    told.assert("api-server", "failure", "can't be asked");
    assert_eq!(told.json["checks"].as_array().unwrap().len(), 1);
    assert_eq!(told.said.code, Some(1));

    let missing = run(&["check", "--kubeconfig", "no/such/file"]).await;
    assert_eq!((missing.code, &*missing.out), (Some(2), ""));
    assert!(
        missing.err.starts_with("error: kubeconfig no/such/file: "),
        "{}",
        missing.err
    );
    assert_eq!(run(&["check", "--output", "xml"]).await.code, Some(2));
}
