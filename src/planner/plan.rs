//! From endpoints with zones to endpoints with hints, and the numbers that judge a plan.
//!
//! There are two ways to a plan. One keeps the hints that endpoints have and changes as few as the guarantee asks for;
//! the other starts afresh with heuristic Auto. The first is taken unless the second is better by a margin: a plan
//! that follows every small change makes each kube-proxy follow it too.

use super::allocation::{Needs, Threshold, minimum};
use super::auto::{self, Origin};
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
    pub lost: u32,
}

impl Fixed {
    /// None yet.
    #[must_use]
    pub fn none(zones: usize) -> Self {
        Self {
            hinted: vec![0; zones],
            at_home: vec![0; zones],
            lost: 0,
        }
    }

    /// Counts one in, from `origin` and hinted for `zone`, or for one without capacity.
    pub fn add(&mut self, origin: Origin, zone: Option<u16>) {
        match zone {
            None => self.lost += 1,
            Some(zone) => {
                self.hinted[usize::from(zone)] += 1;
                self.at_home[usize::from(zone)] += u32::from(origin == Origin::Zone(zone));
            }
        }
    }

    fn count(&self) -> u32 {
        self.hinted.iter().sum::<u32>() + self.lost
    }
}

/// How much better a fresh plan must be than one that keeps what it can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepRules {
    /// By how much it must lower the worst overload, as a fraction of the average load.
    pub overload: f64,
    /// By how much it must raise the part of the traffic that stays in its zone.
    pub in_zone: f64,
}

impl Default for KeepRules {
    fn default() -> Self {
        Self {
            overload: 0.10,
            in_zone: 0.05,
        }
    }
}

/// What a plan does to traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quality {
    /// How far the most loaded endpoint is above the average, as a fraction of it.
    worst_overload: f64,
    /// The part of the traffic that stays in its zone.
    in_zone: f64,
}

/// The endpoints of one plan.
///
/// Callers sort them by something that stays, such as addresses: which endpoints of a zone serve another follows from
/// their order, and the same set must always give the same plan.
#[derive(Debug)]
pub struct Planner<'a> {
    needs: Needs,
    free: &'a [Endpoint],
    /// How many of the free endpoints stand in each zone.
    own: Vec<u32>,
    fixed: &'a Fixed,
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
        let kept = self.kept();
        let fresh_first = match (&fresh, &kept) {
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

    /// A plan that keeps hints: a new endpoint serves its own zone, and then zones below their minimum get what they
    /// miss with as few changes as can be. Nothing where no endpoint has a hint.
    fn kept(&self) -> Option<Hints> {
        if self.free.iter().all(|endpoint| endpoint.hint.is_none()) {
            return None;
        }
        let mut hinted = self.fixed.hinted.clone();
        let mut unplaced = Vec::new();
        let mut hints = Vec::with_capacity(self.free.len());
        for (place, endpoint) in self.free.iter().enumerate() {
            let zone = match (endpoint.hint, endpoint.origin) {
                (Some(zone), _) | (None, Origin::Zone(zone)) => zone,
                (None, Origin::Homeless) => {
                    unplaced.push(place);
                    0
                }
            };
            hints.push(zone);
            hinted[usize::from(zone)] += 1;
        }
        for place in unplaced {
            hinted[usize::from(hints[place])] -= 1;
            let zone = self.needs.furthest_below(&hinted);
            hinted[zone] += 1;
            hints[place] = to_zone(zone);
        }
        self.mend(&mut hints, &mut hinted).then_some(hints)
    }

    /// Gives zones below their minimum what they miss; whether that can be done.
    fn mend(&self, hints: &mut [u16], hinted: &mut [u32]) -> bool {
        let mut movable = None;
        while let Some(receiver) = self.needs.furthest_below_minimum(hinted) {
            let movable = movable.get_or_insert_with(|| Movable::new(self.free, hints));
            let Some(place) = movable.take_for(to_zone(receiver), &self.needs, hinted) else {
                return false;
            };
            hinted[usize::from(hints[place])] -= 1;
            hinted[receiver] += 1;
            hints[place] = to_zone(receiver);
        }
        true
    }

    /// Whether the fresh plan with `counts` is better than `kept` by the margin.
    fn is_better(&self, counts: &[u32], kept: &[u16]) -> bool {
        let home = self.own.iter().zip(counts);
        let fresh = self.quality(counts, home.map(|(own, count)| *own.min(count)));
        let mut home = vec![0; self.zones()];
        for (endpoint, &zone) in self.free.iter().zip(kept) {
            home[usize::from(zone)] += u32::from(endpoint.origin == Origin::Zone(zone));
        }
        let counts = count(kept.iter().copied(), self.zones());
        let kept = self.quality(&counts, home.into_iter());
        kept.worst_overload - fresh.worst_overload > self.keep.overload + ROUNDING
            || fresh.in_zone - kept.in_zone > self.keep.in_zone + ROUNDING
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
const ROUNDING: f64 = 1e-9;

/// Takes one, if there is one.
fn take(count: &mut u32) -> bool {
    let there = *count > 0;
    *count -= u32::from(there);
    there
}

/// Endpoints that could serve another zone, in groups among which it makes no difference which.
struct Movable {
    groups: Vec<Group>,
}

struct Group {
    serves: u16,
    origin: Origin,
    is_new: bool,
    /// Their places, the first at the end.
    places: Vec<usize>,
}

/// What moving an endpoint does, the best first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Move {
    BringsHome,
    ChangesNothingStored,
    FromAbroad,
    FromHome,
}

impl Movable {
    fn new(free: &[Endpoint], hints: &[u16]) -> Self {
        let key = |place: usize| (hints[place], free[place].origin, free[place].hint.is_none());
        let mut places: Vec<usize> = (0..free.len()).rev().collect();
        places.sort_by_key(|&place| key(place));
        let group = |places: &[usize]| {
            let (serves, origin, is_new) = key(places[0]);
            Group {
                serves,
                origin,
                is_new,
                places: places.to_vec(),
            }
        };
        Self {
            groups: places
                .chunk_by(|&a, &b| key(a) == key(b))
                .map(group)
                .collect(),
        }
    }

    /// Takes the endpoint that can best serve `receiver`, from a zone above its minimum.
    fn take_for(&mut self, receiver: u16, needs: &Needs, hinted: &[u32]) -> Option<usize> {
        let able = self.groups.iter_mut().filter(|group| {
            let giver = usize::from(group.serves);
            hinted[giver] > needs.minimum()[giver] && !group.places.is_empty()
        });
        let best = able.min_by_key(|group| {
            let giver = usize::from(group.serves);
            (
                group.moving_to(receiver),
                -needs.surplus(giver, hinted[giver]),
            )
        });
        best?.places.pop()
    }
}

impl Group {
    fn moving_to(&self, receiver: u16) -> Move {
        if self.origin == Origin::Zone(receiver) {
            Move::BringsHome
        } else if self.is_new {
            Move::ChangesNothingStored
        } else if self.origin == Origin::Zone(self.serves) {
            Move::FromHome
        } else {
            Move::FromAbroad
        }
    }
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

fn to_count(endpoints: usize) -> u32 {
    u32::try_from(endpoints).unwrap_or(u32::MAX)
}

fn to_zone(zone: usize) -> u16 {
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
        fixed.lost = 1;
        assert_eq!(best(&[1, 1], &[0, 0], &[None; 2], &fixed), None);
        assert_eq!(best(&[1, 1], &[0; 3], &[None; 3], &fixed), Some(vec![0; 3]));
    }
}
