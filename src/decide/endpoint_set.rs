//! The endpoints of a Service as kube-proxy merges them from its slices.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ports::{self, Links, PortGroup};
use crate::cluster::key::Key;
use crate::cluster::slice::{Address, EndpointRecord, Place, SliceRecord};
use crate::cluster::store::MeasuredCapacity;
use crate::planner::zone_set::ZoneSet;

/// A ready endpoint that counts, whatever number of slices it stands in.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The copy that counts.
    pub record: &'a EndpointRecord,
    /// Where it stands.
    pub stand: Stand,
    /// The number of the slice that has this copy.
    pub slice: usize,
    /// Its place in that slice.
    pub place: usize,
    /// Whether the request's slice has a ready copy of it, which needs a hint.
    pub needs_hint: bool,
    /// The best running copy in another slice, one with hints before one without: kube-proxy may use any of them as well
    /// as the request's, so they should all say the same.
    pub elsewhere: Option<&'a EndpointRecord>,
    in_request: bool,
    /// Where all copies of its address are.
    copies: std::ops::Range<usize>,
}

impl Member<'_> {
    /// Whether the copy that counts is in the request's slice.
    #[must_use]
    pub fn in_request(&self) -> bool {
        self.in_request
    }
}

/// A copy of a member in one of the slices.
#[derive(Debug, Clone, Copy)]
pub struct UsedCopy<'a> {
    /// The copy.
    pub record: &'a EndpointRecord,
    /// The place of its slice.
    pub slice: usize,
    /// Its place in that slice.
    pub place: usize,
}

/// Where an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stand {
    /// In a zone with counted capacity, by its number.
    Zone(u16),
    /// In a zone without.
    Homeless,
    /// Nobody knows.
    Unknown,
}

/// Finds out where an endpoint stands: in its own zone, or that of its node.
pub fn stand(
    record: &EndpointRecord,
    capacity: &MeasuredCapacity,
    zone_of_node: impl FnOnce(Key) -> Option<Key>,
) -> Stand {
    let zone = match record.place {
        Place::Zone(zone) => Some(zone),
        Place::Node(node) => zone_of_node(node),
        Place::Nowhere => None,
    };
    match zone {
        Some(zone) => capacity
            .zone_number(zone)
            .map_or(Stand::Homeless, Stand::Zone),
        None => Stand::Unknown,
    }
}

/// An endpoint in one of the slices.
#[derive(Debug, Clone, Copy)]
struct AddressCopy<'a> {
    address: Address,
    record: &'a EndpointRecord,
    /// That of its slice: tells apart what has one address and several numbers of a port.
    variant: usize,
    slice: usize,
    /// Its place in its slice.
    place: usize,
    /// Whether that is the request's slice.
    in_request: bool,
}

impl AddressCopy<'_> {
    fn key(&self) -> (Address, usize) {
        (self.address, self.variant)
    }

    /// Which of several copies of one address counts, the first best: one that is not terminating, as in kube-proxy,
    /// then the request's, then one that is ready.
    fn rank(&self) -> (bool, bool, bool) {
        let (terminating, unready) = self.rank_for_anyone();
        (terminating, !self.in_request, unready)
    }

    /// Which of several copies in one slice kube-proxy sees, the first best: the last that is not terminating, or, where
    /// all are, the first.
    fn rank_in_slice(&self) -> (bool, Reverse<usize>, usize) {
        let terminating = self.record.terminating;
        let last_first = Reverse(if terminating { 0 } else { self.place });
        (terminating, last_first, self.place)
    }

    /// The same whichever slice is the request's.
    fn rank_for_anyone(&self) -> (bool, bool) {
        (self.record.terminating, !self.record.ready)
    }
}

/// A member as kube-proxy has it behind a port, or behind all.
#[derive(Debug, Clone, Copy)]
pub struct Backend<'g> {
    /// The member.
    pub member: usize,
    /// The port and which of its numbers.
    port: Option<(&'g PortGroup<'g>, usize)>,
}

impl Backend<'_> {
    /// One that is the same behind every port, as all are where ports are even.
    #[must_use]
    pub fn behind_all(member: usize) -> Self {
        Self { member, port: None }
    }

    /// Whether it may be a copy in this slice.
    fn may_be_in(&self, slice: usize) -> bool {
        self.port
            .is_none_or(|(group, number)| group.number_in(slice) == Some(number))
    }
}

/// Whose hint an endpoint of the request's slice gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HintOf {
    /// Nobody's: it is not ready.
    Nobody,
    /// The member that it is.
    Member(usize),
    /// Anybody's: it is ready, so that the slice is not complete without, but kube-proxy does not see it.
    Anybody,
}

/// The members, in the order of their addresses: no order of slices or endpoints shows through.
#[derive(Debug)]
pub struct EndpointSet<'a> {
    copies: Vec<AddressCopy<'a>>,
    members: Vec<Member<'a>>,
    /// For each endpoint of the request's slice, whose hint it gets.
    of_request: Vec<HintOf>,
    has_twins: bool,
}

impl<'a> EndpointSet<'a> {
    /// Merges the slices that have a usable port. The first slice is the request's.
    ///
    /// An address that stands twice counts once, by the rank of its copies, and then by where they stand. In slices that
    /// [`ports::variants`] tells apart it counts once in each kind, since kube-proxy then sends traffic to each number of
    /// the port. A ready copy in the request's slice counts in any case, since it needs a hint, unless another one in
    /// there hides it.
    pub fn gather(
        slices: &[&'a SliceRecord],
        capacity: &MeasuredCapacity,
        stand: impl Fn(&EndpointRecord) -> Stand,
    ) -> Self {
        Self::merged(slices, Some(0), capacity, stand)
    }

    /// The same of slices that are all stored, as kube-proxy has them.
    pub fn gather_stored(
        slices: &[&'a SliceRecord],
        capacity: &MeasuredCapacity,
        stand: impl Fn(&EndpointRecord) -> Stand,
    ) -> Self {
        Self::merged(slices, None, capacity, stand)
    }

    fn merged(
        slices: &[&'a SliceRecord],
        request: Option<usize>,
        capacity: &MeasuredCapacity,
        stand: impl Fn(&EndpointRecord) -> Stand,
    ) -> Self {
        let variants = ports::variants(slices);
        let mut copies = Vec::with_capacity(slices.iter().map(|s| s.endpoints.len()).sum());
        for (number, slice) in slices.iter().enumerate() {
            if slice.ports.is_empty() {
                continue;
            }
            let copy = |(place, record): (usize, &'a EndpointRecord)| AddressCopy {
                address: record.address,
                record,
                variant: variants.get(number).copied().unwrap_or_default(),
                slice: number,
                place,
                in_request: request == Some(number),
            };
            copies.extend(slice.endpoints.iter().enumerate().map(copy));
        }
        copies.sort_unstable_by(|a, b| {
            let by_rank = || a.rank().cmp(&b.rank());
            let by_stand = || stand(a.record).cmp(&stand(b.record));
            let hints = |copy: &AddressCopy<'_>| {
                let zones = copy.record.hints.zones().iter();
                zones
                    .map(|zone| capacity.zone_number(*zone))
                    .collect::<Vec<_>>()
            };
            a.key()
                .cmp(&b.key())
                .then_with(by_rank)
                .then_with(by_stand)
                .then_with(|| hints(a).cmp(&hints(b)))
        });
        let of_request = request.and_then(|number| slices.get(number));
        let of_request = of_request.map_or(0, |slice| slice.endpoints.len());
        let hidden = take_hidden(&mut copies);
        let mut set = Self {
            members: Vec::with_capacity(copies.len()),
            of_request: vec![HintOf::Nobody; of_request],
            copies,
            has_twins: !hidden.is_empty(),
        };
        set.merge(slices, stand);
        set.give_to_hidden(&hidden);
        set
    }

    fn merge(&mut self, slices: &[&SliceRecord], stand: impl Fn(&EndpointRecord) -> Stand) {
        // With too many, nothing is planned.
        let groups = LazyCell::new(|| ports::uneven(slices).unwrap_or_default());
        let mut start = 0;
        while let Some(first) = self.copies.get(start) {
            let more = self.copies[start + 1..].iter();
            let end = start + 1 + more.take_while(|c| c.key() == first.key()).count();
            let copies = &self.copies[start..end];
            self.has_twins |= copies.len() > 1;
            let ours = copies.iter().find(|c| c.in_request && c.record.ready);
            let runs_elsewhere =
                |c: &&AddressCopy<'_>| c.record.ready && !c.record.terminating && !c.in_request;
            let is_bare = |c: &&AddressCopy<'_>| c.record.hints.zones().is_empty();
            let elsewhere = copies.iter().filter(runs_elsewhere).min_by_key(is_bare);
            let counting = if first.record.ready {
                Some(first)
            } else if copies.iter().any(|c| c.record.ready) {
                used_behind_some_port(copies, &groups).or(ours)
            } else {
                None
            };
            if let Some(counting) = counting {
                for copy in copies.iter().filter(|c| c.in_request && c.record.ready) {
                    self.of_request[copy.place] = HintOf::Member(self.members.len());
                }
                self.members.push(Member {
                    record: counting.record,
                    stand: stand(counting.record),
                    slice: counting.slice,
                    place: counting.place,
                    in_request: counting.in_request,
                    needs_hint: ours.is_some(),
                    elsewhere: elsewhere.map(|copy| copy.record),
                    copies: start..end,
                });
            }
            start = end;
        }
    }

    /// Hidden copies in the request's slice get the hint of the member that hides them, where that is ready.
    fn give_to_hidden(&mut self, hidden: &[AddressCopy<'_>]) {
        for copy in hidden.iter().filter(|c| c.in_request && c.record.ready) {
            let key_of = |member: &Member<'_>| self.copies[member.copies.start].key();
            let member = self.members.binary_search_by_key(&copy.key(), key_of);
            self.of_request[copy.place] = member.map_or(HintOf::Anybody, HintOf::Member);
            if let Ok(member) = member {
                self.members[member].needs_hint = true;
            }
        }
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// Whether an address stands more than once.
    #[must_use]
    pub fn has_twins(&self) -> bool {
        self.has_twins
    }

    /// The ready copies of which kube-proxy uses one: those that do not terminate, or where all do, all. Each comes with
    /// whether it is in the request's slice.
    pub fn usable_copies(
        &self,
        backend: Backend<'_>,
    ) -> impl Iterator<Item = (bool, &'a EndpointRecord)> {
        let is_usable =
            move |copy: &&AddressCopy<'a>| copy.record.ready && backend.may_be_in(copy.slice);
        let copies = &self.copies[self.members[backend.member].copies.clone()];
        let mut usable = copies.iter().filter(is_usable);
        let some_run = usable.any(|c| !c.record.terminating);
        let usable = copies.iter().filter(is_usable);
        usable
            .filter(move |copy| !some_run || !copy.record.terminating)
            .map(|copy| (copy.in_request, copy.record))
    }

    /// The copy that kube-proxy uses behind a port, the first of several.
    #[must_use]
    pub fn used_copy(&self, backend: Backend<'_>) -> UsedCopy<'a> {
        let member = &self.members[backend.member];
        let is_usable =
            |copy: &&AddressCopy<'a>| copy.record.ready && backend.may_be_in(copy.slice);
        // The best come first.
        let used = self.copies[member.copies.clone()].iter().find(is_usable);
        let counting = UsedCopy {
            record: member.record,
            slice: member.slice,
            place: member.place,
        };
        used.map_or(counting, |copy| UsedCopy {
            record: copy.record,
            slice: copy.slice,
            place: copy.place,
        })
    }

    /// A member's part when members are parted by ports, given a number for the ports of each slice. Whichever slice is
    /// the request's, it is the same: that of the best copy, and of equal ones the least.
    #[must_use]
    pub fn part_of(&self, member: usize, ports: &[usize]) -> usize {
        let copies = self.copies[self.members[member].copies.clone()].iter();
        let by_rank = copies.map(|copy| (copy.rank_for_anyone(), ports[copy.slice]));
        by_rank.min().map_or(0, |(_, part)| part)
    }

    /// The endpoints that kube-proxy has behind a port: of a member one for each number of the port that it stands with. A
    /// ready copy in the request's slice counts here too.
    #[must_use]
    pub fn behind<'g>(&self, group: &'g PortGroup<'_>) -> Vec<Backend<'g>> {
        let mut backends = Vec::with_capacity(self.members.len());
        let mut numbers = Vec::new();
        for (member, copies) in self.members.iter().map(|m| m.copies.clone()).enumerate() {
            find_numbers(&self.copies[copies], group, &mut numbers);
            let counting = numbers.iter().filter(|(_, counts)| *counts);
            backends.extend(counting.map(|&(number, _)| Backend {
                member,
                port: Some((group, number)),
            }));
        }
        backends
    }

    /// Links slices that have running copies of one address behind a port, with the same number.
    #[must_use]
    pub fn links(&self, slices: usize, groups: &[PortGroup<'_>]) -> Links {
        let mut links = Links::none(slices);
        let copies = self.members.iter().map(|m| &self.copies[m.copies.clone()]);
        for copies in copies.filter(|copies| copies.len() > 1) {
            for group in groups {
                let mut known: BTreeMap<usize, usize> = BTreeMap::new();
                for copy in copies.iter().filter(|copy| !copy.record.terminating) {
                    if let Some(number) = group.number_in(copy.slice) {
                        let first = known.entry(number).or_insert(copy.slice);
                        links.join(*first, copy.slice);
                    }
                }
            }
        }
        links
    }

    /// The hints for the endpoints of the request's slice, in their order, from hints in the order of the members.
    #[must_use]
    pub fn project(&self, hints: &[ZoneSet]) -> Vec<ZoneSet> {
        let first_zone = |zones: &ZoneSet| zones.zones().first().copied();
        let anybodys = hints.iter().find_map(first_zone).into();
        let hint = |of: &HintOf| match *of {
            HintOf::Nobody => ZoneSet::EMPTY,
            HintOf::Member(member) => hints[member],
            HintOf::Anybody => anybodys,
        };
        self.of_request.iter().map(hint).collect()
    }
}

/// Takes away the copies that kube-proxy does not see behind another one in the same slice.
fn take_hidden<'a>(copies: &mut Vec<AddressCopy<'a>>) -> Vec<AddressCopy<'a>> {
    if copies.windows(2).all(|pair| pair[0].key() != pair[1].key()) {
        return Vec::new();
    }
    let mut seen = BTreeMap::new();
    for copy in copies.iter() {
        let rank = seen
            .entry((copy.address, copy.slice))
            .or_insert(copy.rank_in_slice());
        *rank = copy.rank_in_slice().min(*rank);
    }
    let is_hidden =
        |copy: &mut AddressCopy<'_>| seen[&(copy.address, copy.slice)] != copy.rank_in_slice();
    copies.extract_if(.., is_hidden).collect()
}

/// The numbers with which copies of an address, the best first, stand behind a port, and whether they count there.
fn find_numbers(
    copies: &[AddressCopy<'_>],
    group: &PortGroup<'_>,
    numbers: &mut Vec<(usize, bool)>,
) {
    numbers.clear();
    for copy in copies {
        let Some(number) = group.number_in(copy.slice) else {
            continue;
        };
        match numbers.iter_mut().find(|(known, _)| *known == number) {
            Some((_, counts)) => *counts |= copy.in_request && copy.record.ready,
            None => numbers.push((number, copy.record.ready)),
        }
    }
}

/// The best ready copy of an address that no better one hides behind one of its ports.
fn used_behind_some_port<'c, 'a>(
    copies: &'c [AddressCopy<'a>],
    uneven_ports: &[PortGroup<'_>],
) -> Option<&'c AddressCopy<'a>> {
    let used_behind = |group: &PortGroup<'_>| {
        let mut known = Vec::new();
        copies.iter().position(|copy| {
            let number = group.number_in(copy.slice);
            let number = number.filter(|number| !known.contains(number));
            known.extend(number);
            number.is_some() && copy.record.ready
        })
    };
    let used = uneven_ports.iter().filter_map(used_behind);
    used.min().map(|best| &copies[best])
}
