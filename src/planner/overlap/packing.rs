//! Which endpoints serve which zones, once it is chosen by how many each zone is served.
//!
//! Endpoints are bins that hold so much as the ceiling allows, and what a zone gives to each of those that serve it is an
//! item: a packing of bins in which each item of a zone lies in another bin.

use super::choice::{Choices, Naming};
use super::crowd::{Crowd, Group, HOMELESS, Names, merge};

/// Finds packings for one crowd, and counts its steps.
pub(super) struct Packer<'a> {
    crowd: &'a Crowd,
    pub(super) steps: u32,
}

/// One packing that is being looked for.
struct Attempt<'a> {
    crowd: &'a Crowd,
    choices: &'a Choices,
    /// Zones that everyone serves.
    everyones: Names,
    /// Zones that still have places to give, those with the largest items first.
    order: Vec<usize>,
    /// How many steps are left.
    steps: u32,
}

/// Places that a zone has yet to give.
#[derive(Clone, Copy)]
struct Wanted {
    own: u32,
    foreign: u32,
}

impl<'a> Packer<'a> {
    pub(super) fn new(crowd: &'a Crowd) -> Self {
        Self { crowd, steps: 0 }
    }

    /// The free endpoints in groups, all of which keep to the ceiling and name a zone; nothing where there is no such
    /// packing, or none was found in so many steps.
    pub(super) fn pack(&mut self, choices: &Choices, most_steps: u32) -> Option<Vec<Group>> {
        let zones = 0..self.crowd.zones;
        let everyones = zones
            .clone()
            .filter(|&zone| choices[zone].naming.is_everyone())
            .fold(Names::NONE, |names, zone| names.with(Names::one(zone)));
        let mut order: Vec<usize> = zones
            .filter(|&zone| !everyones.has(zone))
            .filter(|&zone| choices[zone].own + choices[zone].foreign > 0)
            .collect();
        order.sort_by(|&a, &b| choices[b].part.total_cmp(&choices[a].part));
        let mut attempt = Attempt {
            crowd: self.crowd,
            choices,
            everyones,
            order,
            steps: most_steps,
        };
        let packing = attempt.run();
        self.steps += most_steps - attempt.steps;
        packing
    }
}

impl Attempt<'_> {
    fn run(&mut self) -> Option<Vec<Group>> {
        self.steps = self.steps.saturating_sub(1);
        let fixed = self.crowd.fixed.iter();
        let fits = fixed.map(|group| group.names).all(|names| self.fits(names));
        let groups = self.start();
        let fits = fits && groups.iter().all(|group| self.fits(group.names));
        if !fits {
            return None;
        }
        let packed = self.place(0, groups)?;
        Some(self.named(packed))
    }

    /// The free endpoints of each home, which name their own zone where all of them must.
    fn start(&self) -> Vec<Group> {
        let named_by_all = self
            .everyones
            .zones()
            .filter(|&zone| self.choices[zone].naming == Naming::All)
            .fold(Names::NONE, |names, zone| names.with(Names::one(zone)));
        let group = |home: usize| {
            let own = self.wanted_at_start(home) == self.crowd.free[home] && home != HOMELESS;
            Group {
                home,
                names: if own && !self.everyones.has(home) {
                    named_by_all.with(Names::one(home))
                } else {
                    named_by_all
                },
                count: self.crowd.free[home],
            }
        };
        (0..=HOMELESS)
            .map(group)
            .filter(|group| group.count > 0)
            .collect()
    }

    fn wanted_at_start(&self, home: usize) -> u32 {
        self.choices.get(home).map_or(0, |choice| choice.own)
    }

    /// Places all zones from the `next` one on.
    fn place(&mut self, next: usize, groups: Vec<Group>) -> Option<Vec<Group>> {
        let Some(&zone) = self.order.get(next) else {
            return self.all_can_name_a_zone(&groups).then_some(groups);
        };
        let choice = self.choices[zone];
        let has_its_own = choice.own == self.crowd.free[zone];
        let wanted = Wanted {
            own: if has_its_own { 0 } else { choice.own },
            foreign: choice.foreign,
        };
        // Least loaded first: that leaves room for the others everywhere.
        let mut able: Vec<(f64, Group)> = Vec::with_capacity(groups.len());
        let mut rest: Vec<Group> = Vec::with_capacity(2 * groups.len());
        for group in groups {
            let wants = if group.home == zone {
                wanted.own
            } else {
                wanted.foreign
            };
            if wants > 0 && self.fits(group.names.with(Names::one(zone))) {
                able.push((self.load(group.names), group));
            } else {
                rest.push(group);
            }
        }
        able.sort_by(|(a, first), (b, second)| a.total_cmp(b).then(first.cmp(second)));
        let able: Vec<Group> = able.into_iter().map(|(_, group)| group).collect();
        self.distribute(next, &able, wanted, &rest)
    }

    /// Gives places of one zone to endpoints of the groups that are `able`, as many as can be to the first ones, and then
    /// places the other zones.
    fn distribute(
        &mut self,
        next: usize,
        able: &[Group],
        wanted: Wanted,
        rest: &[Group],
    ) -> Option<Vec<Group>> {
        let zone = self.order[next];
        if wanted.own + wanted.foreign == 0 {
            self.steps = self.steps.checked_sub(1)?;
            return self.place(next + 1, [rest, able].concat());
        }
        let (first, others) = able.split_first()?;
        let is_own = first.home == zone;
        let wants = if is_own { wanted.own } else { wanted.foreign };
        let of_the_others = others.iter().filter(|other| (other.home == zone) == is_own);
        let others_take: u32 = of_the_others.map(|other| other.count).sum();
        let least = wants.saturating_sub(others_take);
        for taken in (least..=wants.min(first.count)).rev() {
            let mut rest = rest.to_vec();
            let serving = Group {
                names: first.names.with(Names::one(zone)),
                count: taken,
                ..*first
            };
            let left = Group {
                count: first.count - taken,
                ..*first
            };
            rest.extend([serving, left].into_iter().filter(|group| group.count > 0));
            let mut wanted = wanted;
            *(if is_own {
                &mut wanted.own
            } else {
                &mut wanted.foreign
            }) -= taken;
            let packed = self.distribute(next, others, wanted, &rest);
            if packed.is_some() || self.steps == 0 {
                return packed;
            }
        }
        None
    }

    fn all_can_name_a_zone(&self, groups: &[Group]) -> bool {
        self.nameable().is_some() || groups.iter().all(|group| !group.names.is_empty())
    }

    /// A zone that everyone serves and all could name.
    fn nameable(&self) -> Option<usize> {
        let mut zones = self.everyones.zones();
        zones.find(|&zone| self.choices[zone].naming == Naming::AllOrNone)
    }

    /// Where an endpoint names no zone, all name one that all serve.
    fn named(&self, mut packed: Vec<Group>) -> Vec<Group> {
        if packed.iter().any(|group| group.names.is_empty()) {
            let zone = self.nameable().map_or(Names::NONE, Names::one);
            for group in &mut packed {
                group.names = group.names.with(zone);
            }
        }
        merge(packed)
    }

    fn load(&self, names: Names) -> f64 {
        let zones = names.with(self.everyones).zones();
        zones.map(|zone| self.choices[zone].part).sum()
    }

    fn fits(&self, names: Names) -> bool {
        let zones = names.with(self.everyones).zones();
        let served = zones.map(|zone| (self.crowd.weights[zone], self.choices[zone].served_by));
        self.crowd.ceiling.allows(self.load(names), served)
    }
}
