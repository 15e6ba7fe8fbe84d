//! `helm test`, whose pod is played by a process.

use std::process::Stdio;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::installation::command;
use super::permissions::Account;
use super::pods::texts;
use super::site::{Site, json_of};
use crate::chart::helm::said;
use crate::support::program::zonewise;
use crate::support::wait::eventually;

/// The test's ServiceAccount, which is its pod's name, too.
const CHECK: &str = "zonewise.check";
const CHECK_POD: &str = "zonewise-check";

/// What the chart does not let the test look at. It asks, is refused, and says so in warnings: docs/check.md has what more
/// it could be given.
pub const NOT_LOOKED_AT: [&str; 2] = [
    "/namespaces/zonewise: get",
    "/services/proxy/https:zonewise:443: get",
];

/// What the test reads only in a cluster with Cilium's DaemonSet.
pub const NO_CILIUM: [&str; 1] = ["/configmaps/cilium-config: get"];

/// The test of README.md passes. Gives what its ServiceAccount may do, which is gone by then.
pub async fn passes(site: &Site) -> Account {
    let test = command("helm -n zonewise test ");
    let words: Vec<&str> = test.split_whitespace().skip(1).collect();
    let mut helm = site.helm_command(&words);
    let helm = helm.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let helm = helm.expect("helm runs");
    let pod = eventually("the test's pod runs", async || {
        let pod = site.own::<Pod>().get(CHECK_POD).await;
        let pod = json_of(&pod.map_err(|error| error.to_string())?);
        let runs = pod["status"]["phase"] == "Running";
        runs.then_some(pod).ok_or_else(|| "it does not".to_owned())
    })
    .await;
    let account = Account::read(site, CHECK).await;
    assert_eq!(pod["spec"]["serviceAccountName"], CHECK);
    let arguments = texts(&pod["spec"]["containers"][0]["args"]);
    let told = check(site, &arguments).await;
    let told = told.unwrap_or_else(|said| panic!("{said}"));
    assert!(told.contains("ok       probe\n"), "{told}");
    assert!(told.ends_with(" 0 failures\n"), "{told}");
    looks_at_the_service(site, &arguments).await;
    let succeeded = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let pods = site.own::<Pod>();
    let told = pods
        .patch_status(CHECK_POD, &PatchParams::default(), &succeeded)
        .await;
    told.expect("the pod has succeeded");
    let output = tokio::task::block_in_place(|| helm.wait_with_output());
    let told = said(&output.expect("helm ends")).unwrap_or_else(|said| panic!("{said}"));
    assert!(told.contains("Succeeded"), "{told}");
    account
}

/// By a URL the Service is of no matter. By the Service it is looked at, and no process is reached.
async fn looks_at_the_service(site: &Site, arguments: &[String]) {
    site.call_the_service().await;
    let told = check(site, arguments).await.expect_err("a failure");
    assert!(told.contains("ok       webhook-service\n"), "{told}");
    assert!(told.contains("has 2 ready endpoints"), "{told}");
    assert!(told.contains("failure  probe\n"), "{told}");
    site.call(&site.url()).await;
}

async fn check(site: &Site, arguments: &[String]) -> Result<String, String> {
    let kubeconfig = site.kubeconfig_of(CHECK).await.display().to_string();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = zonewise();
    command.args([&arguments[..], &["--kubeconfig", &kubeconfig]].concat());
    let output = tokio::task::block_in_place(|| command.output());
    said(&output.expect("zonewise runs"))
}
