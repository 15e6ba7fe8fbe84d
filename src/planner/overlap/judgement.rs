//! What hints do to traffic, as kube-proxy follows them.

use super::super::allocation::Threshold;
use super::super::auto::Origin;
use super::super::counts::ratio;
use super::super::keep::Quality;
use super::super::zone_set::ZoneSet;
use super::ceiling::Ceiling;

/// What hints do to traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Whether every endpoint carries at most `1 + threshold`, exactly.
    pub meets: bool,
    /// How far the most loaded endpoint is above the average, as a fraction of it.
    pub worst_overload: f64,
    /// The part of the traffic that stays in its zone.
    pub in_zone: f64,
}

impl Judged {
    /// What plans are compared by.
    #[must_use]
    pub fn quality(&self) -> Quality {
        Quality {
            worst_overload: self.worst_overload,
            in_zone: self.in_zone,
        }
    }
}

/// Judges hints as kube-proxy would follow them: of each endpoint where it stands, and the zones that it is hinted for.
///
/// Every endpoint counts as hinted, one with an empty set for zones without counted capacity: where one has no hint at
/// all, kube-proxy follows none.
#[must_use]
pub fn judge(
    weights: &[u64],
    threshold: Threshold,
    endpoints: impl IntoIterator<Item = (Origin, ZoneSet), IntoIter: Clone>,
) -> Judged {
    let endpoints = endpoints.into_iter();
    let used = Used::of(weights, endpoints.clone());
    let ceiling = Ceiling::new(weights.iter().sum(), used.endpoints, threshold);
    let mut judged = Judged {
        meets: true,
        worst_overload: f64::NEG_INFINITY,
        in_zone: used.in_zone(weights),
    };
    let mut before = None;
    for (_, hints) in endpoints {
        // Neighbours are often hinted alike.
        if before.replace(hints) == Some(hints) {
            continue;
        }
        let zones = used.zones(weights, &hints);
        let parts = zones
            .clone()
            .map(|(weight, served_by)| ceiling.part(weight, served_by));
        let load = parts.sum();
        judged.worst_overload = judged.worst_overload.max(load - 1.0);
        judged.meets &= ceiling.allows(load, zones);
    }
    judged
}

/// By how many endpoints each zone is served.
struct Used {
    endpoints: u32,
    zones: Vec<ZoneUse>,
    /// What the zones weigh together that none names: kube-proxy there uses all.
    unnamed: u64,
}

#[derive(Clone, Copy, Default)]
struct ZoneUse {
    /// Endpoints that stand there.
    own: u32,
    named_by: u32,
    named_by_own: u32,
}

impl Used {
    fn of(weights: &[u64], endpoints: impl Iterator<Item = (Origin, ZoneSet)>) -> Self {
        let mut used = Self {
            endpoints: 0,
            zones: vec![ZoneUse::default(); weights.len()],
            unnamed: 0,
        };
        for (origin, hints) in endpoints {
            used.endpoints += 1;
            if let Origin::Zone(home) = origin {
                used.zones[usize::from(home)].own += 1;
            }
            for &zone in hints.zones() {
                let of_zone = &mut used.zones[usize::from(zone)];
                of_zone.named_by += 1;
                of_zone.named_by_own += u32::from(origin == Origin::Zone(zone));
            }
        }
        let zones = used.zones.iter().zip(weights);
        let unnamed = zones.filter(|(zone, _)| zone.named_by == 0);
        used.unnamed = unnamed.map(|(_, weight)| weight).sum();
        used
    }

    fn in_zone(&self, weights: &[u64]) -> f64 {
        let total = weights.iter().sum();
        let of_zone = |(zone, &weight): (&ZoneUse, &u64)| {
            let at_home = if zone.named_by == 0 {
                ratio(zone.own.into(), self.endpoints.into())
            } else {
                ratio(zone.named_by_own.into(), zone.named_by.into())
            };
            ratio(weight, total) * at_home
        };
        self.zones.iter().zip(weights).map(of_zone).sum()
    }

    /// What an endpoint with these hints serves: weights, and how many endpoints serve each.
    fn zones(&self, weights: &[u64], hints: &ZoneSet) -> impl Iterator<Item = (u64, u32)> + Clone {
        let named = hints.zones().iter().map(|&zone| usize::from(zone));
        let named = named.map(|zone| (weights[zone], self.zones[zone].named_by));
        named.chain(std::iter::once((self.unnamed, self.endpoints)))
    }
}
