//! From endpoints with zones to endpoints with hints, and the numbers that judge a plan.

use super::allocation::{Needs, Threshold, minimum};
use super::auto::{self, Origin};
use super::reason::Shortfall;

/// For each endpoint the number of the zone that it serves, in the order in which the endpoints were given.
pub type Hints = Vec<u16>;

/// Heuristic Auto over ready endpoints that stand at `origins`.
///
/// Which endpoints of a zone are given away follows from their order: callers sort them by something that stays, so
/// that the same set always gives the same plan.
///
/// # Errors
/// [`Shortfall`] when the minima can't be had.
pub fn auto(weights: &[u64], threshold: Threshold, origins: &[Origin]) -> Result<Hints, Shortfall> {
    let endpoints = u32::try_from(origins.len()).unwrap_or(u32::MAX);
    let needs = Needs::new(weights, endpoints, threshold)?;
    let none_fixed = vec![0; weights.len()];
    Ok(around(&needs, origins, &none_fixed)
        .expect("minima that fit can be had when no hint is fixed"))
}

/// The same for endpoints at `origins` beside others whose hints can't be changed, `fixed` for each zone. `needs` must
/// be for all of them. Nothing where the fixed ones leave too little for a zone.
#[must_use]
pub fn around(needs: &Needs, origins: &[Origin], fixed: &[u32]) -> Option<Hints> {
    let mut own = vec![0u32; needs.zones()];
    let mut homeless = 0u32;
    for origin in origins {
        match origin {
            Origin::Zone(zone) => own[*zone] += 1,
            Origin::Homeless => homeless += 1,
        }
    }
    let flows = auto::allocate(needs, &own, homeless, fixed)?;
    Some(assign(&flows, origins, needs.zones()))
}

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

/// The guarantee: the first zone that `hinted` leaves below its minimum, if any.
#[must_use]
pub fn below_minimum(
    weights: &[u64],
    hinted: &[u32],
    threshold: Threshold,
) -> Option<BelowMinimum> {
    let total: u64 = weights.iter().sum();
    let endpoints: u32 = hinted.iter().sum();
    let zones = weights.iter().zip(hinted).enumerate();
    let mut needs = zones.map(|(zone, (&weight, &hinted))| BelowMinimum {
        zone,
        hinted,
        minimum: minimum(weight, total, endpoints, threshold),
    });
    needs.find(|zone| zone.hinted < zone.minimum)
}

/// Gives each endpoint its zone: those that stay come first in each zone, then those given to others by name.
fn assign(flows: &auto::Flows, origins: &[Origin], zones: usize) -> Hints {
    let queue = |origin: Origin| {
        let at_home = match origin {
            Origin::Zone(zone) => Some(zone),
            Origin::Homeless => None,
        };
        let others = (0..zones).filter(move |&to| Some(to) != at_home);
        at_home
            .into_iter()
            .chain(others)
            .flat_map(move |to| (0..flows.get(origin, to)).map(move |_| to))
    };
    let mut of_zone: Vec<_> = (0..zones).map(|zone| queue(Origin::Zone(zone))).collect();
    let mut of_homeless = queue(Origin::Homeless);
    let next = origins.iter().map(|origin| match origin {
        Origin::Zone(zone) => of_zone[*zone].next(),
        Origin::Homeless => of_homeless.next(),
    });
    next.map(|zone| to_hint(zone.expect("every endpoint is in exactly one flow")))
        .collect()
}

fn to_hint(zone: usize) -> u16 {
    u16::try_from(zone).expect("zones are counted in 16 bits")
}

/// How many endpoints are hinted for each zone.
#[must_use]
pub fn count(hints: impl IntoIterator<Item = u16>, zones: usize) -> Vec<u32> {
    let mut counts = vec![0; zones];
    for zone in hints {
        counts[usize::from(zone)] += 1;
    }
    counts
}

/// A fraction for people; 0 of nothing.
#[must_use]
#[expect(clippy::cast_precision_loss)]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_stay_come_first() {
        let zone = Origin::Zone;
        let origins = [
            zone(0),
            zone(0),
            zone(0),
            zone(0),
            zone(1),
            zone(1),
            zone(1),
            zone(1),
            zone(2),
        ];
        let hints = auto(&[1, 1, 1], Threshold::KUBERNETES, &origins).unwrap();
        assert_eq!(hints, [0, 0, 0, 2, 1, 1, 1, 2, 2]);
    }
}
