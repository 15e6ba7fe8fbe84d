//! The ports of a Service's slices: kube-proxy merges endpoints for each port by itself.

use std::collections::BTreeMap;

use crate::cluster::slice::{PortKey, SliceRecord};
use crate::planner::reason::Reason;

/// How many ports of all slices are looked at one by one; with more of them that are uneven nothing is planned.
const MOST_PORTS: usize = 100_000;

/// How many sets of ports are looked at, and numbers of a port: each costs a look at all endpoints.
const MOST_PORT_GROUPS: usize = 256;

/// Ports with the same endpoints, and the slices that have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroup<'a> {
    /// The ports, in order; at least one.
    pub ports: Vec<&'a PortKey>,
    /// The places of these slices, in order.
    pub slices: Vec<usize>,
    /// For each of them which of the port's numbers it has: 0 for the first slice's, 1 for the next other one.
    numbers: Vec<usize>,
}

impl<'a> PortGroup<'a> {
    /// The name of the first port, `""` where it has none.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.ports[0].name
    }

    /// Which of the port's numbers a slice has: kube-proxy merges copies of an address that have the same.
    #[must_use]
    pub fn number_in(&self, slice: usize) -> Option<usize> {
        let at = self.slices.binary_search(&slice).ok()?;
        Some(self.numbers[at])
    }

    fn has_too_many_numbers(&self) -> bool {
        self.numbers
            .iter()
            .any(|&number| number >= MOST_PORT_GROUPS)
    }
}

/// Whether every port has the same endpoints: all slices that count have the same ports, and any two of them the same
/// numbers for all or for none.
#[must_use]
pub fn are_even(slices: &[&SliceRecord]) -> bool {
    if are_alike(slices) {
        return true;
    }
    let Some(first) = counting(slices).next() else {
        return true;
    };
    if counting(slices).any(|slice| slice.ports != first.ports) {
        return false;
    }
    let mut distinct: Vec<&[i64]> = counting(slices).map(|slice| &*slice.port_numbers).collect();
    distinct.sort_unstable();
    distinct.dedup();
    (0..first.ports.len()).all(|port| {
        let mut numbers: Vec<i64> = distinct.iter().map(|numbers| numbers[port]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() == distinct.len()
    })
}

/// Whether all slices that count have the same ports with the same numbers, as nearly always.
fn are_alike(slices: &[&SliceRecord]) -> bool {
    let mut counting = counting(slices);
    let first = counting.next();
    first.is_none_or(|first| {
        counting.all(|slice| slice.ports == first.ports && slice.port_numbers == first.port_numbers)
    })
}

fn counting<'s>(slices: &'s [&SliceRecord]) -> impl Iterator<Item = &'s SliceRecord> {
    let slices = slices.iter().copied();
    slices.filter(|slice| !slice.ports.is_empty())
}

/// The ports of all slices, one for each set of slices that have it; none where ports are even.
///
/// # Errors
/// [`Reason::TooManyPorts`].
pub fn uneven<'a>(slices: &[&'a SliceRecord]) -> Result<Vec<PortGroup<'a>>, Reason> {
    if are_even(slices) {
        return Ok(Vec::new());
    }
    if total(slices) > MOST_PORTS {
        return Err(Reason::TooManyPorts);
    }
    let groups = groups(slices);
    if groups.len() > MOST_PORT_GROUPS || groups.iter().any(PortGroup::has_too_many_numbers) {
        return Err(Reason::TooManyPorts);
    }
    Ok(groups)
}

fn total(slices: &[&SliceRecord]) -> usize {
    slices.iter().map(|slice| slice.ports.len()).sum()
}

fn groups<'a>(slices: &[&'a SliceRecord]) -> Vec<PortGroup<'a>> {
    let ports_of = |(place, slice): (usize, &&'a SliceRecord)| {
        let ports = slice.ports.iter().zip(&slice.port_numbers);
        ports.map(move |(port, number)| (port, place, number))
    };
    let mut ports: Vec<(&PortKey, usize, &i64)> =
        slices.iter().enumerate().flat_map(ports_of).collect();
    ports.sort_unstable();
    let group = |same: &[(&'a PortKey, usize, &i64)]| {
        let mut known: BTreeMap<i64, usize> = BTreeMap::new();
        let mut number_of = |number: &i64| {
            let next = known.len();
            *known.entry(*number).or_insert(next)
        };
        PortGroup {
            ports: vec![same[0].0],
            slices: same.iter().map(|(_, place, _)| *place).collect(),
            numbers: same
                .iter()
                .map(|(_, _, number)| number_of(number))
                .collect(),
        }
    };
    let mut groups: Vec<PortGroup<'_>> = ports.chunk_by(|a, b| a.0 == b.0).map(group).collect();
    groups.sort_by(|a, b| (&a.slices, &a.numbers).cmp(&(&b.slices, &b.numbers)));
    groups.dedup_by(|later, first| {
        let same = (&later.slices, &later.numbers) == (&first.slices, &first.numbers);
        if same {
            first.ports.append(&mut later.ports);
        }
        same
    });
    groups.sort_by_key(|group| group.ports[0]);
    groups
}

/// For each slice a number that says which ports it has: the same for the same ports, whatever the order of slices.
#[must_use]
pub fn set_numbers(slices: &[&SliceRecord]) -> Vec<usize> {
    let mut distinct: Vec<&[PortKey]> = slices.iter().map(|slice| &*slice.ports).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let number = |slice: &&SliceRecord| distinct.partition_point(|ports| *ports < &*slice.ports);
    slices.iter().map(number).collect()
}

/// For each slice a number that tells it apart from those in which a port of the same name has another number; nothing
/// where no port has two.
///
/// Slices that share a port and its number have the same, since copies of an address in them are one endpoint behind that
/// port, and so do all that are linked in this way: one address there is to have one hint.
#[must_use]
pub fn variants<'a>(slices: &[&'a SliceRecord]) -> Vec<usize> {
    if total(slices) > MOST_PORTS || are_alike(slices) {
        return Vec::new();
    }
    let numbered = |(place, slice): (usize, &&'a SliceRecord)| {
        let ports = slice.ports.iter().zip(&slice.port_numbers);
        ports.map(move |(port, number)| (port, number, place))
    };
    let mut ports: Vec<(&PortKey, &i64, usize)> =
        slices.iter().enumerate().flat_map(numbered).collect();
    ports.sort_unstable();
    let mut links = Links::new(&ports, slices.len());
    // The order of what is linked is that of its ports, so that no order of slices shows through.
    let mut order = Vec::new();
    let mut linked: BTreeMap<usize, Vec<&PortKey>> = BTreeMap::new();
    for (port, _, place) in ports {
        let root = links.root(place);
        let ports = linked.entry(root).or_insert_with(|| {
            order.push(root);
            Vec::new()
        });
        ports.push(port);
    }
    let mut variants = vec![0; slices.len()];
    let mut next: BTreeMap<&PortKey, usize> = BTreeMap::new();
    for root in order {
        let taken = linked[&root].iter().filter_map(|port| next.get(port));
        let variant = taken.max().copied().unwrap_or_default();
        next.extend(linked[&root].iter().map(|port| (*port, variant + 1)));
        variants[root] = variant;
    }
    (0..slices.len())
        .map(|place| variants[links.root(place)])
        .collect()
}

/// Which slices are linked, directly or through others.
pub struct Links(Vec<usize>);

impl Links {
    /// None of so many slices is linked with another.
    #[must_use]
    pub fn none(slices: usize) -> Self {
        Self((0..slices).collect())
    }

    /// Links slices, by their places, that share a port and its number. The ports are in order.
    fn new(ports: &[(&PortKey, &i64, usize)], slices: usize) -> Self {
        let mut links = Self::none(slices);
        for same in ports.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            for port in same {
                links.join(same[0].2, port.2);
            }
        }
        links
    }

    /// The slice that stands for all that a slice is linked with.
    pub fn root(&mut self, mut of: usize) -> usize {
        while self.0[of] != of {
            self.0[of] = self.0[self.0[of]];
            of = self.0[of];
        }
        of
    }

    /// Links two slices.
    pub fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wire::EndpointSlice;

    fn slice(ports: &[(&str, i64)]) -> SliceRecord {
        let port = |(name, number): &(&str, i64)| serde_json::json!({"name": name, "port": number});
        let ports: Vec<_> = ports.iter().map(port).collect();
        let json = serde_json::json!({"ports": ports});
        SliceRecord::read(&serde_json::from_value::<EndpointSlice<Box<str>>>(json).unwrap())
    }

    fn of<T>(slices: &[&[(&str, i64)]], ask: impl Fn(&[&SliceRecord]) -> T) -> T {
        let records: Vec<SliceRecord> = slices.iter().map(|ports| slice(ports)).collect();
        ask(&records.iter().collect::<Vec<_>>())
    }

    #[test]
    fn ports_are_even_where_each_has_the_same_endpoints() {
        let even = |slices: &[&[(&str, i64)]]| of(slices, are_even);
        assert!(even(&[]));
        assert!(even(&[&[("http", 80)], &[("http", 80)], &[]]));
        assert!(even(&[&[("http", 80)], &[("http", 8080)]]));
        assert!(even(&[
            &[("http", 80), ("grpc", 90)],
            &[("http", 81), ("grpc", 91)]
        ]));
        assert!(!even(&[&[("http", 80)], &[("http", 80), ("grpc", 90)]]));
        assert!(!even(&[
            &[("http", 80), ("grpc", 90)],
            &[("http", 80), ("grpc", 91)]
        ]));
    }

    #[test]
    fn slices_with_other_numbers_of_a_port_are_told_apart_unless_they_are_linked() {
        let variants = |slices: &[&[(&str, i64)]]| of(slices, variants);
        let (http, other_http): (&[_], &[_]) = (&[("http", 80)], &[("http", 8080)]);
        assert_eq!(variants(&[other_http, http, other_http]), [1, 0, 1]);
        assert_eq!(variants(&[http, &[("grpc", 90)], other_http]), [0, 0, 1]);
        let both: &[_] = &[("grpc", 90), ("http", 80)];
        let other_both: &[_] = &[("grpc", 90), ("http", 8080)];
        assert_eq!(variants(&[both, other_both]), [0, 0]);
        assert_eq!(variants(&[http, both, other_both, other_http]), [0; 4]);
        assert_eq!(variants(&[other_both, http, &[("grpc", 90)]]), [0, 1, 0]);
    }

    #[test]
    fn a_port_is_looked_behind_once_for_all_that_the_same_slices_have() {
        let slices: [&[_]; 2] = [
            &[("a", 1), ("b", 2), ("c", 3), ("d", 4)],
            &[("a", 1), ("b", 2), ("c", 4), ("d", 5)],
        ];
        let groups = of(&slices, |slices| {
            let groups = uneven(slices).unwrap();
            let shown = |group: &PortGroup<'_>| {
                let ports = group.ports.iter().map(|port| port.name.clone());
                (ports.collect::<Vec<_>>().concat(), group.numbers.clone())
            };
            groups.iter().map(shown).collect::<Vec<_>>()
        });
        assert_eq!(
            groups,
            [("ab".into(), vec![0, 0]), ("cd".into(), vec![0, 1])]
        );
    }
}
