//! Heuristics Overlap and PreferZone for one slice: endpoints may serve several zones, or none serve a zone, so that what
//! counts is what each endpoint carries, not how many serve a zone.

use std::collections::BTreeMap;

use super::{Ground, elsewhere};
use crate::cluster::slice::HintSet;
use crate::decide::endpoint_set::{Backend, Member};
use crate::decide::ports;
use crate::planner::allocation::most_short;
use crate::planner::auto::Origin;
use crate::planner::overlap::{self, Endpoint, Judged, Refusal};
use crate::planner::reason::{Overload, Reason};
use crate::planner::zone_set::ZoneSet;

/// In-zone shares that are equal may differ by so much.
const ROUNDING: f64 = 1e-9;

/// So many endpoints are shared at most. Auto has a plan for more, with nearly as much traffic in its zone, and takes
/// less time.
const MOST_SHARED: usize = 1000;

/// Heuristic Overlap: Auto's plan, unless there is none, or endpoints for several zones keep more traffic in its zone.
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn overlap(ground: &Ground<'_>) -> Result<Vec<ZoneSet>, Reason> {
    let auto = ground.auto();
    if ground.origins.len() > MOST_SHARED {
        return auto;
    }
    let in_zone = |hints: &[ZoneSet]| ground.judge(0..hints.len(), hints).in_zone;
    if let Ok(hints) = &auto
        && in_zone(hints) > 1.0 - ROUNDING
    {
        return auto;
    }
    match (auto, ground.overlap()) {
        (Ok(auto), Ok(overlap)) => {
            let is_better = in_zone(&overlap) > in_zone(&auto) + ROUNDING;
            Ok(if is_better { overlap } else { auto })
        }
        (Ok(hints), Err(_)) | (Err(_), Ok(hints)) => Ok(hints),
        // What passes is not told as what stays.
        (Err(passing @ Reason::SiblingsOutOfStep { .. }), Err(_)) => Err(passing),
        (Err(_), Err(Reason::NoBetterThanNone)) if !ground.bears_own_zones() => {
            Err(ground.no_overlap())
        }
        // What Auto would need can be had; what Overlap says is how things are.
        (Err(_), Err(reason)) => Err(reason),
    }
}

/// Heuristic PreferZone: every endpoint for its own zone, if that overloads none.
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn prefer_zone(ground: &Ground<'_>) -> Result<Vec<ZoneSet>, Reason> {
    let hints = ground.own_zones();
    ground.check(&hints)?;
    if ground.is_safe_now(&hints) {
        Ok(hints)
    } else {
        Err(ground.siblings_out_of_step())
    }
}

impl Ground<'_> {
    /// A plan of heuristic Overlap beside what the other slices have; else the request's part of a plan for all.
    fn overlap(&self) -> Result<Vec<ZoneSet>, Reason> {
        let is_stored = |member: &Member<'_>| self.stored(member).is_some();
        if self.set.members().iter().any(is_stored)
            && let Ok(hints) = self.plan_overlap(is_stored)
            && self.is_safe_now(&hints)
        {
            return Ok(hints);
        }
        let whole = self.plan_overlap(|_| false)?;
        if self.is_safe_now(&whole) {
            Ok(whole)
        } else {
            Err(self.siblings_out_of_step())
        }
    }

    /// A plan that keeps the guarantee behind each port: where ports are uneven, one for each set of slices that have the
    /// same, if those keep it together too.
    fn plan_overlap(&self, is_fixed: impl Fn(&Member<'_>) -> bool) -> Result<Vec<ZoneSet>, Reason> {
        let all: Vec<usize> = (0..self.origins.len()).collect();
        let parts = self.parts();
        if parts.len() > 1
            && let Some(hints) = self.plan_parts(&parts, &is_fixed)
            && self.check(&hints).is_ok()
        {
            return Ok(hints);
        }
        let hints = self.plan_together(&all, &is_fixed)?;
        self.check(&hints)?;
        Ok(hints)
    }

    /// Members by the ports of their slices.
    fn parts(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        if !self.ports.is_empty() {
            let numbers = ports::set_numbers(self.slices);
            for member in 0..self.origins.len() {
                let part = self.set.part_of(member, &numbers);
                parts.entry(part).or_default().push(member);
            }
        }
        parts
    }

    /// Nothing where a part has no plan.
    fn plan_parts(
        &self,
        parts: &BTreeMap<usize, Vec<usize>>,
        is_fixed: &impl Fn(&Member<'_>) -> bool,
    ) -> Option<Vec<ZoneSet>> {
        let mut hints = vec![ZoneSet::EMPTY; self.origins.len()];
        for part in parts.values() {
            let members = self.set.members();
            // What nobody can change now is not planned.
            let planned = if part.iter().all(|&member| is_fixed(&members[member])) {
                let stored = |&member: &usize| self.stored(&members[member]).unwrap_or_default();
                part.iter().map(stored).collect()
            } else {
                self.plan_together(part, is_fixed).ok()?
            };
            part.iter()
                .zip(planned)
                .for_each(|(&member, zones)| hints[member] = zones);
        }
        Some(hints)
    }

    fn plan_together(
        &self,
        members: &[usize],
        is_fixed: &impl Fn(&Member<'_>) -> bool,
    ) -> Result<Vec<ZoneSet>, Reason> {
        let ranks = self.slice_ranks();
        let endpoint = |&place: &usize| {
            let member = &self.set.members()[place];
            let fixed = is_fixed(member);
            let hints = if fixed {
                self.stored(member).unwrap_or_default()
            } else {
                self.zone_set(&member.record.hints)
            };
            Endpoint {
                origin: self.origins[place],
                hints,
                fixed,
                slice: ranks[member.slice],
            }
        };
        let endpoints: Vec<Endpoint> = members.iter().map(endpoint).collect();
        let (threshold, keep) = (self.rules.threshold, self.rules.keep);
        overlap::plan(&self.zones.weights, threshold, keep, &endpoints)
            .map(|plan| plan.hints)
            .map_err(|refusal| self.why(&refusal))
    }

    /// For each slice a number that does not tell which one is the request's: the order of their first addresses.
    fn slice_ranks(&self) -> Vec<u32> {
        let mut ranks = vec![u32::MAX; self.slices.len()];
        let mut next = 0;
        for member in self.set.members() {
            let rank = &mut ranks[member.slice];
            if *rank == u32::MAX {
                *rank = next;
                next += 1;
            }
        }
        ranks
    }

    fn why(&self, refusal: &Refusal) -> Reason {
        match *refusal {
            Refusal::TooManyZones { zones } => Reason::TooManyZones { zones },
            Refusal::NoBetterThanNone => Reason::NoBetterThanNone,
            Refusal::NoPlan | Refusal::SearchEnded => self.no_overlap(),
        }
    }

    fn no_overlap(&self) -> Reason {
        Reason::NoOverlap {
            endpoints: u32::try_from(self.origins.len()).unwrap_or(u32::MAX),
            threshold: self.rules.threshold,
        }
    }

    /// Whether what Kubernetes writes for a trafficDistribution, and what is stored, overloads nothing.
    fn bears_own_zones(&self) -> bool {
        let own = self.own_zones();
        let stored = self.set.members().iter().map(|m| &m.record.hints);
        let stored: Vec<ZoneSet> = stored.map(|hints| self.zone_set(hints)).collect();
        let is_followed = stored.iter().all(|zones| !zones.is_empty());
        self.check(&own).is_ok() && (!is_followed || self.check(&stored).is_ok())
    }

    /// Each endpoint's own zone; one that is in none with weight keeps its hint, or goes where the load is the highest.
    fn own_zones(&self) -> Vec<ZoneSet> {
        let weights = &self.zones.weights;
        let members = self.set.members().iter().zip(&self.origins);
        let mut hints: Vec<ZoneSet> = members
            .map(|(member, origin)| match origin {
                Origin::Zone(zone) => ZoneSet::one(*zone),
                Origin::Homeless => self.zone_set(&member.record.hints).only().into(),
            })
            .collect();
        let mut serving = vec![0u32; weights.len()];
        for zone in hints.iter().filter_map(ZoneSet::only) {
            serving[usize::from(zone)] += 1;
        }
        for zones in hints.iter_mut().filter(|zones| zones.is_empty()) {
            let zone = most_short(weights, &serving);
            serving[zone] += 1;
            *zones = ZoneSet::one(u16::try_from(zone).unwrap_or_default());
        }
        hints
    }

    /// That the guarantee holds once all slices have their part: behind each port of the request's slice, where ports are
    /// uneven, else for all endpoints.
    fn check(&self, hints: &[ZoneSet]) -> Result<(), Reason> {
        let threshold = self.rules.threshold;
        if self.ports.is_empty() {
            let all = self.judge(0..hints.len(), hints);
            return if all.meets {
                Ok(())
            } else {
                Err(Reason::OwnZonesOverloaded {
                    worst_overload: Overload::of(all.worst_overload),
                    threshold,
                })
            };
        }
        for group in self.own_ports() {
            let behind = self.set.behind(group);
            let judged = self.judge(behind.iter().map(|backend| backend.member), hints);
            if !judged.meets {
                return Err(Reason::PortOverloaded {
                    port: group.port.name.clone(),
                    worst_overload: Overload::of(judged.worst_overload),
                    threshold,
                });
            }
        }
        Ok(())
    }

    pub(super) fn judge(
        &self,
        members: impl Iterator<Item = usize> + Clone,
        hints: &[ZoneSet],
    ) -> Judged {
        let served = members.map(|member| (self.origins[member], hints[member]));
        overlap::judge(&self.zones.weights, self.rules.threshold, served)
    }

    /// Whether the guarantee holds behind every port of the request's slice when that gets its part of `hints` and the
    /// others stay as they are, whichever copy of an address kube-proxy uses.
    fn is_safe_now(&self, hints: &[ZoneSet]) -> bool {
        if self.ports.is_empty() {
            return self.is_safe_behind((0..hints.len()).map(Backend::behind_all), hints);
        }
        self.own_ports()
            .all(|group| self.is_safe_behind(self.set.behind(group), hints))
    }

    fn is_safe_behind<'g>(
        &self,
        backends: impl IntoIterator<Item = Backend<'g>>,
        hints: &[ZoneSet],
    ) -> bool {
        let mut served = Vec::new();
        for backend in backends {
            match self.serves_now(backend, hints) {
                Serves::Zones(zones) => served.push((self.origins[backend.member], zones)),
                // kube-proxy ignores hints behind a port that has an endpoint without.
                Serves::AnyZone => return true,
                Serves::Unclear => return false,
            }
        }
        overlap::judge(&self.zones.weights, self.rules.threshold, served).meets
    }

    /// What an endpoint serves as it stands now, with `hints` in the request's slice.
    fn serves_now(&self, backend: Backend<'_>, hints: &[ZoneSet]) -> Serves {
        let mut serves = Serves::AnyZone;
        for (in_request, copy) in self.set.usable_copies(backend) {
            let zones = match copy.hints {
                _ if in_request => hints[backend.member],
                // Of copies with and without a hint kube-proxy may use one with.
                HintSet::Empty => continue,
                _ => self.zone_set(&copy.hints),
            };
            serves = match serves {
                Serves::AnyZone => Serves::Zones(zones),
                Serves::Zones(others) if others == zones => serves,
                _ => Serves::Unclear,
            };
        }
        serves
    }

    /// What another slice hints a member for, if that has it and it has hints.
    fn stored(&self, member: &Member<'_>) -> Option<ZoneSet> {
        let copy = elsewhere(member).filter(|copy| copy.hints != HintSet::Empty)?;
        Some(self.zone_set(&copy.hints))
    }

    /// Those of the zones that have a part of the traffic.
    pub(super) fn zone_set(&self, hints: &HintSet) -> ZoneSet {
        let mut zones = ZoneSet::EMPTY;
        for zone in hints
            .zones()
            .iter()
            .filter_map(|zone| self.zones.number(*zone))
        {
            zones.insert(zone);
        }
        zones
    }
}

/// What an endpoint serves, as far as that can be counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// It has no hint.
    AnyZone,
    /// These zones; none where its hints name none that has a part of the traffic.
    Zones(ZoneSet),
    /// Copies of it say different things.
    Unclear,
}
