//! What is decided for a whole Service, as far as one decision can tell.

use super::ports;
use super::{Decision, Snapshot, decide, is_ignored};
use crate::cluster::key::Key;
use crate::cluster::slice::{AddressType, Manager, SliceRecord};
use crate::settings::Settings;

/// The decision on all endpoints of one address type.
#[derive(Debug)]
pub struct Whole {
    /// As if one slice had them all.
    pub decision: Decision,
    /// How many are ready.
    pub ready: usize,
}

/// Decides on the endpoints of a Service (`namespace/name`), once for each address type, as if one slice had them all; on
/// none where it has none. Nothing for an address type whose slices have different ports: what holds behind each can't be told
/// by one decision.
#[must_use]
pub fn decide_whole(snapshot: &Snapshot<'_>, service: &str, settings: &Settings) -> Vec<Whole> {
    let slices = snapshot.service().map(|state| state.slices.iter());
    let slices = slices.into_iter().flatten().map(|slice| &**slice);
    let counting = slices.filter(|slice| !slice.ports.is_empty() || slice.odd_field.is_some());
    let counting = counting.filter(|slice| !is_ignored(slice, settings));
    let counting: Vec<&SliceRecord> = counting.collect();
    let bare = snapshot.with_slices(Vec::new());
    let decide_on = |slice: &SliceRecord| Whole {
        decision: decide(&bare, Some(service), slice, settings),
        ready: slice.endpoints.iter().filter(|e| e.ready).count(),
    };
    if counting.is_empty() {
        return vec![decide_on(&joined(AddressType::Ipv4, &[]))];
    }
    let types = [AddressType::Ipv4, AddressType::Ipv6];
    let of_type = |address_type: AddressType| -> Option<Whole> {
        let slices = counting.iter().copied();
        let slices: Vec<_> = slices.filter(|s| s.address_type == address_type).collect();
        let one_will_do = !slices.is_empty() && ports::are_even(&slices);
        one_will_do.then(|| decide_on(&joined(address_type, &slices)))
    };
    types.into_iter().filter_map(of_type).collect()
}

/// One slice with the endpoints of all, which have the same ports.
pub(super) fn joined(address_type: AddressType, slices: &[&SliceRecord]) -> SliceRecord {
    let first = slices.first();
    SliceRecord {
        name: "".into(),
        address_type,
        ports: first.map(|slice| slice.ports.clone()).unwrap_or_default(),
        port_numbers: first
            .map(|slice| slice.port_numbers.clone())
            .unwrap_or_default(),
        endpoints: slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().cloned())
            .collect(),
        labels: Box::default(),
        version: Key::of(""),
        manager: Manager::default(),
        has_node_hints: false,
        odd_field: slices.iter().find_map(|slice| slice.odd_field),
    }
}
