//! A look at one Service: what a fresh decision on each of its slices gives, and which slices differ from that.

use crate::cluster::slice::{AddressType, SliceRecord};
use crate::cluster::store::Cluster;
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::settings::Settings;

/// What a look at a Service shows.
#[derive(Debug, Default)]
pub struct Look {
    /// Slices that have other hints than a fresh decision gives, by name.
    pub drifted: Vec<DriftedSlice>,
    /// What was decided for each address type that it has slices of.
    pub states: Vec<State>,
}

/// A slice whose hints differ from a fresh decision.
#[derive(Debug, PartialEq, Eq)]
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
    /// The decision on the first slice that is not to be hinted; where all are, that on the first.
    pub decision: Decision,
    /// Endpoints that are to be hinted, in all slices.
    pub hinted: usize,
    /// Whether all slices are as decided.
    pub is_carried_out: bool,
}

/// Looks at the Service `service` (`namespace/name`).
#[must_use]
pub fn look(cluster: &Cluster, settings: &Settings, service: &str) -> Look {
    let snapshot = Snapshot::take(cluster, Some(service));
    let mut look = Look::default();
    let Some(state) = snapshot.service().cloned() else {
        return look;
    };
    let is_bare = |slice: &SliceRecord| slice.endpoints.iter().all(|e| e.hints.zones().is_empty());
    for slice in state.slices.iter() {
        let decision = decide(&snapshot, Some(service), slice, settings);
        let is_carried_out = decision.is_carried_out(slice);
        if !is_carried_out {
            let mut of_type = state.slices.iter();
            look.drifted.push(DriftedSlice {
                name: slice.name.clone(),
                was_bypassed: decision.verdict == Verdict::Hints
                    && of_type.all(|s| s.address_type != slice.address_type || is_bare(s)),
            });
        }
        look.note(slice.address_type, decision, is_carried_out);
    }
    look
}

/// Whether one slice still differs from a fresh decision.
#[must_use]
pub fn is_drifted(cluster: &Cluster, settings: &Settings, service: &str, slice: &str) -> bool {
    let snapshot = Snapshot::take(cluster, Some(service));
    let Some(state) = snapshot.service().cloned() else {
        return false;
    };
    let record = state.slices.iter().find(|record| *record.name == *slice);
    record.is_some_and(|record| {
        !decide(&snapshot, Some(service), record, settings).is_carried_out(record)
    })
}

impl Look {
    fn note(&mut self, address_type: AddressType, decision: Decision, is_carried_out: bool) {
        let known = self
            .states
            .iter_mut()
            .find(|state| state.address_type == address_type);
        let hinted = decision.hints.iter().flatten().count();
        match known {
            None => self.states.push(State {
                address_type,
                decision,
                hinted,
                is_carried_out,
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
