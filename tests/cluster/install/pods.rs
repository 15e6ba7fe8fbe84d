//! What the kubelet would do: a process for each pod.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::site::{Site, json_of};
use crate::support::replica::Replica;
use crate::support::wait::eventually;

/// Processes that run, and those that are to end.
#[derive(Default)]
pub struct Pods {
    running: Vec<Arc<Replica>>,
    ending: Vec<JoinHandle<()>>,
    arguments: Value,
}

impl Pods {
    /// Those that run.
    pub fn running(&self) -> &[Arc<Replica>] {
        &self.running
    }

    /// Has all of them end, as when their pods are deleted.
    pub fn end(&mut self) {
        self.arguments = Value::Null;
        for replica in self.running.drain(..) {
            let runtime = Handle::current();
            self.ending.push(tokio::task::spawn_blocking(move || {
                let status = runtime.block_on(replica.stop());
                assert!(status.success(), "{status}: {}", replica.end_of_log());
            }));
        }
    }

    /// Waits until those that are to end have ended.
    pub async fn ended(&mut self) {
        for ending in self.ending.drain(..) {
            ending.await.expect("it ends well");
        }
    }
}

/// Follows the Deployment if its pods are others now: new ones come, and once they are ready the others go.
pub async fn roll_out(site: &mut Site) {
    let deployment = site.own::<Deployment>().get("zonewise").await;
    let deployment = json_of(&deployment.expect("there is a Deployment"));
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    if site.pods.arguments == *arguments {
        return;
    }
    let begun = begin(site, &deployment["spec"]["replicas"], arguments).await;
    for replica in &begun {
        replica.until_ready().await;
        site.proxy.add(replica);
    }
    site.pods.end();
    site.pods.running = begun;
    site.pods.arguments = arguments.clone();
}

/// Begins a process for each pod that has these arguments, none of them ready yet.
pub async fn begin(site: &Site, count: &Value, arguments: &Value) -> Vec<Arc<Replica>> {
    let pods = eventually("the Deployment's pods are there", async || {
        let pods = pods_with(site, arguments).await;
        let enough = pods.len() as u64 == count.as_u64().expect("a number of replicas");
        enough.then_some(pods).ok_or_else(|| format!("not {count}"))
    })
    .await;
    let kubeconfig = site.kubeconfig_of("zonewise").await;
    let begin = |pod: &Value| {
        let replica = replica_of(pod, site.dir.path(), &kubeconfig);
        replica.begin();
        Arc::new(replica)
    };
    pods.iter().map(begin).collect()
}

/// Remembers that these run, with these arguments.
pub fn are_running(site: &mut Site, running: Vec<Arc<Replica>>, arguments: &Value) {
    for replica in &running {
        site.proxy.add(replica);
    }
    site.pods.running = running;
    site.pods.arguments = arguments.clone();
}

async fn pods_with(site: &Site, arguments: &Value) -> Vec<Value> {
    let ours = ListParams::default().labels("app.kubernetes.io/name=zonewise");
    let pods = site.own::<Pod>().list(&ours).await;
    let pods = pods.expect("pods are listed").items;
    let pods = pods.iter().map(json_of);
    pods.filter(|pod| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["spec"]["containers"][0]["args"] == *arguments
    })
    .collect()
}

fn replica_of(pod: &Value, dir: &Path, kubeconfig: &Path) -> Replica {
    let container = &pod["spec"]["containers"][0];
    let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
    let variables = container["env"].as_array().into_iter().flatten();
    let variables = variables.map(|variable| value_of(variable, name)).collect();
    let [serve, arguments @ ..] = &texts(&container["args"])[..] else {
        panic!("{container} has no arguments");
    };
    assert_eq!(serve, "serve");
    Replica::by(name, dir, variables, |ports| {
        let mut all: Vec<String> = arguments.iter().map(|it| outside(it, ports)).collect();
        all.push("--certificate-names=127.0.0.1".to_owned());
        all.push(format!("--kubeconfig={}", kubeconfig.display()));
        all
    })
}

/// An argument, with an address of loopback.
fn outside(argument: &str, [webhook, metrics]: [u16; 2]) -> String {
    match argument.split_once('=') {
        Some((flag @ "--webhook-bind-address", _)) => format!("{flag}=127.0.0.1:{webhook}"),
        Some((flag @ "--metrics-bind-address", _)) => format!("{flag}=127.0.0.1:{metrics}"),
        _ => argument.to_owned(),
    }
}

fn value_of(variable: &Value, pod: &str) -> (String, String) {
    let name = variable["name"].as_str().expect("it has a name").to_owned();
    if let Some(value) = variable["value"].as_str() {
        return (name, value.to_owned());
    }
    let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(field, "metadata.name", "{variable}");
    (name, pod.to_owned())
}

/// A list of texts.
pub fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    texts.map(text).collect()
}
