//! Removes the hints of one stored slice: reads the slice, and patches exactly the version that was read.
//!
//! The controller and `zonewise strip` share this. The permissions it needs: `list` and `patch` on
//! `endpointslices.discovery.k8s.io`.

use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Failed, send};
use crate::cluster::loose::Loose;
use crate::cluster::wire::{Endpoint, EndpointSlice, Wire as _};
use crate::settings::FIELD_MANAGER;

/// A slice as it is stored.
pub type StoredSlice = EndpointSlice<Box<str>>;

#[derive(Deserialize)]
struct List {
    items: Option<Vec<StoredSlice>>,
}

/// Which endpoints of one version of a slice lose their hints.
#[derive(Debug, PartialEq, Eq)]
pub struct Removal {
    /// The resourceVersion.
    version: String,
    /// The indexes of endpoints with a field `hints`.
    endpoints: Box<[usize]>,
    /// How many of them name a zone or a node.
    pub hinted: usize,
}

impl Removal {
    /// The removal of all hints of a slice; nothing where no endpoint names a zone or a node.
    #[must_use]
    pub fn of(slice: &StoredSlice) -> Option<Self> {
        let endpoints = slice.endpoints.items().iter().enumerate();
        let with_field = endpoints
            .filter_map(|(index, endpoint)| Some((index, endpoint.get()?)))
            .filter(|(_, endpoint)| !matches!(endpoint.hints, Loose::Absent));
        let with_field: Vec<_> = with_field.collect();
        let hinted = with_field.iter().filter(|(_, e)| has_hints(e)).count();
        (hinted > 0).then(|| Self {
            version: version_of(slice).to_owned(),
            endpoints: with_field.into_iter().map(|(index, _)| index).collect(),
            hinted,
        })
    }

    /// Whether it is for the version of the slice that was read later.
    #[must_use]
    pub fn is_of_version(&self, slice: &StoredSlice) -> bool {
        self.version == version_of(slice)
    }

    /// The operations of a JSON patch (RFC 6902). The API server refuses it for any other version: 422 where the `test`
    /// fails, 409 where others write at the same time.
    fn operations(&self) -> Value {
        let test =
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": self.version});
        let remove =
            |index: &usize| json!({"op": "remove", "path": format!("/endpoints/{index}/hints")});
        let operations = std::iter::once(test).chain(self.endpoints.iter().map(remove));
        operations.collect()
    }

    /// Removes the hints, or has the API server answer as if; what is stored then.
    ///
    /// # Errors
    /// [`Failed::Conflict`] or [`Failed::Invalid`] where the slice may have another version by now.
    pub async fn patch(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<StoredSlice, Failed> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let request = hyper::Request::patch(format!(
            "{}/{name}?fieldManager={FIELD_MANAGER}{dry_run}",
            path(namespace)
        ))
        .header(hyper::header::CONTENT_TYPE, "application/json-patch+json")
        .body(self.operations().to_string().into_bytes());
        send(client, request).await
    }
}

/// Reads a slice, if there is one of this name. A list, so that no permission to get slices is needed.
///
/// # Errors
/// [`Failed`].
pub async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<StoredSlice>, Failed> {
    let url = format!("{}?fieldSelector=metadata.name%3D{name}", path(namespace));
    let list: List = send(client, hyper::Request::get(url).body(Vec::new())).await?;
    Ok(list.items.into_iter().flatten().next())
}

fn path(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// The resourceVersion of a slice.
#[must_use]
pub fn version_of(slice: &StoredSlice) -> &str {
    let version = slice.metadata().and_then(|m| m.resource_version.text());
    version.unwrap_or_default()
}

/// Whether an endpoint has a hint for a zone or a node.
#[must_use]
pub fn has_hints(endpoint: &Endpoint<Box<str>>) -> bool {
    endpoint.hints.get().is_some_and(|hints| {
        !hints.for_zones.items().is_empty() || !hints.for_nodes.items().is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(endpoints: &Value) -> Option<Removal> {
        let slice = json!({"metadata": {"resourceVersion": "7"}, "endpoints": endpoints});
        Removal::of(&serde_json::from_value(slice).unwrap())
    }

    #[test]
    fn the_patch_removes_all_hints_of_one_version() {
        let removal = removal(&json!([
            {"zone": "a", "hints": {"forZones": [{"name": "a"}]}},
            {"zone": "b"},
            {"zone": "b", "hints": {}},
        ]));
        let removal = removal.expect("there are hints");
        assert_eq!(removal.hinted, 1);
        assert_eq!(
            removal.operations(),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "remove", "path": "/endpoints/0/hints"},
                {"op": "remove", "path": "/endpoints/2/hints"},
            ])
        );
    }

    #[test]
    fn a_slice_without_a_hint_for_a_zone_or_a_node_needs_no_removal() {
        assert_eq!(removal(&json!([{"zone": "a"}, {"hints": {}}])), None);
    }
}
