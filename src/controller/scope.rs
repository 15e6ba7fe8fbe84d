//! Which slices the API server asks a webhook about, by its rules and selectors. Match conditions are not judged here.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::slice::SliceRecord;
use crate::cluster::slices::Slices;

/// The label that every namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The part of a webhook that says what it is asked about.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// What is written, and how.
    pub rules: Option<Vec<RuleWithOperations>>,
    /// In which namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// On which objects.
    pub object_selector: Option<LabelSelector>,
}

/// Labels of an object, as far as they are known.
pub trait Labels {
    /// Whether the label `key` is there, with one of `values` if these are given; nothing where that is not known.
    fn has(&self, key: &str, values: Option<&[String]>) -> Option<bool>;
}

impl Labels for BTreeMap<String, String> {
    fn has(&self, key: &str, values: Option<&[String]>) -> Option<bool> {
        let value = self.get(key);
        Some(value.is_some_and(|value| values.is_none_or(|values| values.contains(value))))
    }
}

impl Labels for SliceRecord {
    fn has(&self, key: &str, values: Option<&[String]>) -> Option<bool> {
        Some(self.has_label(key, values))
    }
}

/// The labels of a namespace.
#[derive(Debug, Clone, Copy)]
pub struct NamespaceLabels<'a> {
    /// Its name, which is a label too.
    pub name: &'a str,
    /// All of them, where they are known.
    pub all: Option<&'a BTreeMap<String, String>>,
}

impl Labels for NamespaceLabels<'_> {
    fn has(&self, key: &str, values: Option<&[String]>) -> Option<bool> {
        match self.all {
            Some(all) => all.has(key, values),
            None if key == NAMESPACE_NAME => {
                let is_named = |values: &[String]| values.iter().any(|value| value == self.name);
                Some(values.is_none_or(is_named))
            }
            None => None,
        }
    }
}

/// Whether one of `all` is `wanted`, or everything.
fn names(all: Option<&Vec<String>>, wanted: &[&str]) -> bool {
    let mut all = all.into_iter().flatten();
    all.any(|one| one == "*" || wanted.contains(&one.as_str()))
}

fn covers(rule: &RuleWithOperations, operation: &str) -> bool {
    let scope = rule.scope.as_deref().unwrap_or("*");
    names(rule.api_groups.as_ref(), &["discovery.k8s.io"])
        && names(rule.api_versions.as_ref(), &["v1"])
        && names(rule.resources.as_ref(), &["endpointslices", "*/*"])
        && names(rule.operations.as_ref(), &[operation])
        && scope != "Cluster"
}

/// Whether a selector takes an object with these labels, as apimachinery reads selectors; nothing where that is not known.
pub fn takes(selector: Option<&LabelSelector>, labels: &impl Labels) -> Option<bool> {
    let Some(selector) = selector else {
        return Some(true);
    };
    let equal = selector.match_labels.iter().flatten();
    let equal = equal.map(|(key, value)| labels.has(key, Some(std::slice::from_ref(value))));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|wanted| {
        let values = wanted.values.as_deref().unwrap_or_default();
        match wanted.operator.as_str() {
            "In" => labels.has(&wanted.key, Some(values)),
            "NotIn" => labels.has(&wanted.key, Some(values)).map(|has| !has),
            "Exists" => labels.has(&wanted.key, None),
            "DoesNotExist" => labels.has(&wanted.key, None).map(|has| !has),
            _ => None,
        }
    });
    let mut is_known = true;
    for holds in equal.chain(expressions) {
        match holds {
            Some(false) => return Some(false),
            Some(true) => {}
            None => is_known = false,
        }
    }
    is_known.then_some(true)
}

impl Scope {
    /// That of a webhook which is asked about everything, as one is taken to be that can't be read.
    #[must_use]
    pub fn everything() -> Self {
        let all = || Some(vec!["*".to_owned()]);
        let rule = RuleWithOperations {
            api_groups: all(),
            api_versions: all(),
            operations: all(),
            resources: Some(vec!["*/*".to_owned()]),
            scope: None,
        };
        Self {
            rules: Some(vec![rule]),
            ..Self::default()
        }
    }

    /// Whether some rule covers this operation, `CREATE` or `UPDATE`, on EndpointSlices.
    #[must_use]
    pub fn covers(&self, operation: &str) -> bool {
        let mut rules = self.rules.iter().flatten();
        rules.any(|rule| covers(rule, operation))
    }

    /// Whether it leaves any slice out.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        let selectors = [&self.namespace_selector, &self.object_selector];
        let mut selectors = selectors.into_iter().flatten();
        !self.covers("UPDATE") || selectors.any(|selector| *selector != LabelSelector::default())
    }

    /// Whether it is certain that the API server does not ask when a slice with these labels is updated.
    pub fn leaves_out(&self, slice: &impl Labels, namespace: NamespaceLabels<'_>) -> bool {
        !self.covers("UPDATE")
            || takes(self.object_selector.as_ref(), slice) == Some(false)
            || takes(self.namespace_selector.as_ref(), &namespace) == Some(false)
    }
}

/// Whether webhooks of these scopes together leave any slice out.
#[must_use]
pub fn are_narrow(scopes: &[Scope]) -> bool {
    !scopes.is_empty() && scopes.iter().all(Scope::is_narrow)
}

/// The names of those slices of a Service (`namespace/name`) about which the API server certainly asks none of the webhooks
/// of these scopes. Of a Namespace's labels the name alone is kept.
#[must_use]
pub fn left_out<'s>(scopes: &[Scope], service: &str, slices: &'s Slices) -> HashSet<&'s str> {
    if !are_narrow(scopes) {
        return HashSet::new();
    }
    let namespace = NamespaceLabels {
        name: service
            .split_once('/')
            .map_or("", |(namespace, _)| namespace),
        all: None,
    };
    let out = slices
        .iter()
        .filter(|slice| scopes.iter().all(|s| s.leaves_out(&***slice, namespace)));
    out.map(|slice| &*slice.name).collect()
}

/// The scopes of the webhooks of a configuration.
#[must_use]
pub fn of_configuration(configuration: &Value) -> Vec<Scope> {
    let webhooks = configuration["webhooks"].as_array();
    let webhooks = webhooks.into_iter().flatten();
    let read =
        |webhook: &Value| Scope::deserialize(webhook).unwrap_or_else(|_| Scope::everything());
    webhooks.map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::wire::EndpointSlice;

    fn slice(labels: &Value) -> SliceRecord {
        let slice = json!({"metadata": {"labels": labels}});
        let slice: EndpointSlice<Box<str>> = serde_json::from_value(slice).unwrap();
        SliceRecord::read(&slice)
    }

    fn taken(selector: &Value, labels: &impl Labels) -> Option<bool> {
        let selector: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
        takes(Some(&selector), labels)
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn selectors_are_read_as_kubernetes_reads_them() {
        let labels = json!({"team": "a", "tier": "web"});
        let map: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap();
        let record = slice(&labels);
        for (selector, takes) in [
            (json!({}), true),
            (json!({"matchLabels": {"team": "a"}}), true),
            (json!({"matchLabels": {"team": "b"}}), false),
            (json!({"matchLabels": {"team": "a", "none": "a"}}), false),
            (expression("team", "In", &["b", "a"]), true),
            (expression("none", "In", &["b", "a"]), false),
            (expression("team", "NotIn", &["a"]), false),
            (expression("none", "NotIn", &["a"]), true),
            (expression("team", "Exists", &[]), true),
            (expression("team", "DoesNotExist", &[]), false),
        ] {
            assert_eq!(taken(&selector, &map), Some(takes), "{selector}");
            assert_eq!(taken(&selector, &record), Some(takes), "{selector}");
        }
    }

    #[test]
    fn of_a_namespace_the_name_is_known_and_the_rest_may_not_be() {
        let shop = |all| NamespaceLabels { name: "shop", all };
        let named = |operator, name| expression(NAMESPACE_NAME, operator, &[name]);
        assert_eq!(taken(&named("In", "shop"), &shop(None)), Some(true));
        assert_eq!(taken(&named("NotIn", "shop"), &shop(None)), Some(false));
        let team = json!({"matchLabels": {"team": "a"}});
        assert_eq!(taken(&team, &shop(None)), None);
        let mut both = named("NotIn", "shop");
        both["matchLabels"] = team["matchLabels"].clone();
        assert_eq!(taken(&both, &shop(None)), Some(false));
        let known = BTreeMap::from([("team".to_owned(), "b".to_owned())]);
        assert_eq!(taken(&team, &shop(Some(&known))), Some(false));
    }

    #[test]
    fn only_what_is_certain_is_left_out() {
        let scope = |changes: &Value| {
            let mut webhook = json!({"rules": [{"apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["endpointslices"]}]});
            json_patch::merge(&mut webhook, changes);
            of_configuration(&json!({"webhooks": [webhook]})).remove(0)
        };
        let namespace = NamespaceLabels {
            name: "shop",
            all: None,
        };
        let web = slice(&json!({"app": "web"}));
        let leaves_out = |changes: &Value| scope(changes).leaves_out(&web, namespace);
        assert!(!leaves_out(&json!({})));
        let selects = |team: &str| json!({"matchLabels": {"app": team}});
        assert!(!leaves_out(&json!({"objectSelector": selects("web")})));
        assert!(leaves_out(&json!({"objectSelector": selects("db")})));
        assert!(!leaves_out(&json!({"namespaceSelector": selects("db")})));
        let other = json!({"matchLabels": {NAMESPACE_NAME: "other"}});
        assert!(leaves_out(&json!({"namespaceSelector": other})));
        assert!(leaves_out(&json!({"rules": null})));
        assert!(!leaves_out(&json!({"rules": "none"})));
    }
}
