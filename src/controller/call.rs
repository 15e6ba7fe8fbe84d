//! One call of the API server, with an end.

use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::lease::WRITE_TIME;
use crate::telemetry::Human;
use crate::words::{for_a_line, with_causes};

/// Why a call did not do what it should.
#[derive(Debug)]
pub enum Failed {
    /// There is no such object.
    Absent,
    /// It is no longer as it was, or is there already.
    Conflict,
    /// Anything else, in words.
    Other(String),
}

impl Failed {
    /// What is the matter, of a length that fits a log line.
    #[must_use]
    pub fn problem(self) -> String {
        match self {
            Self::Absent => "not found (404)".to_owned(),
            Self::Conflict => "conflict (409)".to_owned(),
            Self::Other(problem) => problem,
        }
    }
}

/// Sends a request. Takes [`WRITE_TIME`] at the most, so that a claim that allows it may end meanwhile.
///
/// # Errors
/// [`Failed`].
pub async fn call<T: DeserializeOwned>(
    client: &Client,
    request: Result<hyper::Request<Vec<u8>>, impl std::error::Error>,
) -> Result<T, Failed> {
    let request = request.map_err(|error| Failed::Other(error.to_string()))?;
    match timeout(WRITE_TIME, client.request::<T>(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failed::Absent),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Failed::Conflict),
        Ok(Err(error)) => Err(Failed::Other(sentence_of(&error))),
        Err(_) => Err(Failed::Other(format!(
            "no answer within {}",
            Human(WRITE_TIME)
        ))),
    }
}

/// What is the matter, of a length that fits a log line.
#[must_use]
pub fn sentence_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", for_a_line(&status.message), status.code),
        error => for_a_line(&with_causes(error)),
    }
}
