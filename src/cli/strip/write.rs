//! One slice loses its hints.

use super::choice::{Asking, Candidate, Hints, is_hinted, judge};
use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cluster::wire::EndpointSlice;

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
    let path = collection(SLICES, Some(&candidate.namespace), "endpointslices");
    let mut again: Option<Candidate> = None;
    for _ in 0..TRIES {
        let current = again.as_ref().unwrap_or(candidate);
        let asks = services.look_again(api, &current.service).await;
        let asks = asks.map_err(|refusal| unreadable(&current.service, &refusal))?;
        if !current.goes(asks) {
            return Ok(Written::Nothing);
        }
        let stored: Result<EndpointSlice<Box<str>>, _> = api
            .patch(&path, &current.name, dry_run, current.patch())
            .await;
        let refusal = match stored {
            Ok(stored) if is_hinted(&stored) => return Ok(Written::CameBack),
            Ok(_) => return Ok(Written::Stripped(current.hinted)),
            Err(Refusal::NotFound(_)) => return Ok(Written::Nothing),
            Err(refusal) => refusal,
        };
        if !is_conflict(&refusal) {
            return Err(refusal.to_string());
        }
        let slice = match api.get(&path, &current.name).await {
            Ok(slice) => slice,
            Err(Refusal::NotFound(_)) => return Ok(Written::Nothing),
            Err(refusal) => return Err(refusal.to_string()),
        };
        match judge(&slice, asks) {
            // Nobody wrote it, so the patch is refused for another reason.
            Hints::Strip(next) if next.version == current.version => {
                return Err(refusal.to_string());
            }
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

/// Whether the version that the patch asks for may be gone. The API server calls a failed `test` unprocessable.
fn is_conflict(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Status(409 | 422, _))
}
