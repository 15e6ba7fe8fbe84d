//! Which endpoint of the stored object each endpoint of the new one is.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::cluster::loose::WireText;
use crate::cluster::slice::{HintSet, SliceRecord};
use crate::cluster::wire::{Endpoint, EndpointSlice};

/// The endpoints of a stored slice, found by address and uid of what is behind them: another pod on the same address is
/// another endpoint.
pub struct StoredEndpoints<'a, T> {
    slice: Option<&'a EndpointSlice<T>>,
    /// Only needed where an endpoint has changed its place.
    by_identity: OnceCell<HashMap<(&'a str, &'a str), &'a Endpoint<T>>>,
}

impl<'a, T: WireText> StoredEndpoints<'a, T> {
    /// Those of `slice`; none for a slice that is new.
    pub fn of(slice: Option<&'a EndpointSlice<T>>) -> Self {
        Self {
            slice,
            by_identity: OnceCell::new(),
        }
    }

    /// The stored endpoint that `endpoint`, which is at `place` in its slice, was.
    pub fn before(&self, place: usize, endpoint: &Endpoint<T>) -> Option<&'a Endpoint<T>> {
        let stored = self.slice?.endpoints.items();
        let wanted = identity(endpoint)?;
        let at_place = stored.get(place).and_then(|stored| stored.get());
        if let Some(same) = at_place.filter(|stored| identity(stored) == Some(wanted)) {
            return Some(same);
        }
        let by_identity = self.by_identity.get_or_init(|| {
            let stored = stored.iter().rev().filter_map(|stored| stored.get());
            stored
                .filter_map(|stored| Some((identity(stored)?, stored)))
                .collect()
        });
        // The key borrows from the new object, whose lifetime must not leak into the map's.
        by_identity.get(&wanted).copied()
    }
}

fn identity<T: WireText>(endpoint: &Endpoint<T>) -> Option<(&str, &str)> {
    let target = endpoint.target_ref.get();
    let uid = target.and_then(|target| target.uid.text());
    Some((endpoint.address()?, uid.unwrap_or_default()))
}

/// Gives the records of `object` the hints that are stored. What is sent does not say which hints an endpoint has: the
/// EndpointSlice controller leaves them out.
pub fn take_stored_hints<T: WireText>(
    record: &mut SliceRecord,
    object: &EndpointSlice<T>,
    stored: &StoredEndpoints<'_, T>,
) {
    let sent = object.endpoints.items().iter().enumerate();
    for (record, (place, endpoint)) in record.endpoints.iter_mut().zip(sent) {
        let before = endpoint
            .get()
            .and_then(|endpoint| stored.before(place, endpoint));
        record.hints = before.map_or(HintSet::Empty, |before| HintSet::of(before.zone_hints()));
    }
}
