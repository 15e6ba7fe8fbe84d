//! What is rendered where people's writes are judged.

use serde_json::{Value, json};

use super::helm::{Helm, Objects, Release};
use super::values::{CA, base64, certificates, merged};

const KIND: &str = "ValidatingWebhookConfiguration";

/// The places of its webhooks.
const SERVICES: usize = 0;
const NAMESPACES: usize = 1;
const SLICES: usize = 2;

fn conditions(webhook: &Value) -> Vec<Value> {
    let conditions = webhook["matchConditions"].as_array();
    conditions.expect("there are conditions").clone()
}

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
fn on_has_a_webhook_each_for_services_namespaces_and_slices() {
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
        let rule = |field: &str| -> Vec<&Value> {
            let webhooks = webhooks.iter();
            webhooks
                .map(|webhook| &webhook["rules"][0][field])
                .collect()
        };
        assert_eq!(
            rule("resources"),
            [
                &json!(["services"]),
                &json!(["namespaces"]),
                &json!(["endpointslices"])
            ]
        );
        assert_eq!(rule("scope"), ["Namespaced", "Cluster", "Namespaced"]);
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
    let (mutating, judging) = (of("MutatingWebhookConfiguration", 0), of(KIND, SLICES));
    for selector in ["namespaceSelector", "objectSelector"] {
        assert_eq!(mutating[selector], judging[selector], "{selector}");
        assert!(mutating[selector].is_object());
    }
    let (mutating, judging) = (conditions(&mutating), conditions(&judging));
    assert_eq!(judging[3..], mutating[..]);
    let namespaces = of(KIND, NAMESPACES);
    assert_eq!(
        namespaces["namespaceSelector"],
        json!({"matchLabels": {"a": "b"}})
    );
    assert_eq!(
        namespaces["objectSelector"],
        Value::Null,
        "Namespaces have no labels of slices"
    );
}

#[test]
fn conditions_send_annotated_objects_and_hinted_slices_that_people_write() {
    let objects = rendered("warn", &json!({}));
    let of = |place: usize| conditions(&objects.the(KIND)["webhooks"][place]);
    let condition = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let of_all = [
        condition(
            "is-by-a-person",
            "!request.userInfo.username.startsWith('system:') || request.userInfo.username == 'system:admin'",
        ),
        condition(
            "is-not-being-deleted",
            "!has(object.metadata.deletionTimestamp)",
        ),
    ];
    let annotated = condition(
        "has-a-topology-annotation",
        "object.metadata.?annotations.orValue({}).exists(key, key.startsWith('zonewise.dev/') || \
         key in ['service.kubernetes.io/topology-mode', 'service.kubernetes.io/topology-aware-hints'])",
    );
    let annotated = [&of_all[..], &[annotated]].concat();
    assert_eq!(of(SERVICES), annotated);
    assert_eq!(of(NAMESPACES), annotated);
    let hinted = condition(
        "has-hints",
        "[object, oldObject].exists(slice, slice != null && slice.?endpoints.orValue(null) != null && \
         slice.endpoints.exists(endpoint, has(endpoint.hints)))",
    );
    assert_eq!(of(SLICES)[..3], [&of_all[..], &[hinted]].concat());
}

#[test]
fn its_ca_bundle_comes_from_where_the_mutating_ones_does() {
    let own = rendered("warn", &json!({}));
    let verbs = |objects: &Objects| rule(objects).map(|rule| rule["verbs"].clone());
    assert_eq!(verbs(&own), Some(json!(["get", "patch"])));
    let provided = rendered("warn", &certificates("provided"));
    assert_eq!(verbs(&provided), Some(json!(["get"])));
    for place in [SERVICES, NAMESPACES, SLICES] {
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
