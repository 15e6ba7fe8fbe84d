//! The Lease: who leads, and when it was last renewed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

use super::line::{Line, Thing};
use super::trust::span;
use crate::cli::api::{Api, Refusal, collection};

/// Who leads, and how fresh that is.
pub async fn check(api: &Api, namespace: &str, name: &str) -> Line {
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
