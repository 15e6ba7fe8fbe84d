//! Hints for one slice beside those that the other slices of its Service have.

use std::collections::BTreeMap;

use super::endpoint_set::{self, EndpointSet, Member, PortGroup, Stand};
use crate::cluster::slice::SliceRecord;
use crate::cluster::store::MeasuredCapacity;
use crate::planner::allocation::Needs;
use crate::planner::auto::Origin;
use crate::planner::plan::{self, BelowMinimum, Endpoint, Fixed, Planner};
use crate::planner::reason::{Reason, Shortfall};
use crate::settings::Settings;

/// For each member of a set the zone that it is hinted for; nothing for one that another slice hints for a zone without
/// capacity.
pub(super) type MemberHints = Vec<Option<u16>>;

/// Plans hints for `set`, which was gathered from `slices`, the first of which is the request's.
///
/// One request can't change other slices, so its own hints are planned around theirs. Where none fit, it gets its part of
/// a plan for all, if kube-proxy does not follow hints yet because another slice still lacks some. Else it goes without:
/// kube-proxy then uses all endpoints for every zone, until the others are written. So the guarantee holds after every
/// write, behind every port.
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn plan(
    capacity: &MeasuredCapacity,
    slices: &[&SliceRecord],
    set: &EndpointSet<'_>,
    settings: &Settings,
) -> Result<MemberHints, Reason> {
    let problem = Problem {
        capacity,
        slices,
        set,
        origins: origins(set)?,
        ports: uneven_ports(slices)?,
        settings,
    };
    let endpoints = u32::try_from(set.members().len()).unwrap_or(u32::MAX);
    Needs::new(&capacity.weights, endpoints, settings.threshold).map_err(Reason::Shortfall)?;
    let roles: Vec<Role> = set
        .members()
        .iter()
        .map(|member| problem.role(member))
        .collect();
    if !roles.contains(&Role::Foreign) {
        let fits = |hints: &MemberHints| problem.port_below_minimum(hints).is_none();
        if let Some(hints) = problem.solve(&roles, fits)? {
            return Ok(hints);
        }
    }
    let whole = problem.solve_all()?;
    if problem.is_safe_now(&roles, &whole) {
        return Ok(whole);
    }
    Err(Reason::SiblingsOutOfStep {
        siblings: slices.len() - 1,
    })
}

fn origins(set: &EndpointSet<'_>) -> Result<Vec<Origin>, Reason> {
    let mut origins = Vec::with_capacity(set.members().len());
    let mut lost = Vec::new();
    for member in set.members() {
        match member.stand {
            Stand::Zone(zone) => origins.push(Origin::Zone(zone)),
            Stand::Homeless => origins.push(Origin::Homeless),
            Stand::Unknown => lost.push(member.record.address),
        }
    }
    match lost.first() {
        None => Ok(origins),
        Some(first) => Err(Reason::NoZoneSpecified {
            address: first.to_string().into(),
            more: lost.len() - 1,
        }),
    }
}

/// How many sets of ports are looked at: each costs a look at all endpoints.
const MOST_PORT_GROUPS: usize = 256;

/// How many ports are sorted into such sets.
const MOST_PORTS: usize = 100_000;

fn uneven_ports<'a>(slices: &[&'a SliceRecord]) -> Result<Vec<PortGroup<'a>>, Reason> {
    if slices.iter().map(|slice| slice.ports.len()).sum::<usize>() > MOST_PORTS {
        return Err(Reason::TooManyPorts);
    }
    let groups = endpoint_set::uneven_ports(slices);
    if groups.len() > MOST_PORT_GROUPS {
        return Err(Reason::TooManyPorts);
    }
    Ok(groups)
}

/// What a plan can do with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its hint is ours to give.
    Ours,
    /// Another slice has it, without a hint.
    Bare,
    /// Another slice has it, with hints that heuristic Auto does not give.
    Foreign,
    /// Another slice hints it for this zone, or for one without capacity.
    Fixed(Option<u16>),
}

struct Problem<'a> {
    capacity: &'a MeasuredCapacity,
    slices: &'a [&'a SliceRecord],
    set: &'a EndpointSet<'a>,
    /// Where the members stand.
    origins: Vec<Origin>,
    /// Ports that some slices lack.
    ports: Vec<PortGroup<'a>>,
    settings: &'a Settings,
}

impl Problem<'_> {
    fn role(&self, member: &Member<'_>) -> Role {
        if member.in_request() {
            return Role::Ours;
        }
        match member.record.hints.zones() {
            [] => Role::Bare,
            [zone] => match self.capacity.zone_number(*zone) {
                None if member.needs_hint => Role::Ours,
                zone => Role::Fixed(zone),
            },
            _ => Role::Foreign,
        }
    }

    /// The best plan when every hint can be changed, if it meets the guarantee behind each port too.
    fn solve_all(&self) -> Result<MemberHints, Reason> {
        let mut refused = None;
        let fits = |hints: &MemberHints| {
            let short = self.port_below_minimum(hints);
            let fits = short.is_none();
            refused = refused.take().or(short);
            fits
        };
        let solved = self.solve(&vec![Role::Ours; self.origins.len()], fits)?;
        solved.ok_or_else(|| refused.expect("minima that fit can be had when no hint is fixed"))
    }

    /// The best plan that fits, of those in which members of these roles meet the guarantee together.
    ///
    /// Where ports are uneven, each set of slices that have the same is planned by itself first: what meets the
    /// guarantee in its parts does so behind any port, and no such part waits for another.
    fn solve(
        &self,
        roles: &[Role],
        mut fits: impl FnMut(&MemberHints) -> bool,
    ) -> Result<Option<MemberHints>, Reason> {
        if !self.ports.is_empty()
            && let Some(hints) = self.plan_parts(roles).filter(&mut fits)
        {
            return Ok(Some(hints));
        }
        let all: Vec<usize> = (0..roles.len()).collect();
        self.plan_together(&all, roles, fits)
            .map_err(Reason::Shortfall)
    }

    fn plan_parts(&self, roles: &[Role]) -> Option<MemberHints> {
        let port_numbers = endpoint_set::number_of_ports(self.slices);
        let mut parts: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for member in 0..roles.len() {
            let part = self.set.part_of(member, &port_numbers);
            parts.entry(part).or_default().push(member);
        }
        let fixed = |role: &Role| match role {
            Role::Fixed(zone) => *zone,
            Role::Ours | Role::Bare | Role::Foreign => None,
        };
        let mut hints: MemberHints = roles.iter().map(fixed).collect();
        for part in parts.values() {
            // What nobody can change now is not judged by itself.
            let is_fixed = |&member: &usize| matches!(roles[member], Role::Fixed(_));
            if !part.iter().all(is_fixed) {
                let planned = self.plan_together(part, roles, |_| true).ok()??;
                part.iter()
                    .zip(planned)
                    .for_each(|(&member, hint)| hints[member] = hint);
            }
        }
        Some(hints)
    }

    /// The best plan that fits, for some of the members.
    fn plan_together(
        &self,
        members: &[usize],
        roles: &[Role],
        fits: impl FnMut(&MemberHints) -> bool,
    ) -> Result<Option<MemberHints>, Shortfall> {
        let weights = &self.capacity.weights;
        let mut fixed = Fixed::none(weights.len());
        let mut free = Vec::with_capacity(members.len());
        for &member in members {
            let origin = self.origins[member];
            match roles[member] {
                Role::Fixed(zone) => fixed.add(origin, zone),
                Role::Ours | Role::Bare | Role::Foreign => {
                    let hint = self.hint_now(&self.set.members()[member]);
                    free.push(Endpoint { origin, hint });
                }
            }
        }
        let (threshold, keep) = (self.settings.threshold, self.settings.keep);
        let planner = Planner::new(weights, threshold, keep, &free, &fixed)?;
        let hints = |planned: plan::Hints| {
            let mut next = planned.into_iter();
            let hint = |&member: &usize| match roles[member] {
                Role::Fixed(zone) => zone,
                Role::Ours | Role::Bare | Role::Foreign => next.next(),
            };
            members.iter().map(hint).collect()
        };
        Ok(planner.plans().map(hints).find(fits))
    }

    /// The zone that a member is hinted for now, where it is one with capacity.
    fn hint_now(&self, member: &Member<'_>) -> Option<u16> {
        match member.record.hints.zones() {
            [zone] => self.capacity.zone_number(*zone),
            _ => None,
        }
    }

    /// The first port whose endpoints, which are fewer than the Service's, are short in a zone.
    fn port_below_minimum(&self, hints: &[Option<u16>]) -> Option<Reason> {
        self.ports.iter().find_map(|group| {
            let BelowMinimum {
                zone,
                hinted,
                minimum,
            } = self.below_minimum(self.set.behind(&group.slices), hints)?;
            Some(Reason::PortBelowMinimum {
                port: group.port.name.clone(),
                zone: self.capacity.capacity.zones[zone].name.clone(),
                hinted,
                minimum,
            })
        })
    }

    fn below_minimum(
        &self,
        members: impl Iterator<Item = usize>,
        hints: &[Option<u16>],
    ) -> Option<BelowMinimum> {
        let weights = &self.capacity.weights;
        let (mut hinted, mut endpoints) = (vec![0; weights.len()], 0);
        for member in members {
            endpoints += 1;
            if let Some(zone) = hints[member] {
                hinted[usize::from(zone)] += 1;
            }
        }
        plan::below_minimum(weights, &hinted, endpoints, self.settings.threshold)
    }

    /// Whether the guarantee holds when the request's slice gets its part of `hints` and the others stay as they are.
    fn is_safe_now(&self, roles: &[Role], hints: &[Option<u16>]) -> bool {
        let now = |(role, hint): (&Role, &Option<u16>)| match role {
            Role::Fixed(zone) => *zone,
            Role::Ours | Role::Bare | Role::Foreign => *hint,
        };
        let now: MemberHints = roles.iter().zip(hints).map(now).collect();
        let is_safe = |members: &[usize]| {
            let has = |role| members.iter().any(|&member| roles[member] == role);
            let is_unclear = has(Role::Foreign);
            // kube-proxy ignores hints behind a port that has an endpoint without.
            has(Role::Bare)
                || !is_unclear && self.below_minimum(members.iter().copied(), &now).is_none()
        };
        if self.ports.is_empty() {
            return is_safe(&(0..roles.len()).collect::<Vec<_>>());
        }
        self.ports
            .iter()
            .all(|group| is_safe(&self.set.behind(&group.slices).collect::<Vec<_>>()))
    }
}
