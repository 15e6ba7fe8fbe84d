//! Nodes, Services and EndpointSlices from the API server.
//!
//! One task polls three of kube's watchers and is the store's only writer. Lists come in pages, each object is turned
//! into its record as it arrives, and a failing watch is tried again with backoff and jitter while the store keeps what
//! it has.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::core::{ClusterResourceScope, Resource as KubeResource};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher::Config};
use kube::{Api, Client};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use super::store::{Resource, Writer};
use super::wire::{EndpointSlice, Node, Service, Wire};

/// How long one watch request lives, in seconds. kube gives up 5 s after that on one that fell silent, so this bounds
/// how long a cut connection goes unnoticed.
const WATCH_LIFE_SECONDS: u32 = 120;

/// How many objects come in one page of a list.
const PAGE_SIZE: u32 = 500;

/// A configuration whose calls end when the API server falls silent: kube bounds watches, but no list.
#[must_use]
pub fn with_timeouts(mut config: kube::Config) -> kube::Config {
    config.connect_timeout = Some(Duration::from_secs(10));
    // Longer than a watch may be silent. Counted from the request, not from when its connection became idle.
    config.read_timeout = Some(Duration::from_secs(u64::from(WATCH_LIFE_SECONDS) + 15));
    config.reset_reader_on_write = true;
    config
}

/// A wire type with the metadata that kube's watcher wants to see.
#[derive(Debug, Clone)]
struct Watched<W> {
    metadata: ObjectMeta,
    wire: W,
}

impl<'de, W: Wire + Deserialize<'de>> Deserialize<'de> for Watched<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = W::deserialize(deserializer)?;
        let text = |field: fn(&super::wire::Metadata<W::Text>) -> Option<&str>| {
            wire.metadata().and_then(field).map(str::to_owned)
        };
        let metadata = ObjectMeta {
            name: text(|m| m.name.text()),
            namespace: text(|m| m.namespace.text()),
            resource_version: text(|m| m.resource_version.text()),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, wire })
    }
}

impl<W: Wire> KubeResource for Watched<W> {
    type DynamicType = ();
    /// Every namespace is watched, so all kinds are asked for as those of the cluster.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        W::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        W::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        W::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        W::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What the watches have to say of themselves, for metrics.
#[derive(Debug, Default)]
pub struct WatchStatus {
    errors: [AtomicU64; 3],
    last_event: [AtomicU64; 3],
}

impl WatchStatus {
    /// Failed lists and watches of a resource so far.
    #[must_use]
    pub fn errors(&self, resource: Resource) -> u64 {
        self.errors[resource as usize].load(Ordering::Relaxed)
    }

    /// When something was last heard of a resource, in seconds since 1970; 0 for never.
    #[must_use]
    pub fn last_event(&self, resource: Resource) -> u64 {
        self.last_event[resource as usize].load(Ordering::Relaxed)
    }

    fn heard(&self, resource: Resource, now: Timestamp) {
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        self.last_event[resource as usize].store(seconds, Ordering::Relaxed);
    }

    fn failed(&self, resource: Resource, error: &watcher::Error) {
        self.errors[resource as usize].fetch_add(1, Ordering::Relaxed);
        tracing::warn!(resource = resource.word(), %error, "watch failed; trying again, with what is known so far");
    }
}

/// Something to tell the writer.
enum Change {
    Begin(Resource),
    Finish(Resource),
    Node(Node<Box<str>>),
    NodeGone(String),
    Service(Service<Box<str>>),
    ServiceGone(String),
    Slice(EndpointSlice<Box<str>>),
    SliceGone(String),
}

type Changes = BoxStream<'static, Result<(Resource, Change), (Resource, watcher::Error)>>;

fn changes<W>(
    client: Client,
    resource: Resource,
    apply: fn(W) -> Change,
    gone: fn(String) -> Change,
) -> Changes
where
    W: Wire + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let config = Config::default()
        .timeout(WATCH_LIFE_SECONDS)
        .page_size(PAGE_SIZE);
    let events = watcher::watcher(Api::<Watched<W>>::all(client), config).default_backoff();
    let change = move |event: watcher::Result<Event<Watched<W>>>| match event {
        Ok(Event::Init) => Ok((resource, Change::Begin(resource))),
        Ok(Event::InitApply(object) | Event::Apply(object)) => Ok((resource, apply(object.wire))),
        Ok(Event::Delete(object)) => Ok((resource, gone(object.wire.full_name()))),
        Ok(Event::InitDone) => Ok((resource, Change::Finish(resource))),
        Err(error) => Err((resource, error)),
    };
    events.map(change).boxed()
}

/// Watches until the process ends.
pub async fn run(client: Client, mut writer: Writer, status: Arc<WatchStatus>) {
    let mut changes: SelectAll<Changes> = futures::stream::select_all([
        changes(
            client.clone(),
            Resource::Nodes,
            Change::Node,
            Change::NodeGone,
        ),
        changes(
            client.clone(),
            Resource::Services,
            Change::Service,
            Change::ServiceGone,
        ),
        changes(
            client,
            Resource::EndpointSlices,
            Change::Slice,
            Change::SliceGone,
        ),
    ]);
    loop {
        let now = Timestamp::now();
        let wake = writer
            .settle(now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        tokio::select! {
            next = changes.next() => {
                let Some(next) = next else { return };
                take_in(&mut writer, &status, next);
                // What has already come is taken in before capacity is measured again.
                for _ in 0..MOST_AT_ONCE {
                    let Some(Some(next)) = changes.next().now_or_never() else { break };
                    take_in(&mut writer, &status, next);
                }
            }
            () = sleep_or_never(wake) => {}
        }
    }
}

/// Bounds how long a flood of changes keeps new capacity from being seen.
const MOST_AT_ONCE: usize = 1000;

async fn sleep_or_never(wake: Option<Duration>) {
    match wake {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn take_in(
    writer: &mut Writer,
    status: &WatchStatus,
    next: Result<(Resource, Change), (Resource, watcher::Error)>,
) {
    let now = Timestamp::now();
    let change = match next {
        Ok((resource, change)) => {
            status.heard(resource, now);
            change
        }
        Err((resource, error)) => return status.failed(resource, &error),
    };
    match change {
        Change::Begin(resource) => writer.begin(resource),
        Change::Finish(resource) => {
            writer.finish(resource, now);
            tracing::info!(resource = resource.word(), "list taken in");
        }
        Change::Node(node) => writer.apply_node(&node, now),
        Change::NodeGone(name) => writer.remove_node(&name),
        Change::Service(service) => writer.apply_service(&service),
        Change::ServiceGone(name) => writer.remove_service(&name),
        Change::Slice(slice) => writer.apply_slice(&slice),
        Change::SliceGone(name) => writer.remove_slice(&name),
    }
}
