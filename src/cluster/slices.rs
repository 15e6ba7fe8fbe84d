//! The slices of one Service, in the order of their names.

use std::sync::Arc;

use super::slice::SliceRecord;

/// Slices by name.
///
/// The state of a Service is replaced whole with each change, so a change must not cost as much as the Service is large:
/// beyond 128 slices stand in chunks, of which a change copies one.
#[derive(Debug, Clone)]
pub struct Slices(Chunks);

#[derive(Debug, Clone)]
enum Chunks {
    One(Box<[Arc<SliceRecord>]>),
    /// None is empty.
    Many(Box<[Arc<[Arc<SliceRecord>]>]>),
}

/// How many slices stand together.
const MOST_IN_CHUNK: usize = 128;

impl Default for Slices {
    fn default() -> Self {
        Self(Chunks::One(Box::default()))
    }
}

impl From<Vec<Arc<SliceRecord>>> for Slices {
    /// Takes them in whatever order.
    fn from(mut slices: Vec<Arc<SliceRecord>>) -> Self {
        slices.sort_by(|a, b| a.name.cmp(&b.name));
        if slices.len() <= MOST_IN_CHUNK {
            return Self(Chunks::One(slices.into()));
        }
        // Half full, since more may come anywhere.
        let chunks = slices.chunks(MOST_IN_CHUNK / 2).map(Arc::from);
        Self(Chunks::Many(chunks.collect()))
    }
}

impl Slices {
    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SliceRecord>> {
        let (one, many) = match &self.0 {
            Chunks::One(slices) => (&**slices, &[][..]),
            Chunks::Many(chunks) => (&[][..], &**chunks),
        };
        one.iter().chain(many.iter().flat_map(|chunk| chunk.iter()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Chunks::One(slices) => slices.len(),
            Chunks::Many(chunks) => chunks.iter().map(|chunk| chunk.len()).sum(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same with `record` in place of the slice of its name, or beside the others; nothing where it is there as it
    /// is.
    #[must_use]
    pub fn with(&self, record: SliceRecord) -> Option<Self> {
        let (number, chunk) = self.chunk_for(&record.name);
        let place = place_in(chunk, &record.name);
        if place.is_ok_and(|place| *chunk[place] == record) {
            return None;
        }
        let mut slices = Vec::with_capacity(chunk.len() + 1);
        slices.extend_from_slice(chunk);
        match place {
            Ok(place) => slices[place] = Arc::new(record),
            Err(place) => slices.insert(place, Arc::new(record)),
        }
        Some(self.with_chunk(number, slices))
    }

    /// The same without the slice of this name; nothing where it is not there.
    #[must_use]
    pub fn without(&self, name: &str) -> Option<Self> {
        let (number, chunk) = self.chunk_for(name);
        let place = place_in(chunk, name).ok()?;
        let slices = [&chunk[..place], &chunk[place + 1..]].concat();
        Some(self.with_chunk(number, slices))
    }

    /// The chunk in which a name has its place, and its number.
    fn chunk_for(&self, name: &str) -> (usize, &[Arc<SliceRecord>]) {
        match &self.0 {
            Chunks::One(slices) => (0, slices),
            Chunks::Many(chunks) => {
                let behind = chunks.partition_point(|chunk| *chunk[0].name <= *name);
                let number = behind.saturating_sub(1);
                (number, &chunks[number])
            }
        }
    }

    fn with_chunk(&self, number: usize, slices: Vec<Arc<SliceRecord>>) -> Self {
        let Chunks::Many(chunks) = &self.0 else {
            return slices.into();
        };
        let most = match slices.len() {
            0..=MOST_IN_CHUNK => MOST_IN_CHUNK,
            over => over.div_ceil(2),
        };
        let mut next = Vec::with_capacity(chunks.len() + 1);
        next.extend_from_slice(&chunks[..number]);
        next.extend(slices.chunks(most).map(Arc::from));
        next.extend_from_slice(&chunks[number + 1..]);
        match next.as_slice() {
            [] => Self::default(),
            [only] => Self(Chunks::One(only.to_vec().into())),
            _ => Self(Chunks::Many(next.into())),
        }
    }
}

fn place_in(chunk: &[Arc<SliceRecord>], name: &str) -> Result<usize, usize> {
    chunk.binary_search_by(|slice| (*slice.name).cmp(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::slice::{AddressType, Manager};

    fn record(number: usize, address_type: AddressType) -> SliceRecord {
        SliceRecord {
            labels: Box::default(),
            version: crate::cluster::key::Key::of(""),
            manager: Manager::default(),
            has_node_hints: false,
            name: format!("web-{number:05}").into(),
            address_type,
            ports: Box::default(),
            port_numbers: Box::default(),
            endpoints: Box::default(),
            odd_field: None,
        }
    }

    /// Numbers from 0 to 999 in an order that is none.
    fn scattered() -> impl Iterator<Item = usize> {
        (0..1000).map(|i| i * 617 % 1000)
    }

    fn state(slices: &Slices) -> Vec<(&str, AddressType)> {
        slices.iter().map(|s| (&*s.name, s.address_type)).collect()
    }

    #[test]
    fn slices_are_in_the_order_of_their_names_however_they_come_change_and_go() {
        let mut slices = Slices::default();
        let mut expected = BTreeMap::new();
        let check = |slices: &Slices, expected: &BTreeMap<Box<str>, AddressType>| {
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, kind)| (&**name, *kind))
                .collect();
            assert_eq!(state(slices), expected);
            assert_eq!(slices.len(), expected.len());
        };
        for kind in [AddressType::Ipv4, AddressType::Ipv6] {
            for number in scattered() {
                let record = record(number, kind);
                expected.insert(record.name.clone(), kind);
                slices = slices.with(record).expect("it is new or changed");
            }
            check(&slices, &expected);
        }
        for (gone, number) in scattered().enumerate() {
            let name = record(number, AddressType::Ipv4).name;
            expected.remove(&name);
            slices = slices.without(&name).expect("it is there");
            if gone % 100 == 0 {
                check(&slices, &expected);
            }
        }
        assert!(slices.is_empty());
    }

    #[test]
    fn what_is_there_or_not_there_already_changes_nothing() {
        for count in [1, 1000] {
            let all = (0..count).map(|i| Arc::new(record(i, AddressType::Ipv4)));
            let slices = Slices::from(all.rev().collect::<Vec<_>>());
            assert!(slices.with(record(0, AddressType::Ipv4)).is_none());
            assert!(slices.without("other").is_none());
            assert!(state(&slices).is_sorted());
        }
    }

    #[test]
    fn a_change_among_many_shares_all_chunks_but_one() {
        let all = (0..20_000).map(|i| Arc::new(record(i, AddressType::Ipv4)));
        let slices = Slices::from(all.collect::<Vec<_>>());
        let changed = slices.with(record(7, AddressType::Ipv6)).unwrap();
        let (Chunks::Many(before), Chunks::Many(after)) = (&slices.0, &changed.0) else {
            panic!("they are many");
        };
        let shared = before.iter().zip(after).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), before.len() - 1);
    }
}
