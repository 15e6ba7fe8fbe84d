//! Heuristic Auto for one slice beside those that the other slices of its Service have.

use std::cell::OnceCell;

use super::{Ground, Serves, elsewhere};
use crate::decide::endpoint_set::{Backend, Member};
use crate::decide::ports::PortGroup;
use crate::planner::allocation::Needs;
use crate::planner::guarantee::{self, BelowMinimum};
use crate::planner::plan::{self, Endpoint, Fixed, Planner};
use crate::planner::reason::{Behind, Reason, Shortfall};
use crate::planner::zone_set::ZoneSet;

/// For each member of a set the zone that it is hinted for; nothing for one that another slice hints for a zone without
/// capacity.
type MemberHints = Vec<Option<u16>>;

/// Plans hints for the request's slice.
///
/// One request can't change other slices, so its own hints are planned around theirs. Where none fit, it gets its part of
/// a plan for all, if kube-proxy does not follow hints yet because another slice still lacks some. Else it goes without:
/// kube-proxy then uses all endpoints for every zone, until the others are written. So no write of a slice with a ready
/// endpoint breaks the guarantee behind any of its ports. (One without has no say: what the others have stays in force.)
///
/// # Errors
/// Why the request's slice gets no hints.
pub(super) fn plan(ground: &Ground<'_>) -> Result<MemberHints, Reason> {
    let problem = Problem {
        ground,
        by_parts: OnceCell::new(),
    };
    problem.plan()
}

/// What a plan can do with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Give it any hint.
    Free,
    /// Nothing: another slice hints it for this zone, or for one without capacity.
    Fixed(Option<u16>),
}

struct Problem<'a> {
    ground: &'a Ground<'a>,
    /// The plan for all by parts, once it has been asked for; nothing inside where there is none.
    by_parts: OnceCell<Option<MemberHints>>,
}

impl Problem<'_> {
    fn plan(&self) -> Result<MemberHints, Reason> {
        let whole = if self.ground.ports.is_empty() {
            None
        } else {
            self.check_minima()?;
            Some(self.solve_all()?)
        };
        if !self.is_unclear() {
            let roles: Vec<Role> = self
                .ground
                .set
                .members()
                .iter()
                .map(|m| self.role(m))
                .collect();
            let fits = |hints: &MemberHints| {
                self.short_port(self.ground.own_ports(), hints).is_none()
                    && (!self.ground.set.has_twins() || self.is_safe_now(hints))
            };
            if let Some(hints) = self.solve(&roles, fits)? {
                return Ok(hints);
            }
        }
        let whole = whole.map_or_else(|| self.solve_all(), Ok)?;
        if self.is_safe_now(&whole) {
            return Ok(whole);
        }
        Err(self.ground.siblings_out_of_step())
    }

    /// That the minima of all can be had, which parts that are empty do not tell.
    fn check_minima(&self) -> Result<(), Reason> {
        let of = |endpoints: usize| {
            let endpoints = u32::try_from(endpoints).unwrap_or(u32::MAX);
            let Ground { zones, rules, .. } = self.ground;
            Needs::new(&zones.weights, endpoints, rules.threshold).err()
        };
        let Some(all) = of(self.ground.origins.len()) else {
            return Ok(());
        };
        let behind = |group: &PortGroup<'_>| {
            let endpoints = self.ground.set.behind(group).len();
            let shortfall = of(endpoints).filter(|_| endpoints > 0)?;
            Some((shortfall, Behind::Port(group.name().into())))
        };
        let of_port = self.ground.ports.iter().find_map(behind);
        let (shortfall, behind) = of_port.unwrap_or((all, Behind::SomePort));
        Err(Reason::Shortfall(Shortfall {
            behind,
            ..shortfall
        }))
    }

    fn role(&self, member: &Member<'_>) -> Role {
        match elsewhere(member).map(|copy| copy.hints.zones()) {
            Some([zone]) => Role::Fixed(self.ground.zones.number(*zone)),
            _ => Role::Free,
        }
    }

    /// The zone that a member is hinted for now, where it is one with capacity.
    fn hint_now(&self, member: &Member<'_>) -> Option<u16> {
        match member.record.hints.zones() {
            [zone] => self.ground.zones.number(*zone),
            _ => None,
        }
    }

    /// Whether another slice has hints behind the same ports that heuristic Auto does not give: what they do to load is
    /// not worked out here.
    fn is_unclear(&self) -> bool {
        let members = self.ground.set.members();
        if self.ground.ports.is_empty() {
            return members.iter().any(is_foreign);
        }
        let mut behind = self
            .ground
            .own_ports()
            .flat_map(|group| self.ground.set.behind(group));
        behind.any(|backend| is_foreign(&members[backend.member]))
    }

    /// The best plan when every hint can be changed, if it meets the guarantee behind each port too.
    fn solve_all(&self) -> Result<MemberHints, Reason> {
        if let Some(hints) = self.by_parts() {
            return Ok(hints.clone());
        }
        let mut refused = None;
        let fits = |hints: &MemberHints| {
            let short = self.short_port(self.ground.ports.iter(), hints);
            let fits = short.is_none();
            refused = refused.take().or(short);
            fits
        };
        let solved = self.solve(&vec![Role::Free; self.ground.origins.len()], fits)?;
        solved.ok_or_else(|| refused.expect("minima that fit can be had when no hint is fixed"))
    }

    /// The best plan that fits, of those in which members of these roles meet the guarantee together.
    ///
    /// Where ports are uneven, each set of slices that have the same is planned by itself if that can be done: what meets
    /// the guarantee in its parts does so behind any port, and no such part waits for another.
    fn solve(
        &self,
        roles: &[Role],
        mut fits: impl FnMut(&MemberHints) -> bool,
    ) -> Result<Option<MemberHints>, Reason> {
        if self.by_parts().is_some() {
            return Ok(self.plan_parts(roles).filter(&mut fits));
        }
        let all: Vec<usize> = (0..roles.len()).collect();
        self.plan_together(&all, roles, fits)
            .map_err(Reason::Shortfall)
    }

    /// The plan for all in which each set of slices with the same ports meets the guarantee by itself, where there is one.
    fn by_parts(&self) -> Option<&MemberHints> {
        let plan = || {
            if self.ground.ports.is_empty() {
                return None;
            }
            let all_free = vec![Role::Free; self.ground.origins.len()];
            self.plan_parts(&all_free).filter(|hints| {
                let all_planned = hints.iter().all(Option::is_some);
                all_planned && self.short_port(self.ground.ports.iter(), hints).is_none()
            })
        };
        self.by_parts.get_or_init(plan).as_ref()
    }

    /// Nothing where the part of the request's slice can't be planned.
    fn plan_parts(&self, roles: &[Role]) -> Option<MemberHints> {
        let mut hints: MemberHints = roles
            .iter()
            .map(|role| match role {
                Role::Fixed(zone) => *zone,
                Role::Free => None,
            })
            .collect();
        for part in self.ground.parts().values() {
            // What nobody can change now is not judged by itself.
            if part.iter().all(|&member| roles[member] != Role::Free) {
                continue;
            }
            let planned = self.plan_together(part, roles, |_| true);
            if let Some(planned) = planned.ok().flatten() {
                part.iter()
                    .zip(planned)
                    .for_each(|(&member, hint)| hints[member] = hint);
            } else if part
                .iter()
                .any(|&member| self.ground.set.members()[member].in_request())
            {
                return None;
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
        let weights = &self.ground.zones.weights;
        let mut fixed = Fixed::none(weights.len());
        let mut free = Vec::with_capacity(members.len());
        for &member in members {
            let origin = self.ground.origins[member];
            match roles[member] {
                Role::Fixed(zone) => fixed.add(origin, zone),
                Role::Free => {
                    let hint = self.hint_now(&self.ground.set.members()[member]);
                    free.push(Endpoint { origin, hint });
                }
            }
        }
        let (threshold, keep) = (self.ground.rules.threshold, self.ground.rules.keep);
        let planner = Planner::new(weights, threshold, keep, &free, &fixed)?;
        let hints = |planned: plan::Hints| {
            let mut next = planned.into_iter();
            let hint = |&member: &usize| match roles[member] {
                Role::Fixed(zone) => zone,
                Role::Free => next.next(),
            };
            members.iter().map(hint).collect()
        };
        Ok(planner.plans().map(hints).find(fits))
    }

    /// The first of these ports whose endpoints are short in a zone.
    fn short_port<'g>(
        &self,
        ports: impl IntoIterator<Item = &'g PortGroup<'g>>,
        hints: &[Option<u16>],
    ) -> Option<Reason> {
        ports.into_iter().find_map(|group| {
            let BelowMinimum {
                zone,
                hinted,
                minimum,
            } = self.below_minimum(self.ground.set.behind(group), hints)?;
            Some(Reason::PortBelowMinimum {
                port: group.name().into(),
                zone: self.ground.zones.name(zone),
                hinted,
                minimum,
            })
        })
    }

    fn below_minimum(
        &self,
        backends: Vec<Backend<'_>>,
        hints: &[Option<u16>],
    ) -> Option<BelowMinimum> {
        let weights = &self.ground.zones.weights;
        let (mut hinted, mut endpoints) = (vec![0; weights.len()], 0);
        for backend in backends {
            endpoints += 1;
            if let Some(zone) = hints[backend.member] {
                hinted[usize::from(zone)] += 1;
            }
        }
        guarantee::below_minimum(weights, &hinted, endpoints, self.ground.rules.threshold)
    }

    /// Whether the guarantee holds with the request's part of `hints` and the others as they are.
    fn is_safe_now(&self, hints: &[Option<u16>]) -> bool {
        let hints: Vec<ZoneSet> = hints.iter().copied().map(ZoneSet::from).collect();
        let (weights, threshold) = (&self.ground.zones.weights, self.ground.rules.threshold);
        self.ground.is_safe_now(&hints, |serving| {
            let mut served = vec![0; weights.len()];
            for (_, serves) in serving {
                match serves {
                    Serves::Zones(zones) if zones.zones().len() <= 1 => {
                        let zone = zones.only().into_iter();
                        zone.for_each(|zone| served[usize::from(zone)] += 1);
                    }
                    // It is counted for no zone.
                    Serves::OneOfSeveral => {}
                    Serves::Zones(_) | Serves::Unclear => return false,
                }
            }
            let endpoints = u32::try_from(serving.len()).unwrap_or(u32::MAX);
            guarantee::below_minimum(weights, &served, endpoints, threshold).is_none()
        })
    }
}

/// Whether another slice has it, with hints that heuristic Auto does not give.
fn is_foreign(member: &Member<'_>) -> bool {
    elsewhere(member).is_some_and(|copy| copy.hints.zones().len() > 1)
}
