//! One leader at a time, with the permissions that the Role of `controller::lease` gives and no other.

#[path = "../support/claims.rs"]
mod claims;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::json;
use tokio::task::JoinHandle;
use zonewise::controller::lease::{self, Candidate, Claim, LeaseSettings};

use claims::Observer;

use crate::support::objects::from_json;
use crate::support::plane::Plane;
use crate::support::wait::eventually;

const NAMESPACE: &str = "one-leader";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:one-leader:zonewise";

struct Replica {
    candidate: Candidate,
    claim: Claim,
    identity: String,
    campaign: JoinHandle<()>,
}

impl Replica {
    fn start(config: &Config, name: &str) -> Self {
        let times = [3_000, 2_000, 200].map(std::time::Duration::from_millis);
        let settings = LeaseSettings::new(NAMESPACE, "zonewise", name);
        let [lease, claim, retry] = times;
        let settings = settings
            .with_times(lease, claim, retry)
            .expect("times that go together");
        let client = lease::client(config.clone(), &settings).expect("a client");
        let identity = settings.identity().to_owned();
        let candidate = Candidate::new(client, settings);
        Self {
            claim: candidate.claim(),
            identity,
            campaign: tokio::spawn(candidate.clone().campaign()),
            candidate,
        }
    }
}

async fn a_leader(replicas: &[&Replica]) -> usize {
    eventually("one leads", async || {
        let leader = replicas.iter().position(|replica| replica.claim.holds());
        leader.ok_or_else(|| "nobody does".to_owned())
    })
    .await
}

#[test]
fn a_real_api_server_has_one_leader_at_a_time() {
    crate::run(one_leader_at_a_time());
}

async fn one_leader_at_a_time() {
    let plane = Plane::shared().await;
    let administrator = plane.client.clone();
    permit(&administrator).await;
    let config = plane.config_as(SERVICE_ACCOUNT, &[]).await;

    let [a, b] = ["a", "b"].map(|name| Replica::start(&config, name));
    let observer = Observer::over(vec![a.claim.clone(), b.claim.clone()]);
    let leases: Api<Lease> = Api::namespaced(administrator, NAMESPACE);
    let leader = a_leader(&[&a, &b]).await;
    let [first, second] = if leader == 0 { [&a, &b] } else { [&b, &a] };
    let spec = leases
        .get("zonewise")
        .await
        .expect("a Lease")
        .spec
        .expect("a spec");
    assert_eq!(spec.holder_identity.as_ref(), Some(&first.identity));
    assert_eq!(spec.lease_duration_seconds, Some(3));
    assert!(spec.acquire_time.is_some() && spec.renew_time >= spec.acquire_time);

    leases
        .delete("zonewise", &DeleteParams::default())
        .await
        .expect("it is deleted");
    eventually("the leader makes it anew", async || {
        let lease = leases
            .get("zonewise")
            .await
            .map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        (holder.as_ref() == Some(&first.identity))
            .then_some(())
            .ok_or_else(|| format!("{holder:?}"))
    })
    .await;
    assert_eq!(first.claim.term(), Some(1));

    first.campaign.abort();
    a_leader(&[second]).await;

    let stranger = json!({"spec": {"holderIdentity": "stranger"}, "metadata": {"labels": {"whose": "theirs"}}});
    leases
        .patch("zonewise", &PatchParams::default(), &Patch::Merge(stranger))
        .await
        .expect("it is patched");
    let mut claim = second.claim.clone();
    claim.changed().await;
    eventually("it stops", async || {
        (!claim.holds())
            .then_some(())
            .ok_or_else(|| "it leads".to_owned())
    })
    .await;
    a_leader(&[second]).await;
    let lease = leases.get("zonewise").await.expect("a Lease");
    assert_eq!(lease.metadata.labels.expect("labels")["whose"], "theirs");
    assert_eq!(lease.spec.expect("a spec").lease_transitions, Some(2));

    second.candidate.release().await;
    let spec = leases
        .get("zonewise")
        .await
        .expect("a Lease")
        .spec
        .expect("a spec");
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
        (Some(""), Some(1))
    );
    let third = Replica::start(&config, "c");
    a_leader(&[&third]).await;
    assert_eq!(observer.terms(), 3);
}

/// What the chart is to permit.
async fn permit(administrator: &Client) {
    let role = json!({
        "metadata": {"name": "zonewise-lease"},
        "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["zonewise"], "verbs": ["get", "update"]},
        ],
    });
    let binding = json!({
        "metadata": {"name": "zonewise-lease"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "zonewise-lease"},
        "subjects": [{"kind": "ServiceAccount", "name": "zonewise", "namespace": NAMESPACE}],
    });
    let parameters = PostParams::default();
    let namespace: Namespace = from_json(json!({"metadata": {"name": NAMESPACE}}));
    let namespaces = Api::all(administrator.clone());
    let created = namespaces.create(&parameters, &namespace).await;
    created.expect("a namespace");
    Api::<Role>::namespaced(administrator.clone(), NAMESPACE)
        .create(&parameters, &from_json(role))
        .await
        .expect("a Role");
    Api::<RoleBinding>::namespaced(administrator.clone(), NAMESPACE)
        .create(&parameters, &from_json(binding))
        .await
        .expect("a RoleBinding");
}
