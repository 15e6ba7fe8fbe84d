//! What drift asks of the API server.

use kube::Client;
use serde_json::Value;

use super::agenda::{Outcome, SliceName};
use super::call::{Failed, call, within};
use super::lease::WRITE_TIME;
use super::removal::{self, Removal, StoredSlice};
use super::scope::{self, Scope};
use crate::cluster::key::Key;
use crate::settings::FIELD_MANAGER;

/// What came of a call; what is the matter where it failed, of a length that fits a log line.
pub(super) type Answer<T> = Result<T, String>;

/// How a webhook configuration stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Configuration {
    /// It is not there.
    Absent,
    /// It is.
    There {
        /// This version of it.
        version: String,
        /// What its webhooks are asked about.
        scopes: Vec<Scope>,
    },
}

impl Configuration {
    /// What its webhooks are asked about; nothing is known where there is none.
    pub(super) fn scopes(&self) -> &[Scope] {
        match self {
            Self::Absent => &[],
            Self::There { scopes, .. } => scopes,
        }
    }
}

/// How a slice is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// No change, which the API server does not make without asking the webhook. An empty patch is the only right form: one
    /// that writes hints would own the list of endpoints from then on.
    AsItIs,
    /// Its hints are removed: the webhook leaves a slice alone whose Service is not opted in.
    WithoutHints,
}

/// Writes a slice, of which `before` is the version that was evaluated.
pub(super) async fn write(
    client: Client,
    (service, slice): &SliceName,
    write: Write,
    before: Option<Key>,
) -> Answer<Outcome> {
    let namespace = service
        .split_once('/')
        .map_or("", |(namespace, _)| namespace);
    let written = match write {
        Write::AsItIs => resubmit(&client, namespace, slice).await.map(Some),
        Write::WithoutHints => {
            within(WRITE_TIME, remove_hints(&client, namespace, slice, before)).await
        }
    };
    let stored = match written {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(Outcome::Unchanged),
        Err(Failed::Absent) => return Ok(Outcome::Gone),
        Err(Failed::Conflict) => return Ok(Outcome::Conflict),
        Err(Failed::Invalid(_)) if write == Write::WithoutHints => return Ok(Outcome::Conflict),
        Err(failed) => {
            let needs = "list and patch endpointslices.discovery.k8s.io in every namespace";
            return Err(failed.advised(needs));
        }
    };
    let version = Key::of(removal::version_of(&stored));
    Ok(if Some(version) == before {
        Outcome::Unchanged
    } else {
        Outcome::Stored(version)
    })
}

async fn resubmit(client: &Client, namespace: &str, slice: &str) -> Result<StoredSlice, Failed> {
    let url = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{slice}?fieldManager={FIELD_MANAGER}"
    );
    let request = hyper::Request::patch(url)
        .header(hyper::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(b"{}".to_vec());
    call(client, request).await
}

/// Removes the hints of the version that was evaluated, and of no other; nothing is stored where it has none.
async fn remove_hints(
    client: &Client,
    namespace: &str,
    slice: &str,
    before: Option<Key>,
) -> Result<Option<StoredSlice>, Failed> {
    let stored = removal::read(client, namespace, slice).await?;
    let stored = stored.ok_or(Failed::Absent)?;
    if Some(Key::of(removal::version_of(&stored))) != before {
        return Err(Failed::Conflict);
    }
    match Removal::of(&stored) {
        Some(removal) => removal
            .patch(client, namespace, slice, false)
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// How the MutatingWebhookConfiguration of this name stands.
pub(super) async fn configuration(client: Client, name: &str) -> Answer<Configuration> {
    let url = format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}");
    let object = match call::<Value>(&client, hyper::Request::get(url).body(Vec::new())).await {
        Ok(object) => object,
        Err(Failed::Absent) => return Ok(Configuration::Absent),
        Err(failed) => {
            let needs =
                "get this one of mutatingwebhookconfigurations.admissionregistration.k8s.io";
            return Err(failed.advised(needs));
        }
    };
    match object.pointer("/metadata/resourceVersion") {
        Some(version) => Ok(Configuration::There {
            version: version.to_string(),
            scopes: scope::of_configuration(&object),
        }),
        None => Err("the answer has no resourceVersion".to_owned()),
    }
}
