//! Nodes, Namespaces, Services and EndpointSlices from the API server.
//!
//! Each resource is listed in pages, every object being turned into its record as it arrives, and then watched from the
//! list's version on. What fails is tried again with growing, random pauses, while the store keeps what it has.
//!
//! The loop over kube's list and watch calls is our own. kube's `watcher` opens a watch that ends at once again without
//! a pause, never recovers from a watch that is answered with status 410, goes on behind an event that it could not
//! parse, and shows no bookmarks, so that a quiet resource looks like a dead one.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{ListParams, ObjectMeta, WatchEvent, WatchParams};
use kube::core::{ClusterResourceScope, Resource as KubeResource};
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Client};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::store::{Resource, Writer};
use super::wire::{EndpointSlice, Namespace, Node, Service, Wire};
use crate::words::{for_a_line, with_causes};

/// How long one watch request lives, in seconds, and the longest that it may: [`with_timeouts`] allows for no more.
pub const WATCH_LIFE_SECONDS: u32 = 120;

/// How long a watch of this life may be silent: its life, after which the API server ends it, and a little. This bounds
/// how long a cut connection goes unnoticed.
fn silence_allowed(life_seconds: u32) -> Duration {
    let life = Duration::from_secs(life_seconds.into());
    life + life / 24
}

/// How long a page of a list, or the beginning of a watch, may take.
const CALL_TIME: Duration = Duration::from_mins(1);

/// A watch that ends sooner than this did not work: the next waits.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// How many objects come in one page of a list.
const PAGE_SIZE: u32 = 500;

/// A configuration whose calls end when the API server falls silent, and that tells each failure: kube retries some
/// of them by itself, unseen, and for as long as an answer's `Retry-After` says.
#[must_use]
pub fn with_timeouts(mut config: kube::Config) -> kube::Config {
    config.connect_timeout = Some(Duration::from_secs(10));
    // Longer than a watch may be silent. Counted from the request, not from when its connection became idle.
    config.read_timeout = Some(silence_allowed(WATCH_LIFE_SECONDS) + Duration::from_secs(10));
    config.reset_reader_on_write = true;
    config.default_retry = false;
    config
}

/// A wire type with the metadata that kube's calls want to see.
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
    errors: [AtomicU64; Resource::ALL.len()],
    last_event: [AtomicU64; Resource::ALL.len()],
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

    fn failed(&self, resource: Resource, call: &str, failure: &Failure) {
        self.errors[resource as usize].fetch_add(1, Ordering::Relaxed);
        let (resource, error) = (
            resource.word(),
            format!("can't {call}: {}", failure.sentence()),
        );
        tracing::warn!(
            resource,
            error,
            "watch failed; trying again, with what is known so far"
        );
    }
}

/// Something to tell the writer.
enum Change {
    Begin(Resource),
    Finish(Resource),
    Node(Node<Box<str>>),
    NodeGone(String),
    Namespace(Namespace<Box<str>>),
    NamespaceGone(String),
    Service(Service<Box<str>>),
    ServiceGone(String),
    Slice(EndpointSlice<Box<str>>),
    SliceGone(String),
}

/// Why a list or a watch did not go on.
#[derive(Debug)]
enum Failure {
    /// The version that was asked for is no longer kept: only a new list helps.
    Gone(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::status(status.code, &status.message),
            error => Self::Other(with_causes(error)),
        }
    }

    fn status(code: u16, message: &str) -> Self {
        let sentence = format!("{message} ({code})");
        if code == GONE {
            Self::Gone(sentence)
        } else {
            Self::Other(sentence)
        }
    }

    fn silence(what: &str, lasted: Duration) -> Self {
        Self::Other(format!("no {what} within {lasted:.0?}"))
    }

    /// What is the matter.
    fn sentence(&self) -> String {
        let (Self::Gone(text) | Self::Other(text)) = self;
        for_a_line(text)
    }
}

/// The HTTP status of a version that is no longer kept.
const GONE: u16 = 410;

/// One resource, listed and watched for ever.
struct Follower<W: Wire + Clone + Debug> {
    api: Api<Watched<W>>,
    resource: Resource,
    changes: mpsc::Sender<Change>,
    status: Arc<WatchStatus>,
    life_seconds: u32,
    apply: fn(W) -> Change,
    gone: fn(String) -> Change,
}

impl<W> Follower<W>
where
    W: Wire + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    async fn run(self) {
        let mut pauses = DefaultBackoff::default();
        // The version to watch from; nothing when a list is needed.
        let mut version = None;
        let mut failures_at_version = 0;
        loop {
            let before = version.clone();
            let call = if version.is_none() { "list" } else { "watch" };
            let started = Instant::now();
            let result = match &mut version {
                None => self.list().await.map(|listed| version = Some(listed)),
                Some(version) => self.watch(version).await,
            };
            let went_on = version != before;
            match result {
                Ok(()) if went_on || started.elapsed() >= SHORT_WATCH => {
                    pauses.reset();
                    failures_at_version = 0;
                    continue;
                }
                Ok(()) => {}
                Err(failure) => {
                    self.status.failed(self.resource, call, &failure);
                    failures_at_version = if went_on { 1 } else { failures_at_version + 1 };
                    if matches!(failure, Failure::Gone(_))
                        || failures_at_version >= MOST_FAILURES_AT_VERSION
                    {
                        version = None;
                        failures_at_version = 0;
                    }
                }
            }
            tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
        }
    }

    /// Takes in a full list, page by page; its version.
    async fn list(&self) -> Result<String, Failure> {
        let mut page = ListParams::default().limit(PAGE_SIZE);
        let mut begun = false;
        loop {
            let list = timeout(CALL_TIME, self.api.list(&page)).await;
            let list = list
                .map_err(|_| Failure::silence("list", CALL_TIME))?
                .map_err(|e| Failure::of(&e))?;
            if !std::mem::replace(&mut begun, true) {
                self.tell(Change::Begin(self.resource)).await;
            }
            for object in list.items {
                self.tell((self.apply)(object.wire)).await;
            }
            if let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) {
                page = page.continue_token(&token);
            } else {
                self.tell(Change::Finish(self.resource)).await;
                let version = list
                    .metadata
                    .resource_version
                    .filter(|version| !version.is_empty());
                return version
                    .ok_or_else(|| Failure::Other("a list without a resourceVersion".into()));
            }
        }
    }

    /// Takes in changes from `version` on, and keeps it up to date, until the watch ends.
    async fn watch(&self, version: &mut String) -> Result<(), Failure> {
        let parameters = WatchParams::default().timeout(self.life_seconds);
        let watch = timeout(CALL_TIME, self.api.watch(&parameters, version)).await;
        let watch = watch
            .map_err(|_| Failure::silence("watch", CALL_TIME))?
            .map_err(|e| Failure::of(&e))?;
        let mut events = std::pin::pin!(watch);
        loop {
            let silence = silence_allowed(self.life_seconds);
            let event = timeout(silence, events.next()).await;
            let event =
                match event.map_err(|_| Failure::silence("event or end of the watch", silence))? {
                    None => return Ok(()),
                    Some(event) => event.map_err(|error| Failure::of(&error))?,
                };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    advance(version, object.metadata.resource_version);
                    self.tell((self.apply)(object.wire)).await;
                }
                WatchEvent::Deleted(object) => {
                    advance(version, object.metadata.resource_version);
                    self.tell((self.gone)(object.wire.full_name())).await;
                }
                WatchEvent::Bookmark(bookmark) => {
                    advance(version, Some(bookmark.metadata.resource_version));
                    self.status.heard(self.resource, Timestamp::now());
                }
                WatchEvent::Error(status) => {
                    return Err(Failure::status(status.code, &status.message));
                }
            }
        }
    }

    /// Waits where the writer is behind.
    async fn tell(&self, change: Change) {
        self.status.heard(self.resource, Timestamp::now());
        // The writer ends with the process alone.
        let _ = self.changes.send(change).await;
    }
}

/// So many failures to watch from one version, and it may be the version.
const MOST_FAILURES_AT_VERSION: u32 = 3;

/// Between tries, should the pauses ever run out.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

fn advance(version: &mut String, next: Option<String>) {
    if let Some(next) = next.filter(|next| !next.is_empty()) {
        *version = next;
    }
}

/// Watches until the process ends, each watch for so many seconds, of which there may be [`WATCH_LIFE_SECONDS`].
pub async fn run(client: Client, writer: Writer, status: Arc<WatchStatus>, life_seconds: u32) {
    let (changes, receiver) = mpsc::channel(PAGE_SIZE as usize);
    let watches = Watches {
        client,
        changes,
        status,
        life_seconds,
    };
    tokio::select! {
        () = watches.follow(Resource::Nodes, Change::Node, Change::NodeGone) => {}
        () = watches.follow(Resource::Namespaces, Change::Namespace, Change::NamespaceGone) => {}
        () = watches.follow(Resource::Services, Change::Service, Change::ServiceGone) => {}
        () = watches.follow(Resource::EndpointSlices, Change::Slice, Change::SliceGone) => {}
        () = write(writer, receiver) => {}
    }
}

/// What all watches share.
struct Watches {
    client: Client,
    changes: mpsc::Sender<Change>,
    status: Arc<WatchStatus>,
    life_seconds: u32,
}

impl Watches {
    fn follow<W>(
        &self,
        resource: Resource,
        apply: fn(W) -> Change,
        gone: fn(String) -> Change,
    ) -> impl Future<Output = ()> + use<W>
    where
        W: Wire + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        Follower {
            api: Api::all(self.client.clone()),
            resource,
            changes: self.changes.clone(),
            status: self.status.clone(),
            life_seconds: self.life_seconds,
            apply,
            gone,
        }
        .run()
    }
}

async fn write(mut writer: Writer, mut changes: mpsc::Receiver<Change>) {
    loop {
        let now = Timestamp::now();
        let wake = writer
            .settle(now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok());
        tokio::select! {
            change = changes.recv() => {
                let Some(change) = change else { return };
                take_in(&mut writer, change);
                // What has already come is taken in before capacity is measured again.
                for _ in 0..MOST_AT_ONCE {
                    let Ok(change) = changes.try_recv() else { break };
                    take_in(&mut writer, change);
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

fn take_in(writer: &mut Writer, change: Change) {
    let now = Timestamp::now();
    match change {
        Change::Begin(resource) => writer.begin(resource),
        Change::Finish(resource) => {
            writer.finish(resource, now);
            tracing::info!(resource = resource.word(), "list taken in");
        }
        Change::Node(node) => writer.apply_node(&node, now),
        Change::NodeGone(name) => writer.remove_node(&name),
        Change::Namespace(namespace) => writer.apply_namespace(&namespace),
        Change::NamespaceGone(name) => writer.remove_namespace(&name),
        Change::Service(service) => writer.apply_service(&service),
        Change::ServiceGone(name) => writer.remove_service(&name),
        Change::Slice(slice) => writer.apply_slice(&slice),
        Change::SliceGone(name) => writer.remove_slice(&name),
    }
}
