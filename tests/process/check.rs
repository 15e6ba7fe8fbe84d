//! `zonewise check` against clusters whose data planes differ.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_server::Fault;
use crate::api_server::fixed::FixedServer;
use crate::binary::{kubeconfig, replace, run, stderr, stdout};

const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/cilium-config";

/// A cluster with these DaemonSets in kube-system, and nothing else that `check` reads.
fn cluster(daemon_sets: &[&str]) -> FixedServer {
    let one = |name: &&str| json!({"metadata": {"name": name, "namespace": "kube-system"}});
    let items: Vec<Value> = daemon_sets.iter().map(one).collect();
    let version = json!({"major": "1", "minor": "34", "gitVersion": "v1.34.1", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    FixedServer::new()
        .with("/version", &version)
        .with_list("/apis/apps/v1/daemonsets", &items)
}

/// The line `data-plane` of `zonewise check -o json`.
async fn data_plane(server: FixedServer) -> Value {
    let server = server.start();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kubeconfig");
    replace(&file, kubeconfig(server.port()).to_string());
    let arguments = ["check", "-o", "json", "--kubeconfig"].map(str::to_owned);
    let arguments = [&arguments[..], &[file.display().to_string()]].concat();
    let output = tokio::task::spawn_blocking(move || run(&arguments));
    let output = output.await.unwrap();
    let report: Value = serde_json::from_str(stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    let lines = report["checks"].as_array().unwrap();
    let line = lines.iter().find(|line| line["name"] == "data-plane");
    line.unwrap_or_else(|| panic!("{report:#}")).clone()
}

#[tokio::test]
async fn cilium_beside_kube_proxy_is_a_warning_until_its_service_topology_is_on() {
    let planes = ["kube-proxy", "cilium", "cilium-envoy"];
    let config = |value: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "cilium-config"},
            "data": {"enable-service-topology": value}})
    };
    let line = data_plane(cluster(&planes).with(CONFIG, &config("false"))).await;
    assert_eq!(
        line,
        json!({
            "name": "data-plane",
            "status": "warning",
            "message": "Cilium runs beside kube-proxy and serves ClusterIPs for pods, but ignores zone hints: \
                        enable-service-topology is \"false\" in the ConfigMap cilium-config in namespace kube-system",
            "advice": "set loadBalancer.serviceTopology=true in Cilium's Helm values, then restart the agents: \
                       kubectl -n kube-system rollout restart daemonset/cilium",
            "docs": "docs/troubleshooting.md#check-data-plane",
        })
    );
    let line = data_plane(cluster(&planes).with(CONFIG, &config("true"))).await;
    assert_eq!(line["status"], "ok", "{line:#}");
}

#[tokio::test]
async fn a_config_map_that_may_not_be_read_is_named() {
    let forbidden = Fault::status(403, "Forbidden");
    let line = data_plane(cluster(&["cilium"]).with_fault(CONFIG, forbidden)).await;
    assert_eq!(
        (line["status"].as_str(), line["message"].as_str()),
        (
            Some("warning"),
            Some(
                "Cilium serves ClusterIPs: not looked at: needs permission to get the ConfigMap cilium-config in namespace \
                 kube-system"
            )
        )
    );
}
