//! Objects and lists that do not change.

use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::{Answer, Fault, Server, refusal};

/// A server that answers these paths, and any other with `NotFound`.
#[derive(Debug)]
pub struct FixedServer {
    server: Server,
    answers: Vec<(String, Fault)>,
}

impl FixedServer {
    pub fn new() -> Self {
        Self {
            server: Server::away(),
            answers: Vec::new(),
        }
    }

    pub fn port(&self) -> u16 {
        self.server.port.number()
    }

    pub fn with(self, path: &str, answer: &Value) -> Self {
        self.with_fault(path, Fault::Answer(200, answer.to_string()))
    }

    pub fn with_fault(mut self, path: &str, fault: Fault) -> Self {
        self.answers.push((path.to_owned(), fault));
        self
    }

    pub fn with_list(self, path: &str, items: &[Value]) -> Self {
        self.with(path, &json!({"metadata": {}, "items": items}))
    }

    /// Listens.
    pub fn start(self) -> Self {
        let answers = self.answers.clone();
        self.server
            .start(move |request| answer(answers.clone(), request));
        self
    }
}

async fn answer(answers: Vec<(String, Fault)>, request: Request<Bytes>) -> Answer {
    let path = request.uri().path();
    let fault = answers.into_iter().find(|(known, _)| known == path);
    let fault = fault.map_or(Fault::Nothing, |(_, fault)| fault);
    fault.play(|| refusal(404, "NotFound")).await
}
