//! What is wrong with hints that somebody else wrote.

use std::collections::HashSet;

use super::endpoint_set::EndpointSet;
use super::{Asked, Overloaded, Snapshot, hints, plan_rules, slices_of_set};
use crate::cluster::key::Key;
use crate::cluster::slice::{HintSet, SliceRecord};
use crate::settings::Settings;

/// What is wrong with the hints of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintFault {
    /// Some ready endpoints have a hint and others none, so that kube-proxy follows none at all.
    Partial {
        /// Ready endpoints without.
        bare: usize,
        /// Ready endpoints.
        ready: usize,
    },
    /// A hint names a zone in which no node counts.
    ZoneWithoutCapacity {
        /// The place of the endpoint in its slice.
        endpoint: usize,
        /// The place of the zone in its hint.
        hint: usize,
    },
    /// An endpoint that is not ready names a zone that no ready endpoint of the Service names.
    NotReadyAlone {
        /// The place of the endpoint in its slice.
        endpoint: usize,
        /// The place of the zone in its hint.
        hint: usize,
    },
    /// An endpoint carries too much.
    Overloaded(Overloaded),
}

/// Judges the hints of `slice`, which is as it will be stored, beside those that the other slices of its Service have, by
/// what is asked for. A slice without hints has none that could be wrong.
#[must_use]
pub fn judge(
    snapshot: &Snapshot<'_>,
    slice: &SliceRecord,
    asked: &Asked,
    settings: &Settings,
) -> Vec<HintFault> {
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.ready);
    let bare = ready.clone().filter(|e| e.hints == HintSet::Empty).count();
    let ready = ready.count();
    if slice.odd_field.is_some() {
        return Vec::new();
    }
    let not_ready = not_ready_alone(snapshot, slice, settings);
    if bare == ready {
        return not_ready.into_iter().collect();
    }
    let partial = (bare > 0).then_some(HintFault::Partial { bare, ready });
    if snapshot.capacity().capacity.obstacle().is_some() {
        return partial.or(not_ready).into_iter().collect();
    }
    let faults = [
        zone_without_capacity(snapshot, slice).or(not_ready),
        partial.or_else(|| overloaded(snapshot, slice, asked, settings).map(HintFault::Overloaded)),
    ];
    faults.into_iter().flatten().collect()
}

fn not_ready_alone(
    snapshot: &Snapshot<'_>,
    slice: &SliceRecord,
    settings: &Settings,
) -> Option<HintFault> {
    let state = snapshot.service()?;
    let endpoints = slices_of_set(state, slice, settings).into_iter();
    let ready = endpoints.flat_map(|slice| slice.endpoints.iter().filter(|e| e.ready));
    let named: HashSet<Key> = ready
        .flat_map(|e| e.hints.zones().iter().copied())
        .collect();
    let not_ready = slice.endpoints.iter().enumerate().filter(|(_, e)| !e.ready);
    let mut hints = not_ready.flat_map(|(endpoint, record)| {
        let zones = record.hints.zones().iter().enumerate();
        zones.map(move |(hint, zone)| (endpoint, hint, *zone))
    });
    let (endpoint, hint, _) = hints.find(|(_, _, zone)| !named.contains(zone))?;
    Some(HintFault::NotReadyAlone { endpoint, hint })
}

fn zone_without_capacity(snapshot: &Snapshot<'_>, slice: &SliceRecord) -> Option<HintFault> {
    let endpoints = slice.endpoints.iter().enumerate();
    let mut hints = endpoints.flat_map(|(endpoint, record)| {
        let zones = record.hints.zones().iter().enumerate();
        zones.map(move |(hint, zone)| (endpoint, hint, *zone))
    });
    let (endpoint, hint, _) =
        hints.find(|(_, _, zone)| snapshot.capacity().zone_number(*zone).is_none())?;
    Some(HintFault::ZoneWithoutCapacity { endpoint, hint })
}

fn overloaded(
    snapshot: &Snapshot<'_>,
    slice: &SliceRecord,
    asked: &Asked,
    settings: &Settings,
) -> Option<Overloaded> {
    let slices = slices_of_set(snapshot.service()?, slice, settings);
    let zones = asked.zones(snapshot.capacity());
    let has_weight = zones.weights.iter().any(|weight| *weight > 0);
    if !has_weight || slices.iter().any(|slice| slice.odd_field.is_some()) {
        return None;
    }
    let set = EndpointSet::gather(&slices, snapshot.capacity(), |record| {
        snapshot.stand(record)
    });
    hints::overloaded(&zones, &slices, &set, plan_rules(asked, settings)).ok()?
}
