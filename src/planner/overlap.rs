//! Heuristic Overlap: hints that name several zones, for Services that are too small for Auto.
//!
//! An endpoint's hint may name several zones, and kube-proxy in a zone spreads its traffic evenly over all endpoints that
//! name the zone, or over all there are where none does. So an endpoint can serve its own zone and carry a part of
//! another's. With `N` ready endpoints, a zone with the share `s` of the traffic that `n` endpoints serve gives each of
//! them `s · N / n`, where 1 is the average. A plan keeps what every endpoint carries at most at `1 + threshold`, to the
//! last digit, and keeps as much traffic in its zone as it can.
//!
//! | file | step |
//! |---|---|
//! | `crowd` | endpoints in groups among which it makes no difference which is which |
//! | `ceiling` | whether an endpoint may carry what it would, exactly |
//! | `choice` | by how many endpoints, own and foreign, a zone could be served |
//! | `search` | which of these choices keeps the most traffic in its zone |
//! | `packing` | which endpoints serve which zones, once that is chosen |
//! | `assignment` | from groups to single endpoints, with few changes |

mod assignment;
mod ceiling;
mod choice;
mod crowd;
mod packing;
mod search;

use super::allocation::Threshold;
use super::auto::Origin;
use super::keep::KeepRules;
use super::zone_set::ZoneSet;
use ceiling::Ceiling;
use crowd::{Crowd, Group, HOMELESS, MOST, Names};
use search::{ROUNDING, search};

/// A ready endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it stands.
    pub origin: Origin,
    /// What it is hinted for now; a free endpoint that is hinted for nothing is new.
    pub hints: ZoneSet,
    /// Whether its hints can't be changed, because they stand in another slice. It counts as hinted even where `hints`
    /// is empty: for zones that have no counted capacity.
    pub fixed: bool,
    /// The slice that it stands in.
    pub slice: u32,
}

/// Hints that keep every endpoint under the ceiling and more traffic in its zone than no hints do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The zones that each endpoint is to be hinted for, in the order in which the endpoints were given.
    pub hints: Vec<ZoneSet>,
    /// How far the most loaded endpoint is above the average, as a fraction of it.
    pub worst_overload: f64,
    /// The part of the traffic that stays in its zone.
    pub in_zone: f64,
    /// How many steps the search took.
    pub expansions: u32,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// More zones have weight than one hint can name.
    TooManyZones {
        /// How many have weight.
        zones: usize,
    },
    /// No plan keeps more traffic in its zone than no hints do.
    NoBetterThanNone,
    /// Whatever the free endpoints do, some endpoint is above the ceiling beside those that are fixed.
    NoPlan,
    /// The search ended early, before it found a plan that is better than no hints.
    SearchEnded,
}

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

/// Plans hints for `endpoints` in zones of these weights.
///
/// Hints that meet the threshold stay, and new endpoints are planned around them, unless a fresh plan is better by
/// `keep`. The plan depends on nothing else, and planning what was planned changes nothing.
///
/// # Errors
/// A [`Refusal`] where there is no plan that is better than no hints.
pub fn plan(
    weights: &[u64],
    threshold: Threshold,
    keep: KeepRules,
    endpoints: &[Endpoint],
) -> Result<Plan, Refusal> {
    Planner::new(weights, threshold, endpoints)?.plan(keep)
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
    // 1. How many endpoints serve each zone, and how many of those stand there.
    let mut served_by = vec![0_u32; weights.len()];
    let mut by_own = vec![0_u32; weights.len()];
    let mut own = vec![0_u32; weights.len()];
    let mut count = 0_u32;
    for (origin, hints) in endpoints.clone() {
        count += 1;
        if let Origin::Zone(home) = origin {
            own[usize::from(home)] += 1;
        }
        for &zone in hints.zones() {
            served_by[usize::from(zone)] += 1;
            by_own[usize::from(zone)] += u32::from(origin == Origin::Zone(zone));
        }
    }
    // 2. A zone that none names is served by all.
    let total: u64 = weights.iter().sum();
    let ceiling = Ceiling::new(total, count, threshold);
    let (mut unnamed, mut in_zone) = (0, 0.0);
    for (zone, &weight) in weights.iter().enumerate() {
        let (home, serving) = if served_by[zone] == 0 {
            unnamed += weight;
            (own[zone], count)
        } else {
            (by_own[zone], served_by[zone])
        };
        in_zone += ratio(weight, total) * ratio(home.into(), serving.into());
    }
    // 3. What each endpoint carries.
    let mut judged = Judged {
        meets: true,
        worst_overload: f64::NEG_INFINITY,
        in_zone,
    };
    let mut judged_before = None;
    for (_, hints) in endpoints {
        if judged_before.replace(hints) == Some(hints) {
            continue;
        }
        let named = hints.zones().iter().map(|&zone| usize::from(zone));
        let named = named.map(|zone| (weights[zone], served_by[zone]));
        let served = named.chain(std::iter::once((unnamed, count)));
        let load = served
            .clone()
            .map(|(weight, by)| ceiling.part(weight, by))
            .sum();
        judged.worst_overload = judged.worst_overload.max(load - 1.0);
        judged.meets &= ceiling.allows(load, served);
    }
    judged
}

struct Planner<'a> {
    all_weights: &'a [u64],
    /// The numbers of the zones that have weight.
    counted: Vec<u16>,
    weights: Vec<u64>,
    threshold: Threshold,
    endpoints: &'a [Endpoint],
    /// What each endpoint is hinted for, without zones that have no weight.
    hints: Vec<ZoneSet>,
}

/// A plan, and what it does.
struct Judgement {
    hints: Vec<ZoneSet>,
    judged: Judged,
}

impl<'a> Planner<'a> {
    fn new(
        weights: &'a [u64],
        threshold: Threshold,
        endpoints: &'a [Endpoint],
    ) -> Result<Self, Refusal> {
        let counted: Vec<u16> = (0..)
            .zip(weights)
            .filter(|(_, weight)| **weight > 0)
            .map(|(zone, _)| zone)
            .collect();
        if counted.len() > MOST {
            return Err(Refusal::TooManyZones {
                zones: counted.len(),
            });
        }
        if counted.is_empty() || endpoints.is_empty() {
            return Err(Refusal::NoBetterThanNone);
        }
        let only_counted = |endpoint: &Endpoint| {
            let mut hints = ZoneSet::EMPTY;
            for &zone in endpoint.hints.zones() {
                if counted.contains(&zone) {
                    hints.insert(zone);
                }
            }
            hints
        };
        Ok(Self {
            hints: endpoints.iter().map(only_counted).collect(),
            weights: counted
                .iter()
                .map(|&zone| weights[usize::from(zone)])
                .collect(),
            counted,
            all_weights: weights,
            threshold,
            endpoints,
        })
    }

    fn plan(&self, keep: KeepRules) -> Result<Plan, Refusal> {
        // 1. Afresh: what could be had, whatever the free endpoints are hinted for now.
        let crowd = self.crowd(|_, endpoint| endpoint.fixed);
        let found = search(&crowd, crowd.in_zone_without_hints());
        let mut expansions = found.expansions;
        let fresh = found
            .groups
            .as_ref()
            .map(|groups| self.judgement(self.assign(groups)));
        // 2. As it is: what stays of that, with new endpoints beside it.
        let kept = self.kept(&mut expansions).filter(|kept| {
            kept.judged.meets && kept.judged.in_zone > crowd.in_zone_without_hints() + ROUNDING
        });
        // 3. The second, unless the first is better by the margin.
        let best = match (kept, fresh) {
            (Some(kept), Some(fresh)) if is_better(&fresh.judged, &kept.judged, keep) => fresh,
            (Some(kept), _) => kept,
            (None, Some(fresh)) => fresh,
            (None, None) if found.ended_early => return Err(Refusal::SearchEnded),
            (None, None) => return Err(Self::refusal(&crowd)),
        };
        debug_assert!(best.judged.meets, "a plan meets the threshold");
        Ok(Plan {
            hints: best.hints,
            worst_overload: best.judged.worst_overload,
            in_zone: best.judged.in_zone,
            expansions,
        })
    }

    /// Why there is none, where the search says so.
    fn refusal(crowd: &Crowd) -> Refusal {
        // Without fixed endpoints there always is the plan that says nothing: all name all.
        let any = crowd.fixed.is_empty() || search(crowd, -1.0).groups.is_some();
        if any {
            Refusal::NoBetterThanNone
        } else {
            Refusal::NoPlan
        }
    }

    /// Hints as they are, with new endpoints planned around them; nothing where none has hints, or new ones find no place.
    fn kept(&self, expansions: &mut u32) -> Option<Judgement> {
        let is_hinted = |place: usize| !self.hints[place].is_empty();
        let is_new = |place: usize| !is_hinted(place) && !self.endpoints[place].fixed;
        let places = 0..self.endpoints.len();
        let mut free = places.clone().filter(|&place| !self.endpoints[place].fixed);
        if !free.any(is_hinted) {
            return None;
        }
        if !places.clone().any(is_new) {
            return Some(self.judgement(self.hints.clone()));
        }
        let crowd = self.crowd(|place, _| !is_new(place));
        let found = search(&crowd, crowd.in_zone_without_hints());
        *expansions += found.expansions;
        let groups = found.groups?;
        Some(self.judgement(self.assign_where(&groups, is_new)))
    }

    fn judgement(&self, hints: Vec<ZoneSet>) -> Judgement {
        let origins = self.endpoints.iter().map(|endpoint| endpoint.origin);
        let judged = judge(
            self.all_weights,
            self.threshold,
            origins.zip(hints.iter().copied()),
        );
        // Fixed hints stay as they are, with zones that have no weight.
        let hints = self.endpoints.iter().zip(hints);
        let hints = hints.map(|(endpoint, planned)| {
            if endpoint.fixed {
                endpoint.hints
            } else {
                planned
            }
        });
        Judgement {
            hints: hints.collect(),
            judged,
        }
    }

    /// All endpoints in groups, fixed where `is_fixed` says so.
    fn crowd(&self, is_fixed: impl Fn(usize, &Endpoint) -> bool) -> Crowd {
        let mut free = [0; MOST + 1];
        let mut fixed: Vec<Group> = Vec::new();
        for (place, endpoint) in self.endpoints.iter().enumerate() {
            let home = self.home(endpoint.origin);
            if is_fixed(place, endpoint) {
                fixed.push(Group {
                    home,
                    names: self.names(self.hints[place]),
                    count: 1,
                });
            } else {
                free[home] += 1;
            }
        }
        Crowd::new(&self.weights, self.threshold, free, crowd::merge(fixed))
    }

    fn home(&self, origin: Origin) -> usize {
        let zone = match origin {
            Origin::Zone(zone) => self.counted.binary_search(&zone).ok(),
            Origin::Homeless => None,
        };
        zone.unwrap_or(HOMELESS)
    }

    fn names(&self, hints: ZoneSet) -> Names {
        let places = hints
            .zones()
            .iter()
            .flat_map(|zone| self.counted.binary_search(zone));
        places.map(Names::one).fold(Names::NONE, Names::with)
    }

    fn zone_set(&self, names: Names) -> ZoneSet {
        let mut set = ZoneSet::EMPTY;
        for place in names.zones() {
            set.insert(self.counted[place]);
        }
        set
    }

    fn assign(&self, groups: &[Group]) -> Vec<ZoneSet> {
        self.assign_where(groups, |place| !self.endpoints[place].fixed)
    }

    /// Gives the endpoints that are free the hints of `groups`; the others keep theirs.
    fn assign_where(&self, groups: &[Group], is_free: impl Fn(usize) -> bool) -> Vec<ZoneSet> {
        let seats = self.endpoints.iter().zip(&self.hints).enumerate();
        let seats = seats.map(|(place, (endpoint, &hints))| assignment::Seat {
            home: self.home(endpoint.origin),
            names: self.names(hints),
            slice: endpoint.slice,
            free: is_free(place),
        });
        let assigned = assignment::assign(groups, &seats.collect::<Vec<_>>());
        assigned
            .into_iter()
            .map(|names| self.zone_set(names))
            .collect()
    }
}

/// Whether a fresh plan is better than one that keeps hints by the margin.
fn is_better(fresh: &Judged, kept: &Judged, keep: KeepRules) -> bool {
    kept.worst_overload - fresh.worst_overload > keep.overload + ROUNDING
        || fresh.in_zone - kept.in_zone > keep.in_zone + ROUNDING
}

fn ratio(part: u64, whole: u64) -> f64 {
    super::counts::ratio(part, whole)
}
