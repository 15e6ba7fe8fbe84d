//! One call of the API server, with an end.

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
            Self::Forbidden(problem) | Self::Unanswered(problem) | Self::Other(problem) => problem,
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
            Self::Absent | Self::Conflict | Self::Other(_) => problem,
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
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(Failed::Unanswered(format!(
            "no answer within {}",
            Human(WRITE_TIME)
        ))),
    }
}

fn failed(error: &kube::Error) -> Failed {
    let problem = sentence_of(error);
    match error {
        kube::Error::Api(status) => match status.code {
            403 => Failed::Forbidden(problem),
            404 => Failed::Absent,
            409 => Failed::Conflict,
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
