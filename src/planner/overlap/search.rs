//! The search for the plan that keeps the most traffic in its zone.
//!
//! 1. Plans in which every endpoint serves one zone, beside some zones that everyone serves: few, and often the best.
//! 2. All choices by how many endpoints each zone is served, those that keep the most traffic first. The first that can be
//!    packed is the best of all, if it is better than what step 1 found.

use super::choice::{self, Choices, in_zone};
use super::crowd::{Crowd, Group, Names};
use super::frontier::Frontier;
use super::packing::Packer;
use super::{ROUNDING, single};

/// What a search comes to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The free endpoints of the best plan found.
    pub(super) groups: Option<Vec<Group>>,
    /// Whether the search ended early, so that there may be a better one.
    pub(super) ended_early: bool,
    /// Choices that were looked at, and steps of packing them.
    pub(super) expansions: u32,
}

/// Searches for hints of the free endpoints that keep more than `least` of the traffic in its zone, and the most of all.
pub(super) fn search(crowd: &Crowd, least: f64, most_expansions: u32) -> Outcome {
    let mut search = Search {
        crowd,
        packer: Packer::new(crowd, most_expansions),
        best: None,
        least: least + ROUNDING,
    };
    let came_to_its_end = search.run();
    Outcome {
        groups: search.best,
        ended_early: !came_to_its_end || search.packer.gave_up,
        expansions: most_expansions - search.packer.expansions_left,
    }
}

struct Search<'a> {
    crowd: &'a Crowd,
    packer: Packer<'a>,
    best: Option<Vec<Group>>,
    /// Plans must keep more than this.
    least: f64,
}

impl Search<'_> {
    /// Whether the search came to an end.
    fn run(&mut self) -> bool {
        let zones = 0..self.crowd.zones;
        let best: Vec<f64> = zones
            .map(|zone| choice::best_in_zone(self.crowd, zone))
            .collect();
        let all_together: f64 = best.iter().sum();
        if all_together > self.least {
            self.try_single();
        }
        all_together <= self.least || self.best_first(&best)
    }

    /// Step 1.
    fn try_single(&mut self) {
        let subsets = Names::subsets(self.crowd.zones);
        let mut plans: Vec<Choices> = subsets
            .filter_map(|everyones| single::choose(self.crowd, everyones))
            .filter(|choices| in_zone(choices) > self.least)
            .collect();
        plans.sort_by(|a, b| in_zone(b).total_cmp(&in_zone(a)));
        plans.iter().any(|choices| self.packs(choices));
    }

    /// Step 2, with the best of each zone by itself; whether no choice was left out.
    fn best_first(&mut self, best: &[f64]) -> bool {
        let zones = 0..self.crowd.zones;
        // What one zone can lose of its best before all together are no better than what there is.
        let to_lose = best.iter().sum::<f64>() - self.least;
        let list = |zone| choice::for_zone(self.crowd, zone, best[zone] - to_lose);
        let lists = zones.clone().map(list).collect();
        let twins = zones.map(|zone| self.crowd.twin_before(zone)).collect();
        let Some(mut frontier) = Frontier::new(lists, twins, self.least) else {
            return true;
        };
        while let Some(choices) = frontier.next() {
            if self.packs(&choices) {
                return true;
            }
            if self.packer.expansions_left == 0 {
                return false;
            }
        }
        true
    }

    /// Whether there is a plan of that choice, which is then the best so far.
    fn packs(&mut self, choices: &Choices) -> bool {
        let packed = self.packer.pack(choices);
        let there_is = packed.is_some();
        if there_is {
            self.best = packed;
            self.least = in_zone(choices) + ROUNDING;
        }
        there_is
    }
}
