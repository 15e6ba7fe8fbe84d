//! Events, listed in pages and created.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http_body_util::BodyExt as _;
use hyper::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Answer, Fault, lock, refusal, whole};

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
pub struct EventServer(Arc<Mutex<State>>);

impl EventServer {
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

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        if head.method == Method::GET {
            let query = head.uri.query().unwrap_or_default();
            let fault = self.begin(Call::List(query.to_owned()));
            return fault.play(|| self.list(query)).await;
        }
        let body = body.collect().await.expect("a body comes whole").to_bytes();
        let event: Value = serde_json::from_slice(&body).expect("an Event is JSON");
        let name = text(&event["metadata"]["name"]);
        let fault = self.begin(Call::Create(name.clone()));
        fault.play(|| self.create(name, &event)).await
    }

    /// Records a request. What happens to it.
    fn begin(&self, call: Call) -> Fault {
        let mut state = self.state();
        let faults = match call {
            Call::List(_) => &mut state.lists,
            Call::Create(_) => &mut state.creates,
        };
        let fault = faults.pop_front().unwrap_or(Fault::Nothing);
        state.calls.push(call);
        fault
    }

    fn list(&self, query: &str) -> Answer {
        let state = self.state();
        let token = query.split('&').find_map(|p| p.strip_prefix("continue="));
        let from: usize = token.map_or(0, |token| token.parse().expect("a token of ours"));
        let page: Vec<&Value> = state.events.values().skip(from).take(Self::PAGE).collect();
        let more = from + page.len() < state.events.len();
        let token = more.then(|| (from + page.len()).to_string());
        let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1",
            "metadata": {"resourceVersion": "1", "continue": token}, "items": page});
        whole(200, list.to_string())
    }

    fn create(&self, name: String, event: &Value) -> Answer {
        let mut state = self.state();
        if state.events.contains_key(&name) {
            return refusal(409, "AlreadyExists");
        }
        state.events.insert(name, event.clone());
        whole(201, event.to_string())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
