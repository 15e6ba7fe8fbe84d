//! Every version of every EndpointSlice that the API server stores, as its watch tells.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio_util::task::AbortOnDropHandle;

use crate::support::slices::{name_of, node_hints, zone_hints};

/// Hints by address.
type Hints = BTreeMap<String, Vec<String>>;

/// A version of a slice that was stored over an older one.
#[derive(Debug, Clone)]
pub struct Stored {
    /// `namespace/name`.
    pub slice: String,
    /// Whether an address has other hints than in the version before.
    pub hints_changed: bool,
}

/// What was stored since it was opened.
#[derive(Debug)]
pub struct Ledger {
    entries: Arc<Mutex<Vec<Stored>>>,
    _watch: AbortOnDropHandle<()>,
}

impl Ledger {
    /// Begins to write down.
    pub async fn open(client: &Client) -> Self {
        let slices: Api<EndpointSlice> = Api::all(client.clone());
        let list = slices
            .list(&ListParams::default())
            .await
            .expect("slices are listed");
        let version = list.metadata.resource_version.unwrap_or_default();
        let known = list
            .items
            .iter()
            .map(|slice| (full_name(slice), hints(slice)));
        let known = known.collect();
        let entries = Arc::default();
        let watch = tokio::spawn(follow(slices, version, known, Arc::clone(&entries)));
        Self {
            entries,
            _watch: AbortOnDropHandle::new(watch),
        }
    }

    /// How many versions were written down so far.
    pub fn mark(&self) -> usize {
        self.entries().len()
    }

    /// The versions from a mark on.
    pub fn since(&self, mark: usize) -> Vec<Stored> {
        self.entries()[mark..].to_vec()
    }

    /// The slices whose hints changed from a mark on.
    pub fn hints_changed_since(&self, mark: usize) -> BTreeSet<String> {
        let stored = self.since(mark).into_iter();
        stored
            .filter(|stored| stored.hints_changed)
            .map(|stored| stored.slice)
            .collect()
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Stored>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(
    slices: Api<EndpointSlice>,
    version: String,
    mut known: BTreeMap<String, Hints>,
    entries: Arc<Mutex<Vec<Stored>>>,
) {
    const LONGER_THAN_ANY_SCENE: u32 = 290;
    let parameters = WatchParams::default().timeout(LONGER_THAN_ANY_SCENE);
    let events = slices.watch(&parameters, &version).await;
    let mut events = pin!(events.expect("a watch"));
    while let Some(event) = events.next().await {
        match event.expect("an event of the watch") {
            WatchEvent::Added(slice) => {
                known.insert(full_name(&slice), hints(&slice));
            }
            WatchEvent::Modified(slice) => {
                let before = known.insert(full_name(&slice), hints(&slice));
                let hints_changed = before.is_none_or(|before| before != hints(&slice));
                let stored = Stored {
                    slice: full_name(&slice),
                    hints_changed,
                };
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                entries.push(stored);
            }
            WatchEvent::Deleted(slice) => {
                known.remove(&full_name(&slice));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => panic!("the watch of slices: {error:?}"),
        }
    }
}

fn full_name(slice: &EndpointSlice) -> String {
    let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", name_of(slice))
}

fn hints(slice: &EndpointSlice) -> Hints {
    let of = |endpoint| {
        let hints = zone_hints(endpoint).into_iter().chain(node_hints(endpoint));
        hints.map(str::to_owned).collect()
    };
    let endpoints = slice.endpoints.iter();
    endpoints.map(|e| (e.addresses[0].clone(), of(e))).collect()
}
