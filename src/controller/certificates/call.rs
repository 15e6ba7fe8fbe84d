//! One call of the API server, with an end.

use std::time::Duration;

use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::telemetry::Human;
use crate::words::{for_a_line, with_causes};

/// How long a call may take: less than what is left of the lease when a claim on it ends.
const CALL_TIME: Duration = Duration::from_secs(4);

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

/// Sends a request.
///
/// # Errors
/// [`Failed`].
pub async fn call<T: DeserializeOwned>(
    client: &Client,
    request: Result<hyper::Request<Vec<u8>>, impl std::error::Error>,
) -> Result<T, Failed> {
    let request = request.map_err(|error| Failed::Other(error.to_string()))?;
    match timeout(CALL_TIME, client.request::<T>(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failed::Absent),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Failed::Conflict),
        Ok(Err(kube::Error::Api(status))) => {
            let message = for_a_line(&status.message);
            Err(Failed::Other(format!("{message} ({})", status.code)))
        }
        Ok(Err(error)) => Err(Failed::Other(for_a_line(&with_causes(&error)))),
        Err(_) => Err(Failed::Other(format!(
            "no answer within {}",
            Human(CALL_TIME)
        ))),
    }
}
