//! Plans that keep the hints which endpoints have, and change as few as the guarantee asks for.

use super::allocation::{self, Needs};
use super::auto::Origin;
use super::plan::{Endpoint, Hints, Planner, ROUNDING, to_zone};

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

/// What hints do to traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// How far the most loaded endpoint is above the average, as a fraction of it.
    pub worst_overload: f64,
    /// The part of the traffic that stays in its zone.
    pub in_zone: f64,
}

impl KeepRules {
    /// Whether hints that are kept give way to fresh ones.
    #[must_use]
    pub fn give_way(&self, kept: &Quality, fresh: &Quality) -> bool {
        kept.worst_overload - fresh.worst_overload > self.overload + ROUNDING
            || fresh.in_zone - kept.in_zone > self.in_zone + ROUNDING
    }
}

impl Planner<'_> {
    /// A plan that keeps hints: a new endpoint serves its own zone, then zones below their minimum get what they miss, and
    /// those that are overloaded by more than `most` are eased, with as few changes as can be. Nothing where no endpoint
    /// has a hint.
    pub(super) fn kept(&self, most: f64) -> Option<Hints> {
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
        let mut mending = Mending {
            needs: &self.needs,
            free: self.free,
            hints,
            hinted,
            movable: None,
        };
        if !mending.give_minima() {
            return None;
        }
        mending.ease(most);
        Some(mending.hints)
    }
}

/// Hints that are being changed, one at a time.
struct Mending<'a> {
    needs: &'a Needs,
    free: &'a [Endpoint],
    hints: Hints,
    /// All hints by zone.
    hinted: Vec<u32>,
    movable: Option<Movable>,
}

impl Mending<'_> {
    /// Gives zones below their minimum what they miss; whether that can be done.
    fn give_minima(&mut self) -> bool {
        while let Some(receiver) = self.needs.furthest_below_minimum(&self.hinted) {
            if !self.shift_to(receiver, f64::INFINITY) {
                return false;
            }
        }
        true
    }

    /// Gives to the busiest zone while that is overloaded by more than `most`, as long as it helps.
    fn ease(&mut self, most: f64) {
        let average = 1.0 / f64::from(self.needs.endpoints());
        loop {
            let busiest = (0..self.needs.zones()).map(|zone| (zone, self.load(zone, 0)));
            let Some((receiver, load)) = allocation::most(busiest) else {
                return;
            };
            if load <= (1.0 + most) * average || !self.shift_to(receiver, load) {
                return;
            }
        }
    }

    /// What each endpoint that serves a zone carries once that has given `given` of them, as a fraction of all traffic.
    fn load(&self, zone: usize, given: u32) -> f64 {
        self.needs.share(zone) / f64::from(self.hinted[zone] - given)
    }

    /// Moves one hint to `receiver` from a zone that stays above its minimum and below `load`; whether there is any.
    fn shift_to(&mut self, receiver: usize, load: f64) -> bool {
        let mut movable = self
            .movable
            .take()
            .unwrap_or_else(|| Movable::new(self.free, &self.hints));
        let can_give = |zone: usize| {
            zone != receiver
                && self.hinted[zone] > self.needs.minimum()[zone]
                && self.load(zone, 1) < load
        };
        let surplus = |zone: usize| self.needs.surplus(zone, self.hinted[zone]);
        let place = movable.take_for(to_zone(receiver), can_give, surplus);
        self.movable = Some(movable);
        let Some(place) = place else { return false };
        self.hinted[usize::from(self.hints[place])] -= 1;
        self.hinted[receiver] += 1;
        self.hints[place] = to_zone(receiver);
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

    /// Takes the endpoint that can best serve `receiver`, from a zone that can give.
    fn take_for(
        &mut self,
        receiver: u16,
        can_give: impl Fn(usize) -> bool,
        surplus: impl Fn(usize) -> i128,
    ) -> Option<usize> {
        let able = self
            .groups
            .iter_mut()
            .filter(|group| !group.places.is_empty() && can_give(usize::from(group.serves)));
        let best = able.min_by_key(|group| {
            let surplus = surplus(usize::from(group.serves));
            (group.moving_to(receiver), -surplus)
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
