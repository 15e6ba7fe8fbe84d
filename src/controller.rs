//! What one replica does for all of them.
//!
//! Every replica answers reviews and looks at what differs from fresh decisions; writing to the cluster is the work of the
//! one that holds the [`lease`].

pub mod agenda;
pub mod call;
mod calls;
pub mod certificates;
pub mod drift;
pub mod events;
pub mod lease;
pub mod look;
pub mod metrics;
pub mod owner;
pub mod removal;
pub mod scope;

use std::panic::resume_unwind;

use tokio_util::task::AbortOnDropHandle;

use self::drift::Drift;
use self::lease::Candidate;

/// Campaigns for the lease and works on drift until the process ends. Both begin once the caches have synced: whoever
/// does not know the cluster must not keep others from leading.
///
/// The lease is renewed in a task of its own, which no look at a large Service holds up.
pub async fn run(drift: Drift, candidate: Candidate) {
    drift.has_synced().await;
    let campaign = AbortOnDropHandle::new(tokio::spawn(candidate.campaign()));
    tokio::select! {
        Err(error) = campaign => resume_unwind(error.into_panic()),
        () = drift::run(drift) => {}
    }
}
