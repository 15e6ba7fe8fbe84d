//! What drift asks of the API server.

use kube::Client;
use serde_json::{Value, json};

use super::agenda::{Outcome, SliceName};
use super::call::{Failed, call};
use super::scope::{self, Scope};
use crate::cluster::key::Key;
use crate::cluster::wire::{EndpointSlice, Wire as _};
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

/// What a slice is written with.
#[derive(Debug)]
pub(super) enum Write {
    /// No change, which the API server does not make without asking the webhook. An empty patch is the only right form: one
    /// that writes hints would own the list of endpoints from then on.
    AsItIs,
    /// The operations of a JSON patch that takes its hints away: the webhook has no say where nothing asks for hints.
    WithoutHints(Value),
}

/// Writes a slice.
pub(super) async fn write(
    client: Client,
    (service, slice): &SliceName,
    write: Write,
    before: Option<Key>,
) -> Answer<Outcome> {
    let namespace = service
        .split_once('/')
        .map_or("", |(namespace, _)| namespace);
    let url = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{slice}?fieldManager={FIELD_MANAGER}"
    );
    let (form, patch) = match write {
        Write::AsItIs => ("application/merge-patch+json", json!({})),
        Write::WithoutHints(operations) => ("application/json-patch+json", operations),
    };
    let request = hyper::Request::patch(url)
        .header(hyper::header::CONTENT_TYPE, form)
        .body(patch.to_string().into_bytes());
    let stored = match call::<EndpointSlice<Box<str>>>(&client, request).await {
        Ok(stored) => stored,
        Err(Failed::Absent) => return Ok(Outcome::Gone),
        Err(failed) => {
            let needs = "patch endpointslices.discovery.k8s.io in every namespace";
            return Err(failed.advised(needs));
        }
    };
    let version = stored.metadata().and_then(|m| m.resource_version.text());
    let version = Key::of(version.unwrap_or_default());
    Ok(if Some(version) == before {
        Outcome::Unchanged
    } else {
        Outcome::Stored(version)
    })
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
