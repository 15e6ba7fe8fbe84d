//! From groups of endpoints to single ones: as few changed hints as can be, then as few slices with foreign hints.
//!
//! The EndpointSlice controller rewrites a slice that is not hinted for own zones exactly at every sync, so foreign hints
//! gather in few slices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::crowd::{Group, HOMELESS, Names, is_foreign};

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

/// The names of each seat, where `groups` are those of the free ones.
pub(super) fn assign(groups: &[Group], seats: &[Seat]) -> Vec<Names> {
    let mut homes: Vec<&[Group]> = groups.chunk_by(|a, b| a.home == b.home).collect();
    let mut assignment = Assignment::new(groups, seats);
    // Homes that have foreign hints alone leave no choice of slices, so they come first.
    homes.sort_by_key(|home| home.iter().any(|group| !group.is_foreign()));
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
    /// Slices that have foreign hints.
    foreign_slices: BTreeSet<u32>,
    /// The homes in each slice that have foreign hints to give.
    giving: BTreeMap<u32, BTreeSet<usize>>,
}

impl<'a> Assignment<'a> {
    fn new(groups: &[Group], seats: &'a [Seat]) -> Self {
        let gives = |home: usize| groups.iter().any(|g| g.home == home && g.is_foreign());
        let giving_homes: BTreeSet<usize> = (0..=HOMELESS).filter(|&home| gives(home)).collect();
        let mut assignment = Self {
            seats,
            given: vec![None; seats.len()],
            foreign_slices: BTreeSet::new(),
            giving: BTreeMap::new(),
        };
        for (place, seat) in seats.iter().enumerate() {
            if !seat.free {
                assignment.give(place, seat.names);
            } else if giving_homes.contains(&seat.home) {
                let homes = assignment.giving.entry(seat.slice).or_default();
                homes.insert(seat.home);
            }
        }
        assignment
    }

    /// Gives the seats of one home what its groups name.
    fn give_home(&mut self, groups: &[Group]) {
        let order = self.foreign_first(groups[0].home);
        let (foreign, own): (Vec<&Group>, Vec<&Group>) =
            groups.iter().partition(|group| group.is_foreign());
        let foreign_first: Vec<&Group> = foreign.into_iter().chain(own).collect();
        // 1. Who has what a group names keeps it.
        let left: Vec<usize> = foreign_first
            .iter()
            .map(|group| self.keep(group, &order))
            .collect();
        // 2. What is left goes to the others.
        let without = |&place: &usize| self.given[place].is_none();
        let mut others = order
            .into_iter()
            .filter(without)
            .collect::<Vec<_>>()
            .into_iter();
        for (group, left) in foreign_first.into_iter().zip(left) {
            for place in others.by_ref().take(left) {
                self.give(place, group.names);
            }
        }
    }

    /// Lets seats keep what a group names; how many more it has for others.
    fn keep(&mut self, group: &Group, foreign_first: &[usize]) -> usize {
        let places = foreign_first.iter().copied();
        let mut keeping: Vec<usize> = places
            .filter(|&place| self.seats[place].names == group.names)
            .collect();
        if !group.is_foreign() {
            keeping.reverse();
        }
        keeping.truncate(group.count as usize);
        for &place in &keeping {
            self.give(place, group.names);
        }
        group.count as usize - keeping.len()
    }

    fn give(&mut self, place: usize, names: Names) {
        let seat = self.seats[place];
        self.given[place] = Some(names);
        if is_foreign(seat.home, names) {
            self.foreign_slices.insert(seat.slice);
        }
    }

    /// The free seats of a home: those first whose slice has foreign hints anyway, then those of the slices where the most
    /// homes have some to give, then those of the slices with the most seats.
    fn foreign_first(&self, home: usize) -> Vec<usize> {
        let is_free = |seat: &Seat| seat.free && seat.home == home;
        let mut places: Vec<usize> = (0..self.seats.len())
            .filter(|&place| is_free(&self.seats[place]))
            .collect();
        let mut in_slice: BTreeMap<u32, u32> = BTreeMap::new();
        for &place in &places {
            *in_slice.entry(self.seats[place].slice).or_default() += 1;
        }
        places.sort_by_cached_key(|&place| {
            let slice = self.seats[place].slice;
            let is_clean = !self.foreign_slices.contains(&slice);
            let homes = self.giving.get(&slice).map_or(0, BTreeSet::len);
            (is_clean, Reverse(homes), Reverse(in_slice[&slice]), slice)
        });
        places
    }
}
