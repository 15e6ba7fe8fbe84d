//! A small API server that keeps one Lease, and ways to it that fail as they are told.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::port::Port;

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

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("scripted: {reason}"), "reason": reason, "code": code})
}

/// A way to the store, with a port of its own.
#[derive(Debug)]
pub struct Way {
    port: Port,
    store: Store,
    fault: Arc<Mutex<Fault>>,
    serving: Mutex<Option<JoinSet<()>>>,
}

impl Way {
    /// One that works.
    pub fn to(store: &Store) -> Self {
        let way = Self {
            port: Port::reserve(),
            store: store.clone(),
            fault: Arc::new(Mutex::new(Fault::Nothing)),
            serving: Mutex::default(),
        };
        way.set(Fault::Nothing);
        way
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// What it does from now on.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().expect("nobody panicked") = fault;
        let mut serving = self.serving.lock().expect("nobody panicked");
        if fault == Fault::Refuse {
            *serving = None;
        } else if serving.is_none() {
            *serving = Some(self.serve());
        }
    }

    fn serve(&self) -> JoinSet<()> {
        let listener = self.port.listen();
        let (store, fault) = (self.store.clone(), self.fault.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let (store, fault) = (store.clone(), fault.clone());
                let answer =
                    service_fn(move |request| answer(store.clone(), fault.clone(), request));
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        serving
    }
}

async fn answer(
    store: Store,
    fault: Arc<Mutex<Fault>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let method = request.method().clone();
    let body = request.into_body().collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let fault = *fault.lock().expect("nobody panicked");
    let pause = |milliseconds| tokio::time::sleep(Duration::from_millis(milliseconds));
    let (code, text) = match fault {
        Fault::Nothing => said(store.answer(&method, &body)),
        Fault::Refuse | Fault::Silence => pending().await,
        Fault::AnswersLost => {
            store.answer(&method, &body);
            pending().await
        }
        Fault::Status(code) => said((code, status(code, "as told"))),
        Fault::Garbage => (200, "<html>\u{1b}[2J".to_owned()),
        Fault::Empty => (200, "{}".to_owned()),
        Fault::Slow(milliseconds) => {
            pause(milliseconds / 2).await;
            let answer = store.answer(&method, &body);
            pause(milliseconds / 2).await;
            said(answer)
        }
    };
    let response = Response::builder().status(code).body(Full::from(text));
    Ok(response.expect("a status and a body"))
}

fn said((code, body): (u16, Value)) -> (u16, String) {
    (code, body.to_string())
}
