//! Lists in pages, and watches, of four resources.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};

use super::{Answer, Fault, Server, lock, refusal, status, whole, with_body};

/// What is listed and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Nodes,
    Namespaces,
    Services,
    EndpointSlices,
}

impl Resource {
    pub const ALL: [Self; 4] = [
        Self::Nodes,
        Self::Namespaces,
        Self::Services,
        Self::EndpointSlices,
    ];

    /// The plural, which metrics and logs use too.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Nodes => "Node",
            Self::Namespaces => "Namespace",
            Self::Services => "Service",
            Self::EndpointSlices => "EndpointSlice",
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::Nodes | Self::Namespaces | Self::Services => "v1",
            Self::EndpointSlices => "discovery.k8s.io/v1",
        }
    }

    fn of_path(path: &str) -> Option<Self> {
        match path {
            "/api/v1/nodes" => Some(Self::Nodes),
            "/api/v1/namespaces" => Some(Self::Namespaces),
            "/api/v1/services" => Some(Self::Services),
            "/apis/discovery.k8s.io/v1/endpointslices" => Some(Self::EndpointSlices),
            _ => None,
        }
    }
}

/// What is asked of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    List,
    Watch,
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Request {
    pub resource: Resource,
    pub verb: Verb,
    pub query: HashMap<String, String>,
}

impl Request {
    /// A parameter of its query, empty where it is not there.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// A part of the answer to a watch.
enum Piece {
    Text(String),
    /// The connection goes, with no end of the answer.
    Cut,
}

/// The objects of a resource and how they came to be so.
#[derive(Default)]
struct Shelf {
    objects: BTreeMap<String, Value>,
    /// Version and line of each event, oldest first.
    history: Vec<(u64, String)>,
    watches: Vec<UnboundedSender<Piece>>,
    /// What happens to the next requests, one after the other.
    next: HashMap<Verb, VecDeque<Fault>>,
    /// What happens to the requests after those.
    always: HashMap<Verb, Fault>,
}

impl Shelf {
    fn send(&mut self, text: &str) {
        self.watches
            .retain(|watch| watch.unbounded_send(Piece::Text(text.to_owned())).is_ok());
    }

    fn next_fault(&mut self, verb: Verb) -> Fault {
        let next = self.next.get_mut(&verb).and_then(VecDeque::pop_front);
        next.or_else(|| self.always.get(&verb).cloned())
            .unwrap_or(Fault::Nothing)
    }
}

#[derive(Default)]
struct State {
    version: u64,
    /// The version before which nothing is remembered.
    compacted: u64,
    shelves: [Shelf; Resource::ALL.len()],
    lists_begun: u64,
    /// Lists that are being read in pages, by the number in their continue tokens.
    snapshots: HashMap<u64, (u64, Arc<Vec<Value>>)>,
    requests: Vec<Request>,
}

impl State {
    fn shelf(&mut self, resource: Resource) -> &mut Shelf {
        &mut self.shelves[resource as usize]
    }

    fn record(&mut self, resource: Resource, kind: &str, object: &Value) -> String {
        let line = event(resource, kind, object);
        let version = self.version;
        self.shelf(resource).history.push((version, line.clone()));
        line
    }

    /// Stores an object; the line that tells of it.
    fn store(&mut self, resource: Resource, mut object: Value) -> String {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = full_name(&object);
        let before = self.shelf(resource).objects.insert(name, object.clone());
        let kind = if before.is_none() {
            "ADDED"
        } else {
            "MODIFIED"
        };
        self.record(resource, kind, &object)
    }
}

fn full_name(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().expect("a name");
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// An event's line. Objects say their kind in events and not in lists, as those of API servers do; the type comes first.
fn event(resource: Resource, kind: &str, object: &Value) -> String {
    let mut object = object.clone();
    object["kind"] = resource.kind().into();
    object["apiVersion"] = resource.api_version().into();
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// The server. What it knows outlives its being away.
pub struct ApiServer {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl ApiServer {
    /// One that is away until it starts.
    pub fn new() -> Self {
        let state = State {
            version: 100,
            ..State::default()
        };
        Self {
            server: Server::away(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn port(&self) -> u16 {
        self.server.port.number()
    }

    /// Listens.
    pub fn start(&self) {
        let state = self.state.clone();
        self.server
            .start(move |request| serve(state.clone(), request));
    }

    /// Goes away: connections are cut, new ones refused.
    pub async fn stop(&self) {
        self.server.stop().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Creates or replaces an object, and whoever watches gets another line for it.
    pub fn put_garbled(&self, resource: Resource, object: Value, line: &str) {
        let mut state = self.state();
        state.store(resource, object);
        state.shelf(resource).send(line);
    }

    /// Creates or replaces an object, and those who watch are not told.
    pub fn put_untold(&self, resource: Resource, object: Value) {
        self.state().store(resource, object);
    }

    /// Creates or replaces an object.
    pub fn put(&self, resource: Resource, object: Value) {
        self.put_all(resource, vec![object]);
    }

    /// Creates or replaces objects; their events come in one piece.
    pub fn put_all(&self, resource: Resource, objects: Vec<Value>) {
        let mut state = self.state();
        let lines: String = objects
            .into_iter()
            .map(|object| state.store(resource, object))
            .collect();
        state.shelf(resource).send(&lines);
    }

    /// Deletes an object by `namespace/name`, or name.
    pub fn delete(&self, resource: Resource, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        let removed = state.shelf(resource).objects.remove(name);
        let mut object = removed.expect("it is there");
        object["metadata"]["resourceVersion"] = version.into();
        let line = state.record(resource, "DELETED", &object);
        state.shelf(resource).send(&line);
    }

    /// Forgets how objects came to be so: versions of before are 410 Gone.
    pub fn compact(&self) {
        let mut state = self.state();
        state.version += 1;
        state.compacted = state.version;
        state.snapshots.clear();
    }

    /// Sends a bookmark; its version.
    pub fn bookmark(&self, resource: Resource) -> u64 {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let object = json!({"metadata": {"resourceVersion": version.to_string(), "creationTimestamp": null}});
        let line = event(resource, "BOOKMARK", &object);
        state.shelf(resource).send(&line);
        version
    }

    /// Sends an event of type ERROR.
    pub fn error_event(&self, resource: Resource, code: u16, reason: &str) {
        let line = format!(
            "{{\"type\":\"ERROR\",\"object\":{}}}\n",
            status(code, reason)
        );
        self.send(resource, &line);
    }

    /// Sends this text to whoever watches.
    pub fn send(&self, resource: Resource, text: &str) {
        self.state().shelf(resource).send(text);
    }

    /// Ends watches as a server does whose time for them is up.
    pub fn end_watches(&self, resource: Resource) {
        self.state().shelf(resource).watches.clear();
    }

    /// Stores an object and cuts the connections in the middle of the line that tells of it.
    pub async fn put_cut_short(&self, resource: Resource, object: Value) {
        {
            let mut state = self.state();
            let line = state.store(resource, object);
            state.shelf(resource).send(&line[..line.len() / 2]);
        }
        // So that the half line is on its way by itself.
        tokio::time::sleep(Duration::from_millis(50)).await;
        for watch in self.state().shelf(resource).watches.drain(..) {
            let _ = watch.unbounded_send(Piece::Cut);
        }
    }

    /// Sets what happens to the next requests, one after the other.
    pub fn next(&self, resource: Resource, verb: Verb, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.state();
        let next = state.shelf(resource).next.entry(verb).or_default();
        next.extend(faults);
    }

    /// Sets what happens to all requests without another fault.
    pub fn always(&self, resource: Resource, verb: Verb, fault: Fault) {
        self.state().shelf(resource).always.insert(verb, fault);
    }

    /// The requests so far.
    pub fn requests(&self, resource: Resource, verb: Verb) -> Vec<Request> {
        let state = self.state();
        let wanted = |request: &&Request| request.resource == resource && request.verb == verb;
        state.requests.iter().filter(wanted).cloned().collect()
    }

    /// How many watches of a resource are open.
    pub fn open_watches(&self, resource: Resource) -> usize {
        let mut state = self.state();
        let watches = &mut state.shelf(resource).watches;
        watches.retain(|watch| !watch.is_closed());
        watches.len()
    }
}

async fn serve(state: Arc<Mutex<State>>, request: hyper::Request<Bytes>) -> Answer {
    let Some(resource) = Resource::of_path(request.uri().path()) else {
        return refusal(404, "NotFound");
    };
    let query: HashMap<String, String> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let watches = query
        .get("watch")
        .is_some_and(|watch| watch == "true" || watch == "1");
    let verb = if watches { Verb::Watch } else { Verb::List };
    let fault = {
        let mut state = lock(&state);
        state.requests.push(Request {
            resource,
            verb,
            query: query.clone(),
        });
        state.shelf(resource).next_fault(verb)
    };
    let handle = || match verb {
        Verb::List => list(&mut lock(&state), resource, &query),
        Verb::Watch => watch(&mut lock(&state), resource, &query),
    };
    fault.play(handle).await
}

fn list(state: &mut State, resource: Resource, query: &HashMap<String, String>) -> Answer {
    let limit = query
        .get("limit")
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(usize::MAX);
    let (number, from) = match query.get("continue") {
        None => {
            state.lists_begun += 1;
            let number = state.lists_begun;
            let objects = state.shelf(resource).objects.values().cloned().collect();
            state
                .snapshots
                .insert(number, (state.version, Arc::new(objects)));
            (number, 0)
        }
        Some(token) => {
            let (number, from) = token.split_once('-').expect("a token that was given out");
            (
                number.parse().expect("a number"),
                from.parse().expect("a number"),
            )
        }
    };
    let Some((version, objects)) = state.snapshots.get(&number).cloned() else {
        return refusal(410, "Expired");
    };
    let to = objects.len().min(from + limit.min(objects.len()));
    let token = if to < objects.len() {
        format!("{number}-{to}")
    } else {
        String::new()
    };
    let mut body = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"continue\":\"{token}\"}},\"items\":[",
        resource.kind(),
        resource.api_version()
    );
    for (i, object) in objects[from..to].iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(body, "{comma}{object}").expect("memory takes all writes");
    }
    body.push_str("]}");
    whole(200, body)
}

fn watch(state: &mut State, resource: Resource, query: &HashMap<String, String>) -> Answer {
    let from: u64 = query
        .get("resourceVersion")
        .and_then(|version| version.parse().ok())
        .expect("a version");
    let (sender, receiver) = unbounded();
    if from < state.compacted {
        let gone = format!(
            "{{\"type\":\"ERROR\",\"object\":{}}}\n",
            status(410, "Expired")
        );
        let _ = sender.unbounded_send(Piece::Text(gone));
    } else {
        let shelf = state.shelf(resource);
        for (_, line) in shelf.history.iter().filter(|(version, _)| *version > from) {
            let _ = sender.unbounded_send(Piece::Text(line.clone()));
        }
        shelf.watches.push(sender);
    }
    with_body(200, pieces(receiver))
}

fn pieces(receiver: UnboundedReceiver<Piece>) -> UnsyncBoxBody<Bytes, io::Error> {
    let frames = receiver.map(|piece| match piece {
        Piece::Text(text) => Ok(Frame::data(Bytes::from(text))),
        Piece::Cut => Err(io::Error::other("cut, as scripted")),
    });
    StreamBody::new(frames).boxed_unsync()
}
