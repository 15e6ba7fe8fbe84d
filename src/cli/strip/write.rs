//! One slice loses its hints.

use super::choice::{Asking, Candidate, Hints, judge};
use crate::cli::api::{Api, CALL_TIME, Refusal};
use crate::controller::call::{Failed, within};
use crate::controller::removal::{self, Removal};

/// How often a slice is read again because somebody else wrote it meanwhile.
const TRIES: usize = 5;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// So many endpoints have lost their hints.
    Stripped(usize),
    /// There is nothing to strip any more: somebody else did or deleted it, or its Service does not ask for hints any more.
    Nothing,
    /// The API server's answer has hints again: somebody puts them back.
    CameBack,
}

/// Takes the hints of a slice away, or finds out what would come of that.
///
/// # Errors
/// A sentence about why that can't be.
pub async fn strip(
    api: &Api,
    services: &Asking,
    candidate: &Candidate,
    dry_run: bool,
) -> Result<Written, String> {
    let client = api.client();
    let mut again: Option<Candidate> = None;
    for _ in 0..TRIES {
        let current = again.as_ref().unwrap_or(candidate);
        let (namespace, name) = (&*current.namespace, &*current.name);
        let asks = services.look_again(api, &current.service).await;
        let asks = asks.map_err(|refusal| unreadable(&current.service, &refusal))?;
        if !current.goes(asks) {
            return Ok(Written::Nothing);
        }
        let removal = &current.removal;
        let patch = removal.patch(client, namespace, name, dry_run);
        let failed = match within(CALL_TIME, patch).await {
            Ok(stored) if Removal::of(&stored).is_some() => return Ok(Written::CameBack),
            Ok(_) => return Ok(Written::Stripped(removal.hinted)),
            Err(Failed::Absent) => return Ok(Written::Nothing),
            Err(failed @ (Failed::Conflict | Failed::Invalid(_))) => failed,
            Err(failed) => return Err(failed.problem()),
        };
        let slice = within(CALL_TIME, removal::read(client, namespace, name)).await;
        let Some(slice) = slice.map_err(Failed::problem)? else {
            return Ok(Written::Nothing);
        };
        // Nobody wrote it, so the patch is refused for another reason.
        if removal.is_of_version(&slice) {
            return Err(failed.problem());
        }
        match judge(&slice, asks) {
            Hints::Strip(next) => again = Some(next),
            Hints::None | Hints::Kubernetes | Hints::NotOurs => return Ok(Written::Nothing),
        }
    }
    Err(format!(
        "somebody wrote it {TRIES} times between reading and writing; run strip again"
    ))
}

fn unreadable(service: &str, refusal: &Refusal) -> String {
    let advice = match refusal {
        Refusal::Forbidden(_) => "; strip needs permission to get services",
        _ => "",
    };
    format!("its Service {service} can't be read: {refusal}{advice}")
}
