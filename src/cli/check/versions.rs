//! Versions that matter to hints: of the API server, which must know fields, and of kube-proxies, which must use them.

use std::collections::BTreeSet;
use std::fmt;

use super::line::{Line, Thing};

/// Major and minor version of a part of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

/// The first with match conditions for all.
const MATCH_CONDITIONS: Version = Version::new(1, 30);

/// The first whose API server keeps `spec.trafficDistribution`, and whose kube-proxy follows hints for such Services.
const TRAFFIC_DISTRIBUTION: Version = Version::new(1, 31);

impl Version {
    const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads a version such as `v1.37.2` or `1.30+`. What was built without one calls itself 0.0.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').split('.');
        let mut number = || {
            let part = parts.next()?;
            let end = part.find(|c: char| !c.is_ascii_digit());
            part[..end.unwrap_or(part.len())].parse().ok()
        };
        let version = Self::new(number()?, number()?);
        (version.major > 0).then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What is to be told of an API server that answers.
pub fn api_server(git_version: &str, server: &str) -> Line {
    let message = format!("{git_version} at {server}");
    match Version::read(git_version) {
        Some(version) if version < MATCH_CONDITIONS => Line::failure(
            Thing::ApiServer,
            format!("{message}, which is too old: match conditions need {MATCH_CONDITIONS}"),
            "upgrade the cluster: without match conditions the API server asks zonewise about its own slices too",
        ),
        _ => Line::ok(Thing::ApiServer, message),
    }
}

/// What is to be told of versions beside each other. `asking` Services ask for hints without an annotation
/// of their own.
pub fn skew(server: Option<Version>, kubelets: &BTreeSet<Version>, asking: usize) -> Line {
    let Some(server) = server else {
        return Line::ok(
            Thing::Versions,
            "the API server does not say its version in a known form",
        );
    };
    if server < TRAFFIC_DISTRIBUTION {
        return Line::warning(
            Thing::Versions,
            format!(
                "an API server of {server} drops spec.trafficDistribution unless a feature gate is on"
            ),
            "annotate Services with service.kubernetes.io/topology-mode: Auto or zonewise.dev/Overlap",
        );
    }
    let Some(oldest) = kubelets.first() else {
        return Line::ok(
            Thing::Versions,
            format!("API server {server}; no node tells its version"),
        );
    };
    if *oldest < TRAFFIC_DISTRIBUTION && asking > 0 {
        return Line::warning(
            Thing::Versions,
            format!(
                "{} without an annotation of {} own, and kube-proxy of {oldest}, which some nodes have, follows hints only \
                 with one",
                if asking == 1 {
                    "1 Service asks".to_owned()
                } else {
                    format!("{asking} Services ask")
                },
                if asking == 1 { "its" } else { "their" },
            ),
            "annotate them with service.kubernetes.io/topology-mode: Auto or zonewise.dev/Overlap, or upgrade the nodes",
        );
    }
    let newest = kubelets.last().unwrap_or(oldest);
    let nodes = if newest == oldest {
        oldest.to_string()
    } else {
        format!("{oldest} to {newest}")
    };
    Line::ok(
        Thing::Versions,
        format!("API server {server}, nodes {nodes}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::line::Status;

    fn version(text: &str) -> Version {
        Version::read(text).unwrap()
    }

    #[test]
    fn versions_are_read_as_vendors_write_them() {
        for text in ["v1.30.2", "1.30+", "v1.30.2-eks-1234", "v1.30"] {
            assert_eq!(version(text), MATCH_CONDITIONS, "{text}");
        }
        for unknown in ["unknown", "v0.0.0-master+$Format:%H$", "1"] {
            assert_eq!(Version::read(unknown), None, "{unknown}");
        }
        assert!(version("v1.9.0") < version("v1.10.0"));
    }

    #[test]
    fn an_api_server_without_match_conditions_is_a_failure() {
        let status = |version| api_server(version, "https://x").status;
        assert_eq!(status("v1.29.9"), Status::Failure);
        assert_eq!(status("v1.30.0"), Status::Ok);
    }

    #[test]
    fn old_kube_proxies_matter_where_services_ask_without_an_annotation() {
        let told = |server: &str, node: &str, asking| {
            skew(Some(version(server)), &[version(node)].into(), asking).status
        };
        assert_eq!(told("1.33", "1.30", 0), Status::Ok);
        assert_eq!(told("1.33", "1.30", 1), Status::Warning);
        assert_eq!(told("1.33", "1.31", 1), Status::Ok);
        assert_eq!(told("1.30", "1.30", 0), Status::Warning);
    }
}
