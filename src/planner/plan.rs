//! From endpoints with zones to endpoints with hints, and the numbers that judge a plan.
//!
//! There are two ways to a plan. One keeps the hints that endpoints have and changes as few as the guarantee asks for;
//! the other starts afresh with heuristic Auto. The first is taken unless the second is better by a margin: a plan
//! that follows every small change makes each kube-proxy follow it too.

use super::allocation::{Needs, Threshold};
use super::auto::{self, Origin};
use super::counts::count;
use super::keep::{KeepRules, Quality};
use super::reason::Shortfall;

/// For each endpoint the number of the zone that it serves, in the order in which the endpoints were given.
pub type Hints = Vec<u16>;

/// A ready endpoint that a plan gives a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it stands.
    pub origin: Origin,
    /// The zone that it is hinted for now.
    pub hint: Option<u16>,
}

/// Ready endpoints whose hints a plan can't change, in counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fixed {
    /// How many are hinted for each zone.
    pub hinted: Vec<u32>,
    /// How many of these stand in that zone.
    pub at_home: Vec<u32>,
    /// How many are hinted for a zone that has no counted capacity: they carry none of the traffic that counts.
    pub serving_no_zone: u32,
}

impl Fixed {
    /// None yet.
    #[must_use]
    pub fn none(zones: usize) -> Self {
        Self {
            hinted: vec![0; zones],
            at_home: vec![0; zones],
            serving_no_zone: 0,
        }
    }

    /// Counts one in, from `origin` and hinted for `zone`, or for one without capacity.
    pub fn add(&mut self, origin: Origin, zone: Option<u16>) {
        match zone {
            None => self.serving_no_zone += 1,
            Some(zone) => {
                self.hinted[usize::from(zone)] += 1;
                self.at_home[usize::from(zone)] += u32::from(origin == Origin::Zone(zone));
            }
        }
    }

    fn count(&self) -> u32 {
        self.hinted.iter().sum::<u32>() + self.serving_no_zone
    }
}

/// The endpoints of one plan.
///
/// Callers sort them by something that stays, such as addresses: which endpoints of a zone serve another follows from
/// their order, and the same set must always give the same plan.
#[derive(Debug)]
pub struct Planner<'a> {
    pub(super) needs: Needs,
    pub(super) free: &'a [Endpoint],
    /// How many of the free endpoints stand in each zone.
    own: Vec<u32>,
    pub(super) fixed: &'a Fixed,
    keep: KeepRules,
}

#[derive(Debug)]
enum Way {
    Kept(Hints),
    /// How many of the free endpoints serve each zone.
    Fresh(Vec<u32>),
}

impl<'a> Planner<'a> {
    /// Prepares to plan for `free` endpoints beside `fixed` ones.
    ///
    /// # Errors
    /// [`Shortfall`] when the minima can't be had whoever serves which zone.
    pub fn new(
        weights: &[u64],
        threshold: Threshold,
        keep: KeepRules,
        free: &'a [Endpoint],
        fixed: &'a Fixed,
    ) -> Result<Self, Shortfall> {
        let endpoints = to_count(free.len()).saturating_add(fixed.count());
        let needs = Needs::new(weights, endpoints, threshold)?;
        let mut own = vec![0; weights.len()];
        for endpoint in free {
            if let Origin::Zone(zone) = endpoint.origin {
                own[usize::from(zone)] += 1;
            }
        }
        Ok(Self {
            needs,
            free,
            own,
            fixed,
            keep,
        })
    }

    /// The plans that give every zone its minimum, the best first: one that keeps hints and one that starts afresh.
    /// None where the fixed endpoints leave too little for a zone, which can't be when there are none.
    pub fn plans(&self) -> impl Iterator<Item = Hints> + '_ {
        let fresh = self.fresh();
        let quality = fresh.as_ref().map(|counts| self.quality_of_fresh(counts));
        let most = quality.map_or(f64::INFINITY, |fresh| fresh.worst_overload);
        let kept = self.kept(most + self.keep.overload + ROUNDING);
        let fresh_first = match (&quality, &kept) {
            (Some(fresh), Some(kept)) => self.is_better(fresh, kept),
            _ => true,
        };
        let fresh = fresh.map(Way::Fresh);
        let kept = kept.map(Way::Kept);
        let ways = if fresh_first {
            [fresh, kept]
        } else {
            [kept, fresh]
        };
        ways.into_iter().flatten().map(|way| match way {
            Way::Kept(hints) => hints,
            Way::Fresh(counts) => self.assign(counts),
        })
    }

    fn zones(&self) -> usize {
        self.needs.zones()
    }

    fn fresh(&self) -> Option<Vec<u32>> {
        let homeless = to_count(self.free.len()) - self.own.iter().sum::<u32>();
        auto::allocate(&self.needs, &self.own, homeless, &self.fixed.hinted)
    }

    /// Gives the zones `counts` of the free endpoints: as many as can be stay at home, and of the others as many as can
    /// be keep their hint.
    fn assign(&self, counts: Vec<u32>) -> Hints {
        let mut room = counts;
        let mut staying = vec![0; self.zones()];
        let mut leaving = vec![0; self.zones()];
        for (zone, &own) in self.own.iter().enumerate() {
            staying[zone] = own.min(room[zone]);
            leaving[zone] = own - staying[zone];
            room[zone] -= staying[zone];
        }
        let mut hints: Vec<Option<u16>> = vec![None; self.free.len()];
        for (endpoint, given) in self.free.iter().zip(&mut hints) {
            *given = endpoint.hint.filter(|&hint| match endpoint.origin {
                Origin::Zone(home) if home == hint => take(&mut staying[usize::from(home)]),
                Origin::Zone(home) => {
                    leaving[usize::from(home)] > 0
                        && take(&mut room[usize::from(hint)])
                        && take(&mut leaving[usize::from(home)])
                }
                Origin::Homeless => take(&mut room[usize::from(hint)]),
            });
        }
        let mut next = 0;
        let mut anywhere = || {
            while !take(&mut room[next]) {
                next += 1;
            }
            to_zone(next)
        };
        let given = self.free.iter().zip(hints);
        given
            .map(|(endpoint, given)| match (given, endpoint.origin) {
                (Some(zone), _) => zone,
                (None, Origin::Zone(home)) if take(&mut staying[usize::from(home)]) => home,
                (None, _) => anywhere(),
            })
            .collect()
    }

    fn quality_of_fresh(&self, counts: &[u32]) -> Quality {
        let home = self.own.iter().zip(counts);
        self.quality(counts, home.map(|(own, count)| *own.min(count)))
    }

    /// Whether a fresh plan of that quality is better than `kept` by the margin.
    fn is_better(&self, fresh: &Quality, kept: &[u16]) -> bool {
        let mut home = vec![0; self.zones()];
        for (endpoint, &zone) in self.free.iter().zip(kept) {
            home[usize::from(zone)] += u32::from(endpoint.origin == Origin::Zone(zone));
        }
        let counts = count(kept.iter().copied(), self.zones());
        let kept = self.quality(&counts, home.into_iter());
        self.keep.give_way(&kept, fresh)
    }

    /// What plans do to traffic when they give the zones `counts` of the free endpoints, `at_home` of which stand there.
    fn quality(&self, counts: &[u32], at_home: impl Iterator<Item = u32>) -> Quality {
        let (mut most_loaded, mut in_zone) = (0.0_f64, 0.0);
        for (zone, (&free, free_at_home)) in counts.iter().zip(at_home).enumerate() {
            let hinted = free + self.fixed.hinted[zone];
            if hinted == 0 {
                continue;
            }
            let share = self.needs.share(zone);
            most_loaded = most_loaded.max(share / f64::from(hinted));
            let at_home = free_at_home + self.fixed.at_home[zone];
            in_zone += share * f64::from(at_home) / f64::from(hinted);
        }
        Quality {
            worst_overload: most_loaded * f64::from(self.needs.endpoints()) - 1.0,
            in_zone,
        }
    }
}

/// Heuristic Auto for endpoints at `origins`, none of which has a hint yet.
///
/// # Errors
/// [`Shortfall`] when the minima can't be had.
pub fn auto(weights: &[u64], threshold: Threshold, origins: &[Origin]) -> Result<Hints, Shortfall> {
    let bare = |&origin: &Origin| Endpoint { origin, hint: None };
    let free: Vec<Endpoint> = origins.iter().map(bare).collect();
    let none_fixed = Fixed::none(weights.len());
    let planner = Planner::new(weights, threshold, KeepRules::default(), &free, &none_fixed)?;
    let plan = planner.plans().next();
    Ok(plan.expect("minima that fit can be had when no hint is fixed"))
}

/// Sums of fractions that are equal may differ by so much.
pub(super) const ROUNDING: f64 = 1e-9;

/// Takes one, if there is one.
fn take(count: &mut u32) -> bool {
    let there = *count > 0;
    *count -= u32::from(there);
    there
}

fn to_count(endpoints: usize) -> u32 {
    u32::try_from(endpoints).unwrap_or(u32::MAX)
}

pub(super) fn to_zone(zone: usize) -> u16 {
    u16::try_from(zone).expect("zones are counted in 16 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOMELESS: u16 = u16::MAX;

    /// Endpoints of the zones `origins`, hinted for `hints`.
    fn endpoints(origins: &[u16], hints: &[Option<u16>]) -> Vec<Endpoint> {
        let endpoint = |(&origin, &hint): (&u16, &Option<u16>)| Endpoint {
            origin: if origin == HOMELESS {
                Origin::Homeless
            } else {
                Origin::Zone(origin)
            },
            hint,
        };
        origins.iter().zip(hints).map(endpoint).collect()
    }

    fn best(
        weights: &[u64],
        origins: &[u16],
        hints: &[Option<u16>],
        fixed: &Fixed,
    ) -> Option<Hints> {
        let free = endpoints(origins, hints);
        let keep = KeepRules::default();
        let planner = Planner::new(weights, Threshold::KUBERNETES, keep, &free, fixed).unwrap();
        planner.plans().next()
    }

    fn planned(weights: &[u64], origins: &[u16], hints: &[Option<u16>]) -> Hints {
        best(weights, origins, hints, &Fixed::none(weights.len())).unwrap()
    }

    #[test]
    fn without_hints_endpoints_that_stay_come_first() {
        let hints = planned(&[1, 1, 1], &[0, 0, 0, 0, 1, 1, 1, 1, 2], &[None; 9]);
        assert_eq!(hints, [0, 0, 0, 2, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn hints_that_meet_the_guarantee_stay() {
        let now = [
            Some(0),
            Some(2),
            Some(0),
            Some(0),
            Some(1),
            Some(1),
            Some(2),
            Some(1),
            Some(2),
        ];
        let hints = planned(&[1, 1, 1], &[0, 0, 0, 0, 1, 1, 1, 1, 2], &now);
        assert_eq!(hints.into_iter().map(Some).collect::<Vec<_>>(), now);
    }

    #[test]
    fn a_new_endpoint_serves_its_own_zone_unless_another_is_below_its_minimum() {
        let now = |third| [Some(0), Some(0), third, Some(1), Some(1), Some(1), None];
        let even = now(Some(0));
        assert_eq!(
            planned(&[1, 1], &[0, 0, 0, 1, 1, 1, 1], &even),
            [0, 0, 0, 1, 1, 1, 1]
        );
        let short = now(Some(1));
        assert_eq!(
            planned(&[1, 1], &[0, 0, 1, 1, 1, 1, 1], &short),
            [0, 0, 1, 1, 1, 1, 0]
        );
    }

    #[test]
    fn endpoints_come_home_when_that_keeps_much_traffic_in_its_zone() {
        let now = [Some(0), Some(1), Some(1), Some(0)];
        assert_eq!(planned(&[1, 1], &[0, 0, 1, 1], &now), [0, 0, 1, 1]);
    }

    #[test]
    fn a_zone_below_its_minimum_gets_back_its_own_before_others() {
        // The second zone serves the first with one of its own and needs it back.
        let now = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(0), None];
        assert_eq!(
            planned(&[1, 1], &[0, 0, 0, 1, 1, 1, 0], &now),
            [0, 0, 0, 1, 1, 1, 0]
        );
    }

    #[test]
    fn endpoints_without_a_zone_of_capacity_keep_their_hint() {
        let origins = [0, 0, 0, HOMELESS, 1, 1];
        let now = |homeless| [Some(0), Some(0), Some(0), homeless, Some(1), Some(1)];
        assert_eq!(
            planned(&[1, 1], &origins, &now(Some(1))),
            [0, 0, 0, 1, 1, 1]
        );
        assert_eq!(planned(&[1, 1], &origins, &now(None)), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn nothing_fits_beside_hints_that_leave_a_zone_too_little() {
        let mut fixed = Fixed::none(2);
        for _ in 0..3 {
            fixed.add(Origin::Zone(1), Some(1));
        }
        assert_eq!(best(&[1, 1], &[0], &[None], &fixed), None);
        fixed.serving_no_zone = 1;
        assert_eq!(best(&[1, 1], &[0, 0], &[None; 2], &fixed), None);
        assert_eq!(best(&[1, 1], &[0; 3], &[None; 3], &fixed), Some(vec![0; 3]));
    }
}
