//! What would help a Service that gets no hints, each found by planning it.

use super::allocation::{Threshold, least_threshold, most_short};
use super::auto::Origin;
use super::heuristic::Heuristic;
use super::keep::{KeepRules, Quality};
use super::overlap::{self, Endpoint};
use super::plan;
use super::prefer_zone;
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

/// The same where a plan of heuristic Overlap is searched for each.
const MOST_MORE_SHARED: u32 = 20;

impl Patient<'_> {
    /// What would help, the smallest change of each kind that was found; nothing where it is well by itself, and others keep it from hints.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        if self.has_plan() {
            return Vec::new();
        }
        let overlap = (self.heuristic != Heuristic::Overlap).then(|| self.overlap());
        let remedies = [self.more_endpoints(), self.threshold(), overlap.flatten()];
        remedies.into_iter().flatten().collect()
    }

    /// Whether there is a plan, from hints on none.
    fn has_plan(&self) -> bool {
        match self.heuristic {
            Heuristic::Auto => plan::auto(self.weights, self.threshold, self.origins).is_ok(),
            Heuristic::Overlap => self.shared().is_some(),
            Heuristic::PreferZone => self.own_zones().meets,
        }
    }

    fn overlap(&self) -> Option<Remedy> {
        let Quality {
            worst_overload,
            in_zone,
        } = self.shared()?;
        Some(Remedy::Overlap {
            in_zone,
            worst_overload,
        })
    }

    /// What heuristic Overlap comes to: the better of its own plan and Auto's, where that gains anything.
    fn shared(&self) -> Option<Quality> {
        let auto = plan::auto(self.weights, self.threshold, self.origins).ok();
        let auto = auto.and_then(|hints| {
            let hints = hints.into_iter().map(ZoneSet::one);
            let endpoints = self.origins.iter().copied().zip(hints);
            overlap::gains(self.weights, self.threshold, endpoints.clone())
                .then(|| overlap::judge(self.weights, self.threshold, endpoints).quality())
        });
        if self.origins.len() > overlap::MOST_ENDPOINTS {
            return auto;
        }
        let endpoint = |&origin: &Origin| Endpoint {
            origin,
            hints: ZoneSet::EMPTY,
            fixed: false,
            slice: 0,
        };
        let endpoints: Vec<Endpoint> = self.origins.iter().map(endpoint).collect();
        let keep = KeepRules::default();
        let plan = overlap::plan(self.weights, self.threshold, keep, &endpoints).ok();
        let plan = plan.map(|plan| Quality {
            worst_overload: plan.worst_overload,
            in_zone: plan.in_zone,
        });
        let is_better = |plan: &Quality| {
            auto.is_none_or(|auto| plan.in_zone > auto.in_zone + overlap::ROUNDING)
        };
        plan.filter(is_better).or(auto)
    }

    /// What every endpoint's own zone comes to.
    fn own_zones(&self) -> overlap::Judged {
        let origins = self.origins.iter().copied();
        let hints = prefer_zone::hints(self.weights, origins.clone().map(|origin| (origin, None)));
        overlap::judge(self.weights, self.threshold, origins.zip(hints))
    }

    /// More endpoints that do, as few as were found: one in any zone, or several, each in the zone that has the fewest for
    /// its share, of all zones or of those that have some.
    fn more_endpoints(&self) -> Option<Remedy> {
        let mut own = vec![0_u32; self.weights.len()];
        for origin in self.origins {
            if let Origin::Zone(zone) = origin {
                own[usize::from(*zone)] += 1;
            }
        }
        if let Some(one) = self.one_more(&own) {
            return Some(Remedy::Endpoints(one));
        }
        let most = match self.heuristic {
            Heuristic::Overlap => MOST_MORE_SHARED,
            Heuristic::Auto | Heuristic::PreferZone => MOST_MORE,
        };
        let anywhere = self.several_more(self.weights, &own, most);
        let found = anywhere.as_ref().map(|more| more.iter().sum::<u32>());
        let fewer = found.map_or(most, |found| found - 1);
        // A zone without any is served by all, which the first that comes there ends.
        let inhabited = self.weights.iter().zip(&own);
        let inhabited: Vec<u64> = inhabited
            .map(|(&weight, &own)| if own > 0 { weight } else { 0 })
            .collect();
        let there = self.several_more(&inhabited, &own, fewer);
        there.or(anywhere).map(Remedy::Endpoints)
    }

    /// The zone in which one more is enough, the first of those that have the fewest for their share.
    fn one_more(&self, own: &[u32]) -> Option<Vec<u32>> {
        let mut weights = self.weights.to_vec();
        while weights.iter().any(|weight| *weight > 0) {
            let zone = most_short(&weights, own);
            weights[zone] = 0;
            let mut more = vec![0; own.len()];
            more[zone] = 1;
            if self.has_plan_with(&more) {
                return Some(more);
            }
        }
        None
    }

    /// The fewest, at most so many, where each comes to the zone that then has the fewest for its weight.
    fn several_more(&self, weights: &[u64], own: &[u32], most: u32) -> Option<Vec<u32>> {
        if weights.iter().all(|weight| *weight == 0) {
            return None;
        }
        let (mut own, mut more) = (own.to_vec(), vec![0; own.len()]);
        (0..most).find_map(|_| {
            let zone = most_short(weights, &own);
            own[zone] += 1;
            more[zone] += 1;
            self.has_plan_with(&more).then(|| more.clone())
        })
    }

    /// Whether there is a plan with so many more endpoints in each zone.
    fn has_plan_with(&self, more: &[u32]) -> bool {
        let mut origins = self.origins.to_vec();
        for (zone, &count) in (0..).map(Origin::Zone).zip(more) {
            origins.extend(std::iter::repeat_n(zone, count as usize));
        }
        let grown = Patient {
            origins: &origins,
            ..*self
        };
        grown.has_plan()
    }

    /// The least threshold that does.
    fn threshold(&self) -> Option<Remedy> {
        let endpoints = u32::try_from(self.origins.len()).ok()?;
        let threshold = match self.heuristic {
            Heuristic::Auto => least_threshold(self.weights, endpoints)?,
            Heuristic::Overlap => return self.percents(),
            Heuristic::PreferZone => return self.own_zones_threshold(),
        };
        let is_more = threshold > self.threshold && threshold <= Threshold::HIGHEST;
        (is_more && self.at(threshold).has_plan()).then_some(Remedy::Threshold(threshold))
    }

    /// The least threshold that own zones meet, whatever rounding there is in what they come to.
    fn own_zones_threshold(&self) -> Option<Remedy> {
        let overload = self.own_zones().worst_overload;
        let near = [overload - overlap::ROUNDING, overload + overlap::ROUNDING];
        let mut near = near.into_iter().filter_map(Threshold::at_least);
        let found = near.find(|&threshold| self.at(threshold).has_plan());
        found.map(Remedy::Threshold)
    }

    /// The same with another threshold.
    fn at(&self, threshold: Threshold) -> Self {
        Self { threshold, ..*self }
    }

    /// The least threshold of whole percents that does, for a heuristic of which nothing but a plan tells it. What there is
    /// a plan for at one threshold, there is at every higher one.
    fn percents(&self) -> Option<Remedy> {
        const PERCENT: u32 = 10_000;
        let with = |percents: u32| self.at(Threshold::from_millionths(percents * PERCENT));
        let mut too_low = self.threshold.millionths() / PERCENT;
        let mut enough = Threshold::HIGHEST.millionths() / PERCENT;
        if !with(enough).has_plan() {
            return None;
        }
        while enough - too_low > 1 {
            let between = too_low.midpoint(enough);
            if with(between).has_plan() {
                enough = between;
            } else {
                too_low = between;
            }
        }
        Some(Remedy::Threshold(with(enough).threshold))
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
    fn endpoints_in_no_zone_that_counts_can_be_helped_too() {
        let origins = [
            Origin::Zone(0),
            Origin::Zone(1),
            Origin::Zone(1),
            Origin::Zone(1),
            Origin::Homeless,
        ];
        for heuristic in Heuristic::ALL {
            let patient = Patient {
                heuristic,
                weights: &[5, 2],
                threshold: Threshold::from_millionths(1000),
                origins: &origins,
            };
            assert!(!patient.has_plan(), "{heuristic:?} is ill");
            let remedies = patient.remedies();
            assert!(
                matches!(remedies[0], Remedy::Endpoints(_)),
                "{heuristic:?}: {remedies:?}"
            );
            assert!(
                matches!(remedies[1], Remedy::Threshold(_)),
                "{heuristic:?}: {remedies:?}"
            );
        }
    }

    #[test]
    fn the_threshold_that_overlap_needs_is_lower_than_that_of_auto() {
        let origins: Vec<Origin> = [0, 0, 0, 0, 1].map(Origin::Zone).to_vec();
        let patient = Patient {
            heuristic: Heuristic::Overlap,
            weights: &[5, 3, 1],
            threshold: Threshold::from_millionths(1),
            origins: &origins,
        };
        assert!(!patient.has_plan(), "it is ill");
        let remedies = patient.remedies();
        let found = remedies.iter().find_map(|remedy| match remedy {
            Remedy::Threshold(threshold) => Some(*threshold),
            _ => None,
        });
        let found = found.expect("there is one");
        assert!(found < least_threshold(&[5, 3, 1], 5).expect("Auto has one"));
        let below = Threshold::from_millionths(found.millionths() - 10_000);
        assert!(patient.at(found).has_plan() && !patient.at(below).has_plan());
    }

    #[test]
    fn who_is_well_alone_is_told_nothing() {
        let origins = [0, 1, 2].map(Origin::Zone);
        for heuristic in Heuristic::ALL {
            let patient = Patient {
                heuristic,
                weights: &[1, 1, 1],
                threshold: Threshold::KUBERNETES,
                origins: &origins,
            };
            assert_eq!(patient.remedies(), []);
        }
    }

    #[test]
    fn prefer_zone_is_told_the_least_that_does() {
        // A third in zone b, alone there, would carry more than what all together carry for it now.
        let few = remedies(Heuristic::PreferZone, &[0, 2, 2]);
        assert_eq!(few[0], Remedy::Endpoints(vec![1, 0, 0]));
        // 6 / 5 of the average exactly, but for rounding.
        let origins = [0, 0, 0, 0, 0, 1].map(Origin::Zone);
        let patient = Patient {
            heuristic: Heuristic::PreferZone,
            weights: &[4, 1],
            threshold: Threshold::from_millionths(0),
            origins: &origins,
        };
        let fifth = Remedy::Threshold(Threshold::KUBERNETES);
        assert_eq!(patient.remedies()[1], fifth);
    }

    #[test]
    fn one_endpoint_is_helped_by_more_alone() {
        let remedies = remedies(Heuristic::Overlap, &[0]);
        assert_eq!(remedies, [Remedy::Endpoints(vec![0, 1, 0])]);
    }
}
