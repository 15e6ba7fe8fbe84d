//! CA bundles of webhook configurations that others wipe.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::load;
use super::stage::{Stage, number};
use crate::support::proxy::Proxy;
use crate::support::replica::Certificates;
use crate::support::wait::{eventually, within};
use crate::support::world::say;

pub async fn ca_bundles_are_put_back(stage: &Stage) {
    let replicas = ["a", "b"].map(|name| stage.replica(name));
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    stage.install(proxy.port).await;
    for replica in &replicas {
        replica.start().await;
    }
    let contents = stage.is_in_order(&all).await;

    for bundle in [json!(null), json!("bm8gUEVNIGluIGhlcmU=")] {
        say(&format!("  {bundle}"));
        wipe(stage.mutating(), &stage.name, &bundle).await;
        wipe(stage.validating(), &stage.name, &bundle).await;
        is_put_back(stage, &contents.bundle_pem()).await;
        stage.is_in_order(&all).await;
    }

    say("  by a tool that owns the whole of it");
    stage.install_mutating(proxy.port).await;
    is_put_back(stage, &contents.bundle_pem()).await;

    say("  deleted, and made anew");
    delete(stage.mutating(), &stage.name).await;
    for replica in &all {
        eventually("the replica tells", async || {
            let logged = format!("MutatingWebhookConfiguration {} is not there", stage.name);
            let lines = replica.log_lines();
            lines
                .iter()
                .any(|line| line.contains(&logged))
                .then_some(())
                .ok_or_else(|| "it does not".to_owned())
        })
        .await;
        assert!(replica.is_ready(), "it was ready, and is");
    }
    assert!(
        stage.mutating().get(&stage.name).await.is_err(),
        "nobody made one"
    );
    stage.install_mutating(proxy.port).await;
    is_put_back(stage, &contents.bundle_pem()).await;
    stage.is_in_order(&all).await;
    load::calls_go_through(stage).await;
}

async fn wipe<K>(api: Api<K>, name: &str, bundle: &Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let path = "/webhooks/0/clientConfig/caBundle";
    let wipe = json!([{"op": "add", "path": path, "value": bundle}]);
    let wipe = serde_json::from_value(wipe).expect("a patch");
    let wipe = Patch::Json::<Value>(wipe);
    let answer = api.patch(name, &PatchParams::default(), &wipe).await;
    answer.expect("it is wiped");
}

pub async fn ca_bundles_are_put_back_less_and_less_often(stage: &Stage) {
    const TIMES: f64 = 3.0;
    /// What lies between them at least: 1 and 2 s.
    const LEAST: Duration = Duration::from_secs(3);
    let replica = stage.replica("patient");
    let proxy = Proxy::over(&[&replica]);
    stage.install(proxy.port).await;
    replica.start().await;
    let contents = stage.is_in_order(&[&replica]).await;
    let count = |metric: &str, labels: &[(&str, &str)]| number(&replica, metric, labels);
    let stored = || count("zonewise_ca_bundle_writes_total", &[("result", "stored")]);
    let (before, began) = (stored(), Instant::now());
    within(
        10 * LEAST,
        "the bundle is put back three times",
        async || {
            wipe(stage.mutating(), &stage.name, &json!(null)).await;
            let times = stored() - before;
            if times < TIMES {
                return Err(format!("it was {times} times"));
            }
            Ok(())
        },
    )
    .await;
    let took = began.elapsed();
    let undone = count("zonewise_ca_bundle_undone_total", &[]);
    say(&format!(
        "  put back {TIMES} times in {took:?}, {undone} of them undone before"
    ));
    assert!(took >= LEAST && undone >= TIMES - 1.0);
    let told = || {
        let log = replica.log_lines();
        let line = format!(
            "the CA bundle in MutatingWebhookConfiguration {} is taken out again each time",
            stage.name
        );
        log.iter().filter(|it| it.contains(&line)).count()
    };
    assert_eq!(told(), 1);
    is_put_back(stage, &contents.bundle_pem()).await;
    say("  deleted and made anew, which is nobody's wiping");
    delete(stage.mutating(), &stage.name).await;
    let began = Instant::now();
    stage.install_mutating(proxy.port).await;
    is_put_back(stage, &contents.bundle_pem()).await;
    assert!(began.elapsed() < Duration::from_secs(8));
}

pub async fn ca_bundles_beside_files_are_only_read(stage: &Stage) {
    let [own, other] = ["own", "other"].map(|name| {
        let folder = stage.dir.path().join(name);
        Certificates::generate(&folder)
    });
    let replica = stage.replica_with("files", &own);
    let proxy = Proxy::over(&[&replica]);
    let cases = [
        (own.ca(), Some("zonewise_certificate_trusted 1")),
        (other.ca(), Some("zonewise_certificate_trusted 0")),
        (Vec::new(), None),
    ];
    replica.start().await;
    for (bundle, told) in cases {
        stage.register(proxy.port, &bundle).await;
        eventually("the metric follows", async || {
            let text = replica.metrics()?;
            let is = text
                .lines()
                .find(|line| line.starts_with("zonewise_certificate_trusted "));
            (is == told)
                .then_some(())
                .ok_or_else(|| format!("{is:?} instead of {told:?}"))
        })
        .await;
        assert!(replica.is_ready());
        let configuration = stage.mutating().get(&stage.name).await;
        let managers = configuration.expect("it is there").metadata.managed_fields;
        let mut managers = managers.into_iter().flatten();
        assert!(managers.all(|entry| entry.manager.as_deref() != Some("zonewise")));
    }
}

async fn is_put_back(stage: &Stage, bundle: &str) {
    eventually("the CA bundle is put back", async || {
        let bundles = stage.bundles().await?;
        let expected = [bundle.as_bytes(), bundle.as_bytes()];
        (bundles == expected)
            .then_some(())
            .ok_or_else(|| "it is not".to_owned())
    })
    .await;
}

async fn delete<K>(api: Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.expect("it is deleted");
}
