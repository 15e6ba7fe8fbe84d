//! A fresh plan, plans that keep hints, and which of them is taken.

use std::collections::BTreeSet;

use super::super::allocation::Threshold;
use super::super::auto::Origin;
use super::super::keep::KeepRules;
use super::super::zone_set::ZoneSet;
use super::assignment::{self, Seat};
use super::crowd::{self, Crowd, Group, HOMELESS, MOST, Names};
use super::judgement::{Judged, judge};
use super::search::search;
use super::{Endpoint, Plan, ROUNDING, Refusal};

/// The most expansions of the search for a fresh plan. It has its own, so that a fresh plan does not depend on the hints
/// that there are.
const MOST_FRESH: u32 = 15_000;

/// The most expansions of all other searches.
const MOST_OTHER: u32 = 5_000;

/// The endpoints of one Service in zones that have weight.
pub(super) struct Planner<'a> {
    all_weights: &'a [u64],
    /// The numbers of the zones that have weight.
    counted: Vec<u16>,
    /// What these weigh.
    weights: Vec<u64>,
    threshold: Threshold,
    endpoints: &'a [Endpoint],
    /// What each endpoint is hinted for, without zones that have no weight.
    hints: Vec<ZoneSet>,
}

/// Hints for all endpoints that meet the threshold, and what they do.
struct Hinted {
    hints: Vec<ZoneSet>,
    judged: Judged,
}

/// What a plan that keeps hints must come to, so that a fresh one is not better by the margin.
struct Bounds {
    /// It keeps more than this part of the traffic in its zone.
    in_zone: f64,
    /// Its worst overload is at most this.
    overload: f64,
}

impl Bounds {
    fn new(in_zone_without_hints: f64, fresh: Option<&Judged>, keep: KeepRules) -> Self {
        let by_fresh = fresh.map(|fresh| Self {
            in_zone: fresh.in_zone - keep.in_zone - 2.0 * ROUNDING,
            overload: fresh.worst_overload + keep.overload + ROUNDING,
        });
        let bounds = by_fresh.unwrap_or(Self {
            in_zone: 0.0,
            overload: f64::INFINITY,
        });
        Self {
            in_zone: bounds.in_zone.max(in_zone_without_hints),
            ..bounds
        }
    }

    fn hold_for(&self, judged: &Judged) -> bool {
        judged.in_zone > self.in_zone + ROUNDING && judged.worst_overload <= self.overload
    }
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        weights: &'a [u64],
        threshold: Threshold,
        endpoints: &'a [Endpoint],
    ) -> Result<Self, Refusal> {
        let numbered = (0..).zip(weights).filter(|(_, weight)| **weight > 0);
        let (counted, weights_of_counted): (Vec<u16>, Vec<u64>) = numbered.unzip();
        if counted.len() > MOST {
            return Err(Refusal::TooManyZones {
                zones: counted.len(),
            });
        }
        if counted.is_empty() || endpoints.is_empty() {
            return Err(Refusal::NoBetterThanNone);
        }
        let only_counted = |endpoint: &Endpoint| -> ZoneSet {
            let zones = endpoint.hints.zones().iter();
            zones
                .copied()
                .filter(|zone| counted.contains(zone))
                .collect()
        };
        Ok(Self {
            hints: endpoints.iter().map(only_counted).collect(),
            all_weights: weights,
            counted,
            weights: weights_of_counted,
            threshold,
            endpoints,
        })
    }

    pub(super) fn plan(&self, keep: KeepRules) -> Result<Plan, Refusal> {
        // 1. What could be had, whatever the free endpoints are hinted for now.
        let crowd = self.crowd(|place| self.is_free(place));
        let without_hints = crowd.in_zone_without_hints();
        let found = search(&crowd, without_hints, MOST_FRESH);
        let fresh = found
            .groups
            .and_then(|groups| self.hinted(self.assign(&groups, |place| self.is_free(place))));
        // 2. What keeps the hints that there are, if nothing fresh is better by the margin.
        let judged = fresh.as_ref().map(|fresh| &fresh.judged);
        let bounds = Bounds::new(without_hints, judged, keep);
        let mut expansions_left = MOST_OTHER;
        let kept = self.kept(&bounds, &mut expansions_left);
        match kept.or(fresh) {
            Some(best) => Ok(Plan {
                hints: self.with_fixed(best.hints),
                worst_overload: best.judged.worst_overload,
                in_zone: best.judged.in_zone,
                expansions: found.expansions + MOST_OTHER - expansions_left,
            }),
            None if found.ended_early => Err(Refusal::SearchEnded),
            None => Err(refusal(&crowd, expansions_left)),
        }
    }

    /// Keeps all hints that free endpoints have, or all but one, with new endpoints planned around them; nothing where
    /// none has hints, or no such plan is within the bounds, or was found in so many expansions.
    fn kept(&self, bounds: &Bounds, expansions_left: &mut u32) -> Option<Hinted> {
        let is_new = |place: usize| self.is_free(place) && self.hints[place].is_empty();
        let mut hinted = (0..self.endpoints.len())
            .filter(|&place| self.is_free(place) && !self.hints[place].is_empty())
            .peekable();
        hinted.peek()?;
        // Each counts, so that their number is bounded too.
        let mut without = |one: Option<usize>| {
            *expansions_left = expansions_left.checked_sub(1)?;
            let may_change = |place| is_new(place) || Some(place) == one;
            self.around(may_change, bounds, expansions_left)
        };
        // 1. All of them.
        let all = without(None);
        if all.is_some() {
            return all;
        }
        // 2. All but one: of those that are alike, the first.
        let mut seen = BTreeSet::new();
        let different =
            hinted.filter(|&place| seen.insert((self.endpoints[place].origin, self.hints[place])));
        let plans = different.filter_map(|place| without(Some(place)));
        plans.reduce(|best, next| {
            let is_better = next.judged.in_zone > best.judged.in_zone + ROUNDING;
            if is_better { next } else { best }
        })
    }

    /// Plans the endpoints that may change around all others.
    fn around(
        &self,
        may_change: impl Fn(usize) -> bool,
        bounds: &Bounds,
        expansions_left: &mut u32,
    ) -> Option<Hinted> {
        let crowd = self.crowd(&may_change);
        let hints = if crowd.free() == 0 {
            self.hints.clone()
        } else {
            let found = search(&crowd, bounds.in_zone, *expansions_left);
            *expansions_left -= found.expansions;
            self.assign(&found.groups?, may_change)
        };
        self.hinted(hints)
            .filter(|hinted| bounds.hold_for(&hinted.judged))
    }

    fn is_free(&self, place: usize) -> bool {
        !self.endpoints[place].fixed
    }

    /// The judge has the last word on whether hints meet the threshold.
    fn hinted(&self, hints: Vec<ZoneSet>) -> Option<Hinted> {
        let origins = self.endpoints.iter().map(|endpoint| endpoint.origin);
        let endpoints = origins.zip(hints.iter().copied());
        let judged = judge(self.all_weights, self.threshold, endpoints);
        judged.meets.then_some(Hinted { hints, judged })
    }

    /// Fixed endpoints as they are, with zones that have no weight.
    fn with_fixed(&self, hints: Vec<ZoneSet>) -> Vec<ZoneSet> {
        let planned = self.endpoints.iter().zip(hints);
        planned
            .map(|(endpoint, planned)| {
                if endpoint.fixed {
                    endpoint.hints
                } else {
                    planned
                }
            })
            .collect()
    }

    /// All endpoints in groups, those that may change as free ones.
    fn crowd(&self, may_change: impl Fn(usize) -> bool) -> Crowd {
        let mut free = [0; MOST + 1];
        let mut fixed = Vec::new();
        for (place, endpoint) in self.endpoints.iter().enumerate() {
            let home = self.home(endpoint.origin);
            if may_change(place) {
                free[home] += 1;
            } else {
                fixed.push(Group {
                    home,
                    names: self.names(self.hints[place]),
                    count: 1,
                });
            }
        }
        Crowd::new(&self.weights, self.threshold, free, crowd::merge(fixed))
    }

    /// Gives the endpoints that may change the hints of `groups`; the others keep theirs.
    fn assign(&self, groups: &[Group], may_change: impl Fn(usize) -> bool) -> Vec<ZoneSet> {
        let seats = self.endpoints.iter().zip(&self.hints).enumerate();
        let seats = seats.map(|(place, (endpoint, &hints))| Seat {
            home: self.home(endpoint.origin),
            names: self.names(hints),
            slice: endpoint.slice,
            free: may_change(place),
        });
        let assigned = assignment::assign(groups, &seats.collect::<Vec<_>>());
        let numbers = |names: Names| names.zones().map(|place| self.counted[place]).collect();
        assigned.into_iter().map(numbers).collect()
    }

    fn home(&self, origin: Origin) -> usize {
        let zone = match origin {
            Origin::Zone(zone) => self.counted.binary_search(&zone).ok(),
            Origin::Homeless => None,
        };
        zone.unwrap_or(HOMELESS)
    }

    fn names(&self, hints: ZoneSet) -> Names {
        let zones = hints.zones().iter();
        Names::all(zones.flat_map(|zone| self.counted.binary_search(zone)))
    }
}

/// Why there is no plan, where the search has seen them all.
fn refusal(crowd: &Crowd, expansions_left: u32) -> Refusal {
    // Without fixed endpoints there always is the plan that says nothing: all name all.
    if crowd.fixed.is_empty() || search(crowd, -1.0, expansions_left).groups.is_some() {
        Refusal::NoBetterThanNone
    } else {
        Refusal::NoPlan
    }
}
