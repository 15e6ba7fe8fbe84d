//! Plans that keep the hints which endpoints have, and change as few as the guarantee asks for.

use super::allocation::Needs;
use super::auto::Origin;
use super::plan::{Endpoint, Hints, Planner, to_zone};

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

impl Planner<'_> {
    /// A plan that keeps hints: a new endpoint serves its own zone, and then zones below their minimum get what they
    /// miss with as few changes as can be. Nothing where no endpoint has a hint.
    pub(super) fn kept(&self) -> Option<Hints> {
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

/// What moving an endpoint does, the best first. One that comes home stays there, which in the long run costs fewer changes
/// than a new one that is sent abroad.
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
