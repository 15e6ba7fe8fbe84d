//! What the chart's ServiceAccounts may do, and what they did, by the API server's audit log.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{Api, ListParams};
use serde_json::Value;

use super::site::{NAMESPACE, Site};

/// A ServiceAccount and what every binding that names it grants: `group/resource/name: verb`.
pub struct Account {
    name: String,
    granted: BTreeSet<String>,
}

impl Account {
    /// As it is stored now.
    pub async fn read(site: &Site, name: &str) -> Self {
        let everything = ListParams::default();
        let mut granted = BTreeSet::new();
        let anywhere: Api<ClusterRoleBinding> = Api::all(site.client.clone());
        let anywhere = anywhere.list(&everything).await.expect("bindings");
        for binding in anywhere {
            if is_of(binding.subjects.as_deref(), name) {
                granted.extend(verbs(&rules(site, &binding.role_ref).await));
            }
        }
        let own = site.own::<RoleBinding>().list(&everything).await;
        for binding in own.expect("bindings") {
            if is_of(binding.subjects.as_deref(), name) {
                granted.extend(verbs(&rules(site, &binding.role_ref).await));
            }
        }
        assert!(!granted.is_empty(), "{name} may do nothing");
        let name = name.to_owned();
        Self { name, granted }
    }

    fn requests(&self, site: &Site) -> Vec<Value> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{}", self.name);
        let log = site.audit_log();
        let lines = log.lines().filter(|line| line.contains(&user));
        let entries = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries
            .filter(|entry| entry["user"]["username"] == *user)
            .collect()
    }
}

fn is_of(subjects: Option<&[Subject]>, name: &str) -> bool {
    let mut subjects = subjects.into_iter().flatten();
    subjects.any(|subject| {
        subject.kind == "ServiceAccount"
            && subject.name == name
            && subject.namespace.as_deref() == Some(NAMESPACE)
    })
}

async fn rules(site: &Site, role: &RoleRef) -> Vec<PolicyRule> {
    let rules = if role.kind == "Role" {
        let role = site.own::<Role>().get(&role.name).await;
        role.expect("there is a Role").rules
    } else {
        let roles: Api<ClusterRole> = Api::all(site.client.clone());
        let role = roles.get(&role.name).await;
        role.expect("there is a ClusterRole").rules
    };
    rules.unwrap_or_default()
}

fn verbs(rules: &[PolicyRule]) -> Vec<String> {
    let mut granted = Vec::new();
    for rule in rules {
        let any = vec!["*".to_owned()];
        let names = rule.resource_names.as_ref().filter(|it| !it.is_empty());
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for name in names.unwrap_or(&any) {
                    let verbs = rule.verbs.iter();
                    granted.extend(verbs.map(|verb| format!("{group}/{resource}/{name}: {verb}")));
                }
            }
        }
    }
    granted
}

/// What a request took: by the name of its object, and by any name.
fn taken(entry: &Value) -> [String; 2] {
    let object = &entry["objectRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, verb) = (text(&object["apiGroup"]), text(&entry["verb"]));
    let resource = match object["subresource"].as_str() {
        Some(part) => format!("{}/{part}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    [text(&object["name"]), "*".to_owned()].map(|name| format!("{group}/{resource}/{name}: {verb}"))
}

/// Fails unless it was refused `refusals`, and used all of its permissions but `unused`.
pub fn are_used_and_suffice(site: &Site, account: &Account, refusals: &[&str], unused: &[&str]) {
    let requests = account.requests(site);
    let code = |entry: &Value| entry["responseStatus"]["code"].as_u64().unwrap_or_default();
    let refused = requests.iter().filter(|it| [401, 403].contains(&code(it)));
    let refused: BTreeSet<String> = refused.map(|entry| taken(entry)[0].clone()).collect();
    let expected: BTreeSet<String> = refusals.iter().map(ToString::to_string).collect();
    assert_eq!(refused, expected, "refused to {}", account.name);
    let done = requests.iter().filter(|it| (100..300).contains(&code(it)));
    let used: BTreeSet<String> = done.flat_map(taken).collect();
    let never_used: Vec<&String> = account.granted.difference(&used).collect();
    assert_eq!(never_used, unused, "never used by {}", account.name);
}
