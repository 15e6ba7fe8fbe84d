//! From groups of endpoints to single ones: as few changed hints as can be, then as few slices with foreign hints.
//!
//! The EndpointSlice controller rewrites a slice that is not hinted for own zones exactly at every sync, so foreign hints
//! gather in few slices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::crowd::{Group, HOMELESS, Names};

/// An endpoint to be given what its home has to give.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) home: usize,
    /// The zones that it names now.
    pub(super) names: Names,
    pub(super) slice: u32,
    /// Whether that can change.
    pub(super) free: bool,
}

impl Seat {
    fn is_foreign(home: usize, names: Names) -> bool {
        home == HOMELESS || names != Names::one(home)
    }
}

/// The names of each seat, where `groups` are those of the free ones.
pub(super) fn assign(groups: &[Group], seats: &[Seat]) -> Vec<Names> {
    let fixed = seats
        .iter()
        .filter(|seat| !seat.free && Seat::is_foreign(seat.home, seat.names));
    let mut assignment = Assignment {
        seats,
        given: seats
            .iter()
            .map(|seat| (!seat.free).then_some(seat.names))
            .collect(),
        foreign_slices: fixed.map(|seat| seat.slice).collect(),
    };
    let mut homes: Vec<&[Group]> = groups.chunk_by(|a, b| a.home == b.home).collect();
    // Homes that have foreign hints alone leave no choice of slices, so they come first.
    homes.sort_by_key(|home| {
        home.iter()
            .any(|group| !Seat::is_foreign(group.home, group.names))
    });
    for home in homes {
        assignment.give_home(home);
    }
    let given = assignment.given.into_iter().zip(seats);
    given
        .map(|(given, seat)| given.unwrap_or(seat.names))
        .collect()
}

struct Assignment<'a> {
    seats: &'a [Seat],
    given: Vec<Option<Names>>,
    foreign_slices: BTreeSet<u32>,
}

impl Assignment<'_> {
    /// Gives the seats of one home what its groups name.
    fn give_home(&mut self, groups: &[Group]) {
        let order = self.foreign_first(groups[0].home);
        let (foreign, own): (Vec<&Group>, Vec<&Group>) = groups
            .iter()
            .partition(|group| Seat::is_foreign(group.home, group.names));
        let mut left: Vec<u32> = Vec::with_capacity(groups.len());
        // 1. Who has what a group names keeps it.
        for group in foreign.iter().chain(&own) {
            let keeps = |&&place: &&usize| self.seats[place].names == group.names;
            let count = group.count as usize;
            let keeping: Vec<usize> = if Seat::is_foreign(group.home, group.names) {
                order.iter().filter(keeps).take(count).copied().collect()
            } else {
                order
                    .iter()
                    .rev()
                    .filter(keeps)
                    .take(count)
                    .copied()
                    .collect()
            };
            left.push(group.count - keeping.len() as u32);
            for place in keeping {
                self.give(place, group.names);
            }
        }
        // 2. What is left goes to the others, foreign hints first, in the order of slices.
        let mut rest = order
            .into_iter()
            .filter(|&place| self.given[place].is_none())
            .collect::<Vec<_>>()
            .into_iter();
        for (group, left) in foreign.iter().chain(&own).zip(left) {
            for place in rest.by_ref().take(left as usize) {
                self.give(place, group.names);
            }
        }
    }

    fn give(&mut self, place: usize, names: Names) {
        let seat = self.seats[place];
        self.given[place] = Some(names);
        if Seat::is_foreign(seat.home, names) {
            self.foreign_slices.insert(seat.slice);
        }
    }

    /// The free seats of a home, those first whose slice has foreign hints anyway, then those of the slices with the most.
    fn foreign_first(&self, home: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.seats.len())
            .filter(|&place| self.seats[place].free && self.seats[place].home == home)
            .collect();
        let mut in_slice: BTreeMap<u32, u32> = BTreeMap::new();
        for &place in &places {
            *in_slice.entry(self.seats[place].slice).or_default() += 1;
        }
        places.sort_by_key(|&place| {
            let slice = self.seats[place].slice;
            (
                !self.foreign_slices.contains(&slice),
                Reverse(in_slice[&slice]),
                slice,
            )
        });
        places
    }
}
