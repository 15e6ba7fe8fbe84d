//! Which endpoints serve which zones, once it is chosen by how many each zone is served.
//!
//! Endpoints are bins that hold as much as the ceiling allows, and what a zone gives to each of those that serve it is an
//! item: a packing of bins in which each item of a zone lies in another bin. Zones are placed one after another, those
//! with the largest items first, each in the least loaded endpoints; where that leads nowhere, others are tried.

use std::ops::Range;

use super::ROUNDING;
use super::choice::{Choices, Naming};
use super::crowd::{Crowd, Group, HOMELESS, Names, merge};

/// The most steps to pack one choice.
const MOST_STEPS: u32 = 200;

/// Finds packings for one crowd, and counts what that takes.
pub(super) struct Packer<'a> {
    crowd: &'a Crowd,
    pub(super) expansions_left: u32,
    /// Whether there may be a packing that was not found, for a choice that was given up after so many steps.
    pub(super) gave_up: bool,
}

impl<'a> Packer<'a> {
    pub(super) fn new(crowd: &'a Crowd, most_expansions: u32) -> Self {
        Self {
            crowd,
            expansions_left: most_expansions,
            gave_up: false,
        }
    }

    /// The free endpoints in groups, all of which keep to the ceiling and name a zone; nothing where there is no such
    /// packing, or none was found in so many steps.
    pub(super) fn pack(&mut self, choices: &Choices) -> Option<Vec<Group>> {
        self.expansions_left = self.expansions_left.checked_sub(1)?;
        if !self.could_fit(choices) {
            return None;
        }
        let most_steps = MOST_STEPS.min(self.expansions_left);
        let mut attempt = Attempt::new(self.crowd, choices, most_steps);
        let packed = attempt.start() && attempt.place(0);
        self.expansions_left -= most_steps - attempt.steps;
        self.gave_up |= !packed && attempt.steps == 0;
        packed.then(|| attempt.packed())
    }

    /// Whether a packing is not out of the question, by how many bins its items need at least.
    ///
    /// For any `k`, what fits into one bin counts at most `k` where each item counts as the whole number of times that it
    /// exceeds a `k + 1`th of the bin: for 1, two items of more than half a bin need two bins. (Dual feasible functions;
    /// Fekete and Schepers, New classes of fast lower bounds for bin packing problems, 2001.)
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn could_fit(&self, choices: &Choices) -> bool {
        let zones = || choices[..self.crowd.zones].iter();
        let everyones = zones().filter(|choice| choice.naming.is_everyone());
        let taken: f64 = everyones.map(|choice| choice.part).sum();
        // A little larger than they are, so that rounding never tells a packing from its bins.
        let bin = self.crowd.ceiling.most() - taken + ROUNDING;
        (1..=4_u32).all(|k| {
            let parts = f64::from(k + 1) / bin;
            let others = zones().filter(|choice| !choice.naming.is_everyone());
            let counts = others.map(|choice| {
                u64::from((choice.part * parts) as u32) * u64::from(choice.served_by)
            });
            counts.sum::<u64>() <= u64::from(k) * u64::from(self.crowd.endpoints)
        })
    }
}

/// A packing that is being looked for.
struct Attempt<'a> {
    crowd: &'a Crowd,
    choices: &'a Choices,
    /// Zones that everyone serves.
    everyones: Names,
    /// The other zones, those with the largest items first.
    order: Vec<usize>,
    bins: Vec<Bins>,
    /// Places in `bins` that zones which are being placed could use.
    able: Vec<usize>,
    /// How many steps are left.
    steps: u32,
}

/// Endpoints that are alike so far.
#[derive(Clone, Copy)]
struct Bins {
    alike: Group,
    load: f64,
}

/// Endpoints that have yet to be found for a zone.
#[derive(Clone, Copy)]
struct Wanted {
    own: u32,
    foreign: u32,
}

impl<'a> Attempt<'a> {
    fn new(crowd: &'a Crowd, choices: &'a Choices, steps: u32) -> Self {
        let is_everyones = |&zone: &usize| choices[zone].naming.is_everyone();
        let (everyones, mut order): (Vec<usize>, Vec<usize>) =
            (0..crowd.zones).partition(is_everyones);
        order.sort_by(|&a, &b| choices[b].part.total_cmp(&choices[a].part));
        Self {
            crowd,
            choices,
            everyones: Names::all(everyones),
            order,
            bins: Vec::with_capacity(4 * crowd.zones),
            able: Vec::with_capacity(4 * crowd.zones),
            steps,
        }
    }

    /// Puts in what leaves no choice: zones that everyone serves, and zones that all of their own endpoints serve. Whether
    /// there is room for that.
    fn start(&mut self) -> bool {
        let everyones = self.everyones.zones();
        let named_by_all = everyones.filter(|&zone| self.choices[zone].naming == Naming::All);
        let named_by_all = Names::all(named_by_all);
        for home in 0..=HOMELESS {
            let at_home = self.order.contains(&home) && self.served_by_all_its_own(home);
            let own = if at_home {
                Names::one(home)
            } else {
                Names::NONE
            };
            let alike = Group {
                home,
                names: named_by_all.with(own),
                count: self.crowd.free[home],
            };
            if alike.count > 0 {
                self.bins.push(Bins {
                    alike,
                    load: self.load(alike.names),
                });
            }
        }
        let free = self.bins.iter().map(|bins| bins.alike);
        let mut all = free.chain(self.crowd.fixed.iter().copied());
        all.all(|group| self.allows(self.load(group.names), group.names))
    }

    fn served_by_all_its_own(&self, zone: usize) -> bool {
        self.choices[zone].own == self.crowd.free[zone]
    }

    /// Places all zones from the `next` one on; whether that can be done.
    fn place(&mut self, next: usize) -> bool {
        let Some(&zone) = self.order.get(next) else {
            return self.all_can_name_a_zone();
        };
        if !self.order[next..].iter().all(|&zone| self.has_room(zone)) {
            return false;
        }
        let wanted = self.wanted(zone);
        let first = self.able.len();
        self.find_able(zone, wanted);
        let placed = self.distribute(next, first..self.able.len(), wanted);
        self.able.truncate(first);
        placed
    }

    fn wanted(&self, zone: usize) -> Wanted {
        let choice = self.choices[zone];
        Wanted {
            own: if self.served_by_all_its_own(zone) {
                0
            } else {
                choice.own
            },
            foreign: choice.foreign,
        }
    }

    /// Whether a zone's items could be placed if no other zone's were. A zone that has no room any more ends an attempt
    /// long before its turn.
    fn has_room(&self, zone: usize) -> bool {
        let part = self.choices[zone].part;
        let most = self.crowd.ceiling.most() * (1.0 + ROUNDING);
        let mut left = self.wanted(zone);
        for bins in &self.bins {
            if bins.load + part <= most {
                let is_own = bins.alike.home == zone;
                let taken = left.of(is_own).min(bins.alike.count);
                left = left.less(is_own, taken);
            }
        }
        left.own + left.foreign == 0
    }

    /// Lists bins that have room for a zone's item, the least loaded first: that leaves room for others everywhere.
    fn find_able(&mut self, zone: usize, wanted: Wanted) {
        let first = self.able.len();
        for (place, bins) in self.bins.iter().enumerate() {
            let wants = wanted.of(bins.alike.home == zone);
            let load = bins.load + self.choices[zone].part;
            let names = bins.alike.names.with(Names::one(zone));
            if wants > 0 && bins.alike.count > 0 && self.allows(load, names) {
                self.able.push(place);
            }
        }
        let bins = &self.bins;
        self.able[first..].sort_by(|&a, &b| bins[a].load.total_cmp(&bins[b].load).then(a.cmp(&b)));
    }

    /// Puts items of one zone into bins that are able to hold them, as many as can be into the first ones, and then
    /// places the other zones.
    fn distribute(&mut self, next: usize, mut able: Range<usize>, wanted: Wanted) -> bool {
        if wanted.own + wanted.foreign == 0 {
            self.steps = self.steps.saturating_sub(1);
            return self.place(next + 1);
        }
        let Some(first) = able.next().map(|place| self.able[place]) else {
            return false;
        };
        let zone = self.order[next];
        let is_own = self.bins[first].alike.home == zone;
        let wants = wanted.of(is_own);
        let least = wants.saturating_sub(self.room(&able, zone, is_own));
        let most = wants.min(self.bins[first].alike.count);
        for taken in (least..=most).rev() {
            let before = self.bins.len();
            self.put(zone, first, taken);
            if self.distribute(next, able.clone(), wanted.less(is_own, taken)) {
                return true;
            }
            self.bins.truncate(before);
            self.bins[first].alike.count += taken;
            if self.steps == 0 {
                return false;
            }
        }
        false
    }

    /// How many items of a zone the bins in that part of the list can hold.
    fn room(&self, able: &Range<usize>, zone: usize, own: bool) -> u32 {
        let bins = self.able[able.clone()]
            .iter()
            .map(|&place| self.bins[place].alike);
        let bins = bins.filter(|bins| (bins.home == zone) == own);
        bins.map(|bins| bins.count).sum()
    }

    /// Puts an item of a zone into so many of the bins at that place.
    fn put(&mut self, zone: usize, place: usize, count: u32) {
        if count == 0 {
            return;
        }
        let from = &mut self.bins[place];
        from.alike.count -= count;
        let mut filled = *from;
        filled.alike.count = count;
        filled.alike.names = filled.alike.names.with(Names::one(zone));
        filled.load += self.choices[zone].part;
        self.bins.push(filled);
    }

    fn all_can_name_a_zone(&self) -> bool {
        let names_none = |bins: &Bins| bins.alike.count > 0 && bins.alike.names.is_empty();
        self.nameable().is_some() || !self.bins.iter().any(names_none)
    }

    /// A zone that everyone serves and all could name.
    fn nameable(&self) -> Option<usize> {
        let mut zones = self.everyones.zones();
        zones.find(|&zone| self.choices[zone].naming == Naming::AllOrNone)
    }

    /// What was placed. Where an endpoint would name no zone, all name one that all serve.
    fn packed(&self) -> Vec<Group> {
        let groups = self.bins.iter().map(|bins| bins.alike);
        let mut groups = merge(groups.filter(|group| group.count > 0).collect());
        if groups.iter().any(|group| group.names.is_empty()) {
            let zone = self.nameable().map_or(Names::NONE, Names::one);
            for group in &mut groups {
                group.names = group.names.with(zone);
            }
        }
        groups
    }

    fn load(&self, names: Names) -> f64 {
        let zones = names.with(self.everyones).zones();
        zones.map(|zone| self.choices[zone].part).sum()
    }

    /// Whether endpoints with these names may carry that, which is their load but for rounding.
    fn allows(&self, load: f64, names: Names) -> bool {
        let zones = names.with(self.everyones).zones();
        let served = zones.map(|zone| (self.crowd.weights[zone], self.choices[zone].served_by));
        self.crowd.ceiling.allows(load, served)
    }
}

impl Wanted {
    fn of(self, own: bool) -> u32 {
        if own { self.own } else { self.foreign }
    }

    fn less(mut self, own: bool, count: u32) -> Self {
        *(if own {
            &mut self.own
        } else {
            &mut self.foreign
        }) -= count;
        self
    }
}
