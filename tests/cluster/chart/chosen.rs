//! Which slices the API server asks about, by the rendered webhook configuration.
//!
//! No server answers: the audit log records each call that failed open.

use std::sync::Arc;

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::helm::{Helm, Release};
use super::values::merged;
use super::{api_for, create_namespace, plane};
use crate::support::plane::Plane;
use crate::support::wait::eventually;

/// A webhook of its own name, so that those of other tests are not taken for it.
struct Asked {
    client: Client,
    webhook: String,
    plane: Arc<Plane>,
}

impl Asked {
    async fn register(name: &str, values: &Value) -> Self {
        let plane = plane().await;
        let client = plane.client.clone();
        create_namespace(&client, name, json!({})).await;
        let objects = Helm::four().objects(&Release::new("zonewise", name), values);
        let mut configuration = objects.the("MutatingWebhookConfiguration").clone();
        let webhook = format!("{name}.zonewise.dev");
        configuration["webhooks"][0]["name"] = json!(webhook);
        create(&client, &configuration, false).await;
        Self {
            client,
            webhook,
            plane,
        }
    }

    /// Whether it is asked about a slice of this name that is created, in a dry run.
    async fn about(&self, name: &str, slice: &Value) -> bool {
        let named = merged(slice, &json!({"metadata": {"name": name}}));
        create(&self.client, &named, true).await;
        let entry = eventually("the write is in the audit log", async || {
            let log = self.plane.audit.text();
            let named = format!("\"name\":\"{name}\"");
            let mut whole = log.lines().filter(|line| line.ends_with('}'));
            let last = whole.rfind(|line| line.contains(&named));
            last.map(str::to_owned).ok_or_else(|| format!("no {name}"))
        });
        let entry: Value = serde_json::from_str(&entry.await).expect("an entry is JSON");
        let annotations = entry["annotations"].as_object();
        annotations
            .into_iter()
            .flatten()
            .any(|(key, value)| key.starts_with("failed-open.") && *value == json!(self.webhook))
    }
}

async fn create(client: &Client, object: &Value, dry_run: bool) {
    let api: Api<DynamicObject> = api_for(client, object).await.expect("its kind is served");
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let object = serde_json::from_value(object.clone()).expect("it is an object");
    api.create(&params, &object).await.expect("it is taken");
}

fn slice(namespace: &str, service: Option<&str>) -> Value {
    let labels = service.map(|service| json!({"kubernetes.io/service-name": service}));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
    })
}

#[test]
fn about_slices_of_services_and_not_those_that_it_has_no_business_with() {
    crate::run(async {
        let asked = Asked::register("chosen", &json!({})).await;
        eventually("the API server knows the webhook", async || {
            let asked = asked.about("probe", &slice("chosen", Some("web"))).await;
            asked
                .then_some(())
                .ok_or_else(|| "it was not asked".to_owned())
        })
        .await;
        let ipv6 = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]});
        let fqdn = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.example"]}]});
        for (name, slice, wanted) in [
            ("of-a-service", slice("chosen", Some("web")), true),
            ("ipv6", merged(&slice("chosen", Some("web")), &ipv6), true),
            ("fqdn", merged(&slice("chosen", Some("web")), &fqdn), false),
            ("without-a-service", slice("chosen", None), false),
            ("zonewises-own", slice("chosen", Some("zonewise")), false),
            (
                "of-that-name-elsewhere",
                slice("default", Some("zonewise")),
                true,
            ),
            (
                "the-api-servers-own",
                slice("default", Some("kubernetes")),
                false,
            ),
            (
                "kubernetes-elsewhere",
                slice("chosen", Some("kubernetes")),
                true,
            ),
        ] {
            assert_eq!(asked.about(name, &slice).await, wanted, "{name}");
        }
    });
}

#[test]
fn about_labelled_slices_alone_with_the_recipe_of_docs_installation() {
    crate::run(async {
        let selector = json!({"matchLabels": {"zonewise.dev/hints": "enabled"}});
        let asked = Asked::register(
            "labelled",
            &json!({"webhook": {"objectSelector": selector}}),
        )
        .await;
        let label = json!({"metadata": {"labels": {"zonewise.dev/hints": "enabled"}}});
        let labelled = merged(&slice("labelled", Some("web")), &label);
        eventually("the API server knows the webhook", async || {
            let asked = asked.about("labelled-probe", &labelled).await;
            asked
                .then_some(())
                .ok_or_else(|| "it was not asked".to_owned())
        })
        .await;
        assert!(
            !asked
                .about("not-labelled", &slice("labelled", Some("web")))
                .await
        );
    });
}
