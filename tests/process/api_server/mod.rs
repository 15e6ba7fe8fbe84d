//! API servers that follow a script: the transport and the faults that they share, and one script per kind of object.

pub mod events;
pub mod fixed;
pub mod lease;
pub mod watches;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::port::Port;

/// What a server answers. The body can break off.
pub type Answer = hyper::Response<UnsyncBoxBody<Bytes, io::Error>>;

/// What a server does instead of a proper answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The proper answer.
    Nothing,
    /// This status and this body. The request has no effect.
    Answer(u16, String),
    /// Status 503 with a `Retry-After` in seconds. The request has no effect.
    RetryAfter(u64),
    /// The proper answer, once the gate opens.
    Hold(Gate),
    /// Connections are refused, and open ones are cut. For a [`lease::Way`] only.
    Refuse,
    /// Connections are accepted. The request has no effect and no answer.
    Silence,
    /// The request takes effect and has no answer.
    AnswersLost,
    /// The proper answer after so many milliseconds. The request takes effect halfway.
    Slow(u64),
}

impl Fault {
    /// A `Status` as API servers write it.
    pub fn status(code: u16, reason: &str) -> Self {
        Self::Answer(code, status(code, reason).to_string())
    }

    /// An answer to a watch that ends before its first event.
    pub fn end_at_once() -> Self {
        Self::Answer(200, String::new())
    }

    /// Answers a request that `handle` handles properly.
    pub async fn play(self, handle: impl FnOnce() -> Answer) -> Answer {
        match self {
            Self::Nothing => handle(),
            Self::Answer(code, body) => whole(code, body),
            Self::RetryAfter(seconds) => {
                let mut answer = whole(503, status(503, "ServiceUnavailable").to_string());
                answer.headers_mut().insert("retry-after", seconds.into());
                answer
            }
            Self::Hold(gate) => {
                gate.wait().await;
                handle()
            }
            Self::Refuse | Self::Silence => pending().await,
            Self::AnswersLost => {
                handle();
                pending().await
            }
            Self::Slow(milliseconds) => {
                let half = Duration::from_millis(milliseconds / 2);
                tokio::time::sleep(half).await;
                let answer = handle();
                tokio::time::sleep(half).await;
                answer
            }
        }
    }
}

/// Shut until it is opened.
#[derive(Debug, Clone)]
pub struct Gate(Arc<tokio::sync::watch::Sender<bool>>);

impl Gate {
    pub fn shut() -> Self {
        Self(Arc::new(tokio::sync::watch::Sender::new(false)))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// An HTTP server on a loopback port that goes away and comes back.
#[derive(Debug)]
struct Server {
    port: Port,
    serving: Mutex<Option<JoinSet<()>>>,
}

impl Server {
    /// One that is away: connections are refused.
    fn away() -> Self {
        Self {
            port: Port::reserve(),
            serving: Mutex::default(),
        }
    }

    /// Listens, unless it does already.
    fn start<F, A>(&self, answer: F)
    where
        F: Fn(Request<Bytes>) -> A + Clone + Send + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let mut serving = lock(&self.serving);
        if serving.is_some() {
            return;
        }
        let listener = self.port.listen();
        let accept = async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let answer = answer.clone();
                let service = service_fn(move |request| whole_request(request, answer.clone()));
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        };
        serving.insert(JoinSet::new()).spawn(accept);
    }

    /// Cuts connections and refuses new ones. The future ends when all connections are gone.
    fn stop(&self) -> impl Future<Output = ()> + use<> {
        let mut serving = lock(&self.serving).take().unwrap_or_default();
        serving.abort_all();
        async move { serving.shutdown().await }
    }
}

async fn whole_request<F, A>(request: Request<Incoming>, answer: F) -> Result<Answer, Infallible>
where
    F: Fn(Request<Bytes>) -> A,
    A: Future<Output = Answer>,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes);
    let request = Request::from_parts(head, body.unwrap_or_default());
    Ok(answer(request).await)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("scripted: {reason}"), "reason": reason, "code": code})
}

fn refusal(code: u16, reason: &str) -> Answer {
    whole(code, status(code, reason).to_string())
}

fn whole(code: u16, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    with_body(code, body.boxed_unsync())
}

fn with_body(code: u16, body: UnsyncBoxBody<Bytes, io::Error>) -> Answer {
    hyper::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(body)
        .expect("a status and a body make an answer")
}
