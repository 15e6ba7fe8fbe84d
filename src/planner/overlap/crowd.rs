//! The endpoints of one Service as a search sees them: in groups, among which it makes no difference which is which.

use super::super::allocation::{Threshold, minimum};
use super::super::counts::ratio;
use super::super::zone_set::ZoneSet;
use super::ceiling::Ceiling;

/// How many zones can be counted.
pub(super) const MOST: usize = ZoneSet::MOST;

/// The home of endpoints that stand in no counted zone.
pub(super) const HOMELESS: usize = MOST;

/// Counted zones, by their places among the counted ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Names(u8);

impl Names {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn one(zone: usize) -> Self {
        Self(1 << zone)
    }

    pub(super) fn all(zones: impl IntoIterator<Item = usize>) -> Self {
        zones
            .into_iter()
            .map(Self::one)
            .fold(Self::NONE, Self::with)
    }

    /// The first zones, so many.
    pub(super) fn first(zones: usize) -> Self {
        Self::all(0..zones)
    }

    /// All sets of the first zones, the empty one first.
    pub(super) fn subsets(zones: usize) -> impl Iterator<Item = Self> {
        (0..=Self::first(zones).0).map(Self)
    }

    pub(super) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(super) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(super) fn has(self, zone: usize) -> bool {
        self.0 >> zone & 1 == 1
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn zones(self) -> impl Iterator<Item = usize> + Clone {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let zone = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (zone < MOST).then_some(zone)
        })
    }
}

/// Endpoints of one home that name the same zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The zone that they stand in, or [`HOMELESS`].
    pub(super) home: usize,
    pub(super) names: Names,
    pub(super) count: u32,
}

impl Group {
    pub(super) fn is_foreign(&self) -> bool {
        is_foreign(self.home, self.names)
    }
}

/// Whether an endpoint of that home names anything but its own zone, which alone Kubernetes would hint it for.
pub(super) fn is_foreign(home: usize, names: Names) -> bool {
    home == HOMELESS || names != Names::one(home)
}

/// Groups in order, each once.
pub(super) fn merge(mut groups: Vec<Group>) -> Vec<Group> {
    groups.sort_unstable();
    groups.dedup_by(|again, group| {
        let same = (again.home, again.names) == (group.home, group.names);
        group.count += if same { again.count } else { 0 };
        same
    });
    groups
}

/// Something of each counted zone.
pub(super) type ByZone<T> = [T; MOST];

/// Counted zones and all ready endpoints, those whose hints are to be found and those whose hints are fixed.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    /// How many zones are counted; only so many of each `ByZone` mean something.
    pub(super) zones: usize,
    pub(super) weights: ByZone<u64>,
    /// A zone's part of all traffic.
    pub(super) shares: ByZone<f64>,
    /// The least number of endpoints that can serve a zone, if they serve no other.
    pub(super) minimum: ByZone<u32>,
    /// How many endpoints of each home are free.
    pub(super) free: [u32; MOST + 1],
    pub(super) fixed: Vec<Group>,
    /// All endpoints.
    pub(super) endpoints: u32,
    pub(super) ceiling: Ceiling,
}

impl Crowd {
    /// Endpoints by home, free and fixed, in zones of these weights, which are all above zero.
    pub(super) fn new(
        weights: &[u64],
        threshold: Threshold,
        free: [u32; MOST + 1],
        fixed: Vec<Group>,
    ) -> Self {
        let total = weights.iter().sum();
        let held: u32 = fixed.iter().map(|group| group.count).sum();
        let endpoints = free.iter().sum::<u32>() + held;
        let mut crowd = Self {
            zones: weights.len(),
            weights: [0; MOST],
            shares: [0.0; MOST],
            minimum: [0; MOST],
            free,
            fixed,
            endpoints,
            ceiling: Ceiling::new(total, endpoints, threshold),
        };
        for (zone, &weight) in weights.iter().enumerate() {
            crowd.weights[zone] = weight;
            crowd.shares[zone] = ratio(weight, total);
            crowd.minimum[zone] = minimum(weight, total, endpoints, threshold);
        }
        crowd
    }

    /// How many free endpoints there are.
    pub(super) fn free(&self) -> u32 {
        self.free.iter().sum()
    }

    /// How many fixed endpoints there are, of those that `which` is true of.
    pub(super) fn fixed(&self, which: impl Fn(&Group) -> bool) -> u32 {
        let groups = self.fixed.iter().filter(|group| which(group));
        groups.map(|group| group.count).sum()
    }

    /// How many endpoints stand in a zone.
    pub(super) fn at_home(&self, zone: usize) -> u32 {
        self.free[zone] + self.fixed(|group| group.home == zone)
    }

    /// The last zone before this one that is like it in all that a search sees.
    pub(super) fn twin_before(&self, zone: usize) -> Option<usize> {
        let looks = |zone: usize| (self.weights[zone], self.free[zone]);
        let mut before = (0..zone).rev();
        before.find(|&other| self.fixed.is_empty() && looks(other) == looks(zone))
    }

    /// The part of the traffic that stays in its zone when there are no hints.
    pub(super) fn in_zone_without_hints(&self) -> f64 {
        (0..self.zones)
            .map(|zone| self.in_zone(zone, self.at_home(zone), self.endpoints))
            .sum()
    }

    /// The part of all traffic that a zone keeps, where so many of those that serve it stand in it.
    pub(super) fn in_zone(&self, zone: usize, at_home: u32, served_by: u32) -> f64 {
        self.shares[zone] * f64::from(at_home) / f64::from(served_by)
    }
}
