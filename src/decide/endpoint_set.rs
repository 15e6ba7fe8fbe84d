//! The endpoints of a Service as kube-proxy merges them from its slices.

use crate::cluster::key::Key;
use crate::cluster::slice::{EndpointRecord, Place, PortKey, SliceRecord};
use crate::cluster::store::MeasuredCapacity;

/// A ready endpoint that counts, whatever number of slices it stands in.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The copy that counts.
    pub record: &'a EndpointRecord,
    /// Whether that copy is in the request's slice.
    pub in_request: bool,
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

/// Finds out where a member stands: its own zone, or that of its node.
pub fn stand(
    member: &Member<'_>,
    capacity: &MeasuredCapacity,
    zone_of_node: impl FnOnce(Key) -> Option<Key>,
) -> Stand {
    let zone = match member.record.place {
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

/// The members, in the order of their addresses: no order of slices or endpoints shows through.
#[derive(Debug)]
pub struct EndpointSet<'a> {
    members: Vec<Member<'a>>,
}

impl<'a> EndpointSet<'a> {
    /// Merges the slices that `counts` and that have a usable port. The first slice is the request's.
    ///
    /// An address that stands twice counts once: a copy that is not terminating first, as in kube-proxy, then the
    /// request's, then one that is ready, then the first by zone. A ready copy in the request's slice counts in any
    /// case, since it needs a hint.
    pub fn gather(
        slices: &[&'a SliceRecord],
        counts: impl Fn(&SliceRecord) -> bool,
        stand: impl Fn(&Member<'a>) -> Stand,
    ) -> Self {
        let mut copies: Vec<Member<'a>> = Vec::new();
        for (place, slice) in slices.iter().enumerate() {
            if !slice.ports.is_empty() && counts(slice) {
                copies.extend(slice.endpoints.iter().map(|record| Member {
                    record,
                    in_request: place == 0,
                }));
            }
        }
        let rank = |copy: &Member<'_>| {
            (
                copy.record.address,
                copy.record.terminating,
                !copy.in_request,
                !copy.record.ready,
            )
        };
        copies.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| stand(a).cmp(&stand(b))));
        let same_address = |a: &Member<'_>, b: &Member<'_>| a.record.address == b.record.address;
        let members = copies.chunk_by(same_address).filter_map(|copies| {
            let first = copies[0];
            let ours = || {
                copies
                    .iter()
                    .copied()
                    .find(|copy| copy.in_request && copy.record.ready)
            };
            if first.record.ready {
                Some(first)
            } else {
                ours()
            }
        });
        Self {
            members: members.collect(),
        }
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    fn place_of(&self, endpoint: &EndpointRecord) -> Option<usize> {
        self.members
            .binary_search_by_key(&endpoint.address, |member| member.record.address)
            .ok()
    }

    /// The hint among `hints`, which are in the order of the members, for the address of another set's member.
    #[must_use]
    pub fn hint_of(&self, member: &Member<'_>, hints: &[u16]) -> Option<u16> {
        self.place_of(member.record).map(|place| hints[place])
    }

    /// The hints for the endpoints of a slice, in their order: one for each ready endpoint of a slice that counts.
    #[must_use]
    pub fn project(&self, slice: &SliceRecord, hints: &[u16]) -> Vec<Option<u16>> {
        let counts = !slice.ports.is_empty();
        let hint = |endpoint: &EndpointRecord| {
            (counts && endpoint.ready)
                .then(|| self.place_of(endpoint))
                .flatten()
                .map(|place| hints[place])
        };
        slice.endpoints.iter().map(hint).collect()
    }
}

/// The ports that some slices have and others lack; none where all slices that count have the same.
#[must_use]
pub fn uneven_ports<'a>(slices: &[&'a SliceRecord]) -> Vec<&'a PortKey> {
    let mut counting = slices.iter().filter(|slice| !slice.ports.is_empty());
    let Some(first) = counting.next() else {
        return Vec::new();
    };
    if counting.all(|slice| slice.ports == first.ports) {
        return Vec::new();
    }
    let mut ports: Vec<&PortKey> = slices.iter().flat_map(|slice| slice.ports.iter()).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
