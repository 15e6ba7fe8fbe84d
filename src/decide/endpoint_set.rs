//! The endpoints of a Service as kube-proxy merges them from its slices.

use std::collections::BTreeSet;

use crate::cluster::key::Key;
use crate::cluster::slice::{Address, EndpointRecord, Place, PortKey, SliceRecord};
use crate::cluster::store::MeasuredCapacity;
use crate::planner::zone_set::ZoneSet;

/// A ready endpoint that counts, whatever number of slices it stands in.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The copy that counts.
    pub record: &'a EndpointRecord,
    /// Where it stands.
    pub stand: Stand,
    /// The number of the slice that has this copy; 0 is the request's.
    pub slice: usize,
    /// Its place in that slice.
    pub place: usize,
    /// Whether the request's slice has a ready copy of it, which needs a hint.
    pub needs_hint: bool,
    /// The best running copy in another slice, one with hints before one without: kube-proxy may use any of them as well
    /// as the request's, so they should all say the same.
    pub elsewhere: Option<&'a EndpointRecord>,
    /// Where all copies of its address are.
    copies: std::ops::Range<usize>,
}

impl Member<'_> {
    /// Whether the copy that counts is in the request's slice.
    #[must_use]
    pub fn in_request(&self) -> bool {
        self.slice == 0
    }
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
    /// Tells apart what has one address and several numbers of a port.
    variant: usize,
    slice: usize,
    /// Its place in its slice.
    place: usize,
}

impl AddressCopy<'_> {
    fn in_request(&self) -> bool {
        self.slice == 0
    }

    fn key(&self) -> (Address, usize) {
        (self.address, self.variant)
    }

    /// Which of several copies of one address counts, the first best: one that is not terminating, as in kube-proxy,
    /// then the request's, then one that is ready.
    fn rank(&self) -> (bool, bool, bool) {
        let (terminating, unready) = self.rank_for_anyone();
        (terminating, !self.in_request(), unready)
    }

    /// The same whichever slice is the request's.
    fn rank_for_anyone(&self) -> (bool, bool) {
        (self.record.terminating, !self.record.ready)
    }
}

/// The members, in the order of their addresses: no order of slices or endpoints shows through.
#[derive(Debug)]
pub struct EndpointSet<'a> {
    copies: Vec<AddressCopy<'a>>,
    members: Vec<Member<'a>>,
    /// For each endpoint of the request's slice, its member.
    of_request: Vec<Option<usize>>,
    has_twins: bool,
}

impl<'a> EndpointSet<'a> {
    /// Merges the slices that have a usable port. The first slice is the request's.
    ///
    /// An address that stands twice counts once, by the rank of its copies, and then by where they stand; where a port has
    /// several numbers, once for each, since kube-proxy then sends traffic to each. A ready copy in the request's slice
    /// counts in any case, since it needs a hint.
    pub fn gather(
        slices: &[&'a SliceRecord],
        capacity: &MeasuredCapacity,
        stand: impl Fn(&EndpointRecord) -> Stand,
    ) -> Self {
        let variants = variants(slices);
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
        let mut set = Self {
            members: Vec::with_capacity(copies.len()),
            of_request: vec![None; slices.first().map_or(0, |slice| slice.endpoints.len())],
            copies,
            has_twins: false,
        };
        set.merge(stand);
        set
    }

    fn merge(&mut self, stand: impl Fn(&EndpointRecord) -> Stand) {
        let mut start = 0;
        while let Some(first) = self.copies.get(start) {
            let more = self.copies[start + 1..].iter();
            let end = start + 1 + more.take_while(|c| c.key() == first.key()).count();
            let copies = &self.copies[start..end];
            self.has_twins |= copies.len() > 1;
            let ours = copies.iter().find(|c| c.in_request() && c.record.ready);
            let runs_elsewhere =
                |c: &&AddressCopy<'_>| c.record.ready && !c.record.terminating && !c.in_request();
            let is_bare = |c: &&AddressCopy<'_>| c.record.hints.zones().is_empty();
            let elsewhere = copies.iter().filter(runs_elsewhere).min_by_key(is_bare);
            if let Some(counting) = Some(first).filter(|c| c.record.ready).or(ours) {
                for copy in copies.iter().filter(|c| c.in_request() && c.record.ready) {
                    self.of_request[copy.place] = Some(self.members.len());
                }
                self.members.push(Member {
                    record: counting.record,
                    stand: stand(counting.record),
                    slice: counting.slice,
                    place: counting.place,
                    needs_hint: ours.is_some(),
                    elsewhere: elsewhere.map(|copy| copy.record),
                    copies: start..end,
                });
            }
            start = end;
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

    /// The ready copies of a member in some slices, or in all, of which kube-proxy uses one: those that do not terminate,
    /// or where all do, all. Each comes with whether it is in the request's slice.
    pub fn usable_copies(
        &self,
        member: usize,
        slices: Option<&[usize]>,
    ) -> impl Iterator<Item = (bool, &'a EndpointRecord)> {
        let is_behind = move |copy: &&AddressCopy<'a>| {
            let behind = slices.is_none_or(|slices| slices.binary_search(&copy.slice).is_ok());
            behind && copy.record.ready
        };
        let copies = &self.copies[self.members[member].copies.clone()];
        let some_run = copies
            .iter()
            .filter(is_behind)
            .any(|c| !c.record.terminating);
        copies
            .iter()
            .filter(is_behind)
            .filter(move |copy| !some_run || !copy.record.terminating)
            .map(|copy| (copy.in_request(), copy.record))
    }

    /// A member's part when members are parted by ports, given a number for the ports of each slice. Whichever slice is
    /// the request's, it is the same: that of the best copy, and of equal ones the least.
    #[must_use]
    pub fn part_of(&self, member: usize, ports: &[usize]) -> usize {
        let copies = self.copies[self.members[member].copies.clone()].iter();
        let by_rank = copies.map(|copy| (copy.rank_for_anyone(), ports[copy.slice]));
        by_rank.min().map_or(0, |(_, part)| part)
    }

    /// The members behind ports that only `slices`, by number, have.
    pub fn behind(&self, slices: &[usize]) -> impl Iterator<Item = usize> + Clone {
        let is_behind = |member: &Member<'_>| {
            let mut copies = self.copies[member.copies.clone()]
                .iter()
                .filter(|copy| slices.binary_search(&copy.slice).is_ok());
            let first = copies.next();
            first.is_some_and(|copy| {
                copy.record.ready || copies.any(|c| c.in_request() && c.record.ready)
            })
        };
        (0..self.members.len()).filter(move |&member| is_behind(&self.members[member]))
    }

    /// The hints for the endpoints of the request's slice, in their order, from hints in the order of the members.
    #[must_use]
    pub fn project(&self, hints: &[ZoneSet]) -> Vec<ZoneSet> {
        let hint = |member: &Option<usize>| member.map_or(ZoneSet::EMPTY, |member| hints[member]);
        self.of_request.iter().map(hint).collect()
    }
}

/// How many ports of all slices are looked at one by one; with more of them that are uneven nothing is planned.
pub const MOST_PORTS: usize = 100_000;

/// A port, and the slices that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroup<'a> {
    /// One of the ports that the same slices have.
    pub port: &'a PortKey,
    /// The numbers of these slices, in order.
    pub slices: Vec<usize>,
}

/// Whether all slices that count have the same ports.
#[must_use]
pub fn have_same_ports(slices: &[&SliceRecord]) -> bool {
    let mut counting = slices.iter().filter(|slice| !slice.ports.is_empty());
    let first = counting.next();
    first.is_none_or(|first| counting.all(|slice| slice.ports == first.ports))
}

/// The ports of all slices, one for each set of slices that have it.
#[must_use]
pub fn group_ports<'a>(slices: &[&'a SliceRecord]) -> Vec<PortGroup<'a>> {
    let ports_of = |(number, slice): (usize, &&'a SliceRecord)| {
        slice.ports.iter().map(move |port| (port, number))
    };
    let mut ports: Vec<(&PortKey, usize)> = slices.iter().enumerate().flat_map(ports_of).collect();
    ports.sort_unstable();
    let mut groups: Vec<PortGroup<'_>> = ports
        .chunk_by(|a, b| a.0 == b.0)
        .map(|same| PortGroup {
            port: same[0].0,
            slices: same.iter().map(|(_, number)| *number).collect(),
        })
        .collect();
    groups.sort_by(|a, b| a.slices.cmp(&b.slices));
    groups.dedup_by(|later, first| later.slices == first.slices);
    groups.sort_by_key(|group| group.port);
    groups
}

/// For each slice a number that says which ports it has: the same for the same ports, whatever the order of slices.
#[must_use]
pub fn port_set_numbers(slices: &[&SliceRecord]) -> Vec<usize> {
    let mut distinct: Vec<&[PortKey]> = slices.iter().map(|slice| &*slice.ports).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let number = |slice: &&SliceRecord| distinct.partition_point(|ports| *ports < &*slice.ports);
    slices.iter().map(number).collect()
}

/// For each slice a number that tells it apart from those in which a port of the same name has another number; nothing
/// where no port has two.
fn variants(slices: &[&SliceRecord]) -> Vec<usize> {
    let same =
        |a: &SliceRecord, b: &SliceRecord| a.ports == b.ports && a.port_numbers == b.port_numbers;
    let total: usize = slices.iter().map(|slice| slice.ports.len()).sum();
    let mut counting = slices.iter().filter(|slice| !slice.ports.is_empty());
    let first = counting.next();
    if total > MOST_PORTS || first.is_none_or(|first| counting.all(|slice| same(slice, first))) {
        return Vec::new();
    }
    let mut ports: Vec<(&PortKey, &i64)> = Vec::with_capacity(total);
    for slice in slices {
        ports.extend(slice.ports.iter().zip(&slice.port_numbers));
    }
    ports.sort_unstable();
    ports.dedup();
    let several: BTreeSet<&PortKey> = ports
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0)
        .map(|pair| pair[0].0)
        .collect();
    let telling = |slice: &&SliceRecord| -> Vec<(PortKey, i64)> {
        let ports = slice.ports.iter().zip(slice.port_numbers.iter());
        ports
            .filter(|(port, _)| several.contains(port))
            .map(|(port, number)| (port.clone(), *number))
            .collect()
    };
    let of_slices: Vec<Vec<(PortKey, i64)>> = slices.iter().map(telling).collect();
    // A slice without any such port is of one kind with the first of those that have one.
    let distinct: BTreeSet<_> = of_slices.iter().filter(|ports| !ports.is_empty()).collect();
    let number = |ports| distinct.iter().filter(|other| **other < ports).count();
    of_slices.iter().map(number).collect()
}
