//! Hints for endpoints that are not ready, terminating ones included.
//!
//! kube-proxy ignores these hints. Cilium 1.19.1 and 1.20.1 also select starting backends: one without a hint makes them
//! ignore all hints of the Service, and one that alone names a zone leaves that zone without a usable backend. So each of
//! these endpoints has a hint while a ready one has, and names only zones that a ready endpoint names.

use super::{Ground, Serves};
use crate::cluster::slice::EndpointRecord;
use crate::decide::endpoint_set::{Backend, Stand};
use crate::planner::allocation::most_short;
use crate::planner::zone_set::ZoneSet;

impl Ground<'_> {
    /// Fills in the hints of the request's endpoints that are not ready, given those of the members: the zones of the
    /// stored hint that ready endpoints name, else the endpoint's own zone, else the zone with the highest load.
    pub(super) fn hint_not_ready(
        &self,
        members: &[ZoneSet],
        zone_of: impl Fn(&EndpointRecord) -> Stand,
        hints: &mut [ZoneSet],
    ) {
        let Some(request) = self.slices.first() else {
            return;
        };
        if request.ports.is_empty() || request.endpoints.iter().all(|endpoint| endpoint.ready) {
            return;
        }
        let named = self.named(members);
        let Some(busiest) = named.busiest() else {
            return;
        };
        for (endpoint, hint) in request.endpoints.iter().zip(hints) {
            if !endpoint.ready {
                let stored = named.of(self.zone_set(&endpoint.hints));
                let own = match zone_of(endpoint) {
                    Stand::Zone(zone) => named.of(ZoneSet::one(zone)),
                    Stand::Homeless | Stand::Unknown => ZoneSet::EMPTY,
                };
                let mut choices = [stored, own].into_iter().filter(|zones| !zones.is_empty());
                *hint = choices.next().unwrap_or(ZoneSet::one(busiest));
            }
        }
    }

    /// The zones that ready endpoints name behind every port of the request's slice, once that has its part of the
    /// members' hints. Ready endpoints that terminate count only where all do: Cilium does not count them as active.
    fn named(&self, members: &[ZoneSet]) -> Named {
        let running = self.named_by(members, |copy| !copy.terminating);
        if running.busiest().is_some() {
            return running;
        }
        self.named_by(members, |_| true)
    }

    fn named_by(&self, members: &[ZoneSet], counts: impl Fn(&EndpointRecord) -> bool) -> Named {
        let all = (0..members.len()).map(Backend::behind_all);
        let serving = self.serving(all, members, &counts);
        let mut named = Named {
            weights: self.zones.weights.to_vec(),
            serving,
        };
        named.keep_served(&named.serving.clone());
        for group in self.own_ports() {
            let behind = self.set.behind(group);
            if !behind.is_empty() {
                named.keep_served(&self.serving(behind, members, &counts));
            }
        }
        named
    }

    /// How many of the ready endpoints that count name each zone for certain.
    fn serving<'g>(
        &self,
        backends: impl IntoIterator<Item = Backend<'g>>,
        members: &[ZoneSet],
        counts: impl Fn(&EndpointRecord) -> bool,
    ) -> Vec<u32> {
        let mut serving = vec![0; self.zones.weights.len()];
        let backends = backends.into_iter();
        for backend in backends.filter(|backend| counts(self.set.used_copy(*backend).record)) {
            if let Some(Serves::Zones(zones)) = self.serves_now(backend, members) {
                for &zone in zones.zones() {
                    serving[usize::from(zone)] += 1;
                }
            }
        }
        serving
    }
}

/// The zones that a hint may name.
struct Named {
    /// The weight of each of them, and 0 for the other zones.
    weights: Vec<u64>,
    /// Ready endpoints that name each zone, behind any port.
    serving: Vec<u32>,
}

impl Named {
    fn keep_served(&mut self, serving: &[u32]) {
        for (weight, &serving) in self.weights.iter_mut().zip(serving) {
            if serving == 0 {
                *weight = 0;
            }
        }
    }

    /// Those of `zones` that a hint may name.
    fn of(&self, zones: ZoneSet) -> ZoneSet {
        let zones = zones.zones().iter().copied();
        zones
            .filter(|zone| self.weights[usize::from(*zone)] > 0)
            .collect()
    }

    /// The zone whose endpoints carry the most, the first of several.
    fn busiest(&self) -> Option<u16> {
        let others: Vec<u32> = self.serving.iter().map(|n| n.saturating_sub(1)).collect();
        let busiest = most_short(&self.weights, &others);
        let is_named = self.weights.get(busiest).is_some_and(|weight| *weight > 0);
        is_named.then(|| u16::try_from(busiest).ok()).flatten()
    }
}
