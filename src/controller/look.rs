//! A look at one Service: what a fresh decision on each of its slices gives, and which slices differ from that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::calls::Write;
use crate::cluster::service::TrafficDistribution;
use crate::cluster::slice::{AddressType, EndpointRecord, SliceRecord};
use crate::cluster::store::{Cluster, ServiceState};
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::planner::reason::Reason;
use crate::settings::{Mode, Settings};

/// What a look at a Service shows.
#[derive(Debug, Default)]
pub struct Look {
    /// The uid of the Service, where it is known.
    pub uid: Option<Box<str>>,
    /// Slices that have other hints than a fresh decision gives, by name.
    pub drifted: Vec<DriftedSlice>,
    /// What was decided for each address type that it has slices of.
    pub states: Vec<State>,
    /// What is done with decisions on it.
    pub mode: Mode,
}

impl Look {
    /// Whether its slices get what is decided.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.mode == Mode::Active
    }
}

/// A slice whose hints differ from a fresh decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftedSlice {
    /// Its name.
    pub name: Box<str>,
    /// Whether it has no hints, nor has any other slice of its address type, and should: if it was just written, the API
    /// server did not ask. Beside slices with hints it may have been left without for their sake.
    pub was_bypassed: bool,
}

/// What was decided for the slices of one address type.
#[derive(Debug)]
pub struct State {
    /// The address type.
    pub address_type: AddressType,
    /// The decision on the first slice that is not to be hinted; where all are, that on the last.
    pub decision: Decision,
    /// Endpoints that are to be hinted, in all slices.
    pub hinted: usize,
    /// Whether all slices are as decided.
    pub is_carried_out: bool,
    /// Whether any endpoint has a hint.
    pub has_hints: bool,
}

/// Deciding on a Service panicked, so that its slices are left as they are.
#[derive(Debug, thiserror::Error)]
#[error("deciding panicked")]
pub struct Panicked {
    /// The address types that it has slices of.
    pub address_types: Vec<AddressType>,
}

/// Looks at the Service `service` (`namespace/name`).
///
/// # Errors
/// [`Panicked`], which costs this Service its look and nobody else anything.
pub fn look(cluster: &Cluster, settings: &Settings, service: &str) -> Result<Look, Panicked> {
    let snapshot = Snapshot::take(cluster, Some(service));
    let Some(state) = snapshot.service().cloned() else {
        return Ok(Look::default());
    };
    let look = || look_at(&state, &snapshot, settings, service);
    catch_unwind(AssertUnwindSafe(look)).map_err(|_| Panicked {
        address_types: address_types(state.slices.iter().map(|slice| &**slice)),
    })
}

fn look_at(
    state: &ServiceState,
    snapshot: &Snapshot<'_>,
    settings: &Settings,
    service: &str,
) -> Look {
    let slices = || state.slices.iter().map(|slice| &**slice);
    let has_hint = |slice: &&SliceRecord| {
        let mut endpoints = slice.endpoints.iter();
        endpoints.any(is_hinted)
    };
    let hinted = address_types(slices().filter(has_hint));
    let mut look = Look {
        uid: state.service.as_ref().map(|service| service.uid.clone()),
        ..Look::default()
    };
    for slice in slices() {
        let decision = decide(snapshot, Some(service), slice, settings);
        let is_carried_out =
            decision.is_carried_out(slice) && !outlives_opt_in(state, &decision, slice);
        look.mode = decision.mode;
        if let Some(Reason::IgnoredManager { .. }) = decision.reason {
            continue;
        }
        let has_hints = hinted.contains(&slice.address_type);
        if !is_carried_out {
            look.drifted.push(DriftedSlice {
                name: slice.name.clone(),
                was_bypassed: decision.verdict == Verdict::Hints && !has_hints,
            });
        }
        look.note(slice.address_type, decision, is_carried_out, has_hints);
    }
    look
}

fn address_types<'a>(slices: impl Iterator<Item = &'a SliceRecord>) -> Vec<AddressType> {
    let mut types = Vec::new();
    for slice in slices {
        if !types.contains(&slice.address_type) {
            types.push(slice.address_type);
        }
    }
    types
}

/// How one slice has to be written, if at all; not where deciding panics. One that is `left_behind` has lost its opt-in.
#[must_use]
pub(super) fn due(
    cluster: &Cluster,
    settings: &Settings,
    service: &str,
    slice: &str,
    left_behind: bool,
) -> Option<Write> {
    let snapshot = Snapshot::take(cluster, Some(service));
    let state = snapshot.service()?.clone();
    let record = state.slices.iter().find(|record| *record.name == *slice)?;
    let decide = || decide(&snapshot, Some(service), record, settings);
    let decision = catch_unwind(AssertUnwindSafe(decide)).ok()?;
    let is_left_behind = left_behind
        && decision.reason == Some(Reason::NotOptedIn)
        && record.endpoints.iter().any(is_hinted);
    if is_left_behind || outlives_opt_in(&state, &decision, record) {
        return Some(Write::WithoutHints);
    }
    (!decision.is_carried_out(record)).then_some(Write::AsItIs)
}

/// Whether a slice that is left to Kubernetes has hints of an opt-in that is gone. Kubernetes replaces these only when something
/// else changes, and writes its own as soon as they are removed.
fn outlives_opt_in(state: &ServiceState, decision: &Decision, slice: &SliceRecord) -> bool {
    let service = state.service.as_deref();
    let distribution = service.and_then(|service| service.traffic_distribution);
    let is_left = matches!(
        (decision.verdict, &decision.reason),
        (
            Verdict::Untouched,
            Some(Reason::LeftToKubernetes | Reason::OptedOut)
        )
    );
    is_left
        && distribution == Some(TrafficDistribution::SameZone)
        && slice.has_hints_foreign_to_kubernetes()
}

fn is_hinted(endpoint: &EndpointRecord) -> bool {
    !endpoint.hints.zones().is_empty()
}

impl Look {
    /// Whether anything asks for hints.
    #[must_use]
    pub fn asks(&self) -> bool {
        let mut states = self.states.iter();
        states.any(|state| state.decision.asked.is_some())
    }

    /// Whether that can't be told for now.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        let mut states = self.states.iter();
        states.any(|state| state.decision.verdict == Verdict::Kept)
    }

    /// Whether nothing does, and nothing else is said of hints either.
    #[must_use]
    pub fn asks_for_nothing(&self) -> bool {
        let is_silent = |state: &State| state.decision.reason == Some(Reason::NotOptedIn);
        self.states.iter().all(is_silent)
    }

    fn note(
        &mut self,
        address_type: AddressType,
        decision: Decision,
        is_carried_out: bool,
        has_hints: bool,
    ) {
        let known = self
            .states
            .iter_mut()
            .find(|state| state.address_type == address_type);
        let hinted = decision.hinted();
        match known {
            None => self.states.push(State {
                address_type,
                decision,
                hinted,
                is_carried_out,
                has_hints,
            }),
            Some(state) => {
                state.is_carried_out &= is_carried_out;
                state.hinted += hinted;
                if state.decision.verdict == Verdict::Hints {
                    state.decision = decision;
                }
            }
        }
    }
}
