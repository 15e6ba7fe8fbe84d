//! Heuristic Auto, in counts: every endpoint for its own zone, then as few as needed for others.
//!
//! The redistribution is that of Kubernetes' topology cache (k8s.io/endpointslice/topologycache), with its ties, which
//! there follow map order, decided by zone name. Two steps are ours: endpoints from zones without capacity are given
//! away first, and a repair at the end brings every zone to its minimum, which Kubernetes does not.

use super::allocation::{Needs, most};

/// Where an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In a zone with capacity, by its number.
    Zone(u16),
    /// In a zone that has no counted capacity: no hint may name it.
    Homeless,
}

/// How many endpoints are to serve each zone, given `own` ready endpoints in each zone and `homeless` ones elsewhere,
/// beside `fixed` ones for each zone whose hints can't be changed and do not count in the answer.
///
/// `needs` must be for all of these endpoints. Every zone ends with at least its minimum; nothing where the fixed ones
/// do not allow that, which can't be when there are none.
#[must_use]
pub fn allocate(needs: &Needs, own: &[u32], homeless: u32, fixed: &[u32]) -> Option<Vec<u32>> {
    let mut allocation = Allocation {
        needs,
        fixed,
        hinted: own
            .iter()
            .zip(fixed)
            .map(|(own, fixed)| own + fixed)
            .collect(),
    };
    for _ in 0..homeless {
        let neediest = needs.furthest_below(&allocation.hinted);
        allocation.hinted[neediest] += 1;
    }
    allocation.redistribute();
    let free = |allocation: Allocation<'_>| {
        let all = allocation.hinted.into_iter().zip(fixed);
        all.map(|(hinted, fixed)| hinted - fixed).collect()
    };
    allocation.repair().then(|| free(allocation))
}

struct Allocation<'a> {
    needs: &'a Needs,
    /// Hints that can't be changed, by zone.
    fixed: &'a [u32],
    /// All hints, by zone.
    hinted: Vec<u32>,
}

impl Allocation<'_> {
    fn surplus(&self, zone: usize) -> i128 {
        self.needs.surplus(zone, self.hinted[zone])
    }

    fn can_give(&self, zone: usize) -> bool {
        self.hinted[zone] > self.fixed[zone]
    }

    fn redistribute(&mut self) {
        let one = self.needs.unit();
        loop {
            let able = (0..self.needs.zones()).filter(|&zone| self.can_give(zone));
            let Some((giver, to_give)) = most(able.map(|zone| (zone, self.surplus(zone)))) else {
                return;
            };
            let receiver = self.needs.furthest_below(&self.hinted);
            let to_receive = -self.surplus(receiver);
            let both_less_than_one = to_give < one && to_receive < one;
            let either_less_than_half = 2 * to_give < one || 2 * to_receive < one;
            if both_less_than_one || either_less_than_half {
                return;
            }
            self.shift(giver, receiver);
        }
    }

    /// Until every zone has its minimum, the zone with the most above its own target gives one. Whether all got there.
    fn repair(&mut self) -> bool {
        while let Some(receiver) = self.needs.furthest_below_minimum(&self.hinted) {
            let minimum = self.needs.minimum();
            let able = (0..self.needs.zones())
                .filter(|&zone| self.hinted[zone] > minimum[zone] && self.can_give(zone));
            let Some((giver, _)) = most(able.map(|zone| (zone, self.surplus(zone)))) else {
                return false;
            };
            self.shift(giver, receiver);
        }
        true
    }

    fn shift(&mut self, giver: usize, receiver: usize) {
        self.hinted[giver] -= 1;
        self.hinted[receiver] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocation::Threshold;
    use super::*;

    fn counts_beside(
        weights: &[u64],
        own: &[u32],
        homeless: u32,
        fixed: &[u32],
    ) -> Option<Vec<u32>> {
        let endpoints = own.iter().chain(fixed).sum::<u32>() + homeless;
        let needs = Needs::new(weights, endpoints, Threshold::KUBERNETES).unwrap();
        let free = allocate(&needs, own, homeless, fixed)?;
        Some(
            free.iter()
                .zip(fixed)
                .map(|(free, fixed)| free + fixed)
                .collect(),
        )
    }

    fn counts(weights: &[u64], own: &[u32], homeless: u32) -> Vec<u32> {
        counts_beside(weights, own, homeless, &vec![0; own.len()]).unwrap()
    }

    #[test]
    fn three_equal_zones_share_nine_endpoints() {
        assert_eq!(counts(&[1, 1, 1], &[4, 4, 1], 0), [3, 3, 3]);
    }

    #[test]
    fn nothing_moves_for_less_than_half_an_endpoint() {
        assert_eq!(counts(&[1, 1], &[6, 5], 0), [6, 5]);
    }

    #[test]
    fn the_repair_brings_a_zone_to_its_minimum() {
        // The first zone is 0.34 of an endpoint above its share, so Kubernetes leaves the second with nothing.
        assert_eq!(counts(&[54_418, 4000], &[5, 0], 0), [4, 1]);
    }

    #[test]
    fn fixed_hints_stay_and_the_rest_goes_around_them() {
        // Siblings hold 4 for the first zone; the 5 free ones must bring the others to their minimum of 3.
        assert_eq!(
            counts_beside(&[1, 1, 1], &[2, 2, 1], 0, &[3, 1, 0]),
            Some(vec![3, 3, 3])
        );
        assert_eq!(counts_beside(&[1, 1, 1], &[1, 0, 0], 0, &[8, 0, 0]), None);
    }

    #[test]
    fn an_endpoint_in_a_zone_without_capacity_is_given_to_the_neediest() {
        assert_eq!(counts(&[1, 1, 1], &[3, 3, 1], 2), [3, 3, 3]);
    }
}
