//! Upgrades, a rollback, off and on, and the end.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use super::hints;
use super::pods::roll_out;
use super::site::{SHOP, Site, held};
use crate::chart::helm::{Release, text};
use crate::chart::remains::remains;
use crate::chart::tools::{chart, text_of};
use crate::support::program::zonewise;
use crate::support::slices;
use crate::support::wait::eventually;

/// The chart as another version of it, which calls the webhooks by a URL.
fn chart_with(site: &Site, version: &str, url: &str) -> String {
    let folder = site.dir.path().join(version);
    let copied = Command::new("cp")
        .arg("-R")
        .arg(chart())
        .arg(&folder)
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "cp -R failed");
    let metadata = text_of("charts/zonewise/Chart.yaml");
    let with = format!("\nversion: {version}\n");
    change(
        &folder.join("Chart.yaml"),
        &metadata,
        &with,
        ("\nversion: ", "\n"),
    );
    for (kind, path) in [("mutating", "/mutate"), ("validating", "/validate")] {
        let template = format!("templates/{kind}webhookconfiguration.yaml");
        let webhook = text_of(&format!("charts/zonewise/{template}"));
        let with = format!("\n      url: {}\n", url.replace("/mutate", path));
        let service = ("\n      service:\n", ".Values.service.port }}\n");
        change(&folder.join(template), &webhook, &with, service);
    }
    text(&folder)
}

/// Puts something in place of what stands from one text to another.
fn change(file: &Path, text: &str, with: &str, (from, to): (&str, &str)) {
    let (before, rest) = text.split_once(from).expect("the text begins");
    let (_, after) = rest.split_once(to).expect("the text ends");
    let changed = format!("{before}{with}{after}");
    std::fs::write(file, changed).expect("a file can be written");
}

fn upgrade(site: &Site, chart: &str, values: &Value) {
    let values = text(&site.helm.values_file(values));
    site.helm(&[
        "-n",
        "zonewise",
        "upgrade",
        "zonewise",
        chart,
        "--reset-then-reuse-values",
        "--values",
        &values,
    ]);
}

/// Writes a slice again and again until it is told to end; fails where one is stored without hints.
struct Writer {
    ended: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<usize>,
}

impl Writer {
    fn begin(client: Client) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let task = tokio::spawn(async move {
            let slices = Api::namespaced(client, SHOP);
            let mut turn = 0;
            while !flag.load(Ordering::Relaxed) {
                turn += 1;
                let written = hints::write_by(&slices, turn).await;
                slices::assert_hinted(&[written], [3, 3, 3]);
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            turn
        });
        Self { ended, task }
    }

    async fn end(self) -> usize {
        self.ended.store(true, Ordering::Relaxed);
        self.task.await.expect("every write is hinted")
    }
}

/// The CA, as long as it is the same.
async fn ca(site: &Site) -> (Option<String>, Vec<u8>, Vec<u8>) {
    let secret = site.secret().await.expect("there is a Secret");
    let keys = ["ca.crt", "ca.key"].map(|key| held(&secret, key));
    let [certificate, key] = keys;
    assert_eq!(site.bundle().await, Some(certificate.clone()));
    (secret.metadata.uid, certificate, key)
}

async fn serving(site: &Site) -> Vec<u8> {
    held(&site.secret().await.expect("there is a Secret"), "tls.crt")
}

/// No write goes by, and the certificates stay.
pub async fn upgrades_and_rolls_back(site: &mut Site) {
    let (first_ca, first_certificate) = (ca(site).await, serving(site).await);
    let failed_before = site.failed_open().await;
    let writer = Writer::begin(site.client.clone());

    let newer = chart_with(site, "0.1.1", &site.url());
    let values = json!({"certificates": {"selfManaged": {"certificateLifetime": "24h"}}, "shutdownDelaySeconds": 1});
    upgrade(site, &newer, &values);
    assert_eq!(ca(site).await, first_ca);
    roll_out(site).await;
    eventually("the certificate is renewed, for a day", async || {
        let renewed = serving(site).await != first_certificate;
        renewed.then_some(()).ok_or_else(|| "it is not".to_owned())
    })
    .await;
    assert_eq!(ca(site).await, first_ca);

    let newest = chart_with(site, "0.2.0", &site.url());
    upgrade(
        site,
        &newest,
        &json!({"webhook": {"timeoutSeconds": 2}, "nodeGrace": "30s"}),
    );
    roll_out(site).await;
    assert_eq!(site.webhook().await.timeout_seconds, Some(2));
    assert_eq!(ca(site).await, first_ca);

    site.helm(&["-n", "zonewise", "rollback", "zonewise", "2"]);
    roll_out(site).await;
    assert_eq!(site.webhook().await.timeout_seconds, Some(1));
    site.pods.ended().await;
    assert_eq!(ca(site).await, first_ca);

    let count = writer.end().await;
    assert!(count > 20, "{count} writes");
    assert_eq!(
        site.failed_open().await.to_string(),
        failed_before.to_string()
    );
}

/// Nothing runs and nothing is asked; hints are stripped; then all comes back.
pub async fn is_off_and_on_again(site: &mut Site) {
    let before = ca(site).await;
    let chart = chart_with(site, "0.2.1", &site.url());
    upgrade(site, &chart, &json!({"mode": "Off"}));
    site.pods.end();
    site.pods.ended().await;
    assert!(
        site.configurations()
            .get_opt("zonewise")
            .await
            .expect("an answer")
            .is_none()
    );
    strip(site).await;
    upgrade(site, &chart, &json!({"mode": "Active"}));
    roll_out(site).await;
    assert_eq!(ca(site).await, before);
    hints::is_in_order(site, [4, 4, 4]).await;
}

async fn strip(site: &Site) {
    let kubeconfig = site.kubeconfig();
    let mut command = zonewise();
    command.args(["strip", "-A", "--yes", "--kubeconfig", &kubeconfig]);
    let output = tokio::task::block_in_place(|| command.output()).expect("zonewise runs");
    let told = crate::chart::helm::said(&output).unwrap_or_else(|said| panic!("{said}"));
    assert!(told.contains("shop/by-hand-1 lost 9 hints\n"), "{told}");
    assert_eq!(
        slices::unhinted(&hints::slices_of(site, "by-hand").await),
        Ok(())
    );
}

/// Secret and Lease go with the Deployment, by Kubernetes' garbage collector.
pub async fn is_uninstalled(site: &mut Site) {
    site.helm(&["-n", "zonewise", "uninstall", "zonewise"]);
    site.pods.end();
    site.pods.ended().await;
    let release = Release::usual();
    eventually("nothing is left", async || {
        let remains = remains(&site.client, &release).await;
        remains
            .is_empty()
            .then_some(())
            .ok_or_else(|| format!("{remains:?}"))
    })
    .await;
}
