//! A small API server that keeps one Lease, and ways to it that fail as they are told.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::scripted::{Answer, Server, body_of, status, whole};

/// What a way does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Each is answered as it should be.
    Nothing,
    /// Connections are refused, and those that were open are cut.
    Refuse,
    /// Connections are accepted, and nothing is ever answered.
    Silence,
    /// What is asked for is done, and nothing is ever answered.
    AnswersLost,
    /// This status, and nothing is done.
    Status(u16),
    /// Status 200 and no JSON; nothing is done.
    Garbage,
    /// Status 200 and an empty object; nothing is done.
    Empty,
    /// The answer takes so many milliseconds, half of them before anything is done.
    Slow(u64),
}

/// What is stored.
#[derive(Debug, Clone, Default)]
pub struct Store(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    made: u64,
    writes: usize,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Lease as it is.
    pub fn lease(&self) -> Option<Value> {
        self.lock().lease.clone()
    }

    /// Whom it names; empty for nobody.
    pub fn holder(&self) -> String {
        let lease = self.lease().unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    }

    /// How many writes came from candidates and were stored.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// Takes the Lease away. Whether it was there.
    pub fn delete(&self) -> bool {
        self.lock().lease.take().is_some()
    }

    /// Stores this spec, whatever was there.
    pub fn write(&self, spec: &Value) {
        let mut stored = self.lock();
        if let Some(mut lease) = stored.lease.clone() {
            lease["spec"] = spec.clone();
            stored.replace(lease);
        } else {
            stored.make(json!({"metadata": {"name": "zonewise"}, "spec": spec}));
        }
    }

    /// Stores a Lease that its leader gave up, free to be taken at once.
    pub fn give_up(&self) {
        self.write(&json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
        let mut stored = self.lock();
        let mut lease = stored.lease.clone().expect("it was just written");
        lease["metadata"]["annotations"] = json!({"zonewise.dev/released-by": "z"});
        stored.replace(lease);
    }

    /// Puts this annotation on the Lease.
    pub fn annotate(&self, value: &str) {
        let mut stored = self.lock();
        let mut lease = stored.lease.clone().expect("a Lease");
        lease["metadata"]["annotations"] = json!({"note": value});
        stored.replace(lease);
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut stored = self.lock();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let there = stored.lease.clone();
        let result = match (method.as_str(), there) {
            ("GET", Some(lease)) => Ok(lease),
            ("POST", Some(_)) => Err((409, "AlreadyExists")),
            ("POST", None) => Ok(stored.make(sent)),
            ("PUT", Some(lease)) if version(&lease) != version(&sent) => Err((409, "Conflict")),
            ("PUT", Some(_)) => Ok(stored.replace(sent)),
            ("GET" | "PUT", None) => Err((404, "NotFound")),
            _ => Err((405, "MethodNotAllowed")),
        };
        stored.writes += usize::from(method != Method::GET && result.is_ok());
        result.map_or_else(
            |(code, reason)| (code, status(code, reason)),
            |lease| (200, lease),
        )
    }
}

impl Stored {
    fn make(&mut self, mut lease: Value) -> Value {
        self.made += 1;
        lease["metadata"]["uid"] = json!(format!("uid-{}", self.made));
        self.replace(lease)
    }

    fn replace(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }
}

/// With the uid, as API servers compare it.
fn version(lease: &Value) -> (String, String) {
    let field = |name: &str| lease["metadata"][name].as_str().unwrap_or("-").to_owned();
    (field("uid"), field("resourceVersion"))
}

/// A way to the store, with a port of its own.
pub struct Way {
    server: Server,
    fault: Arc<Mutex<Fault>>,
}

impl Way {
    /// One that works.
    pub fn to(store: &Store) -> Self {
        let fault = Arc::new(Mutex::new(Fault::Nothing));
        let (store, scripted) = (store.clone(), fault.clone());
        let server = Server::new(move |request| answer(store.clone(), scripted.clone(), request));
        server.start();
        Self { server, fault }
    }

    /// A client configuration for it.
    pub fn config(&self) -> kube::Config {
        self.server.config()
    }

    /// What it does from now on.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().expect("nobody panicked") = fault;
        if fault == Fault::Refuse {
            self.server.cut();
        } else {
            self.server.start();
        }
    }
}

async fn answer(store: Store, fault: Arc<Mutex<Fault>>, request: Request<Incoming>) -> Answer {
    let method = request.method().clone();
    let body = body_of(request).await;
    let fault = *fault.lock().expect("nobody panicked");
    let pause = |milliseconds| tokio::time::sleep(Duration::from_millis(milliseconds));
    match fault {
        Fault::Nothing => said(&store.answer(&method, &body)),
        Fault::Refuse | Fault::Silence => pending().await,
        Fault::AnswersLost => {
            store.answer(&method, &body);
            pending().await
        }
        Fault::Status(code) => said(&(code, status(code, "as told"))),
        Fault::Garbage => whole(200, "<html>\u{1b}[2J"),
        Fault::Empty => whole(200, "{}"),
        Fault::Slow(milliseconds) => {
            pause(milliseconds / 2).await;
            let answer = store.answer(&method, &body);
            pause(milliseconds / 2).await;
            said(&answer)
        }
    }
}

fn said((code, body): &(u16, Value)) -> Answer {
    whole(*code, body.to_string())
}
