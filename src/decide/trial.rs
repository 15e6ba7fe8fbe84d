//! What a change of a Service would come to: its slices, decided on in turn until they rest.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::endpoint_set::Stand;
use super::traffic::{self, by_port};
use super::{Asked, Decision, Snapshot, Verdict, decide, is_ignored, whole};
use crate::cluster::annotations::{AnnotationKey, TopologyMode};
use crate::cluster::service::ServiceRecord;
use crate::cluster::slice::{Address, EndpointRecord, HintSet, Place, SliceRecord};
use crate::planner::allocation::Threshold;
use crate::planner::heuristic::Heuristic;
use crate::planner::keep::Quality;
use crate::planner::reason::Reason;
use crate::settings::Settings;

/// Slices rest after two rounds, and after four with Overlap.
const MOST_ROUNDS: u32 = 6;

/// A Service and its slices of one address type, as they are or with changes.
#[derive(Debug, Clone)]
pub struct Trial<'a> {
    snapshot: &'a Snapshot<'a>,
    /// `namespace/name`.
    name: &'a str,
    settings: &'a Settings,
    service: ServiceRecord,
    slices: Vec<SliceRecord>,
    /// For each set of ports the place of the slice that new endpoints come to.
    with_ports: Vec<usize>,
    /// Endpoints that were added.
    added: u32,
}

impl<'a> Trial<'a> {
    /// The Service `name` (`namespace/name`) and these slices, all of one address type, as they are; nothing where the Service
    /// is not known.
    #[must_use]
    pub fn new(
        snapshot: &'a Snapshot<'a>,
        name: &'a str,
        slices: &[&SliceRecord],
        settings: &'a Settings,
    ) -> Option<Self> {
        let mut trial = Self {
            snapshot,
            name,
            settings,
            service: ServiceRecord::clone(snapshot.service()?.service.as_deref()?),
            slices: Vec::new(),
            with_ports: Vec::new(),
            added: 0,
        };
        let counting = slices.iter().filter(|slice| !slice.ports.is_empty());
        for slice in counting.filter(|slice| !is_ignored(slice, settings)) {
            let is_known = |place: &usize| have_same_ports(&trial.slices[*place], slice);
            if !trial.with_ports.iter().any(is_known) {
                trial.with_ports.push(trial.slices.len());
            }
            trial.slices.push(SliceRecord::clone(slice));
        }
        Some(trial)
    }

    /// The same without hints, in one slice for each set of ports: what is decided hardly depends on which of them has an
    /// endpoint, and this takes less time.
    #[must_use]
    pub fn joined(&self) -> Self {
        let join = |(number, &first): (usize, &usize)| {
            let first = &self.slices[first];
            let slices = self
                .slices
                .iter()
                .filter(|slice| have_same_ports(slice, first));
            let joined = whole::joined(first.address_type, &slices.collect::<Vec<_>>());
            SliceRecord {
                name: format!("trial-{number}").into(),
                endpoints: without_duplicates(&joined.endpoints),
                ..joined
            }
        };
        let slices: Vec<SliceRecord> = self.with_ports.iter().enumerate().map(join).collect();
        Self {
            with_ports: (0..slices.len()).collect(),
            slices,
            ..self.clone()
        }
    }

    /// The same with the slices of one set of ports alone.
    #[must_use]
    pub fn only(&self, ports: usize) -> Self {
        let first = &self.slices[self.with_ports[ports]];
        let slices = self
            .slices
            .iter()
            .filter(|slice| have_same_ports(slice, first));
        Self {
            slices: slices.cloned().collect(),
            with_ports: vec![0],
            ..self.clone()
        }
    }

    /// What its decisions follow, where anything opts it in.
    #[must_use]
    pub fn asked(&self) -> Option<Asked> {
        let snapshot = self.snapshot.with_service(self.service.clone());
        super::asked_for(&snapshot, self.name, self.settings)
    }

    /// The weights of the zones that its decisions follow, in zone order.
    #[must_use]
    pub fn weights(&self, asked: &Asked) -> Vec<u64> {
        asked.zones(self.snapshot.capacity()).weights.into_owned()
    }

    /// The same with the annotation `zonewise.dev/overload-threshold`.
    #[must_use]
    pub fn with_threshold(&self, threshold: Threshold) -> Self {
        let mut changed = self.clone();
        changed.service.annotations.threshold = Some(Ok(threshold));
        changed
    }

    /// The same with the annotation `service.kubernetes.io/topology-mode`.
    #[must_use]
    pub fn with_heuristic(&self, heuristic: Heuristic) -> Self {
        let mut changed = self.clone();
        let mode = TopologyMode::Heuristic(heuristic);
        changed.service.annotations.topology_mode = Some((AnnotationKey::TopologyMode, mode));
        changed
    }

    /// The same with more ready endpoints: `more[ports][zone]`, by the numbers of sets of ports and of zones.
    #[must_use]
    pub fn with_endpoints(&self, more: &[Vec<u32>]) -> Self {
        let mut changed = self.clone();
        for (&place, more) in self.with_ports.iter().zip(more) {
            let zones = (0..).zip(more);
            let new = zones.flat_map(|(zone, &count)| std::iter::repeat_n(zone, count as usize));
            for zone in new {
                changed.add(place, zone);
            }
        }
        changed
    }

    fn add(&mut self, slice: usize, zone: u16) {
        // Of a block that no cluster uses: RFC 3849.
        let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(self.added));
        self.added += 1;
        let new = EndpointRecord {
            address: Address::of(&address.to_string()),
            place: Place::Zone(self.snapshot.capacity().zone_key(zone)),
            hints: HintSet::Empty,
            ready: true,
            terminating: false,
        };
        let slice = &mut self.slices[slice];
        let endpoints = slice.endpoints.iter().cloned();
        slice.endpoints = endpoints.chain([new]).collect();
    }

    /// Its slices with different ports, the first of each set.
    pub fn with_ports(&self) -> impl ExactSizeIterator<Item = &SliceRecord> {
        self.with_ports.iter().map(|&place| &self.slices[place])
    }

    /// Whether slices with different ports have an address in common.
    #[must_use]
    pub fn shares_addresses(&self) -> bool {
        let mut places: HashMap<Address, usize> = HashMap::new();
        let mut slices = self.slices.iter().enumerate();
        slices.any(|(place, slice)| {
            let mut endpoints = slice.endpoints.iter();
            endpoints.any(|endpoint| {
                let first = *places.entry(endpoint.address).or_insert(place);
                !have_same_ports(&self.slices[first], slice)
            })
        })
    }

    /// Ready endpoints of a slice by zone.
    #[must_use]
    pub fn ready_in_zones(&self, slice: &SliceRecord) -> Vec<u32> {
        let mut ready = vec![0; self.snapshot.capacity().capacity.zones.len()];
        let endpoints = slice.endpoints.iter();
        for endpoint in endpoints.filter(|endpoint| endpoint.ready) {
            if let Stand::Zone(zone) = self.snapshot.stand(endpoint) {
                ready[usize::from(zone)] += 1;
            }
        }
        ready
    }

    /// What its hints come to, over the least of its ports; nothing unless every slice gets some.
    #[must_use]
    pub fn quality(&self) -> Option<Quality> {
        let snapshot = self.snapshot.with_service(self.service.clone());
        let mut slices: Vec<Arc<SliceRecord>> = self.slices.iter().cloned().map(Arc::new).collect();
        for _ in 0..MOST_ROUNDS {
            let mut rests = true;
            for place in 0..slices.len() {
                let known = snapshot.with_slices(slices.clone());
                let decision = decide(&known, Some(self.name), &slices[place], self.settings);
                let passes = matches!(decision.reason, Some(Reason::SiblingsOutOfStep { .. }));
                if decision.verdict != Verdict::Hints && !passes {
                    return None;
                }
                if passes || !decision.is_carried_out(&slices[place]) {
                    slices[place] = Arc::new(carried_out(&decision, &slices[place]));
                    rests = false;
                }
            }
            if rests {
                let records: Vec<&SliceRecord> = slices.iter().map(|slice| &**slice).collect();
                let weights = self.weights(&self.asked()?);
                let ports = by_port(&snapshot, &records, &weights, |_, _| Vec::new());
                return traffic::quality(&ports);
            }
        }
        None
    }
}

fn have_same_ports(one: &SliceRecord, other: &SliceRecord) -> bool {
    (&one.ports, &one.port_numbers) == (&other.ports, &other.port_numbers)
}

/// The slice with the hints that were decided.
fn carried_out(decision: &Decision, slice: &SliceRecord) -> SliceRecord {
    let mut slice = slice.clone();
    let mut hints = decision.hints.iter();
    for endpoint in &mut slice.endpoints {
        let zones = hints.next().map_or(&[][..], |zones| zones.zones());
        endpoint.hints = zones
            .iter()
            .map(|zone| decision.capacity.zone_key(*zone))
            .collect();
    }
    slice
}

/// Each address once: as kube-proxy has it, which prefers one that does not terminate.
fn without_duplicates(endpoints: &[EndpointRecord]) -> Box<[EndpointRecord]> {
    let rank = |endpoint: &EndpointRecord| (endpoint.terminating, !endpoint.ready);
    let mut places: HashMap<Address, usize> = HashMap::new();
    let mut kept: Vec<EndpointRecord> = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        let bare = EndpointRecord {
            hints: HintSet::Empty,
            ..endpoint.clone()
        };
        let place = *places.entry(endpoint.address).or_insert(kept.len());
        match kept.get_mut(place) {
            None => kept.push(bare),
            Some(known) if rank(&bare) < rank(known) => *known = bare,
            Some(_) => {}
        }
    }
    kept.into()
}
