//! What stands around zonewise: the data plane that hints are for, and the Lease that says who leads.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use serde::Deserialize;

use super::line::{Line, Thing};
use super::trust::span;
use crate::cli::api::{Api, Refusal, collection};
use crate::words;

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

/// What moves packets, as far as that can be seen.
pub async fn data_plane(api: &Api) -> Line {
    let mut names = Vec::new();
    let listed = api
        .list("/apis/apps/v1/daemonsets", None, |one: Named| {
            names.push(one.metadata.name);
        })
        .await;
    match listed {
        Ok(()) => by_daemon_sets(&names),
        // Whoever may call the API server at all may see which groups it serves.
        Err(refusal) => match api.get_path::<APIGroupList>("/apis").await {
            Ok(groups) if groups.groups.iter().any(|g| g.name == "cilium.io") => cilium(
                "the API group cilium.io is served, so Cilium may have taken kube-proxy's place",
            ),
            _ => Line::not_looked_at(Thing::DataPlane, &refusal, "list daemonsets.apps"),
        },
    }
}

fn by_daemon_sets(names: &[String]) -> Line {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let has_kube_proxy = names.iter().any(|name| name.starts_with("kube-proxy"));
    if has_kube_proxy {
        return Line::ok(Thing::DataPlane, "kube-proxy, which follows zone hints");
    }
    if has("cilium") {
        return cilium("Cilium, and no DaemonSet of kube-proxy, whose place it has taken");
    }
    let known = ["kube-router", "antrea-agent", "ovnkube-node", "calico-node"];
    let others: Vec<&str> = known.into_iter().filter(|name| has(name)).collect();
    if others.is_empty() {
        return Line::ok(
            Thing::DataPlane,
            "no DaemonSet of a data plane that is known here; kube-proxy also runs as a static pod or inside a node agent",
        );
    }
    Line::ok(
        Thing::DataPlane,
        format!(
            "no DaemonSet of kube-proxy; {} may serve Services in its place: see its documentation for zone hints",
            words::first(&others)
        ),
    )
}

fn cilium(seen: &str) -> Line {
    Line::warning(
        Thing::DataPlane,
        seen,
        "Cilium follows zone hints only with loadBalancer.serviceTopology=true in its Helm values: see that it is set",
    )
}

/// Who leads, and how fresh that is.
pub async fn lease(api: &Api, namespace: &str, name: &str) -> Line {
    let path = collection("/apis/coordination.k8s.io/v1", Some(namespace), "leases");
    match api.get::<Lease>(&path, name).await {
        Ok(lease) => judge(&lease, name, Timestamp::now()),
        Err(Refusal::NotFound(_)) => Line::warning(
            Thing::Lease,
            format!("there is no Lease {name} in namespace {namespace}: no replica has led yet"),
            "nothing in the first half minute or with --controller false; else give --namespace and --lease-name as \
             zonewise serve has them, or see its log",
        ),
        Err(refusal) => {
            let needs = format!("get the Lease {name} in namespace {namespace}");
            Line::not_looked_at(Thing::Lease, &refusal, &needs)
        }
    }
}

fn judge(lease: &Lease, name: &str, now: Timestamp) -> Line {
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
        return Line::warning(
            Thing::Lease,
            format!("nobody holds the Lease {name}, so slices that nobody writes are not mended"),
            "see the log of the replicas: they need permission to get and update the Lease",
        );
    };
    let age = now.duration_since(renewed.0).max(SignedDuration::ZERO);
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(15).into());
    if age > lasts {
        return Line::warning(
            Thing::Lease,
            format!(
                "{holder} last renewed the Lease {name} {} ago, and nobody has taken over",
                span(age)
            ),
            "see that the replicas run, and that the clocks of this machine and of theirs agree",
        );
    }
    Line::ok(
        Thing::Lease,
        format!("{holder} leads, renewed {} ago", span(age)),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::check::line::Status;

    #[test]
    fn what_follows_no_hints_unless_told_is_a_warning() {
        let told = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            by_daemon_sets(&names).status
        };
        assert_eq!(told(&["cilium"]), Status::Warning);
        assert_eq!(told(&["cilium", "kube-proxy"]), Status::Ok);
        assert_eq!(told(&[]), Status::Ok);
    }

    #[test]
    fn a_lease_that_is_not_renewed_leads_nobody() {
        let now: Timestamp = "2030-01-01T00:01:00Z".parse().unwrap();
        let told = |holder: &str, renewed: &str| {
            let spec =
                json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
            let lease = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            judge(&lease, "zonewise", now)
        };
        let fresh = told("a", "2030-01-01T00:00:58.000000Z");
        assert_eq!(fresh.message, "a leads, renewed 2 seconds ago");
        assert_eq!(
            told("a", "2030-01-01T00:00:00.000000Z").status,
            Status::Warning
        );
        assert_eq!(
            told("", "2030-01-01T00:00:58.000000Z").status,
            Status::Warning
        );
        let ahead = told("a", "2030-01-01T00:02:00.000000Z");
        assert_eq!(ahead.status, Status::Ok, "its clock is ahead of ours");
    }
}
