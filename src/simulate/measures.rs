//! What a played trace is judged by. `benches/peers` measures Kubernetes by the same definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::player::Writes;
use super::slices::Endpoint;
use super::trace::Event;
use super::world::World;
use crate::planner::allocation::Threshold;
use crate::planner::auto::Origin;
use crate::planner::guarantee::below_minimum;
use crate::planner::heuristic::Heuristic;
use crate::planner::kube_proxy::{self, Traffic};
use crate::planner::overlap;
use crate::planner::zone_set::ZoneSet;

/// What is stored, and what kube-proxy makes of it, once everybody has reacted to an event.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    hints: BTreeMap<String, Vec<Arc<str>>>,
    /// Whether every endpoint has a hint, so that kube-proxy follows them.
    pub is_hinted: bool,
    /// How far above the average the busiest endpoint is loaded: 0.2 is 20 % above. Nothing without endpoints or
    /// clients.
    pub worst_overload: Option<f64>,
    /// The part of the traffic that stays in its zone. Nothing without endpoints or clients.
    pub in_zone_share: Option<f64>,
    /// Whether hints are followed and the guarantee is broken: with heuristic Auto, that a zone with clients has fewer than
    /// its minimum; with others, that an endpoint is above the ceiling.
    pub is_violation: bool,
}

impl State {
    /// Looks at what is stored. Clients are where the CPU of ready nodes is.
    #[must_use]
    pub fn of<'a>(
        world: &World,
        endpoints: impl Iterator<Item = &'a Endpoint>,
        heuristic: Heuristic,
        threshold: Threshold,
    ) -> Self {
        let zones = world.milli_cpu_by_zone();
        let weights: Vec<u64> = zones.values().copied().collect();
        let number = |zone: &str| zones.keys().position(|name| *name == zone);
        let mut hints = BTreeMap::new();
        let mut seen = Vec::new();
        for endpoint in endpoints {
            seen.push(kube_proxy::Endpoint {
                zone: number(&endpoint.zone),
                hinted: !endpoint.hints.is_empty(),
                hints: endpoint.hints.iter().filter_map(|z| number(z)).collect(),
                ..Default::default()
            });
            hints.insert(endpoint.pod.clone(), endpoint.hints.clone());
        }
        let traffic = (!weights.is_empty()).then(|| Traffic::follow(&weights, &seen));
        let is_hinted = !seen.is_empty() && seen.iter().all(|endpoint| endpoint.hinted);
        Self {
            is_hinted,
            // Fractions that add up to 1 may miss it by a hair.
            worst_overload: traffic
                .as_ref()
                .and_then(|t| t.worst_overload)
                .map(|o| o.max(0.0)),
            in_zone_share: traffic.and_then(|t| t.in_zone_share),
            is_violation: is_hinted
                && match heuristic {
                    Heuristic::Auto => has_short_zone(&weights, &seen, threshold),
                    Heuristic::Overlap | Heuristic::PreferZone => {
                        is_overloaded(&weights, &seen, threshold)
                    }
                },
            hints,
        }
    }

    /// How many pods that are there before and now have other hints than before, and how many of them had some and
    /// have some.
    fn changes_since(&self, before: &Self) -> (u64, u64) {
        let (mut changes, mut moves) = (0, 0);
        for (pod, hints) in &self.hints {
            if let Some(before) = before.hints.get(pod).filter(|before| *before != hints) {
                changes += 1;
                moves += u64::from(!before.is_empty() && !hints.is_empty());
            }
        }
        (changes, moves)
    }
}

fn has_short_zone(weights: &[u64], endpoints: &[kube_proxy::Endpoint], at: Threshold) -> bool {
    let hinted = |zone: usize| endpoints.iter().filter(|e| e.hints.contains(&zone)).count();
    let hinted: Vec<u32> = (0..weights.len())
        .map(|zone| to_count(hinted(zone)))
        .collect();
    below_minimum(weights, &hinted, to_count(endpoints.len()), at).is_some()
}

fn is_overloaded(weights: &[u64], endpoints: &[kube_proxy::Endpoint], at: Threshold) -> bool {
    if weights.iter().all(|weight| *weight == 0) {
        return false;
    }
    let number = |zone: usize| u16::try_from(zone).ok();
    let served = endpoints.iter().map(|endpoint| {
        let origin = endpoint.zone.and_then(number);
        let mut zones = ZoneSet::EMPTY;
        for zone in endpoint.hints.iter().copied().filter_map(number) {
            zones.insert(zone);
        }
        (origin.map_or(Origin::Homeless, Origin::Zone), zones)
    });
    !overlap::judge(weights, at, served).meets
}

fn to_count(endpoints: usize) -> u32 {
    u32::try_from(endpoints).unwrap_or(u32::MAX)
}

/// What a kind of event did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindMeasures {
    /// How many there were.
    pub events: u64,
    /// Hints that they changed of endpoints that stayed.
    pub hint_changes: u64,
    /// Of these, from one zone to another; the others came or went.
    pub moved_hints: u64,
    /// How often they turned hints on or off.
    pub flips: u64,
}

/// The measures of any number of traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measures {
    /// Events behind the starts, each with the state that it led to.
    pub events: u64,
    /// Changed hints of endpoints that were there before and after an event.
    pub hint_changes: u64,
    /// Of these, from one zone to another; the others came or went.
    pub moved_hints: u64,
    /// How often hints went on or off.
    pub flips: u64,
    /// States in which hints are followed.
    pub hinted_states: u64,
    /// States in which hints are followed and the guarantee is broken.
    pub violations: u64,
    /// How far above the average the busiest endpoint of any state is loaded: 0.2 is 20 % above.
    pub worst_overload: f64,
    /// The mean over states of how far above the average the busiest endpoint is loaded.
    pub mean_overload: f64,
    /// The mean over states of the part of the traffic that stays in its zone.
    pub mean_in_zone_share: f64,
    /// Slices that the EndpointSlice controller wrote or deleted.
    pub controller_writes: u64,
    /// Slices that drift wrote.
    pub drift_writes: u64,
    /// What each kind of event did.
    pub by_event: BTreeMap<&'static str, KindMeasures>,
    #[serde(skip)]
    in_zone: Sum,
    #[serde(skip)]
    overload: Sum,
}

impl Measures {
    /// Counts an event in, that led from one state to the other.
    pub fn add(&mut self, event: &Event, before: &State, after: &State, writes: Writes) {
        let kind = self.by_event.entry(event.word()).or_default();
        let (changes, moves) = after.changes_since(before);
        let flips = u64::from(after.is_hinted != before.is_hinted);
        kind.events += 1;
        kind.hint_changes += changes;
        kind.moved_hints += moves;
        kind.flips += flips;
        self.events += 1;
        self.hint_changes += changes;
        self.moved_hints += moves;
        self.flips += flips;
        self.hinted_states += u64::from(after.is_hinted);
        self.violations += u64::from(after.is_violation);
        self.controller_writes += writes.controller;
        self.drift_writes += writes.drift;
        if let Some(share) = after.in_zone_share {
            self.mean_in_zone_share = self.in_zone.mean_with(share);
        }
        if let Some(overload) = after.worst_overload {
            self.worst_overload = self.worst_overload.max(overload);
            self.mean_overload = self.overload.mean_with(overload);
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    sum: f64,
    values: f64,
}

impl Sum {
    fn mean_with(&mut self, value: f64) -> f64 {
        self.sum += value;
        self.values += 1.0;
        self.sum / self.values
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Event, Node, Pod};
    use super::*;

    fn world() -> World {
        let zones = ["zone-a", "zone-b"];
        let mut world = World::new(&zones.map(str::to_owned));
        let node = |(node, zone): (&str, &str)| Node {
            node: node.into(),
            zone: zone.into(),
            milli_cpu: 1000,
        };
        let start = Event::Start {
            nodes: [("n1", "zone-a"), ("n2", "zone-b")].map(node).into(),
            pods: Vec::<Pod>::new(),
        };
        world.apply(&start).unwrap();
        world
    }

    /// Endpoints by zone and hint.
    fn state(endpoints: &[(&str, &str)]) -> State {
        let endpoints = endpoints
            .iter()
            .zip(1u8..)
            .map(|((zone, hint), number)| Endpoint {
                pod: format!("p{number}"),
                ip: [10, 0, 0, number].into(),
                node: "n1".into(),
                zone: (*zone).into(),
                hints: if hint.is_empty() {
                    Vec::new()
                } else {
                    vec![(*hint).into()]
                },
            });
        let endpoints: Vec<Endpoint> = endpoints.collect();
        let (heuristic, threshold) = (Heuristic::Auto, Threshold::KUBERNETES);
        State::of(&world(), endpoints.iter(), heuristic, threshold)
    }

    #[test]
    fn a_zone_with_too_few_is_a_violation_only_where_hints_are_followed() {
        let (a, b) = ("zone-a", "zone-b");
        let short = state(&[(a, a), (a, b), (b, b), (b, b)]);
        assert!(short.is_hinted && short.is_violation);
        assert_eq!(short.worst_overload, Some(1.0));
        let bare = state(&[(a, ""), (a, b), (b, b), (b, b)]);
        assert!(!bare.is_hinted && !bare.is_violation);
        assert_eq!(bare.in_zone_share, Some(0.5));
        assert!(!state(&[(a, a), (a, a), (b, b), (b, b)]).is_violation);
    }

    #[test]
    fn only_pods_that_stay_count_and_what_comes_or_goes_is_told_apart() {
        let (a, b) = ("zone-a", "zone-b");
        let before = state(&[(a, a), (a, b), (b, b)]);
        assert_eq!(
            state(&[(a, b), (a, ""), (b, b), (b, b)]).changes_since(&before),
            (2, 1)
        );
        assert_eq!(state(&[(a, a)]).changes_since(&before), (0, 0));
    }
}
