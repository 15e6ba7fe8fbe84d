//! Calls to the API server for the commands that look at a whole cluster: each ends, and tells a missing permission from
//! other failures.

use std::time::Duration;

use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::words::{for_a_line, with_causes};

/// How long a call may take.
pub const CALL_TIME: Duration = Duration::from_secs(10);

/// How long a page of a list may take.
const PAGE_TIME: Duration = Duration::from_mins(1);

const PAGE_SIZE: u32 = 500;

/// Where slices are.
pub const SLICES: &str = "/apis/discovery.k8s.io/v1";

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Who asks may not.
    #[error("{0}")]
    Forbidden(String),
    /// It is not there.
    #[error("{0}")]
    NotFound(String),
    /// The API server says no, with this status.
    #[error("{1} ({0})")]
    Status(u16, String),
    /// There is no answer.
    #[error("{0}")]
    Unanswered(String),
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = for_a_line(&status.message);
                match status.code {
                    // A proxy on the way, or what is behind the API server's, may say the same without its Status.
                    403 if status.reason == "Forbidden" => Self::Forbidden(message),
                    404 => Self::NotFound(message),
                    code => Self::Status(code, message),
                }
            }
            kube::Error::Service(cause) => Self::Unanswered(for_a_line(&with_causes(&*cause))),
            error => Self::Unanswered(for_a_line(&with_causes(&error))),
        }
    }
}

impl Refusal {
    fn silence(lasted: Duration) -> Self {
        Self::Unanswered(format!("no answer within {lasted:.0?}"))
    }
}

#[derive(Deserialize)]
struct Page<T> {
    metadata: PageMetadata,
    items: Option<Vec<T>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// The API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client beneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The answer to a GET of a path.
    pub async fn get_path<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        let request = hyper::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        self.call(request).await
    }

    /// The text that a GET of a path is answered with.
    pub async fn get_text(&self, path: &str) -> Result<String, Refusal> {
        let request = hyper::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        let answer = timeout(CALL_TIME, self.client.request_text(request)).await;
        Ok(answer.map_err(|_| Refusal::silence(CALL_TIME))??)
    }

    /// One object of a collection.
    pub async fn get<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
    ) -> Result<T, Refusal> {
        let request = Request::new(collection).get(name, &GetParams::default());
        self.call(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Hands on the objects of a collection as they come, page by page.
    pub async fn list<T: DeserializeOwned>(
        &self,
        collection: &str,
        labels: Option<&str>,
        mut each: impl FnMut(T),
    ) -> Result<(), Refusal> {
        let mut parameters = ListParams::default().limit(PAGE_SIZE);
        parameters.label_selector = labels.map(str::to_owned);
        loop {
            let request = Request::new(collection).list(&parameters);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page = timeout(PAGE_TIME, self.client.request::<Page<T>>(request)).await;
            let page = page.map_err(|_| Refusal::silence(PAGE_TIME))??;
            page.items.into_iter().flatten().for_each(&mut each);
            match page.metadata.token.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        request: hyper::Request<Vec<u8>>,
    ) -> Result<T, Refusal> {
        let answer = timeout(CALL_TIME, self.client.request(request)).await;
        Ok(answer.map_err(|_| Refusal::silence(CALL_TIME))??)
    }
}

/// The path of a kind in a namespace, or in all of them.
pub fn collection(group: &str, namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => format!("{group}/{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_kubernetes_own_word_is_a_missing_permission() {
        let refusal = |reason: &str| {
            let status = Status::failure("access denied", reason).with_code(403);
            Refusal::from(kube::Error::Api(status.boxed()))
        };
        assert!(matches!(refusal("Forbidden"), Refusal::Forbidden(_)));
        // As the client tells of an answer that is no Status.
        let other = refusal("Failed to parse error data");
        assert_eq!(other.to_string(), "access denied (403)");
    }
}
