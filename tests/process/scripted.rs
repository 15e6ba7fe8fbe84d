//! A scripted API server: HTTP on a port that can be left and taken again, and answers as a script gives them.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::port::Port;

pub type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

type Script = dyn Fn(Request<Incoming>) -> BoxFuture<'static, Answer> + Send + Sync;

/// A port and what is answered there. Connections are refused until it starts.
pub struct Server {
    port: Port,
    script: Arc<Script>,
    serving: Mutex<Option<JoinSet<()>>>,
}

impl Server {
    /// One that is away as yet.
    pub fn new<F>(script: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self {
            port: Port::reserve(),
            script: Arc::new(move |request| Box::pin(script(request))),
            serving: Mutex::default(),
        }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// A client configuration for it.
    pub fn config(&self) -> kube::Config {
        let url = format!("http://127.0.0.1:{}", self.port());
        kube::Config::new(url.parse().expect("a URL"))
    }

    /// Listens from now on.
    pub fn start(&self) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if serving.is_none() {
            *serving = Some(self.serve());
        }
    }

    /// Is away from now on: connections are cut, new ones are refused.
    pub async fn stop(&self) {
        let serving = self.take();
        if let Some(mut serving) = serving {
            serving.shutdown().await;
        }
    }

    /// The same, without waiting until it is so.
    pub fn cut(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<JoinSet<()>> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.take()
    }

    fn serve(&self) -> JoinSet<()> {
        let (listener, script) = (self.port.listen(), self.script.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let script = script.clone();
                let answer = service_fn(move |request| {
                    let answer = script(request);
                    async { Ok::<_, Infallible>(answer.await) }
                });
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        serving
    }
}

/// An answer with this body.
pub fn whole(code: u16, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never| match never {});
    answer(code, body.boxed_unsync())
}

/// The same with a body that comes in pieces.
pub fn answer(code: u16, body: UnsyncBoxBody<Bytes, io::Error>) -> Answer {
    let answer = Response::builder().status(code);
    let answer = answer.header("content-type", "application/json").body(body);
    answer.expect("a status and a body")
}

/// A `Status` as API servers write it.
pub fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("scripted: {reason}"), "reason": reason, "code": code})
}

/// The body of a request.
pub async fn body_of(request: Request<Incoming>) -> Bytes {
    let body = request.into_body().collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .unwrap_or_default()
}
