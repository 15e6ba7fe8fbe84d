//! Who sent a request: a person, or a program that nobody reads warnings of.

use std::borrow::Cow;

use super::json::{Reader, Result};

/// `userInfo` of a request.
#[derive(Debug, Default)]
pub struct User<'a> {
    /// The name under which the API server knows whoever sent the request.
    pub name: Cow<'a, str>,
    /// Whether a group says that it is a service account or a node.
    pub in_group_of_programs: bool,
}

/// What names of Kubernetes' own users begin with: service accounts, nodes and components of the control plane.
const OF_KUBERNETES: &str = "system:";

/// The one name among them that people go by: the administrator of k3s and OpenShift.
const ADMINISTRATOR: &str = "system:admin";

/// Groups whose members are programs, whatever their names.
const GROUPS_OF_PROGRAMS: [&str; 2] = ["system:serviceaccounts", "system:nodes"];

impl User<'_> {
    /// Whether it is a person, as far as that can be told: somebody with a name that is none of Kubernetes' own, and in no group
    /// of programs. The group `system:masters` alone makes no program.
    #[must_use]
    pub fn is_person(&self) -> bool {
        let is_of_kubernetes = self.name.starts_with(OF_KUBERNETES) && self.name != ADMINISTRATOR;
        !self.name.is_empty() && !is_of_kubernetes && !self.in_group_of_programs
    }
}

/// Reads the list of groups: whether one is of programs.
///
/// # Errors
/// Where there is no value.
pub fn read_groups(reader: &mut Reader<'_>) -> Result<bool> {
    let mut of_programs = false;
    if reader.peek()? != b'[' {
        return reader.skip().map(|()| false);
    }
    reader.list(|reader| {
        if reader.peek()? != b'"' {
            return reader.skip();
        }
        let group = reader.string()?;
        of_programs |= group.is_some_and(|group| GROUPS_OF_PROGRAMS.contains(&&*group));
        Ok(())
    })?;
    Ok(of_programs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::webhook::review;

    fn is_person(user: &serde_json::Value) -> bool {
        let body = json!({"request": {"uid": "1", "userInfo": user}}).to_string();
        review::parse(body.as_bytes()).unwrap().user.is_person()
    }

    fn named(name: &str, groups: &[&str]) -> bool {
        is_person(&json!({"username": name, "groups": groups, "uid": "7", "extra": {"a": ["b"]}}))
    }

    #[test]
    fn people_are_whoever_has_a_name_of_their_own() {
        assert!(named("jane@example.com", &["system:authenticated"]));
        assert!(named(
            "kubernetes-admin",
            &["system:masters", "system:authenticated"]
        ));
        assert!(named("oidc:system:jane", &[]));
        assert!(named("kube:admin", &["system:cluster-admins"]));
        assert!(named("system:admin", &["system:masters"]));
    }

    #[test]
    fn programs_of_the_cluster_are_no_people() {
        for name in [
            "system:serviceaccount:kube-system:endpointslice-controller",
            "system:serviceaccount:shop:deployer",
            "system:kube-controller-manager",
            "system:kube-scheduler",
            "system:apiserver",
            "system:node:node-a",
            "system:admin2",
            "system:anonymous",
        ] {
            assert!(!named(name, &["system:masters"]), "{name}");
        }
        assert!(!named("deployer", &["x", "system:serviceaccounts"]));
        assert!(!named("kubelet-7", &["system:nodes"]));
    }

    #[test]
    fn whoever_is_not_known_is_no_person() {
        for user in [json!(null), json!({}), json!({"username": ""})] {
            assert!(!is_person(&user), "{user}");
        }
        assert!(is_person(&json!({"username": "jane", "groups": null})));
        assert!(is_person(&json!({"username": "jane", "groups": [7, "x"]})));
    }
}
