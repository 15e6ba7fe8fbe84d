//! The guarantee: every zone is served by at least its minimum of endpoints, so that none is loaded above the ceiling.

use super::allocation::{Threshold, minimum};

/// A zone with fewer hints than it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BelowMinimum {
    /// The zone's number.
    pub zone: usize,
    /// Endpoints hinted for it.
    pub hinted: u32,
    /// How many it needs.
    pub minimum: u32,
}

/// The guarantee: of the zones that `hinted` of `endpoints` endpoints serve, the first that is below its minimum.
#[must_use]
pub fn below_minimum(
    weights: &[u64],
    hinted: &[u32],
    endpoints: u32,
    threshold: Threshold,
) -> Option<BelowMinimum> {
    let total: u64 = weights.iter().sum();
    let zones = weights.iter().zip(hinted).enumerate();
    let mut needs = zones.map(|(zone, (&weight, &hinted))| BelowMinimum {
        zone,
        hinted,
        minimum: minimum(weight, total, endpoints, threshold),
    });
    needs.find(|zone| zone.hinted < zone.minimum)
}
