//! What is rendered where people's writes are judged.

use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::values::{CA, base64, certificates, merged};

const KIND: &str = "ValidatingWebhookConfiguration";

fn rendered(mode: &str, values: &Value) -> Objects {
    let validation = json!({"validation": {"mode": mode}});
    Helm::four().objects(&Release::usual(), &merged(&validation, values))
}

/// The rule of the ClusterRole about the configuration.
fn rule(objects: &Objects) -> Option<Value> {
    let rules = objects.the("ClusterRole")["rules"].as_array();
    let mut rules = rules.into_iter().flatten();
    let ours = |rule: &&Value| rule["resources"] == json!(["validatingwebhookconfigurations"]);
    rules.find(ours).cloned()
}

#[test]
fn off_has_no_configuration_and_no_permission() {
    let objects = rendered("off", &json!({}));
    assert!(objects.all(KIND).is_empty());
    assert_eq!(objects.flag("--validation"), Some("off"));
    assert_eq!(objects.flag("--validating-webhook-configuration"), None);
    assert_eq!(rule(&objects), None);
    let switched_off = rendered("enforce", &json!({"mode": "Off"}));
    assert!(switched_off.all(KIND).is_empty());
}

#[test]
fn on_has_one_webhook_for_services_and_one_for_slices() {
    for mode in ["warn", "enforce"] {
        let objects = rendered(mode, &json!({}));
        assert_eq!(objects.flag("--validation"), Some(mode));
        let flag = objects.flag("--validating-webhook-configuration");
        assert_eq!(flag, Some("zonewise"));
        let configuration = objects.the(KIND);
        assert_eq!(configuration["metadata"]["name"], "zonewise");
        let webhooks = configuration["webhooks"]
            .as_array()
            .expect("there are webhooks");
        let resources: Vec<&Value> = webhooks
            .iter()
            .map(|webhook| &webhook["rules"][0]["resources"][0])
            .collect();
        assert_eq!(resources, ["services", "endpointslices"]);
        for webhook in webhooks {
            assert_eq!(webhook["failurePolicy"], "Ignore");
            assert_eq!(webhook["sideEffects"], "None");
            assert_eq!(webhook["timeoutSeconds"], 1);
            assert_eq!(
                webhook["rules"][0]["operations"],
                json!(["CREATE", "UPDATE"])
            );
            let service = &webhook["clientConfig"]["service"];
            assert_eq!(service["path"], "/validate");
            assert_eq!(webhook["clientConfig"]["caBundle"], Value::Null);
        }
    }
}

#[test]
fn slices_are_judged_where_the_mutating_webhook_is_asked_about_them() {
    let objects = rendered(
        "warn",
        &json!({"webhook": {
            "namespaceSelector": {"matchLabels": {"a": "b"}},
            "objectSelector": {"matchLabels": {"c": "d"}},
        }}),
    );
    let of = |kind: &str, place: usize| objects.the(kind)["webhooks"][place].clone();
    let (mutating, judging) = (of("MutatingWebhookConfiguration", 0), of(KIND, 1));
    for selector in ["namespaceSelector", "objectSelector"] {
        assert_eq!(mutating[selector], judging[selector], "{selector}");
        assert!(mutating[selector].is_object());
    }
    let conditions = |webhook: &Value| webhook["matchConditions"].as_array().cloned();
    let mutating = conditions(&mutating).expect("there are conditions");
    let judging = conditions(&judging).expect("there are conditions");
    assert_eq!(judging[2..], mutating[..]);
    assert_eq!(judging[0]["name"], "is-by-a-person");
}

#[test]
fn its_ca_bundle_comes_from_where_the_mutating_ones_does() {
    let own = rendered("warn", &json!({}));
    let verbs = |objects: &Objects| rule(objects).map(|rule| rule["verbs"].clone());
    assert_eq!(verbs(&own), Some(json!(["get", "patch"])));
    let provided = rendered("warn", &certificates("provided"));
    assert_eq!(verbs(&provided), Some(json!(["get"])));
    for place in [0, 1] {
        let client = &provided.the(KIND)["webhooks"][place]["clientConfig"];
        assert_eq!(client["caBundle"], json!(base64(CA)));
    }
    let manager = rendered("warn", &certificates("cert-manager"));
    let annotations = &manager.the(KIND)["metadata"]["annotations"];
    assert_eq!(
        annotations["cert-manager.io/inject-ca-from"],
        "zonewise/zonewise-cert-manager"
    );
    let answering = json!({"controller": {"enabled": false}});
    let answering = rendered("warn", &merged(&certificates("provided"), &answering));
    assert_eq!(rule(&answering), None);
    assert_eq!(answering.flag("--validating-webhook-configuration"), None);
}
