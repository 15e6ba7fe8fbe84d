//! Heuristics Overlap and PreferZone for one slice: endpoints may serve several zones, or none serve a zone, so that what
//! counts is what each endpoint carries, not how many serve a zone.

use std::collections::BTreeSet;

use super::{Ground, Serves, elsewhere};
use crate::cluster::slice::HintSet;
use crate::decide::endpoint_set::Member;
use crate::decide::ports::PortGroup;
use crate::planner::auto::Origin;
use crate::planner::overlap::{self, Endpoint, Judged, Refusal};
use crate::planner::prefer_zone;
use crate::planner::reason::{Overload, Reason};
use crate::planner::zone_set::ZoneSet;

/// Heuristic Overlap: Auto's plan, unless there is none that gains anything, or endpoints for several zones keep more traffic
/// in its zone.
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn overlap(ground: &Ground<'_>) -> Result<Vec<ZoneSet>, Reason> {
    let in_zone = |hints: &[ZoneSet]| ground.judge(0..hints.len(), hints).in_zone;
    let auto = ground.auto().and_then(|hints| {
        let endpoints = ground.origins.iter().copied().zip(hints.iter().copied());
        let gains = overlap::gains(&ground.zones.weights, ground.rules.threshold, endpoints);
        gains
            .then_some(hints)
            .ok_or(Reason::NoBetterThanNone { zoneless: None })
    });
    if ground.origins.len() > overlap::MOST_ENDPOINTS {
        return auto;
    }
    if let Ok(hints) = &auto
        && in_zone(hints) > 1.0 - overlap::ROUNDING
        && ground.keeps(hints)
    {
        return auto;
    }
    match (auto, ground.overlap()) {
        (Ok(auto), Ok(overlap)) => {
            let margin = match (ground.keeps(&auto), ground.keeps(&overlap)) {
                (true, false) => ground.rules.keep.in_zone,
                (false, true) => -ground.rules.keep.in_zone,
                _ => 0.0,
            };
            let is_better = in_zone(&overlap) > in_zone(&auto) + margin + overlap::ROUNDING;
            Ok(if is_better { overlap } else { auto })
        }
        (Ok(hints), Err(_)) | (Err(_), Ok(hints)) => Ok(hints),
        // What passes is not told as what stays.
        (Err(passing @ Reason::SiblingsOutOfStep { .. }), Err(_)) => Err(passing),
        (Err(_), Err(Reason::NoBetterThanNone { .. })) if !ground.bears_own_zones() => {
            Err(ground.no_overlap(ground.origins.len()))
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
    let kept = ground.own_zones(|member| ground.zone_set(&member.record.hints));
    let hints = match ground.excess(&kept) {
        None => kept,
        // Hints that endpoints in no zone have are in the way, maybe.
        Some(_) => ground.own_zones(|_| ZoneSet::EMPTY),
    };
    if let Some(Excess {
        port,
        worst_overload,
    }) = ground.excess(&hints)
    {
        let threshold = ground.rules.threshold;
        return Err(match port {
            Some(port) => ground.port_overloaded(port, worst_overload),
            None => Reason::OwnZonesOverloaded {
                worst_overload,
                threshold,
            },
        });
    }
    if ground.bears_now(&hints) {
        Ok(hints)
    } else {
        Err(ground.siblings_out_of_step())
    }
}

/// That hints overload an endpoint.
struct Excess<'a> {
    /// The port behind which they do, where ports are uneven.
    port: Option<&'a str>,
    worst_overload: Overload,
}

/// Behind which ports a plan has to keep the guarantee, where ports are uneven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those that are connected with the request's slice: else it counts on other slices for what these can't do behind
    /// their other ports.
    Connected,
    /// Those of the request's slice, and of slices that share endpoints with it.
    Shared,
}

impl Ground<'_> {
    /// A plan of heuristic Overlap that keeps the guarantee behind every connected port, or where there is none, behind those
    /// of the request's slice.
    fn overlap(&self) -> Result<Vec<ZoneSet>, Reason> {
        match self.overlap_behind(Scope::Connected) {
            Err(reason)
                if !self.ports.is_empty()
                    && !matches!(reason, Reason::SiblingsOutOfStep { .. }) =>
            {
                self.overlap_behind(Scope::Shared)
            }
            planned => planned,
        }
    }

    /// A plan beside what the other slices have; where there is none, or a plan for all is better by the margin by which hints
    /// give way, the request's part of that.
    fn overlap_behind(&self, scope: Scope) -> Result<Vec<ZoneSet>, Reason> {
        let is_stored = |member: &Member<'_>| self.stored(member).is_some();
        let beside = if self.set.members().iter().any(is_stored) {
            let planned = self.plan_overlap(is_stored, scope).ok();
            planned.filter(|hints| self.bears_now(hints))
        } else {
            None
        };
        let whole = self.plan_overlap(|_| false, scope);
        match (beside, whole) {
            (Some(beside), Ok(whole)) => {
                let quality = |hints: &[ZoneSet]| self.judge(0..hints.len(), hints).quality();
                let keep = self.rules.keep;
                if !keep.give_way(&quality(&beside), &quality(&whole)) {
                    Ok(beside)
                } else if self.bears_now(&whole) {
                    Ok(whole)
                } else {
                    // kube-proxy follows no hints while one slice is without, so that the others can change.
                    Err(self.siblings_out_of_step())
                }
            }
            (Some(beside), Err(_)) => Ok(beside),
            (None, Ok(whole)) if self.bears_now(&whole) => Ok(whole),
            (None, Ok(_)) => Err(self.siblings_out_of_step()),
            (None, Err(reason)) => Err(reason),
        }
    }

    /// A plan that keeps the guarantee behind each port: where ports are uneven, one for each set of slices that have the
    /// same, if those keep it together too.
    fn plan_overlap(
        &self,
        is_fixed: impl Fn(&Member<'_>) -> bool,
        scope: Scope,
    ) -> Result<Vec<ZoneSet>, Reason> {
        let all: Vec<usize> = (0..self.origins.len()).collect();
        if !self.ports.is_empty()
            && let Some(hints) = self.plan_parts(&is_fixed, scope)?
            && self.excess_behind(&hints, scope).is_none()
        {
            return Ok(hints);
        }
        let hints = self.plan_together(&all, &is_fixed)?;
        match self.excess_behind(&hints, scope) {
            None => Ok(hints),
            Some(excess) => Err(excess.port.map_or_else(
                || self.no_overlap(all.len()),
                |port| self.port_overloaded(port, excess.worst_overload),
            )),
        }
    }

    /// Nothing where a part that has a port of the request's slice has no plan, but may have one together with others.
    fn plan_parts(
        &self,
        is_fixed: &impl Fn(&Member<'_>) -> bool,
        scope: Scope,
    ) -> Result<Option<Vec<ZoneSet>>, Reason> {
        let members = self.set.members();
        let mut hints: Vec<ZoneSet> = members
            .iter()
            .map(|member| self.stored(member).unwrap_or_default())
            .collect();
        let behind_own: BTreeSet<usize> = self
            .ports_in(scope)
            .flat_map(|group| self.set.behind(group))
            .map(|backend| backend.member)
            .collect();
        for part in self.parts().values() {
            // What nobody can change now is not planned.
            if part.iter().all(|&member| is_fixed(&members[member])) {
                continue;
            }
            match self.plan_together(part, is_fixed) {
                Ok(planned) => part
                    .iter()
                    .zip(planned)
                    .for_each(|(&member, zones)| hints[member] = zones),
                // What happens behind other ports alone is no matter of the request's.
                Err(_) if part.iter().all(|member| !behind_own.contains(member)) => {}
                Err(reason) if behind_own.iter().all(|member| part.contains(member)) => {
                    return Err(reason);
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(hints))
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
            .map_err(|refusal| self.why(&refusal, members.len()))
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

    fn why(&self, refusal: &Refusal, endpoints: usize) -> Reason {
        match *refusal {
            Refusal::TooManyZones { zones } => Reason::TooManyZones { zones },
            Refusal::NoBetterThanNone => Reason::NoBetterThanNone { zoneless: None },
            Refusal::NoPlan | Refusal::SearchEnded => self.no_overlap(endpoints),
        }
    }

    fn no_overlap(&self, endpoints: usize) -> Reason {
        Reason::NoOverlap {
            endpoints: u32::try_from(endpoints).unwrap_or(u32::MAX),
            threshold: self.rules.threshold,
        }
    }

    /// Whether nothing is overloaded by what Kubernetes writes for a trafficDistribution, in all slices or in the request's
    /// alone, or by what is stored.
    fn bears_own_zones(&self) -> bool {
        let own = |origin: &Origin| match origin {
            Origin::Zone(zone) => ZoneSet::one(*zone),
            // Kubernetes hints it for a zone that has no part of the traffic.
            Origin::Homeless => ZoneSet::EMPTY,
        };
        let own: Vec<ZoneSet> = self.origins.iter().map(own).collect();
        let stored = || self.set.members().iter().map(|m| &m.record.hints);
        let is_followed = stored().all(|hints| *hints != HintSet::Empty);
        let stored: Vec<ZoneSet> = stored().map(|hints| self.zone_set(hints)).collect();
        self.excess(&own).is_none()
            && self.bears_now(&own)
            && (!is_followed || self.excess(&stored).is_none())
    }

    /// Heuristic PreferZone, where `kept` says what endpoints in no zone with weight keep.
    fn own_zones(&self, kept: impl Fn(&Member<'_>) -> ZoneSet) -> Vec<ZoneSet> {
        let members = self.set.members().iter().zip(&self.origins);
        let endpoints = members.map(|(member, origin)| (*origin, kept(member).only()));
        prefer_zone::hints(&self.zones.weights, endpoints)
    }

    fn ports_in(&self, scope: Scope) -> Box<dyn Iterator<Item = &PortGroup<'_>> + '_> {
        match scope {
            Scope::Connected => Box::new(self.connected_ports()),
            Scope::Shared => Box::new(self.shared_ports()),
        }
    }

    /// What is too much once all slices have their part: behind one of the ports of the request's slice and of those that
    /// share endpoints with it, where ports are uneven, else for all endpoints.
    fn excess(&self, hints: &[ZoneSet]) -> Option<Excess<'_>> {
        self.excess_behind(hints, Scope::Shared)
    }

    fn excess_behind(&self, hints: &[ZoneSet], scope: Scope) -> Option<Excess<'_>> {
        let excess_of = |judged: Judged, port| {
            (!judged.meets).then(|| Excess {
                port,
                worst_overload: Overload::of(judged.worst_overload),
            })
        };
        if self.ports.is_empty() {
            return excess_of(self.judge(0..hints.len(), hints), None);
        }
        self.ports_in(scope).find_map(|group| {
            let behind = self.set.behind(group);
            let members = behind.iter().map(|backend| backend.member);
            excess_of(self.judge(members, hints), Some(group.name()))
        })
    }

    fn port_overloaded(&self, port: &str, worst_overload: Overload) -> Reason {
        Reason::PortOverloaded {
            port: port.into(),
            worst_overload,
            threshold: self.rules.threshold,
        }
    }

    pub(super) fn judge(
        &self,
        members: impl Iterator<Item = usize> + Clone,
        hints: &[ZoneSet],
    ) -> Judged {
        let served = members.map(|member| (self.origins[member], hints[member]));
        overlap::judge(&self.zones.weights, self.rules.threshold, served)
    }

    /// Whether the guarantee holds with the request's part of `hints` and the others as they are.
    fn bears_now(&self, hints: &[ZoneSet]) -> bool {
        self.is_safe_now(hints, |serving| {
            let known = |&(origin, serves): &(Origin, Serves)| match serves {
                Serves::Zones(zones) => Some((origin, zones)),
                Serves::OneOfSeveral | Serves::Unclear => None,
            };
            let served: Option<Vec<_>> = serving.iter().map(known).collect();
            let threshold = self.rules.threshold;
            served.is_some_and(|all| overlap::judge(&self.zones.weights, threshold, all).meets)
        })
    }

    /// Whether hints leave all that are stored as they are.
    fn keeps(&self, hints: &[ZoneSet]) -> bool {
        let mut members = self.set.members().iter().zip(hints);
        members.all(|(member, zones)| {
            let stored = &member.record.hints;
            *stored == HintSet::Empty || self.zone_set(stored) == *zones
        })
    }

    /// What another slice hints a member for, if that has it and it has hints.
    fn stored(&self, member: &Member<'_>) -> Option<ZoneSet> {
        let copy = elsewhere(member).filter(|copy| copy.hints != HintSet::Empty)?;
        Some(self.zone_set(&copy.hints))
    }
}
