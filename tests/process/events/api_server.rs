//! An API server for Events alone that does as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Incoming;
use hyper::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::scripted::{Answer, Server, body_of, status, whole};

/// What is done in place of a proper answer.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// This status.
    Status(u16),
    /// The Event is stored, and no answer ever comes.
    StoredInSilence,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// A list with this query.
    List(String),
    /// A create, with the Event's name.
    Create(String),
}

#[derive(Debug, Default)]
struct State {
    events: BTreeMap<String, Value>,
    lists: VecDeque<Fault>,
    creates: VecDeque<Fault>,
    calls: Vec<Call>,
}

/// The server. It ends with the last of its clones.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    server: Arc<Server>,
}

impl ApiServer {
    /// How many Events it puts in one page of a list.
    pub const PAGE: usize = 2;

    pub fn start() -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let script = Script(state.clone());
        let server = Server::new(move |request| script.clone().answer(request));
        server.start();
        let server = Arc::new(server);
        Self { state, server }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::try_from(self.server.config()).expect("a URL makes a client")
    }

    /// What it does with the next lists.
    pub fn fail_lists(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().lists.extend(faults);
    }

    /// What it does with the next creates.
    pub fn fail_creates(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().creates.extend(faults);
    }

    /// What was asked so far.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// The names of the Events that it was asked to create.
    pub fn creates(&self) -> Vec<String> {
        let name = |call: Call| match call {
            Call::Create(name) => Some(name),
            Call::List(_) => None,
        };
        self.calls().into_iter().filter_map(name).collect()
    }

    /// `kind/name` of the objects that Events were stored for, by the Events' time.
    pub fn stored(&self) -> Vec<String> {
        let mut events: Vec<Value> = self.state().events.values().cloned().collect();
        events.sort_by_key(|event| text(&event["eventTime"]));
        let about = |event: &Value| {
            let object = &event["regarding"];
            format!("{}/{}", text(&object["kind"]), text(&object["name"]))
        };
        events.iter().map(about).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Script(Arc<Mutex<State>>);

impl Script {
    async fn answer(self, request: Request<Incoming>) -> Answer {
        if request.method() == Method::GET {
            return self.list(request.uri().query().unwrap_or_default());
        }
        let event: Value = serde_json::from_slice(&body_of(request).await).expect("JSON");
        let (answer, is_silent) = self.create(&event);
        if is_silent {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn list(&self, query: &str) -> Answer {
        let mut state = lock(&self.0);
        state.calls.push(Call::List(query.to_owned()));
        if let Some(Fault::Status(code)) = state.lists.pop_front() {
            return refusal(code, "Scripted");
        }
        let token = query.split('&').find_map(|p| p.strip_prefix("continue="));
        let from: usize = token.map_or(0, |token| token.parse().expect("a token of ours"));
        let page: Vec<&Value> = state
            .events
            .values()
            .skip(from)
            .take(ApiServer::PAGE)
            .collect();
        let more = from + page.len() < state.events.len();
        let token = more.then(|| (from + page.len()).to_string());
        let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1",
            "metadata": {"resourceVersion": "1", "continue": token}, "items": page});
        whole(200, list.to_string())
    }

    /// The answer, and whether it is kept back.
    fn create(&self, event: &Value) -> (Answer, bool) {
        let name = text(&event["metadata"]["name"]);
        let mut state = lock(&self.0);
        state.calls.push(Call::Create(name.clone()));
        let fault = state.creates.pop_front();
        if let Some(Fault::Status(code)) = fault {
            return (refusal(code, "Scripted"), false);
        }
        if state.events.contains_key(&name) {
            return (refusal(409, "AlreadyExists"), false);
        }
        state.events.insert(name, event.clone());
        (whole(201, event.to_string()), fault.is_some())
    }
}

fn refusal(code: u16, reason: &str) -> Answer {
    whole(code, status(code, reason).to_string())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
