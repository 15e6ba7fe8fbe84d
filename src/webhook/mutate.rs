//! `/mutate`: from the bytes of a review to the bytes of its answer. Nothing is written and nobody asked.

use super::asked;
use super::decided::Decided;
use super::patch::{self, Idle, Wanted, ZoneNames};
use super::review::{self, BadReview, Operation};
use super::stored::{self, StoredEndpoints};
use crate::cluster::loose::WireText;
use crate::cluster::slice::{self, SliceRecord};
use crate::cluster::store::Cluster;
use crate::cluster::wire::EndpointSlice;
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::planner::zone_set::ZoneSet;
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
    /// What the log is to be told once the answer goes out; nothing of a dry run, which leaves no trace.
    pub decided: Option<Decided>,
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
            body: review::allow(&request, None, None),
            operation,
            decision: Verdict::Untouched.word(),
            reason: "OtherKind",
            decided: None,
        });
    };
    // The namespace is the request's: the object may not say.
    let service = slice::service_in(request.namespace(), object);
    let snapshot = Snapshot::take(cluster, service.as_deref());
    let mut slice = SliceRecord::read(object);
    let stored = StoredEndpoints::of(request.stored());
    stored::take_stored_hints(&mut slice, object, &stored);
    let decision = decide(&snapshot, service.as_deref(), &slice, settings);
    let patch = match decision.mode {
        Mode::Active => patch_for(&decision, object, request.stored(), || request.idle()),
        Mode::Observe | Mode::Off => None,
    };
    let state = snapshot.service().filter(|_| !request.is_dry_run());
    let warning = asked::warning(&request, &settings.replica);
    Ok(Answer {
        body: review::allow(&request, patch.as_deref(), warning.as_deref()),
        operation,
        decision: decision.verdict.word(),
        reason: decision.reason_word(),
        decided: state.zip(service).map(|(state, service)| Decided {
            state: state.clone(),
            service,
            slice: slice.name,
            address_type: slice.address_type,
            decision,
        }),
    })
}

/// The answer when a decision failed in a way that should never be: allowed, untouched.
#[must_use]
pub fn allow_untouched(body: &[u8]) -> Option<Answer> {
    let request = review::parse(body).ok()?;
    Some(Answer {
        body: review::allow(&request, None, None),
        operation: Operation::Other,
        decision: Verdict::Untouched.word(),
        reason: "Panic",
        decided: None,
    })
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
            let known = &decision.capacity.capacity.zones;
            let wanted = |&zones: &ZoneSet| {
                if zones.is_empty() {
                    Wanted::Nothing
                } else {
                    Wanted::Zones(ZoneNames { zones, known })
                }
            };
            decision.hints.iter().map(wanted).collect::<Vec<_>>()
        }
    };
    patch::build(object, old, &wanted, idle)
}
