//! Hints for one slice beside those that the other slices of its Service have.

mod auto;
mod not_ready;
mod overloaded;
mod shared;

pub use overloaded::{Overloaded, ShortZone};

use std::collections::BTreeMap;

use super::endpoint_set::{Backend, EndpointSet, Member, Stand};
use super::ports::{self, Links, PortGroup};
use super::zones::Zones;
use crate::cluster::slice::{EndpointRecord, HintSet, SliceRecord};
use crate::planner::allocation::Threshold;
use crate::planner::auto::Origin;
use crate::planner::heuristic::Heuristic;
use crate::planner::keep::KeepRules;
use crate::planner::reason::Reason;
use crate::planner::zone_set::ZoneSet;

/// What plans follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanRules {
    /// How hints are planned.
    pub heuristic: Heuristic,
    /// The overload threshold.
    pub threshold: Threshold,
    /// When hints that meet the guarantee give way to better ones.
    pub keep: KeepRules,
}

/// Plans hints for the endpoints of the request's slice, in their order. `set` was gathered from `slices`, the first of
/// which is the request's.
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn plan(
    zones: &Zones<'_>,
    slices: &[&SliceRecord],
    set: &EndpointSet<'_>,
    rules: PlanRules,
    zone_of: impl Fn(&EndpointRecord) -> Stand,
) -> Result<Vec<ZoneSet>, Reason> {
    let ground = Ground {
        zones,
        slices,
        set,
        origins: origins(zones, set),
        ports: ports::uneven(slices)?,
        rules,
    };
    let hints = match rules.heuristic {
        _ if set.members().is_empty() => ground.auto(),
        Heuristic::Auto => ground.auto(),
        Heuristic::Overlap => shared::overlap(&ground),
        Heuristic::PreferZone => shared::prefer_zone(&ground),
    };
    let members = ground.complete(hints?);
    let mut hints = set.project(&members);
    ground.hint_not_ready(&members, zone_of, &mut hints);
    Ok(hints)
}

/// What is wrong with the hints that the members have, where kube-proxy follows them behind a port of the request's slice.
///
/// # Errors
/// Why that can't be told.
pub(super) fn overloaded(
    zones: &Zones<'_>,
    slices: &[&SliceRecord],
    set: &EndpointSet<'_>,
    rules: PlanRules,
) -> Result<Option<Overloaded>, Reason> {
    let ground = Ground {
        zones,
        slices,
        set,
        // Load does not depend on where endpoints stand.
        origins: vec![Origin::Homeless; set.members().len()],
        ports: ports::uneven(slices)?,
        rules,
    };
    Ok(ground.overloaded())
}

fn origins(zones: &Zones<'_>, set: &EndpointSet<'_>) -> Vec<Origin> {
    let origin = |member: &Member<'_>| match member.stand {
        Stand::Zone(zone) if zones.has_weight(zone) => Origin::Zone(zone),
        Stand::Zone(_) | Stand::Homeless | Stand::Unknown => Origin::Homeless,
    };
    set.members().iter().map(origin).collect()
}

/// What any heuristic plans for.
struct Ground<'a> {
    zones: &'a Zones<'a>,
    slices: &'a [&'a SliceRecord],
    set: &'a EndpointSet<'a>,
    /// Where the members stand.
    origins: Vec<Origin>,
    /// What to look behind one by one, where ports are uneven.
    ports: Vec<PortGroup<'a>>,
    rules: PlanRules,
}

impl Ground<'_> {
    fn auto(&self) -> Result<Vec<ZoneSet>, Reason> {
        let hints = auto::plan(self)?;
        Ok(hints.into_iter().map(ZoneSet::from).collect())
    }

    /// The ports that the request's slice has, where ports are uneven.
    fn own_ports(&self) -> impl Iterator<Item = &PortGroup<'_>> {
        let is_own = |group: &&PortGroup<'_>| group.slices.contains(&0);
        self.ports.iter().filter(is_own)
    }

    /// These, and those of slices that share running endpoints with the request's: kube-proxy on some nodes would follow
    /// its hints, on others those of such a slice, and none where that has to go without.
    fn shared_ports(&self) -> impl Iterator<Item = &PortGroup<'_>> {
        self.ports_linked(self.set.links(self.slices.len(), &self.ports))
    }

    /// These, and those of all slices that have one of them, and so on: what a slice does behind one port depends on what it
    /// can do behind its others.
    fn connected_ports(&self) -> impl Iterator<Item = &PortGroup<'_>> {
        let mut links = self.set.links(self.slices.len(), &self.ports);
        for group in &self.ports {
            for slices in group.slices.windows(2) {
                links.join(slices[0], slices[1]);
            }
        }
        self.ports_linked(links)
    }

    /// The ports of the slices that are linked with the request's.
    fn ports_linked(&self, mut links: Links) -> impl Iterator<Item = &PortGroup<'_>> {
        let ours = links.root(0);
        let slices = 0..self.slices.len();
        let linked: Vec<bool> = slices.map(|slice| links.root(slice) == ours).collect();
        let is_linked =
            move |group: &&PortGroup<'_>| group.slices.iter().any(|&slice| linked[slice]);
        self.ports.iter().filter(is_linked)
    }

    fn siblings_out_of_step(&self) -> Reason {
        Reason::SiblingsOutOfStep {
            siblings: self.slices.len() - 1,
        }
    }

    /// Members by the ports of their slices.
    fn parts(&self) -> BTreeMap<usize, Vec<usize>> {
        let numbers = ports::set_numbers(self.slices);
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for member in 0..self.origins.len() {
            let part = self.set.part_of(member, &numbers);
            parts.entry(part).or_default().push(member);
        }
        parts
    }

    /// Whether the guarantee holds behind every port of the request's slice when that gets its part of `hints` and the
    /// others stay as they are, whichever copy of an address kube-proxy uses; `bears` judges the endpoints behind one port.
    fn is_safe_now(&self, hints: &[ZoneSet], bears: impl Fn(&[(Origin, Serves)]) -> bool) -> bool {
        let is_safe_behind = |backends: &mut dyn Iterator<Item = Backend<'_>>| {
            let mut serving = Vec::new();
            for backend in backends {
                match self.serves_now(backend, hints) {
                    // kube-proxy ignores hints behind a port that has an endpoint without.
                    None => return true,
                    Some(serves) => serving.push((self.origins[backend.member], serves)),
                }
            }
            bears(&serving)
        };
        if self.ports.is_empty() {
            return is_safe_behind(&mut (0..hints.len()).map(Backend::behind_all));
        }
        self.own_ports()
            .all(|group| is_safe_behind(&mut self.set.behind(group).into_iter()))
    }

    /// What an endpoint serves as it stands now, with `hints` in the request's slice; nothing where it has no hint.
    fn serves_now(&self, backend: Backend<'_>, hints: &[ZoneSet]) -> Option<Serves> {
        let mut serves = None;
        for (in_request, copy) in self.set.usable_copies(backend) {
            let zones = match copy.hints {
                _ if in_request => hints[backend.member],
                // Its slice gets hints too, once it is written.
                HintSet::Empty => continue,
                _ => self.zone_set(&copy.hints),
            };
            let is_one_of = |zones: &ZoneSet| zones.zones().len() <= 1;
            serves = Some(match serves {
                None => Serves::Zones(zones),
                Some(Serves::Zones(others)) if others == zones => Serves::Zones(zones),
                Some(Serves::Zones(others)) if is_one_of(&others) && is_one_of(&zones) => {
                    Serves::OneOfSeveral
                }
                Some(Serves::OneOfSeveral) if is_one_of(&zones) => Serves::OneOfSeveral,
                Some(_) => Serves::Unclear,
            });
        }
        serves
    }

    /// Those of the zones that have a part of the traffic.
    fn zone_set(&self, hints: &HintSet) -> ZoneSet {
        let zones = hints.zones().iter();
        zones.filter_map(|zone| self.zones.number(*zone)).collect()
    }

    /// Gives a hint to what needs one though it counts as lost: a copy of an endpoint that another slice hints for a zone
    /// without capacity. It gets one that others serve: alone it would carry the whole zone.
    fn complete(&self, mut hints: Vec<ZoneSet>) -> Vec<ZoneSet> {
        let is_lost = |member: &Member<'_>, zones: &ZoneSet| member.needs_hint && zones.is_empty();
        let mut members = self.set.members().iter().zip(&hints);
        if !members.any(|(member, zones)| is_lost(member, zones)) {
            return hints;
        }
        let named = hints
            .iter()
            .find_map(|zones| zones.zones().first().copied());
        let named = named.unwrap_or_else(|| self.zones.first_with_weight());
        let own = |origin: &Origin| match origin {
            Origin::Zone(zone) if hints.iter().any(|zones| zones.contains(*zone)) => *zone,
            _ => named,
        };
        let of_lost: Vec<u16> = self.origins.iter().map(own).collect();
        for ((member, zone), zones) in self.set.members().iter().zip(of_lost).zip(&mut hints) {
            if is_lost(member, zones) {
                *zones = ZoneSet::one(zone);
            }
        }
        hints
    }
}

/// What an endpoint with hints serves, as far as that can be counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// These zones; none where its hints name none that has a part of the traffic.
    Zones(ZoneSet),
    /// One zone at most, but copies of it say different ones.
    OneOfSeveral,
    /// Copies of it say different things, several zones among them.
    Unclear,
}

/// The copy in another slice that kube-proxy may use.
fn elsewhere<'a>(member: &Member<'a>) -> Option<&'a EndpointRecord> {
    let own = (!member.in_request()).then_some(member.record);
    member.elsewhere.or(own)
}
