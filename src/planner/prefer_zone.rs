//! Heuristic PreferZone: every endpoint for its own zone, a `PreferSameZone` of Kubernetes that is taken only where it
//! overloads none.

use super::allocation::most_short;
use super::auto::Origin;
use super::zone_set::ZoneSet;

/// The own zone of each endpoint, given where it stands and the one zone that it is hinted for now, if it is.
///
/// One that stands in no zone with weight keeps its hint; without, it goes where the fewest endpoints are for what the zone
/// weighs.
#[must_use]
pub fn hints(
    weights: &[u64],
    endpoints: impl IntoIterator<Item = (Origin, Option<u16>)>,
) -> Vec<ZoneSet> {
    let zone = |(origin, hint): (Origin, Option<u16>)| match origin {
        Origin::Zone(zone) => Some(zone),
        Origin::Homeless => hint,
    };
    let zones: Vec<Option<u16>> = endpoints.into_iter().map(zone).collect();
    let mut serving = vec![0_u32; weights.len()];
    for zone in zones.iter().flatten() {
        serving[usize::from(*zone)] += 1;
    }
    let mut neediest = || {
        let zone = most_short(weights, &serving);
        serving[zone] += 1;
        u16::try_from(zone).unwrap_or_default()
    };
    let hint = |zone: Option<u16>| ZoneSet::one(zone.unwrap_or_else(&mut neediest));
    zones.into_iter().map(hint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stands_in_no_zone_keeps_its_hint_or_serves_where_the_load_is_the_highest() {
        use Origin::{Homeless, Zone};
        let endpoints = [
            (Zone(0), Some(1)),
            (Homeless, None),
            (Homeless, Some(1)),
            (Zone(1), None),
            (Homeless, None),
        ];
        let planned = hints(&[3, 1], endpoints);
        assert_eq!(planned, [0, 0, 1, 1, 0].map(ZoneSet::one));
    }
}
