//! The guarantee, for plans: every zone gets its minimum whenever all minima fit, and no hint is given otherwise.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zonewise::planner::allocation::{Needs, Threshold, least_threshold};
use zonewise::planner::auto::Origin;
use zonewise::planner::capacity::{Capacity, CapacityRules, Cpu, Excluded, Node};
use zonewise::planner::kube_proxy::{Endpoint, Mode, Traffic};
use zonewise::planner::plan;
use zonewise::planner::quantity::Millicores;

use super::model;
use crate::dice::Dice;
use crate::for_all::{for_all, is_often, scaled};

/// A cluster as the planner sees it, and a Service in it.
#[derive(Debug, Clone)]
struct Crowd {
    zones: Vec<Zone>,
    /// Ready endpoints in zones without capacity.
    homeless: usize,
    /// The overload threshold.
    millionths: u32,
    /// A node beside those of the zones.
    extra: Extra,
    /// What orders and splits follow from.
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    millicores: u64,
    /// Ready endpoints.
    endpoints: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Extra {
    Nothing,
    ControlPlane,
    NotReady,
    NewWithoutZone,
    WithoutZone,
    WithoutCpu,
}

/// How CPU and endpoints lie over the zones.
#[derive(Debug, Clone, Copy)]
enum Spread {
    Anyhow,
    EqualCpu,
    /// Endpoints nearly in proportion to CPU.
    AsCpu,
}

/// Clusters of 1 to 12 zones with 100 millicores to 10,000 cores each, and 0 to 1,000 endpoints, mostly few.
fn crowds() -> impl Strategy<Value = Crowd> {
    let zones = prop_oneof![1 => Just(1usize), 12 => 2usize..=4, 7 => 5usize..=12];
    let spread = select(vec![Spread::Anyhow, Spread::EqualCpu, Spread::AsCpu]);
    let cpu = (100u64..=1000, 0u32..=4).prop_map(|(digits, zeros)| digits * 10u64.pow(zeros));
    let endpoints = prop_oneof![
        10 => 0usize..=16,
        6 => 17usize..=64,
        3 => 65usize..=250,
        1 => 251usize..=1000,
    ];
    let homeless = prop_oneof![3 => Just(0usize), 1 => 1usize..=40];
    let threshold = prop_oneof![1 => Just(model::KUBERNETES), 1 => 0u32..=10_000_000];
    let harmless = vec![Extra::ControlPlane, Extra::NotReady, Extra::NewWithoutZone];
    let extra = prop_oneof![
        8 => Just(Extra::Nothing),
        3 => select(harmless),
        1 => select(vec![Extra::WithoutZone, Extra::WithoutCpu]),
    ];
    let zones = (zones, spread, vec((cpu, 1u64..=100), 12));
    let endpoints = (endpoints, homeless);
    (zones, endpoints, threshold, extra, any::<u64>()).prop_map(
        |((zones, spread, mut draws), (endpoints, homeless), millionths, extra, seed)| {
            draws.truncate(zones);
            let homeless = homeless.min(endpoints);
            let zones = spread.over(&draws, endpoints - homeless);
            Crowd {
                zones,
                homeless,
                millionths,
                extra,
                seed,
            }
        },
    )
}

impl Spread {
    /// Zones from pairs of CPU and weight.
    fn over(self, draws: &[(u64, u64)], endpoints: usize) -> Vec<Zone> {
        let cpu = |zone: usize| match self {
            Self::EqualCpu => draws[0].0,
            Self::Anyhow | Self::AsCpu => draws[zone].0,
        };
        let weight = |zone: usize| match self {
            Self::AsCpu => draws[zone].0 * (draws[zone].1 + 400),
            Self::Anyhow | Self::EqualCpu => draws[zone].1,
        };
        let total: u64 = (0..draws.len()).map(weight).sum();
        let part = |zone: usize| (weight(zone) * endpoints as u64 / total) as usize;
        let mut zones: Vec<Zone> = (0..draws.len())
            .map(|zone| Zone {
                millicores: cpu(zone),
                endpoints: part(zone),
            })
            .collect();
        zones[0].endpoints += endpoints - zones.iter().map(|zone| zone.endpoints).sum::<usize>();
        zones
    }
}

impl Crowd {
    fn cpus(&self) -> Vec<u64> {
        self.zones.iter().map(|zone| zone.millicores).collect()
    }

    fn endpoints(&self) -> usize {
        self.zones.iter().map(|zone| zone.endpoints).sum::<usize>() + self.homeless
    }

    fn threshold(&self) -> Threshold {
        Threshold::from_millionths(self.millionths)
    }

    fn has_obstacle(&self) -> bool {
        self.zones.len() < 2 || matches!(self.extra, Extra::WithoutZone | Extra::WithoutCpu)
    }

    /// One to three nodes for each zone, whose CPU is split among them, and the extra one, in any order.
    fn nodes(&self) -> Vec<Node> {
        let mut dice = Dice(self.seed);
        let mut nodes: Vec<Node> = self.extra.node().into_iter().collect();
        for (number, zone) in self.zones.iter().enumerate() {
            let parts = 1 + dice.below(3) as u64;
            for part in 0..parts {
                let rest = if part == 0 {
                    zone.millicores % parts
                } else {
                    0
                };
                let name = format!("node-{number}-{part}");
                nodes.push(node(
                    &name,
                    &format!("zone-{number:02}"),
                    zone.millicores / parts + rest,
                ));
            }
        }
        dice.shuffle(&mut nodes);
        nodes
    }

    fn origins(&self) -> Vec<Origin> {
        let zones = self.zones.iter().enumerate();
        let at_home = zones.flat_map(|(number, zone)| {
            std::iter::repeat_n(Origin::Zone(number as u16), zone.endpoints)
        });
        let homeless = std::iter::repeat_n(Origin::Homeless, self.homeless);
        let mut origins: Vec<Origin> = at_home.chain(homeless).collect();
        Dice(self.seed).shuffle(&mut origins);
        origins
    }
}

fn node(name: &str, zone: &str, millicores: u64) -> Node {
    Node {
        name: name.into(),
        zone: Some(zone.into()),
        cpu: Cpu::Millicores(Millicores(millicores)),
        ready: true,
        excluded: None,
        settling: false,
    }
}

impl Extra {
    fn node(self) -> Option<Node> {
        let node = node("beside", "zone-beside", 5000);
        match self {
            Self::Nothing => None,
            Self::ControlPlane => Some(Node {
                excluded: Some(Excluded::ByLabel),
                ..node
            }),
            Self::NotReady => Some(Node {
                ready: false,
                ..node
            }),
            Self::NewWithoutZone => Some(Node {
                settling: true,
                zone: None,
                ..node
            }),
            Self::WithoutZone => Some(Node { zone: None, ..node }),
            Self::WithoutCpu => Some(Node {
                cpu: Cpu::Millicores(Millicores(0)),
                ..node
            }),
        }
    }
}

#[test]
fn every_zone_has_its_minimum_whenever_all_minima_fit_and_else_nothing_is_hinted() {
    let (hinted, refused, largest) = (Cell::new(0), Cell::new(0), Cell::new(0));
    for_all(120_000, crowds(), |crowd| {
        let capacity = Capacity::measure(&crowd.nodes(), CapacityRules::default());
        let cpus = crowd.cpus();
        prop_assert_eq!(capacity.weights(), &*cpus);
        prop_assert_eq!(capacity.obstacle().is_some(), crowd.has_obstacle());
        if crowd.has_obstacle() {
            return Ok(());
        }
        let hints = plan::auto(&capacity.weights(), crowd.threshold(), &crowd.origins());
        prop_assert_eq!(
            hints.is_ok(),
            model::fits(&cpus, crowd.endpoints(), crowd.millionths)
        );
        let Ok(hints) = hints else {
            refused.set(refused.get() + 1);
            return Ok(());
        };
        hinted.set(hinted.get() + 1);
        largest.set(largest.get().max(hints.len()));
        prop_assert_eq!(hints.len(), crowd.endpoints(), "one hint for each endpoint");
        let mut counts = vec![0; cpus.len()];
        for zone in hints.into_iter().map(usize::from) {
            prop_assert!(zone < cpus.len(), "zone {} has no capacity", zone);
            counts[zone] += 1;
        }
        let below = model::zones_below_minimum(&cpus, &counts, crowd.millionths);
        prop_assert!(
            below.is_empty(),
            "{:?} leaves {:?} below the minimum",
            counts,
            below
        );
        let overloaded = model::zones_overloaded(&cpus, &counts, crowd.millionths);
        prop_assert!(
            overloaded.is_empty(),
            "{:?} overloads {:?}",
            counts,
            overloaded
        );
        Ok(())
    });
    let (hinted, refused, largest) = (hinted.get(), refused.get(), largest.get());
    assert!(
        is_often(hinted, 60_000)
            && is_often(refused, 15_000)
            && (largest > 950 || scaled(120_000) < 10_000),
        "{hinted}, {refused}, {largest}"
    );
}

#[test]
fn no_endpoint_is_loaded_above_the_ceiling_when_kube_proxy_follows_a_plan() {
    for_all(4000, crowds(), |crowd| {
        let (weights, origins) = (crowd.cpus(), crowd.origins());
        let Ok(hints) = plan::auto(&weights, crowd.threshold(), &origins) else {
            return Ok(());
        };
        let endpoint = |(origin, hint): (&Origin, u16)| Endpoint {
            zone: match origin {
                Origin::Zone(zone) => Some(usize::from(*zone)),
                Origin::Homeless => None,
            },
            hinted: true,
            hints: vec![usize::from(hint)],
            ..Endpoint::default()
        };
        let endpoints: Vec<_> = origins.iter().zip(hints).map(endpoint).collect();
        let traffic = Traffic::follow(&weights, &endpoints);
        prop_assert_eq!(traffic.modes, vec![Mode::PreferSameZone; weights.len()]);
        let worst = traffic.worst_overload.expect("a plan has endpoints");
        prop_assert!(
            worst <= crowd.threshold().as_fraction() + 1e-9,
            "{} above",
            worst
        );
        Ok(())
    });
}

#[test]
fn auto_has_a_plan_at_the_least_threshold_and_none_a_millionth_below() {
    let weights = vec(prop_oneof![1 => Just(0u64), 8 => 1u64..=10_000_000], 1..=12);
    let endpoints = prop_oneof![8 => 0u32..=40, 1 => 41u32..=1000];
    for_all(10_000, (weights, endpoints), |(weights, endpoints)| {
        let zones = weights.iter().filter(|&&weight| weight > 0).count();
        let least = least_threshold(&weights, endpoints);
        prop_assert_eq!(least.is_some(), zones > 0 && zones <= endpoints as usize);
        let Some(least) = least else { return Ok(()) };
        prop_assert!(Needs::new(&weights, endpoints, least).is_ok());
        let millionths = (least.as_fraction() * 1e6).round() as u32;
        prop_assert_eq!(Threshold::from_millionths(millionths), least);
        if millionths > 0 {
            let less = Threshold::from_millionths(millionths - 1);
            prop_assert!(Needs::new(&weights, endpoints, less).is_err());
        }
        Ok(())
    });
}
