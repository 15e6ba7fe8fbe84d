//! One call of the API server, with an end.

use std::time::Duration;

use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::lease::WRITE_TIME;
use crate::telemetry::Human;
use crate::words::{for_a_line, with_causes};

/// Why a call did not do what it should.
#[derive(Debug, Clone)]
pub enum Failed {
    /// There is no such object.
    Absent,
    /// It is no longer as it was, or is there already.
    Conflict,
    /// The API server refuses what was sent (422), which includes a JSON patch whose `test` fails.
    Invalid(String),
    /// Who asks may not.
    Forbidden(String),
    /// There was no answer.
    Unanswered(String),
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
            Self::Invalid(problem)
            | Self::Forbidden(problem)
            | Self::Unanswered(problem)
            | Self::Other(problem) => problem,
        }
    }

    /// The same with what to do, where that is known: to permit what the call `needs`, or to see what cuts the way off.
    #[must_use]
    pub fn advised(&self, needs: &str) -> String {
        let problem = self.clone().problem();
        match self {
            Self::Forbidden(_) => format!("{problem}; zonewise needs permission to {needs}"),
            Self::Unanswered(_) => format!(
                "{problem}; see that the API server is well and can be reached from here (NetworkPolicy, firewall)"
            ),
            Self::Absent | Self::Conflict | Self::Invalid(_) | Self::Other(_) => problem,
        }
    }
}

/// Sends a request and waits at most [`WRITE_TIME`], so that a claim that allows it may end meanwhile.
///
/// # Errors
/// [`Failed`].
pub async fn call<T: DeserializeOwned>(
    client: &Client,
    request: Result<hyper::Request<Vec<u8>>, impl std::error::Error>,
) -> Result<T, Failed> {
    within(WRITE_TIME, send(client, request)).await
}

/// Waits at most so long for what the API server is asked.
///
/// # Errors
/// [`Failed`].
pub async fn within<T>(
    time: Duration,
    calls: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    let unanswered = |_| Failed::Unanswered(format!("no answer within {}", Human(time)));
    timeout(time, calls).await.map_err(unanswered)?
}

/// Sends a request and waits as long as it takes.
///
/// # Errors
/// [`Failed`].
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    request: Result<hyper::Request<Vec<u8>>, impl std::error::Error>,
) -> Result<T, Failed> {
    let request = request.map_err(|error| Failed::Other(error.to_string()))?;
    let answer = client.request::<T>(request).await;
    answer.map_err(|error| failed(&error))
}

fn failed(error: &kube::Error) -> Failed {
    let problem = sentence_of(error);
    match error {
        kube::Error::Api(status) => match status.code {
            403 => Failed::Forbidden(problem),
            404 => Failed::Absent,
            409 => Failed::Conflict,
            422 => Failed::Invalid(problem),
            _ => Failed::Other(problem),
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => Failed::Unanswered(problem),
        _ => Failed::Other(problem),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_refused_is_told_of_a_permission() {
        let advised = |failed: Failed| failed.advised("get it");
        let problem = || "scripted".to_owned();
        assert_eq!(
            advised(Failed::Forbidden(problem())),
            "scripted; zonewise needs permission to get it"
        );
        let cut_off = advised(Failed::Unanswered(problem()));
        assert!(
            cut_off.contains("can be reached") && !cut_off.contains("permission"),
            "{cut_off}"
        );
        assert_eq!(advised(Failed::Other(problem())), "scripted");
    }
}
