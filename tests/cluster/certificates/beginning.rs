//! The first certificates.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use zonewise::controller::certificates::contents::Contents;

use super::load;
use super::stage::{SECRET, Stage, data, number};
use crate::support::http;
use crate::support::proxy::Proxy;
use crate::support::replica::Replica;
use crate::support::wait::eventually;

pub async fn five_replicas_make_one_secret(stage: &Stage) {
    let replicas = ["a", "b", "c", "d", "e"].map(|name| stage.replica(name));
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    stage.install(proxy.port).await;
    for replica in &replicas {
        replica.begin();
    }
    join_all(replicas.iter().map(Replica::until_ready)).await;
    let contents = stage.is_in_order(&all).await;
    assert_eq!(contents.bundle.len(), 1);
    let mut keys: Vec<_> = data(&stage.secret().await.expect("a Secret"))
        .into_keys()
        .collect();
    keys.sort();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);

    let made = |entry: &Value| {
        let ok = entry["responseStatus"]["code"] == 201;
        ok && entry["verb"] == "create" && entry["objectRef"]["resource"] == "secrets"
    };
    let requests = stage.requests();
    assert_eq!(requests.iter().filter(|entry| made(entry)).count(), 1);
    everything_is_counted(&all, &contents);
    everything_is_owned_by_the_deployment(stage).await;
    nothing_but_ca_bundles_is_owned_in_configurations(stage).await;
    load::calls_go_through(stage).await;
}

fn everything_is_counted(replicas: &[&Replica], contents: &Contents) {
    let sum = |metric: &str, labels: &[(&str, &str)]| {
        let counts = replicas
            .iter()
            .map(|replica| number(replica, metric, labels));
        counts.sum::<f64>()
    };
    for usage in ["ca", "serving"] {
        let renewals = "zonewise_certificate_renewals_total";
        let renewed = sum(renewals, &[("usage", usage), ("result", "renewed")]);
        assert!((renewed - 1.0).abs() < 0.5, "{usage}: {renewed}");
    }
    let stored = sum("zonewise_ca_bundle_writes_total", &[("result", "stored")]);
    assert!((stored - 2.0).abs() < 0.5, "{stored}");
    let ca = contents.signing.as_ref().expect("a CA");
    #[expect(clippy::cast_precision_loss)]
    let until = ca.certificate.validity.until.unix_timestamp() as f64;
    let metric = "zonewise_certificate_expiration_timestamp_seconds";
    for replica in replicas {
        let told = number(replica, metric, &[("usage", "ca")]);
        assert!((told - until).abs() < 0.5, "{told} and not {until}");
    }
}

async fn everything_is_owned_by_the_deployment(stage: &Stage) {
    let deployment = stage.own::<Deployment>().get("zonewise").await;
    let uid = deployment.expect("a Deployment").metadata.uid;
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "zonewise", "uid": uid}]);
    eventually("the owner is named", async || {
        let secret = stage.secret().await?.metadata.owner_references;
        let lease = stage.own::<Lease>().get("zonewise").await;
        let lease = lease.map_err(|error| error.to_string())?;
        let named = [secret, lease.metadata.owner_references];
        let named = named.map(|named| serde_json::to_value(named).expect("JSON"));
        (named == [owner.clone(), owner.clone()])
            .then_some(())
            .ok_or_else(|| format!("{named:?}"))
    })
    .await;
}

async fn nothing_but_ca_bundles_is_owned_in_configurations(stage: &Stage) {
    let mutating = stage
        .mutating()
        .get(&stage.name)
        .await
        .expect("it is there");
    let managers = mutating.metadata.managed_fields.unwrap_or_default();
    let own: Vec<_> = managers
        .into_iter()
        .filter(|entry| entry.manager.as_deref() == Some("zonewise"))
        .collect();
    let [entry] = &own[..] else {
        panic!("one entry: {own:?}");
    };
    assert_eq!(entry.operation.as_deref(), Some("Apply"));
    let webhook = r#"k:{"name":"endpointslices.zonewise.dev"}"#;
    let fields = entry.fields_v1.clone().expect("fields").0;
    assert_eq!(
        fields,
        json!({"f:webhooks": {webhook: {".": {}, "f:clientConfig": {"f:caBundle": {}}, "f:name": {}}}})
    );
}

pub async fn a_replica_waits_until_it_is_trusted(stage: &Stage) {
    let replica = stage.replica("waiting");
    let proxy = Proxy::over(&[&replica]);
    replica.begin();
    let says = async |what: &str, part: &str| {
        eventually(what, async || {
            let (_, text) = http::get(replica.metrics_port, "/readyz")?;
            text.contains(part).then_some(()).ok_or(text)
        })
        .await;
    };
    says(
        "it waits for a webhook configuration",
        &format!(
            "waiting: until the API server trusts the certificate: there is no MutatingWebhookConfiguration {}",
            stage.name
        ),
    )
    .await;
    let health = http::get(replica.metrics_port, "/healthz");
    assert_eq!(health, Ok((200, "ok\n".to_owned())));
    assert!(!replica.is_ready());
    stage.install_mutating(proxy.port).await;
    says(
        "it waits for the other",
        &format!("there is no ValidatingWebhookConfiguration {}", stage.name),
    )
    .await;
    stage
        .mutating()
        .delete(&stage.name, &DeleteParams::default())
        .await
        .expect("it is deleted");
    stage.install(proxy.port).await;
    replica.until_ready().await;
    stage.is_in_order(&[&replica]).await;
    let logged = format!(
        "MutatingWebhookConfiguration {} is not there: no API server calls zonewise by it",
        stage.name
    );
    assert!(
        replica
            .log_lines()
            .iter()
            .any(|line| line.contains(&logged))
    );
}

pub async fn other_names_get_another_certificate_of_the_same_ca(stage: &Stage) {
    let replica = stage.replica("names");
    let proxy = Proxy::over(&[&replica]);
    stage.install(proxy.port).await;
    replica.start().await;
    let before = stage.is_in_order(&[&replica]).await;
    replica.stop().await;
    let replica = stage
        .replica("other-names")
        .with("--certificate-names", "127.0.0.1,Other.zonewise.svc,::1");
    let proxy = Proxy::over(&[&replica]);
    stage.install_mutating(proxy.port).await;
    replica.start().await;
    let contents = eventually("the names are others", async || {
        let contents = stage.contents().await?;
        let server = contents.server.as_ref().ok_or("no certificate")?;
        let names: Vec<_> = server.leaf.names.iter().cloned().collect();
        if names != ["127.0.0.1", "::1", "other.zonewise.svc"] {
            return Err(format!("{names:?}"));
        }
        Ok(contents)
    })
    .await;
    assert_eq!(contents.bundle, before.bundle, "{SECRET}");
    load::calls_go_through(stage).await;
}
