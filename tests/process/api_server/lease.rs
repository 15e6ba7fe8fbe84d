//! One Lease, and ways to it that fail independently.

use std::sync::{Arc, Mutex, MutexGuard};

use hyper::body::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};

use super::{Answer, Fault, Server, lock, refusal, whole};

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
        lock(&self.0)
    }

    /// The Lease as it is.
    pub fn lease(&self) -> Option<Value> {
        self.lock().lease.clone()
    }

    /// Its holder, empty where there is none.
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

    fn answer(&self, method: &Method, body: &[u8]) -> Answer {
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
            |(code, reason)| refusal(code, reason),
            |lease| whole(200, lease.to_string()),
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
#[derive(Debug)]
pub struct Way {
    server: Server,
    store: Store,
    fault: Arc<Mutex<Fault>>,
}

impl Way {
    /// One that works.
    pub fn to(store: &Store) -> Self {
        let way = Self {
            server: Server::away(),
            store: store.clone(),
            fault: Arc::new(Mutex::new(Fault::Nothing)),
        };
        way.set(Fault::Nothing);
        way
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.server.port.number()
    }

    /// Sets what happens to all requests that come.
    pub fn set(&self, fault: Fault) {
        let is_away = matches!(fault, Fault::Refuse);
        *lock(&self.fault) = fault;
        if is_away {
            drop(self.server.stop());
            return;
        }
        let (store, fault) = (self.store.clone(), self.fault.clone());
        self.server
            .start(move |request| answer(store.clone(), fault.clone(), request));
    }
}

async fn answer(store: Store, fault: Arc<Mutex<Fault>>, request: Request<Bytes>) -> Answer {
    let fault = lock(&fault).clone();
    fault
        .play(|| store.answer(request.method(), request.body()))
        .await
}
