//! The Deployment that owns what zonewise makes, so that uninstalling it leaves nothing behind.
//!
//! Kubernetes' garbage collector deletes what names an owner that is gone. So the Deployment is asked for anew each time
//! something is made: one that was replaced has another uid, and what names the old one would be deleted again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::GetParams;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::call::{Failed, call};

/// How objects name the Deployment with this name and uid. It does not hold up its deletion.
fn deployment(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

/// A Deployment that is to own things. Clones are the same.
#[derive(Debug, Clone)]
pub struct Owner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    namespace: String,
    name: String,
    known: watch::Sender<Option<OwnerReference>>,
    wanted: Notify,
}

/// Between two calls at least.
const PAUSE: Duration = Duration::from_secs(2);

/// After a call that failed.
const AGAIN: Duration = Duration::from_secs(30);

impl Owner {
    /// The Deployment `namespace/name`, not yet asked for.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(Arc::new(Shared {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            known: watch::Sender::default(),
            wanted: Notify::new(),
        }))
    }

    /// How to name it, as far as it is known.
    #[must_use]
    pub fn reference(&self) -> Option<OwnerReference> {
        self.0.known.borrow().clone()
    }

    /// Has it asked for anew: something was made, which may name one that is gone.
    pub fn ask_again(&self) {
        self.0.wanted.notify_one();
    }

    /// Asks for the Deployment at once and whenever that is wanted. Never ends. Needs permission to get it.
    pub async fn follow(self, client: Client) {
        let mut told = String::new();
        loop {
            match self.ask(&client).await {
                Ok(reference) => {
                    told.clear();
                    self.0.known.send_replace(Some(reference));
                    sleep(PAUSE).await;
                    self.0.wanted.notified().await;
                }
                Err(problem) => {
                    if problem != told {
                        tracing::warn!(
                            deployment = format!("{}/{}", self.0.namespace, self.0.name),
                            problem,
                            "can't get the Deployment that is to own the Lease and the Secret: they stay behind when it goes"
                        );
                        told = problem;
                    }
                    sleep(AGAIN).await;
                }
            }
        }
    }

    async fn ask(&self, client: &Client) -> Result<OwnerReference, String> {
        let Shared {
            namespace, name, ..
        } = &*self.0;
        let url = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        let request = kube::core::Request::new(url).get(name, &GetParams::default());
        let object = call::<Value>(client, request).await;
        let object = object.map_err(|failed| match failed {
            Failed::Absent => "there is none (see --owner-deployment)".to_owned(),
            failed => failed.problem(),
        })?;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        let uid = uid.ok_or("it has no uid")?;
        Ok(deployment(name, uid))
    }
}

/// Whether an object with these metadata names this owner.
#[must_use]
pub fn is_in(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    let mut named = metadata.owner_references.iter().flatten();
    named.any(|named| named.uid == owner.uid)
}

/// Has an object with these metadata name this owner, in place of a Deployment of that name with another uid.
pub fn add_to(metadata: &mut ObjectMeta, owner: &OwnerReference) {
    if is_in(metadata, owner) {
        return;
    }
    let named = metadata.owner_references.get_or_insert_default();
    named.retain(|named| named.kind != owner.kind || named.name != owner.name);
    named.push(owner.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_named_once_and_takes_the_place_of_the_one_before() {
        let other = OwnerReference {
            kind: "ConfigMap".to_owned(),
            ..deployment("zonewise", "x")
        };
        let mut metadata = ObjectMeta {
            owner_references: Some(vec![other.clone()]),
            ..ObjectMeta::default()
        };
        for uid in ["1", "1", "2"] {
            add_to(&mut metadata, &deployment("zonewise", uid));
            assert!(is_in(&metadata, &deployment("zonewise", uid)));
        }
        assert_eq!(
            metadata.owner_references,
            Some(vec![other, deployment("zonewise", "2")])
        );
        assert!(!is_in(&metadata, &deployment("zonewise", "1")));
    }
}
