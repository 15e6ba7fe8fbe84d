//! The first minute.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;

use super::hints;
use super::pods;
use super::site::{Site, held, json_of};
use crate::chart::tools::text_of;
use crate::support::http;
use crate::support::wait::eventually;

/// The command of README.md that begins so.
pub fn command(begins: &str) -> String {
    let readme = text_of("README.md");
    let (_, section) = readme
        .split_once("## Install it")
        .expect("README.md says how to install it");
    let section = section.replace("\\\n", " ");
    let found = section.lines().find(|line| line.starts_with(begins));
    found.expect("it has the command").to_owned()
}

/// Installs as README.md says, starts what the Deployment asks for, and sees hints.
pub async fn installs(site: &mut Site) {
    let install = command("helm install ");
    let words: Vec<&str> = install.split_whitespace().skip(1).collect();
    site.helm(&words);
    site.call(&site.url()).await;
    assert_eq!(site.bundle().await, None);
    let deployment = site.own::<Deployment>().get("zonewise").await;
    let deployment = json_of(&deployment.expect("there is a Deployment"));
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let begun = pods::begin(site, &deployment["spec"]["replicas"], arguments).await;
    assert_eq!(begun.len(), 2);
    is_ready_once_trusted(site, begun[0].metrics_port).await;
    for replica in &begun {
        replica.until_ready().await;
    }
    pods::are_running(site, begun, arguments);
    hints::open_the_shop(site).await;
    hints::is_in_order(site, [3, 3, 3]).await;
    the_bundle_is_its_own(site).await;
    an_event_tells_of(site, "few").await;
}

/// It waits for the CA bundle and says so.
async fn is_ready_once_trusted(site: &Site, metrics_port: u16) {
    let mut waited = false;
    eventually("the first replica is ready", async || {
        let (status, said) = http::get(metrics_port, "/readyz")?;
        // Asked for after the answer: what is there now may not have been there then, but not the other way round.
        let trusted = site.bundle().await.is_some();
        assert!(status != 200 || trusted, "ready without a CA bundle");
        waited |= status == 503 && !trusted;
        (status == 200).then_some(()).ok_or(said)
    })
    .await;
    assert!(waited, "nobody saw it wait for the CA bundle");
}

/// The CA bundle is that of the Secret, and nobody but zonewise's field manager has it.
async fn the_bundle_is_its_own(site: &Site) {
    let secret = site.secret().await.expect("there is a Secret");
    assert_eq!(site.bundle().await, Some(held(&secret, "ca.crt")));
    let configuration = site.configurations().get("zonewise").await;
    let configuration = json_of(&configuration.expect("it is there"));
    let managers = configuration["metadata"]["managedFields"].as_array();
    let managers = managers.expect("there are managers").iter();
    let of_bundle = managers.filter(|entry| entry["fieldsV1"].to_string().contains("f:caBundle"));
    let names: Vec<&str> = of_bundle
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(names, ["zonewise"]);
}

async fn an_event_tells_of(site: &Site, service: &str) {
    eventually(&format!("an event tells of {service}"), async || {
        let events = site.shop::<Event>().list(&ListParams::default()).await;
        let events = events.map_err(|error| error.to_string())?;
        let is_it = |event: &Event| {
            let regarding = event.regarding.as_ref();
            regarding.and_then(|it| it.name.as_deref()) == Some(service)
                && regarding.and_then(|it| it.kind.as_deref()) == Some("Service")
        };
        let found = events.iter().any(is_it);
        found.then_some(()).ok_or_else(|| "none does".to_owned())
    })
    .await;
}
