//! `/mutate`: from the bytes of a review to the bytes of its answer. Nothing is written and nobody asked.

use super::asked;
use super::decided::Decided;
use super::patch::{self, Idle, Wanted, ZoneNames};
use super::review::{self, BadReview, Operation, Request};
use super::stored::{self, StoredEndpoints};
use super::validate::Told;
use super::warnings::warning;
use crate::cluster::loose::WireText;
use crate::cluster::slice::{self, SliceRecord};
use crate::cluster::store::Cluster;
use crate::cluster::wire::EndpointSlice;
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::planner::zone_set::ZoneSet;
use crate::settings::{Mode, Settings, Validation};

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
    /// The same of a person who was warned or refused something.
    pub told: Option<Told>,
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
        return Ok(untouched(&request, "OtherKind"));
    };
    // The namespace is the request's: the object may not say.
    let service = slice::service_in(request.namespace(), object);
    let snapshot = Snapshot::take(cluster, service.as_deref());
    let mut slice = SliceRecord::read(object);
    let handmade = is_handmade(&request, &slice, settings).then(|| slice.clone());
    let stored = StoredEndpoints::of(request.stored());
    stored::take_stored_hints(&mut slice, object, &stored);
    let decision = decide(&snapshot, service.as_deref(), &slice, settings);
    let patch = match decision.mode {
        Mode::Active => patch_for(&decision, object, request.stored(), || request.idle()),
        Mode::Observe | Mode::Off => None,
    };
    let state = snapshot.service().filter(|_| !request.is_dry_run());
    let replaced = handmade.filter(|sent| patch.is_some() && !decision.is_carried_out(sent));
    let warnings = asked::warning(&request, &settings.replica).into_iter();
    let warnings: Vec<String> = warnings
        .chain(replaced.map(|_| warning(REPLACED)))
        .collect();
    Ok(Answer {
        body: review::allow(&request, patch.as_deref(), &warnings),
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
        told: None,
    })
}

/// What a person is told whose hints give way.
const REPLACED: &str =
    "zonewise decides on the hints of this slice; those that were sent are not stored";

/// Whether a person who is to be warned wrote these hints: others than are stored, on the same endpoints or on a new slice.
fn is_handmade(request: &Request<'_>, sent: &SliceRecord, settings: &Settings) -> bool {
    let is_hinted = || sent.endpoints.iter().any(|e| !e.hints.zones().is_empty());
    settings.validation != Validation::Off
        && request.user.is_person()
        && match request.operation() {
            Operation::Create => is_hinted(),
            _ => request.object.changes_only_hints_of(&request.old_object),
        }
}

/// The answer that leaves the object as it is.
fn untouched(request: &Request<'_>, reason: &'static str) -> Answer {
    Answer {
        body: review::allow(request, None, &[]),
        operation: request.operation(),
        decision: Verdict::Untouched.word(),
        reason,
        decided: None,
        told: None,
    }
}

/// The answer when a decision failed in a way that should never be: allowed, untouched.
#[must_use]
pub fn allow_untouched(body: &[u8]) -> Option<Answer> {
    let request = review::parse(body).ok()?;
    Some(Answer {
        operation: Operation::Other,
        ..untouched(&request, "Panic")
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
