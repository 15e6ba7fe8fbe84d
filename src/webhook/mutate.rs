//! `/mutate`: from the bytes of a review to the bytes of its answer. Nothing is written and nobody asked; all that stays
//! is what was last decided, for the log.

use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::Ordering;

use super::patch::{self, Idle, Wanted};
use super::review::{self, BadReview, Operation};
use super::stored::{self, StoredEndpoints};
use crate::cluster::loose::WireText;
use crate::cluster::slice::{self, SliceRecord};
use crate::cluster::store::{Cluster, ServiceState, log_slot};
use crate::cluster::wire::EndpointSlice;
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::settings::{Mode, Settings};

/// An answer, and what metrics say of it.
#[derive(Debug)]
pub struct Answer {
    /// The answered review, JSON.
    pub body: Vec<u8>,
    /// What was asked.
    pub operation: Operation,
    /// The word of the verdict.
    pub decision: &'static str,
    /// The word of the reason, empty for hints.
    pub reason: &'static str,
}

/// Answers a review.
///
/// # Errors
/// [`BadReview`] for a body that is none. Everything else is allowed.
///
/// # Panics
/// Never on purpose; the caller catches what happens all the same.
pub fn mutate(body: &[u8], cluster: &Cluster, settings: &Settings) -> Result<Answer, BadReview> {
    let request = review::parse(body)?;
    let operation = request.operation();
    let Some(object) = request.slice() else {
        return Ok(Answer {
            body: review::allow(&request, None),
            operation,
            decision: Verdict::Untouched.word(),
            reason: "OtherKind",
        });
    };
    // The namespace is the request's: the object may not say.
    let service = slice::service_in(request.namespace(), object);
    assert!(
        !(service.is_some() && service == settings.panic_on_service),
        "asked to by --panic-on-service"
    );
    let snapshot = Snapshot::take(cluster, service.as_deref());
    let mut slice = SliceRecord::read(object);
    let stored = StoredEndpoints::of(request.stored());
    stored::take_stored_hints(&mut slice, object, &stored);
    let decision = decide(&snapshot, service.as_deref(), &slice, settings);
    let patch = match settings.mode {
        Mode::Active => patch_for(&decision, object, request.stored(), || request.idle()),
        Mode::Observe | Mode::Off => None,
    };
    // A dry run leaves no trace: what it decides is not what was decided before the next write.
    if let Some(state) = snapshot.service().filter(|_| !request.is_dry_run()) {
        log_change(
            state,
            service.as_deref().unwrap_or_default(),
            &slice,
            &decision,
        );
    }
    Ok(Answer {
        body: review::allow(&request, patch.as_deref()),
        operation,
        decision: decision.verdict.word(),
        reason: decision.reason.as_ref().map_or("", |reason| reason.word()),
    })
}

/// The answer when a decision failed in a way that should never be: allowed, untouched.
#[must_use]
pub fn allow_untouched(body: &[u8]) -> Option<Vec<u8>> {
    let request = review::parse(body).ok()?;
    Some(review::allow(&request, None))
}

/// The patch that carries out a decision. Whether the write is idle is asked where it makes a difference.
pub fn patch_for<'a, T: WireText>(
    decision: &Decision,
    object: &EndpointSlice<T>,
    old: Option<&EndpointSlice<T>>,
    idle: impl FnOnce() -> Option<Idle<'a>>,
) -> Option<Vec<u8>> {
    let endpoints = object.endpoints.items().len();
    let wanted = match decision.verdict {
        Verdict::Untouched => return None,
        Verdict::Kept => patch::kept_hints(object, old),
        Verdict::Strip => (0..endpoints).map(|_| Wanted::Nothing).collect(),
        Verdict::Hints => {
            let zones = &decision.capacity.capacity.zones;
            let wanted = |hint: &Option<u16>| {
                hint.map_or(Wanted::Nothing, |zone| {
                    Wanted::Zone(&zones[usize::from(zone)].name)
                })
            };
            decision.hints.iter().map(wanted).collect::<Vec<_>>()
        }
    };
    patch::build(object, old, &wanted, idle)
}

/// One line for each decision that is not what it was for this Service and address type.
fn log_change(state: &ServiceState, service: &str, slice: &SliceRecord, decision: &Decision) {
    let reason = decision.reason.as_ref().map_or("", |reason| reason.word());
    let mut hasher = std::hash::DefaultHasher::new();
    (decision.verdict, reason).hash(&mut hasher);
    // Zero stands for nothing decided yet.
    let now = hasher.finish() | 1;
    let before = state.last_logged[log_slot(slice.address_type)].swap(now, Ordering::Relaxed);
    if before == now {
        return;
    }
    let (decided, address_type) = (decision.verdict.word(), slice.address_type.word());
    if before == 0 && decision.verdict == Verdict::Untouched {
        tracing::debug!(
            service,
            address_type,
            decision = decided,
            reason,
            "{}",
            decision.message()
        );
    } else {
        tracing::info!(
            service,
            address_type,
            decision = decided,
            reason,
            "{}",
            decision.message()
        );
    }
}
