//! Heuristic Auto: every endpoint for its own zone, then as few as needed for others.
//!
//! The redistribution is that of Kubernetes' topology cache (k8s.io/endpointslice/topologycache), with its ties, which
//! there follow map order, decided by zone name. Two steps are ours: endpoints from zones without capacity are given
//! away first, and a repair at the end brings every zone to its minimum, which Kubernetes does not.

use super::allocation::Needs;

/// How many endpoints of each zone serve each zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flows {
    zones: usize,
    counts: Vec<u32>,
}

impl Flows {
    /// Every endpoint serves its own zone, and homeless ones none yet.
    fn at_home(own: &[u32]) -> Self {
        let zones = own.len();
        let mut flows = Self {
            zones,
            counts: vec![0; zones * (zones + 1)],
        };
        for (zone, &count) in own.iter().enumerate() {
            *flows.cell(Origin::Zone(zone), zone) = count;
        }
        flows
    }

    fn cell(&mut self, from: Origin, to: usize) -> &mut u32 {
        &mut self.counts[from.row(self.zones) * self.zones + to]
    }

    /// How many endpoints from `from` are hinted for zone `to`.
    #[must_use]
    pub fn get(&self, from: Origin, to: usize) -> u32 {
        self.counts[from.row(self.zones) * self.zones + to]
    }
}

/// Where an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In a zone with capacity, by its number.
    Zone(usize),
    /// In a zone that has no counted capacity: no hint may name it.
    Homeless,
}

impl Origin {
    fn row(self, zones: usize) -> usize {
        match self {
            Self::Zone(zone) => zone,
            Self::Homeless => zones,
        }
    }
}

/// Which zones the endpoints serve, given `own` ready endpoints in each zone and `homeless` ones elsewhere, beside
/// `fixed` ones for each zone whose hints can't be changed.
///
/// `needs` must be for all of these endpoints. Every zone ends with at least its minimum; nothing where the fixed ones
/// do not allow that, which can't be when there are none.
#[must_use]
pub fn allocate(needs: &Needs, own: &[u32], homeless: u32, fixed: &[u32]) -> Option<Flows> {
    let hinted = own
        .iter()
        .zip(fixed)
        .map(|(own, fixed)| i128::from(own + fixed))
        .collect();
    let fixed = fixed.iter().map(|&count| i128::from(count)).collect();
    let mut allocation = Allocation {
        needs,
        fixed,
        hinted,
        flows: Flows::at_home(own),
    };
    allocation.give_away_homeless(homeless);
    allocation.redistribute();
    allocation.repair().then_some(allocation.flows)
}

struct Allocation<'a> {
    needs: &'a Needs,
    /// Hints that can't be changed, by zone.
    fixed: Vec<i128>,
    /// All hints, by zone.
    hinted: Vec<i128>,
    flows: Flows,
}

/// The first of the zones with the greatest value.
fn most(values: impl Iterator<Item = (usize, i128)>) -> Option<(usize, i128)> {
    values.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl Allocation<'_> {
    /// How far a zone is above its target (below: negative), in parts of an endpoint.
    fn surplus(&self, zone: usize) -> i128 {
        self.hinted[zone] * self.needs.unit() - self.needs.target(zone)
    }

    fn furthest_below(&self) -> Option<(usize, i128)> {
        most((0..self.needs.zones()).map(|zone| (zone, -self.surplus(zone))))
    }

    fn can_give(&self, zone: usize) -> bool {
        self.hinted[zone] > self.fixed[zone]
    }

    fn give_away_homeless(&mut self, homeless: u32) {
        for _ in 0..homeless {
            let Some((zone, _)) = self.furthest_below() else {
                return;
            };
            self.hinted[zone] += 1;
            *self.flows.cell(Origin::Homeless, zone) += 1;
        }
    }

    fn redistribute(&mut self) {
        let one = self.needs.unit();
        loop {
            let able = (0..self.needs.zones()).filter(|&zone| self.can_give(zone));
            let giving = most(able.map(|zone| (zone, self.surplus(zone))));
            let (Some((giver, to_give)), Some((receiver, to_receive))) =
                (giving, self.furthest_below())
            else {
                return;
            };
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
        let minimum: Vec<i128> = self
            .needs
            .minimum()
            .iter()
            .map(|&m| i128::from(m))
            .collect();
        loop {
            let zones = 0..self.needs.zones();
            let missing = most(
                zones
                    .clone()
                    .map(|zone| (zone, minimum[zone] - self.hinted[zone])),
            );
            let Some((receiver, 1..)) = missing else {
                return true;
            };
            let able =
                zones.filter(|&zone| self.hinted[zone] > minimum[zone] && self.can_give(zone));
            let Some((giver, _)) = most(able.map(|zone| (zone, self.surplus(zone)))) else {
                return false;
            };
            self.shift(giver, receiver);
        }
    }

    /// Moves one hint. An endpoint that serves `giver` from elsewhere goes before one that is at home there, and one
    /// that is at home with `receiver` before all.
    fn shift(&mut self, giver: usize, receiver: usize) {
        let elsewhere = (0..self.needs.zones())
            .filter(|&zone| zone != giver && zone != receiver)
            .map(Origin::Zone);
        let order = std::iter::once(Origin::Zone(receiver))
            .chain(std::iter::once(Origin::Homeless))
            .chain(elsewhere)
            .chain(std::iter::once(Origin::Zone(giver)));
        for from in order {
            if self.flows.get(from, giver) > 0 {
                *self.flows.cell(from, giver) -= 1;
                *self.flows.cell(from, receiver) += 1;
                self.hinted[giver] -= 1;
                self.hinted[receiver] += 1;
                return;
            }
        }
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
        let flows = allocate(&needs, own, homeless, fixed)?;
        let origins = || (0..own.len()).map(Origin::Zone).chain([Origin::Homeless]);
        Some(
            (0..own.len())
                .map(|zone| fixed[zone] + origins().map(|from| flows.get(from, zone)).sum::<u32>())
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
