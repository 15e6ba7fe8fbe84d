//! Hints as they are, and whether an endpoint carries too much by them.

use std::sync::Arc;

use super::Ground;
use crate::cluster::slice::HintSet;
use crate::planner::allocation::Threshold;
use crate::planner::guarantee::below_minimum;
use crate::planner::reason::{Overload, percent};
use crate::planner::zone_set::ZoneSet;
use crate::words;

/// Hints by which an endpoint carries more than the threshold allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overloaded {
    /// The port behind which it does, where ports have different endpoints.
    pub port: Option<Box<str>>,
    /// How far above the average the busiest endpoint is loaded.
    pub worst_overload: Overload,
    /// The overload threshold.
    pub threshold: Threshold,
    /// A zone that too few endpoints serve; none where it is several zones together that load the busiest.
    pub short: Option<ShortZone>,
}

/// A zone that too few endpoints serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortZone {
    /// Its name.
    pub zone: Arc<str>,
    /// How many serve it.
    pub hinted: u32,
    /// How many it needs.
    pub minimum: u32,
    /// Of how many.
    pub endpoints: u32,
}

impl Overloaded {
    /// One sentence, without its full stop.
    #[must_use]
    pub fn message(&self) -> String {
        let port = self.port.as_ref();
        let port = port.map_or(String::new(), |port| format!(" behind port {port:?}"));
        let load = format!(
            "an endpoint{port} would carry {} above the average ({} is allowed)",
            self.worst_overload.percent(),
            percent(self.threshold)
        );
        let Some(short) = &self.short else {
            return load;
        };
        let endpoints = words::count(short.endpoints as usize, "endpoint");
        format!(
            "{load}: {} has {} of {endpoints} and needs {}",
            short.zone, short.hinted, short.minimum
        )
    }
}

impl Ground<'_> {
    /// The first port of the request's slice behind which the members' hints overload an endpoint.
    pub(super) fn overloaded(&self) -> Option<Overloaded> {
        if self.slices.first()?.ports.is_empty() {
            return None;
        }
        let members = self.set.members().iter();
        let hints: Vec<ZoneSet> = members.map(|m| self.zone_set(&m.record.hints)).collect();
        if self.ports.is_empty() {
            return self.overloaded_behind(0..hints.len(), None, &hints);
        }
        self.own_ports().find_map(|group| {
            let behind = self.set.behind(group);
            let members = behind.iter().map(|backend| backend.member);
            self.overloaded_behind(members, Some(group.name()), &hints)
        })
    }

    fn overloaded_behind(
        &self,
        members: impl Iterator<Item = usize> + Clone,
        port: Option<&str>,
        hints: &[ZoneSet],
    ) -> Option<Overloaded> {
        let is_bare = |member: usize| self.set.members()[member].record.hints == HintSet::Empty;
        // kube-proxy follows no hints behind a port that has an endpoint without.
        if members.clone().any(is_bare) {
            return None;
        }
        let judged = self.judge(members.clone(), hints);
        (!judged.meets).then(|| Overloaded {
            port: port.map(Into::into),
            worst_overload: Overload::of(judged.worst_overload),
            threshold: self.rules.threshold,
            short: self.short_zone(members, hints),
        })
    }

    fn short_zone(
        &self,
        members: impl Iterator<Item = usize>,
        hints: &[ZoneSet],
    ) -> Option<ShortZone> {
        let mut serving = vec![0_u32; self.zones.weights.len()];
        let mut endpoints = 0;
        for member in members {
            endpoints += 1;
            for &zone in hints[member].zones() {
                serving[usize::from(zone)] += 1;
            }
        }
        // A zone that none names is served by all.
        for serving in serving.iter_mut().filter(|serving| **serving == 0) {
            *serving = endpoints;
        }
        let threshold = self.rules.threshold;
        let short = below_minimum(&self.zones.weights, &serving, endpoints, threshold)?;
        Some(ShortZone {
            zone: self.zones.name(short.zone),
            hinted: short.hinted,
            minimum: short.minimum,
            endpoints,
        })
    }
}
