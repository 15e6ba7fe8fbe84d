//! An API server for Events alone that does as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

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

/// The server. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct ApiServer(Arc<Mutex<State>>);

impl ApiServer {
    /// How many Events it puts in one page of a list.
    pub const PAGE: usize = 2;

    /// A client of it, with no connection between.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
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

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        if head.method == Method::GET {
            return self.list(head.uri.query().unwrap_or_default());
        }
        let body = body.collect().await.expect("a body comes whole").to_bytes();
        let event: Value = serde_json::from_slice(&body).expect("an Event is JSON");
        let (answer, is_silent) = self.create(&event);
        if is_silent {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn list(&self, query: &str) -> Response<Full<Bytes>> {
        let mut state = self.state();
        state.calls.push(Call::List(query.to_owned()));
        if let Some(Fault::Status(code)) = state.lists.pop_front() {
            return refusal(code, "");
        }
        let token = query.split('&').find_map(|p| p.strip_prefix("continue="));
        let from: usize = token.map_or(0, |token| token.parse().expect("a token of ours"));
        let page: Vec<&Value> = state.events.values().skip(from).take(Self::PAGE).collect();
        let more = from + page.len() < state.events.len();
        let token = more.then(|| (from + page.len()).to_string());
        let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1",
            "metadata": {"resourceVersion": "1", "continue": token}, "items": page});
        answer(200, &list)
    }

    /// The answer, and whether it is kept back.
    fn create(&self, event: &Value) -> (Response<Full<Bytes>>, bool) {
        let name = text(&event["metadata"]["name"]);
        let mut state = self.state();
        state.calls.push(Call::Create(name.clone()));
        let fault = state.creates.pop_front();
        if let Some(Fault::Status(code)) = fault {
            return (refusal(code, ""), false);
        }
        if state.events.contains_key(&name) {
            return (refusal(409, "AlreadyExists"), false);
        }
        state.events.insert(name, event.clone());
        (answer(201, event), fault.is_some())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(code: u16, reason: &str) -> Response<Full<Bytes>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "scripted", "reason": reason, "code": code});
    answer(code, &status)
}

fn answer(code: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = Full::from(body.to_string());
    Response::builder()
        .status(code)
        .body(body)
        .expect("a status is all it needs")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
