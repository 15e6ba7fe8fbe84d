//! All that could be chosen for all zones together, in the order of the traffic that stays in its zone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::choice::{Choice, Choices};
use super::crowd::{ByZone, MOST};

/// Starts with the best choice for each zone by itself; from each state the next one of a zone leads to further states.
pub(super) struct Frontier {
    lists: Vec<Vec<Choice>>,
    /// The zone before that is just like a zone.
    twins: Vec<Option<usize>>,
    /// States that keep no more than this are left out.
    least: f64,
    states: Vec<State>,
    /// Numbers of states whose turn has yet to come, those first that keep the most, then those that came up first.
    waiting: BinaryHeap<(Kept, Reverse<usize>)>,
}

/// For each zone one of what could be chosen, by its place in the list.
#[derive(Clone, Copy)]
struct State {
    in_zone: f64,
    places: ByZone<u16>,
    /// Zones before this one stay as they are, so that each state comes up once.
    from: usize,
}

/// The traffic that stays in its zone, in an order: floats above zero are in the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kept(u64);

impl Frontier {
    /// Of lists for each zone, what keeps the most first; nothing where a list is empty.
    pub(super) fn new(
        lists: Vec<Vec<Choice>>,
        twins: Vec<Option<usize>>,
        least: f64,
    ) -> Option<Self> {
        let best: Vec<f64> = lists
            .iter()
            .map(|list| list.first().map(|choice| choice.in_zone))
            .collect::<Option<_>>()?;
        let mut frontier = Self {
            lists,
            twins,
            least,
            states: Vec::new(),
            waiting: BinaryHeap::new(),
        };
        frontier.add(State {
            in_zone: best.iter().sum(),
            places: [0; MOST],
            from: 0,
        });
        Some(frontier)
    }

    /// The choices that keep the most of those which have not come up.
    pub(super) fn next(&mut self) -> Option<Choices> {
        let (_, Reverse(number)) = self.waiting.pop()?;
        let state = self.states[number];
        for zone in state.from..self.lists.len() {
            if let Some(next) = self.step(&state, zone) {
                self.add(next);
            }
        }
        let mut choices = [Choice::NOTHING; MOST];
        for (zone, list) in self.lists.iter().enumerate() {
            choices[zone] = list[usize::from(state.places[zone])];
        }
        Some(choices)
    }

    fn add(&mut self, state: State) {
        if state.in_zone > self.least {
            let kept = Kept(state.in_zone.max(0.0).to_bits());
            self.waiting.push((kept, Reverse(self.states.len())));
            self.states.push(state);
        }
    }

    /// The state with the next choice for a zone.
    fn step(&self, state: &State, zone: usize) -> Option<State> {
        let place = state.places[zone];
        // Zones that are just like each other can be exchanged, so the one before is always further down its list.
        if self.twins[zone].is_some_and(|twin| state.places[twin] <= place) {
            return None;
        }
        let list = &self.lists[zone];
        let next = list.get(usize::from(place) + 1)?;
        let mut places = state.places;
        places[zone] += 1;
        Some(State {
            in_zone: state.in_zone - list[usize::from(place)].in_zone + next.in_zone,
            places,
            from: zone,
        })
    }
}
