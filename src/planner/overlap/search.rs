//! The search for the plan that keeps the most traffic in its zone.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::choice::{self, Choice, Choices, Held};
use super::crowd::{ByZone, Crowd, Group, HOMELESS, MOST, Names};
use super::packing::Packer;

/// The most that a search expands: steps from one choice to the next and steps of packing.
pub(super) const MOST_EXPANSIONS: u32 = 20_000;

/// The most steps to pack one choice.
const MOST_PACKING: u32 = 200;

/// Sums of fractions that are equal may differ by so much.
pub(super) const ROUNDING: f64 = 1e-9;

/// What a search comes to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The free endpoints of the best plan found.
    pub(super) groups: Option<Vec<Group>>,
    /// Whether the search ended early, so that there may be a better one.
    pub(super) ended_early: bool,
    pub(super) expansions: u32,
}

/// Searches for the free endpoints' hints that keep more than `least` of the traffic in its zone, and the most of all.
pub(super) fn search(crowd: &Crowd, least: f64) -> Outcome {
    let mut search = Search {
        crowd,
        packer: Packer::new(crowd),
        best: None,
        least: least + ROUNDING,
        expansions: 0,
    };
    search.spread_some_over_everyone();
    let ended_early = !search.best_first();
    Outcome {
        groups: search.best,
        ended_early,
        expansions: search.expansions + search.packer.steps,
    }
}

struct Search<'a> {
    crowd: &'a Crowd,
    packer: Packer<'a>,
    best: Option<Vec<Group>>,
    /// Plans must keep more than this.
    least: f64,
    expansions: u32,
}

/// For each zone one of what could be chosen, by its place in the list.
struct State {
    in_zone: f64,
    places: ByZone<u16>,
    /// Zones before this one stay as they are, so that each state comes up once.
    from: usize,
}

impl Search<'_> {
    /// 1. Plans in which every endpoint serves one zone alone, beside some zones that everyone serves.
    fn spread_some_over_everyone(&mut self) {
        let subsets = 0..1u16 << self.crowd.zones;
        let mut plans: Vec<Choices> = subsets
            .filter_map(|bits| one_zone_each(self.crowd, Names::from_bits(bits as u8)))
            .filter(|choices| in_zone(choices) > self.least)
            .collect();
        plans.sort_by(|a, b| in_zone(b).total_cmp(&in_zone(a)));
        let packed = plans.iter().find_map(|choices| {
            let groups = self.packer.pack(choices, MOST_PACKING)?;
            Some((groups, in_zone(choices)))
        });
        if let Some((groups, in_zone)) = packed {
            self.best = Some(groups);
            self.least = in_zone + ROUNDING;
        }
    }

    /// 2. All choices, those that keep the most first, until one can be packed. Whether none was left out.
    fn best_first(&mut self) -> bool {
        let lists = self.choices();
        if lists.iter().any(Vec::is_empty) {
            return true;
        }
        let choices = |state: &State| -> Choices {
            let mut choices = [Choice::NOTHING; MOST];
            for (zone, list) in lists.iter().enumerate() {
                choices[zone] = list[usize::from(state.places[zone])];
            }
            choices
        };
        let first = State {
            in_zone: lists.iter().map(|list| list[0].in_zone).sum(),
            places: [0; MOST],
            from: 0,
        };
        let mut states = BinaryHeap::from([first]);
        while let Some(state) = states.pop() {
            if state.in_zone <= self.least {
                return true;
            }
            self.expansions += 1;
            if self.expansions + self.packer.steps >= MOST_EXPANSIONS {
                return false;
            }
            let chosen = choices(&state);
            if self.could_fit(&chosen) {
                if let Some(groups) = self.packer.pack(&chosen, MOST_PACKING) {
                    self.best = Some(groups);
                    return true;
                }
            }
            for zone in state.from..lists.len() {
                let place = usize::from(state.places[zone]);
                let Some(next) = lists[zone].get(place + 1) else {
                    continue;
                };
                let in_zone = state.in_zone - lists[zone][place].in_zone + next.in_zone;
                if in_zone > self.least {
                    let mut places = state.places;
                    places[zone] += 1;
                    states.push(State {
                        in_zone,
                        places,
                        from: zone,
                    });
                }
            }
        }
        true
    }

    /// What could be chosen for each zone and lead to a plan that is better than the best so far.
    fn choices(&self) -> Vec<Vec<Choice>> {
        let zones = 0..self.crowd.zones;
        let lists: Vec<Vec<Choice>> = zones
            .map(|zone| choice::for_zone(self.crowd, zone, 0.0))
            .collect();
        if lists.iter().any(Vec::is_empty) {
            return lists;
        }
        let most: f64 = lists.iter().map(|list| list[0].in_zone).sum();
        let to_lose = most - self.least;
        let worth = |mut list: Vec<Choice>| {
            let least = list[0].in_zone - to_lose;
            list.retain(|choice| choice.in_zone >= least);
            list
        };
        lists.into_iter().map(worth).collect()
    }

    /// Whether a packing is not out of the question: two items of more than half a bin need two bins.
    fn could_fit(&self, choices: &Choices) -> bool {
        let half = (self.crowd.ceiling.most() + ROUNDING) / 2.0;
        let large = choices[..self.crowd.zones]
            .iter()
            .filter(|choice| choice.part > half);
        large.map(|choice| choice.served_by).sum::<u32>() <= self.crowd.endpoints
    }
}

/// `everyones` served by everyone, and each other zone by as many endpoints as it then needs, its own ones first; own
/// endpoints that are left over serve their own zone too.
fn one_zone_each(crowd: &Crowd, everyones: Names) -> Option<Choices> {
    let mut choices = [Choice::NOTHING; MOST];
    let mut ceiling = crowd.ceiling.most();
    for zone in everyones.zones() {
        choices[zone] = choice::everyone(crowd, zone, Held::of(crowd, zone))?;
        ceiling -= choices[zone].part;
    }
    let others = || (0..crowd.zones).filter(|&zone| !everyones.has(zone));
    let mut own = [0; HOMELESS + 1];
    let mut foreign = [0; MOST];
    for zone in others() {
        let missing = Held::of(crowd, zone).missing(needed(crowd, zone, ceiling)?);
        own[zone] = missing.min(crowd.free[zone]);
        foreign[zone] = missing - own[zone];
    }
    let mut give: u32 = foreign.iter().sum();
    let mut spare = [0; HOMELESS + 1];
    for home in 0..=HOMELESS {
        spare[home] = crowd.free[home] - own[home];
    }
    if give > spare.iter().sum() {
        return None;
    }
    // Those that have no zone of their own to serve give first.
    for home in (0..=HOMELESS).filter(|&home| home == HOMELESS || everyones.has(home)) {
        let gives = give.min(spare[home]);
        spare[home] -= gives;
        give -= gives;
    }
    while give > 0 {
        let most = others().max_by_key(|&zone| (spare[zone], std::cmp::Reverse(zone)))?;
        spare[most] -= 1;
        give -= 1;
    }
    for zone in others() {
        let held = Held::of(crowd, zone);
        let own = own[zone] + spare[zone];
        choices[zone] = choice::some(crowd, zone, held, own, foreign[zone])?;
    }
    Some(choices)
}

/// How many endpoints must serve a zone, each of which can take so much of its traffic.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn needed(crowd: &Crowd, zone: usize, ceiling: f64) -> Option<u32> {
    let all = crowd.ceiling.part(crowd.weights[zone], 1);
    let needed = (all / ceiling - ROUNDING).ceil();
    (ceiling > 0.0 && needed <= f64::from(crowd.endpoints)).then_some(needed as u32)
}

fn in_zone(choices: &Choices) -> f64 {
    choices.iter().map(|choice| choice.in_zone).sum()
}

impl Ord for State {
    fn cmp(&self, other: &Self) -> Ordering {
        let better = self.in_zone.total_cmp(&other.in_zone);
        better.then_with(|| other.places.cmp(&self.places))
    }
}

impl PartialOrd for State {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for State {}
