//! What would help a Service that gets no hints, each found by planning it.

use super::allocation::{Threshold, least_threshold, most_short};
use super::auto::Origin;
use super::heuristic::Heuristic;
use super::keep::KeepRules;
use super::overlap::{self, Endpoint};
use super::plan;
use super::zone_set::ZoneSet;

/// Something that would give the Service hints.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// More ready endpoints: how many in each zone.
    Endpoints(Vec<u32>),
    /// Another threshold.
    Threshold(Threshold),
    /// Heuristic Overlap.
    Overlap {
        /// The part of the traffic that would stay in its zone.
        in_zone: f64,
        /// How far above the average the busiest endpoint would be.
        worst_overload: f64,
    },
}

/// A Service without hints: how its hints are planned, and where its ready endpoints stand.
#[derive(Debug, Clone, Copy)]
pub struct Patient<'a> {
    /// How its hints are planned.
    pub heuristic: Heuristic,
    /// The weights of the zones.
    pub weights: &'a [u64],
    /// The overload threshold.
    pub threshold: Threshold,
    /// Where the endpoints stand.
    pub origins: &'a [Origin],
}

/// How many more endpoints are tried.
const MOST_MORE: u32 = 100;

impl Patient<'_> {
    /// What would help, the smallest change of each kind.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        let overlap = (self.heuristic != Heuristic::Overlap).then(|| self.overlap());
        let remedies = [self.more_endpoints(), self.threshold(), overlap.flatten()];
        remedies.into_iter().flatten().collect()
    }

    /// Whether there is a plan, from hints on none.
    fn has_plan(&self) -> bool {
        let has_auto = || plan::auto(self.weights, self.threshold, self.origins).is_ok();
        match self.heuristic {
            Heuristic::Auto => has_auto(),
            Heuristic::Overlap => self.overlap().is_some() || has_auto(),
            Heuristic::PreferZone => self.own_zones().is_some_and(|judged| judged.meets),
        }
    }

    fn overlap(&self) -> Option<Remedy> {
        let endpoint = |&origin: &Origin| Endpoint {
            origin,
            hints: ZoneSet::EMPTY,
            fixed: false,
            slice: 0,
        };
        let endpoints: Vec<Endpoint> = self.origins.iter().map(endpoint).collect();
        let keep = KeepRules::default();
        let plan = overlap::plan(self.weights, self.threshold, keep, &endpoints).ok()?;
        Some(Remedy::Overlap {
            in_zone: plan.in_zone,
            worst_overload: plan.worst_overload,
        })
    }

    /// What every endpoint's own zone comes to; nothing where one is in none.
    fn own_zones(&self) -> Option<overlap::Judged> {
        let own = |&origin: &Origin| match origin {
            Origin::Zone(zone) => Some((origin, ZoneSet::one(zone))),
            Origin::Homeless => None,
        };
        let own: Vec<_> = self.origins.iter().map(own).collect::<Option<_>>()?;
        Some(overlap::judge(self.weights, self.threshold, own))
    }

    /// The fewest more endpoints that do, each in the zone that has the fewest for its share.
    fn more_endpoints(&self) -> Option<Remedy> {
        let mut origins = self.origins.to_vec();
        let mut own = vec![0_u32; self.weights.len()];
        for origin in &origins {
            if let Origin::Zone(zone) = origin {
                own[usize::from(*zone)] += 1;
            }
        }
        let mut more = vec![0_u32; self.weights.len()];
        for _ in 0..MOST_MORE {
            let zone = most_short(self.weights, &own);
            own[zone] += 1;
            more[zone] += 1;
            origins.push(Origin::Zone(u16::try_from(zone).ok()?));
            let grown = Patient {
                origins: &origins,
                ..*self
            };
            if grown.has_plan() {
                return Some(Remedy::Endpoints(more));
            }
        }
        None
    }

    /// The least threshold that does.
    fn threshold(&self) -> Option<Remedy> {
        let endpoints = u32::try_from(self.origins.len()).ok()?;
        let threshold = match self.heuristic {
            Heuristic::Auto | Heuristic::Overlap => least_threshold(self.weights, endpoints)?,
            Heuristic::PreferZone => Threshold::at_least(self.own_zones()?.worst_overload)?,
        };
        let is_more = threshold > self.threshold && threshold <= Threshold::HIGHEST;
        let patient = Patient { threshold, ..*self };
        (is_more && patient.has_plan()).then_some(Remedy::Threshold(threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedies(heuristic: Heuristic, own: &[u16]) -> Vec<Remedy> {
        let origins: Vec<Origin> = own.iter().copied().map(Origin::Zone).collect();
        let patient = Patient {
            heuristic,
            weights: &[1, 1, 1],
            threshold: Threshold::KUBERNETES,
            origins: &origins,
        };
        assert!(!patient.has_plan(), "it is ill");
        patient.remedies()
    }

    #[test]
    fn four_endpoints_over_three_zones_need_two_more_or_a_third_or_overlap() {
        let remedies = remedies(Heuristic::Auto, &[0, 0, 1, 2]);
        assert_eq!(remedies[0], Remedy::Endpoints(vec![0, 1, 1]));
        assert_eq!(
            remedies[1],
            Remedy::Threshold(Threshold::from_millionths(333_334))
        );
        let Remedy::Overlap { in_zone, .. } = remedies[2] else {
            panic!("{remedies:?}");
        };
        assert!(in_zone > 0.61, "{in_zone}");
    }

    #[test]
    fn prefer_zone_needs_endpoints_where_there_are_few() {
        let remedies = remedies(Heuristic::PreferZone, &[0, 0, 0, 0, 1, 1, 1, 2]);
        let Remedy::Endpoints(more) = &remedies[0] else {
            panic!("{remedies:?}");
        };
        assert_eq!((more[0], more[1]), (0, 0));
        assert!(matches!(remedies[1], Remedy::Threshold(_)));
        assert!(matches!(remedies[2], Remedy::Overlap { .. }));
    }

    #[test]
    fn one_endpoint_is_helped_by_more_alone() {
        let remedies = remedies(Heuristic::Overlap, &[0]);
        assert_eq!(remedies, [Remedy::Endpoints(vec![0, 1, 0])]);
    }
}
