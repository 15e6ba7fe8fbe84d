//! The zones as plans for one Service see them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cluster::key::Key;
use crate::cluster::store::MeasuredCapacity;
use crate::planner::zone_weights::ZoneWeights;

/// Zones with counted capacity by their numbers, each with the weight that counts for one Service.
#[derive(Debug)]
pub struct Zones<'a> {
    capacity: &'a MeasuredCapacity,
    /// In zone order: capacity, or what a person says in its place; 0 for a zone that has no part of the traffic.
    pub weights: Cow<'a, [u64]>,
}

impl<'a> Zones<'a> {
    /// Those of a capacity, with other weights where there are any.
    #[must_use]
    pub fn of(capacity: &'a MeasuredCapacity, zone_weights: Option<&ZoneWeights>) -> Self {
        let weights = zone_weights.map_or(Cow::Borrowed(&*capacity.weights), |weights| {
            let zones = capacity.capacity.zones.iter();
            zones.map(|zone| weights.of(&zone.name)).collect()
        });
        Self { capacity, weights }
    }

    /// The number of a zone that has a part of the traffic.
    #[must_use]
    pub fn number(&self, zone: Key) -> Option<u16> {
        let number = self.capacity.zone_number(zone);
        number.filter(|zone| self.has_weight(*zone))
    }

    /// Whether a zone has a part of the traffic.
    #[must_use]
    pub fn has_weight(&self, zone: u16) -> bool {
        self.weights[usize::from(zone)] > 0
    }

    /// The first zone that has a part of the traffic.
    #[must_use]
    pub fn first_with_weight(&self) -> u16 {
        let first = self.weights.iter().position(|weight| *weight > 0);
        first.and_then(|zone| zone.try_into().ok()).unwrap_or(0)
    }

    /// The name of a zone.
    #[must_use]
    pub fn name(&self, zone: usize) -> Arc<str> {
        self.capacity.capacity.zones[zone].name.clone()
    }
}
