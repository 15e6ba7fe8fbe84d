//! The zones that one endpoint is hinted for.

/// Zones by their numbers, in order: at most as many as the API allows in one hint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneSet {
    len: u8,
    zones: [u16; Self::MOST],
}

impl ZoneSet {
    /// How many zones a hint may name (`maxZoneHints` of k8s.io/kubernetes/pkg/apis/discovery/validation).
    pub const MOST: usize = 8;

    /// No zone, which is no hint.
    pub const EMPTY: Self = Self {
        len: 0,
        zones: [0; Self::MOST],
    };

    /// One zone.
    #[must_use]
    pub const fn one(zone: u16) -> Self {
        let mut zones = [0; Self::MOST];
        zones[0] = zone;
        Self { len: 1, zones }
    }

    /// Adds a zone; whether there was room for it or it was there.
    pub fn insert(&mut self, zone: u16) -> bool {
        let Err(place) = self.zones().binary_search(&zone) else {
            return true;
        };
        let len = usize::from(self.len);
        if len == Self::MOST {
            return false;
        }
        self.zones.copy_within(place..len, place + 1);
        self.zones[place] = zone;
        self.len += 1;
        true
    }

    /// The zones, each once, in order.
    #[must_use]
    pub fn zones(&self) -> &[u16] {
        &self.zones[..usize::from(self.len)]
    }

    /// Whether it names a zone.
    #[must_use]
    pub fn contains(&self, zone: u16) -> bool {
        self.zones().contains(&zone)
    }

    /// Whether it names none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The zone, where it names exactly one.
    #[must_use]
    pub fn only(&self) -> Option<u16> {
        match self.zones() {
            [zone] => Some(*zone),
            _ => None,
        }
    }
}

impl FromIterator<u16> for ZoneSet {
    /// The first [`ZoneSet::MOST`] of these zones.
    fn from_iter<I: IntoIterator<Item = u16>>(zones: I) -> Self {
        let mut set = Self::EMPTY;
        for zone in zones {
            set.insert(zone);
        }
        set
    }
}

impl From<Option<u16>> for ZoneSet {
    fn from(zone: Option<u16>) -> Self {
        zone.map_or(Self::EMPTY, Self::one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_in_order_and_stand_once() {
        let mut set = ZoneSet::one(5);
        for zone in [9, 1, 5, 7] {
            assert!(set.insert(zone));
        }
        assert_eq!(set.zones(), [1, 5, 7, 9]);
        assert!(set.contains(7) && !set.contains(2));
    }

    #[test]
    fn a_ninth_zone_has_no_room() {
        let mut set = ZoneSet::EMPTY;
        assert!((0..8).all(|zone| set.insert(zone)));
        assert!(!set.insert(8) && set.insert(3));
        assert_eq!(set.zones().len(), ZoneSet::MOST);
    }

    #[test]
    fn only_one_zone_is_the_only_one() {
        let mut set = ZoneSet::one(3);
        assert_eq!(set.only(), Some(3));
        set.insert(4);
        assert_eq!((set.only(), ZoneSet::EMPTY.only()), (None, None));
    }
}
