//! What holds whatever the cluster looks like, tried on many random ones: the same in every run.

#[path = "properties/cluster.rs"]
mod cluster;
#[path = "properties/model.rs"]
mod model;
#[path = "properties/odd_json.rs"]
mod odd_json;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngSeed, TestCaseResult, TestRunner};
use serde::de::DeserializeOwned;
use serde_json::Value;
use zonewise::cluster::loose::Text;
use zonewise::cluster::node::{NodeRecord, NodeRules};
use zonewise::cluster::service::ServiceRecord;
use zonewise::cluster::slice::SliceRecord;
use zonewise::cluster::wire::{self, Wire};
use zonewise::decide::Verdict;
use zonewise::planner::allocation::{Needs, Threshold, least_threshold};
use zonewise::planner::auto::Origin;
use zonewise::planner::capacity::{Capacity, Cpu, Node};
use zonewise::planner::kube_proxy::{ClusterBecause, Mode, ReadyEndpoint, mode};
use zonewise::planner::plan;
use zonewise::planner::quantity::{Millicores, parse_cpu};

use cluster::{Dice, Family, Hints, Twin, World, worlds};
use model::KUBERNETES;
use odd_json::{Kind, odd_objects};

/// Checks so many values of a strategy, the same ones in every run; of those that fail it tells the smallest it finds.
fn for_all<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(failure) = TestRunner::new(config).run(&strategy, check) {
        panic!("{failure}");
    }
}

// === The guarantee, for plans ===

/// A cluster as the planner sees it, and a Service in it.
#[derive(Debug, Clone)]
struct Crowd {
    /// CPU in millicores and ready endpoints of each zone.
    zones: Vec<(u64, usize)>,
    /// Ready endpoints in zones without capacity.
    homeless: usize,
    millionths: u32,
    /// A node beside those of the zones.
    extra: Extra,
    /// What orders and splits follow from.
    seed: u64,
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

fn crowds() -> impl Strategy<Value = Crowd> {
    let endpoints = prop_oneof![
        10 => 0usize..=16,
        6 => 17usize..=64,
        3 => 65usize..=250,
        1 => 251usize..=1000,
    ];
    let cpu = (100u64..=1000, 0u32..=4).prop_map(|(digits, zeros)| digits * 10u64.pow(zeros));
    let zones = prop_oneof![1 => 1usize..=1, 12 => 2usize..=4, 7 => 5usize..=12];
    let threshold = prop_oneof![1 => Just(KUBERNETES), 1 => 0u32..=10_000_000];
    let extra = prop_oneof![
        8 => Just(Extra::Nothing),
        3 => select(vec![Extra::ControlPlane, Extra::NotReady, Extra::NewWithoutZone]),
        1 => select(vec![Extra::WithoutZone, Extra::WithoutCpu]),
    ];
    let homeless = prop_oneof![3 => Just(0usize), 1 => 1usize..=40];
    let zones = (
        zones,
        vec((cpu, 0usize..=100), 12),
        select(vec![Spread::Any, Spread::Equal, Spread::AsCpu]),
    );
    (zones, endpoints, homeless, threshold, extra, any::<u64>()).prop_map(
        |((zones, mut draws, spread), endpoints, homeless, millionths, extra, seed)| {
            draws.truncate(zones);
            spread.apply(&mut draws);
            let total: u64 = draws.iter().map(|(_, weight)| *weight as u64 + 1).sum();
            let homeless = homeless.min(endpoints);
            let mut rest = endpoints - homeless;
            let at_home = rest as u64;
            let mut zones: Vec<(u64, usize)> = draws
                .into_iter()
                .map(|(cpu, weight)| (cpu, (at_home * (weight as u64 + 1) / total) as usize))
                .collect();
            zones.iter().for_each(|(_, count)| rest -= count);
            zones[0].1 += rest;
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

/// How CPU and endpoints lie over the zones.
#[derive(Debug, Clone, Copy)]
enum Spread {
    /// Both anyhow.
    Any,
    /// CPU equally.
    Equal,
    /// Endpoints nearly in proportion to CPU.
    AsCpu,
}

impl Spread {
    fn apply(self, draws: &mut [(u64, usize)]) {
        let first = draws[0].0;
        match self {
            Self::Any => {}
            Self::Equal => draws.iter_mut().for_each(|(cpu, _)| *cpu = first),
            Self::AsCpu => draws
                .iter_mut()
                .for_each(|(cpu, weight)| *weight = *cpu as usize / 10 * (*weight + 400) / 450),
        }
    }
}

impl Crowd {
    fn cpus(&self) -> Vec<u64> {
        self.zones.iter().map(|(cpu, _)| *cpu).collect()
    }

    fn endpoints(&self) -> usize {
        self.zones
            .iter()
            .map(|(_, endpoints)| endpoints)
            .sum::<usize>()
            + self.homeless
    }

    fn threshold(&self) -> Threshold {
        Threshold::from_millionths(self.millionths)
    }

    fn has_obstacle(&self) -> bool {
        self.zones.len() < 2 || matches!(self.extra, Extra::WithoutZone | Extra::WithoutCpu)
    }

    /// One to three nodes for each zone, whose CPU is split among them, and the extra one.
    fn nodes(&self) -> Vec<Node> {
        let mut dice = Dice(self.seed);
        let mut nodes = Vec::new();
        for (zone, &(cpu, _)) in self.zones.iter().enumerate() {
            let parts = 1 + dice.below(3) as u64;
            for part in 0..parts {
                let millicores = cpu / parts + if part == 0 { cpu % parts } else { 0 };
                nodes.push(node(
                    &format!("node-{zone}-{part}"),
                    &zone_name(zone),
                    millicores,
                ));
            }
        }
        let beside = node("beside", "zone-beside", 5000);
        match self.extra {
            Extra::Nothing => {}
            Extra::ControlPlane => nodes.push(Node {
                excluded: true,
                ..beside
            }),
            Extra::NotReady => nodes.push(Node {
                ready: false,
                ..beside
            }),
            Extra::NewWithoutZone => nodes.push(Node {
                settling: true,
                zone: None,
                ..beside
            }),
            Extra::WithoutZone => nodes.push(Node {
                zone: None,
                ..beside
            }),
            Extra::WithoutCpu => nodes.push(Node {
                cpu: Cpu::Millicores(Millicores(0)),
                ..beside
            }),
        }
        dice.shuffle(&mut nodes);
        nodes
    }

    fn origins(&self) -> Vec<Origin> {
        let of_zone = |(zone, &(_, endpoints))| std::iter::repeat_n(Origin::Zone(zone), endpoints);
        let homeless = std::iter::repeat_n(Origin::Homeless, self.homeless);
        let mut origins: Vec<Origin> = self
            .zones
            .iter()
            .enumerate()
            .flat_map(of_zone)
            .chain(homeless)
            .collect();
        Dice(self.seed).shuffle(&mut origins);
        origins
    }
}

fn zone_name(zone: usize) -> String {
    format!("zone-{zone:02}")
}

fn node(name: &str, zone: &str, millicores: u64) -> Node {
    Node {
        name: name.into(),
        zone: Some(zone.into()),
        cpu: Cpu::Millicores(Millicores(millicores)),
        ready: true,
        excluded: false,
        settling: false,
    }
}

#[test]
fn every_zone_has_its_minimum_whenever_all_minima_fit_and_else_nothing_is_hinted() {
    let (hinted, stripped) = (Cell::new(0u32), Cell::new(0u32));
    for_all(100_000, crowds(), |crowd| {
        let capacity = Capacity::measure(&crowd.nodes());
        prop_assert_eq!(capacity.weights(), crowd.cpus());
        prop_assert_eq!(capacity.obstacle().is_some(), crowd.has_obstacle());
        if crowd.has_obstacle() {
            return Ok(());
        }
        let planned = plan::auto(&capacity.weights(), crowd.threshold(), &crowd.origins());
        if !model::fits(&crowd.cpus(), crowd.endpoints(), crowd.millionths) {
            stripped.set(stripped.get() + 1);
            prop_assert!(
                planned.is_err(),
                "hinted without a way to meet the minima: {:?}",
                planned
            );
            return Ok(());
        }
        hinted.set(hinted.get() + 1);
        let hints = planned.map_err(|shortfall| TestCaseError::fail(format!("{shortfall:?}")))?;
        prop_assert_eq!(hints.len(), crowd.endpoints(), "one hint for each endpoint");
        let mut counts = vec![0usize; crowd.zones.len()];
        for zone in hints {
            prop_assert!(
                usize::from(zone) < counts.len(),
                "zone {} has no capacity",
                zone
            );
            counts[usize::from(zone)] += 1;
        }
        let below = model::zones_below_minimum(&crowd.cpus(), &counts, crowd.millionths);
        prop_assert_eq!(
            below,
            Vec::<usize>::new(),
            "below minimum with {:?}",
            &counts
        );
        let overloaded = model::zones_overloaded(&crowd.cpus(), &counts, crowd.millionths);
        prop_assert_eq!(
            overloaded,
            Vec::<usize>::new(),
            "above the ceiling with {:?}",
            &counts
        );
        Ok(())
    });
    let (hinted, stripped) = (hinted.get(), stripped.get());
    eprintln!("{hinted} hinted, {stripped} stripped");
    assert!(
        hinted > 50_000 && stripped > 10_000,
        "{hinted} hinted, {stripped} stripped: too few of one"
    );
}

// === Whole decisions on slices that are not hinted yet ===

const HINTED_FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// Pods that stand twice without a question which of the two kube-proxy takes.
const CLEAR_TWINS: &[Twin] = &[Twin::Moved, Twin::Terminating];

fn check_completeness(world: &World, hints: &Hints, zones: &BTreeSet<String>) -> TestCaseResult {
    for (slice, hints) in world.slices.iter().zip(hints) {
        let counts = !slice.ports.usable().is_empty();
        prop_assert_eq!(hints.len(), slice.endpoints.len());
        for (endpoint, hint) in slice.endpoints.iter().zip(hints) {
            let what = (&slice.name, &endpoint.address);
            if slice.family != Family::Fqdn {
                prop_assert!(
                    hint.is_none() || endpoint.is_ready(),
                    "{:?} is not ready and hinted",
                    what
                );
                prop_assert!(
                    hint.as_ref().is_none_or(|zone| zones.contains(zone)),
                    "{:?} has {:?}",
                    what,
                    hint
                );
            }
        }
        let ready = || {
            slice
                .endpoints
                .iter()
                .zip(hints)
                .filter(|(endpoint, _)| endpoint.is_ready())
        };
        let all = ready().all(|(_, hint)| hint.is_some());
        let none = ready().all(|(_, hint)| hint.is_none());
        prop_assert!(none || (all && counts), "{} is hinted in part", slice.name);
    }
    Ok(())
}

/// Every zone has its minimum of the endpoints behind all ports and behind each, or no ready endpoint has a hint.
fn check_guarantee(
    world: &World,
    hints: &Hints,
    cpus: &BTreeMap<String, u64>,
    family: Family,
) -> TestCaseResult {
    let numbers: BTreeMap<&String, usize> = cpus.keys().zip(0..).collect();
    let sizes: Vec<u64> = cpus.values().copied().collect();
    let union = (
        ("any".to_owned(), "port".to_owned()),
        model::behind_any_port(world, family),
    );
    for (port, endpoints) in model::behind_each_port(world, family)
        .into_iter()
        .chain([union])
    {
        let mut counts = vec![0usize; sizes.len()];
        for (s, e) in endpoints {
            let Some(zone) = &hints[s][e] else {
                return Err(TestCaseError::fail(format!(
                    "{port:?}: an endpoint of slice {s} has no hint"
                )));
            };
            counts[numbers[zone]] += 1;
        }
        let below = model::zones_below_minimum(&sizes, &counts, KUBERNETES);
        prop_assert_eq!(
            below,
            Vec::<usize>::new(),
            "{:?}: {:?} endpoints for {:?}",
            port,
            counts,
            cpus
        );
    }
    Ok(())
}

#[test]
fn slices_are_hinted_whole_and_only_where_all_and_each_port_meet_the_guarantee() {
    let hinted = Cell::new(0u32);
    let mut stripped: BTreeMap<String, Cell<u32>> = BTreeMap::new();
    for reason in [
        "InsufficientNodeInfo",
        "NodesReadyInOneZoneOnly",
        "NoZoneSpecified",
        "InsufficientNumberOfEndpoints",
        "MinAllocationExceedsOverloadThreshold",
        "PortBelowMinimum",
    ] {
        stripped.insert(reason.to_owned(), Cell::default());
    }
    for_all(4000, worlds(CLEAR_TWINS), |world| {
        let decisions = world.decide_each();
        let hints = world.hints_after(&decisions);
        let cpus = model::capacity(&world).unwrap_or_default();
        check_completeness(&world, &hints, &cpus.keys().cloned().collect())?;
        for (slice, decision) in world
            .slices
            .iter()
            .zip(&decisions)
            .filter(|(slice, _)| slice.family == Family::Fqdn)
        {
            prop_assert_eq!(
                decision.verdict,
                Verdict::Untouched,
                "{} is of names",
                &slice.name
            );
        }
        for family in HINTED_FAMILIES {
            let of_family = || {
                world
                    .slices
                    .iter()
                    .zip(&decisions)
                    .filter(|(slice, _)| slice.family == family)
            };
            if of_family().next().is_none() {
                continue;
            }
            let words: BTreeSet<_> = of_family()
                .map(|(_, d)| d.reason.as_ref().map(|reason| reason.word()))
                .collect();
            prop_assert_eq!(words.len(), 1, "slices of one set disagree: {:?}", words);
            let word = words.into_iter().next().flatten();
            let Some(word) = word else {
                prop_assert_eq!(model::refusal(&world, family), None);
                prop_assert!(of_family().all(|(_, d)| d.verdict == Verdict::Hints));
                hinted.set(hinted.get() + 1);
                check_guarantee(&world, &hints, &cpus, family)?;
                continue;
            };
            prop_assert!(of_family().all(|(_, d)| d.verdict == Verdict::Strip));
            let count = &stripped[word];
            count.set(count.get() + 1);
            if word == "PortBelowMinimum" {
                let ports: BTreeSet<_> = of_family()
                    .map(|(s, _)| s.ports.usable())
                    .filter(|p| !p.is_empty())
                    .collect();
                prop_assert!(ports.len() > 1, "all slices have the same ports");
                prop_assert_eq!(model::refusal(&world, family), None);
            } else {
                prop_assert_eq!(Some(word), model::refusal(&world, family));
            }
        }
        Ok(())
    });
    eprintln!("{} hinted, {stripped:?}", hinted.get());
    assert!(
        hinted.get() > 1000,
        "only {} sets of slices are hinted",
        hinted.get()
    );
    assert!(
        stripped.values().all(|count| count.get() > 20),
        "some reason is hardly tried: {stripped:?}"
    );
}

/// The hints of each address in each slice; copies of it that are ready have the same.
type HintsByAddress = BTreeMap<(String, String), Option<String>>;

fn hints_by_address(world: &World) -> Result<HintsByAddress, TestCaseError> {
    let hints = world.hints_after(&world.decide_each());
    let mut by_address = HintsByAddress::new();
    for (slice, hints) in world.slices.iter().zip(hints) {
        for (endpoint, hint) in slice
            .endpoints
            .iter()
            .zip(hints)
            .filter(|(endpoint, _)| endpoint.is_ready())
        {
            let place = (slice.name.clone(), endpoint.address.clone());
            if let Some(other) = by_address.insert(place.clone(), hint.clone()) {
                prop_assert_eq!(other, hint, "{:?} is hinted for two zones", place);
            }
        }
    }
    Ok(by_address)
}

#[test]
fn no_order_of_nodes_slices_and_endpoints_shows_through() {
    for_all(
        2000,
        (worlds(CLEAR_TWINS), any::<u64>()),
        |(world, seed)| {
            prop_assert_eq!(
                hints_by_address(&world)?,
                hints_by_address(&world.shuffled(seed))?
            );
            Ok(())
        },
    );
}

#[test]
fn no_order_shows_through_even_where_two_running_pods_have_one_address() {
    for_all(
        2000,
        (worlds(&[Twin::Running]), any::<u64>()),
        |(world, seed)| {
            prop_assert_eq!(
                hints_by_address(&world)?,
                hints_by_address(&world.shuffled(seed))?
            );
            Ok(())
        },
    );
}

// === Decisions one after the other, each stored before the next ===

impl World {
    /// Decides on one slice after the other, in an order by `dice`, and stores each before the next.
    fn decide_in_turn(&mut self, dice: &mut Dice) {
        let mut writer = self.load();
        let mut order: Vec<usize> = (0..self.slices.len()).collect();
        dice.shuffle(&mut order);
        for i in order {
            let slice = &mut self.slices[i];
            let decision = slice.decide(&writer.cluster());
            let hints = slice.hints_after(&decision);
            slice
                .endpoints
                .iter_mut()
                .zip(hints)
                .for_each(|(endpoint, hint)| endpoint.hint = hint);
            let wire = zonewise::cluster::files::typed_slice(&slice.to_json())
                .expect("any object is a slice");
            writer.apply_slice(&wire);
        }
    }

    /// Stores hints that no plan has to do with.
    fn hint_anyhow(&mut self, dice: &mut Dice) {
        let zones: Vec<String> = model::capacity(self)
            .unwrap_or_default()
            .into_keys()
            .collect();
        for endpoint in self
            .slices
            .iter_mut()
            .flat_map(|slice| &mut slice.endpoints)
        {
            endpoint.hint = match dice.below(40) {
                0 => None,
                1 => Some("zone-gone".to_owned()),
                2..22 => endpoint.place.zone.clone(),
                _ if zones.is_empty() => None,
                _ => Some(zones[dice.below(zones.len())].clone()),
            };
        }
    }

    fn check_settled(&self) -> TestCaseResult {
        let hints = self.stored_hints();
        let cpus = model::capacity(self).unwrap_or_default();
        check_completeness(self, &hints, &cpus.keys().cloned().collect())?;
        for family in HINTED_FAMILIES {
            if hints
                .iter()
                .zip(&self.slices)
                .any(|(h, slice)| slice.family == family && h.iter().any(Option::is_some))
            {
                check_guarantee(self, &hints, &cpus, family)?;
            }
        }
        Ok(())
    }
}

#[test]
fn slices_decided_in_turn_meet_the_guarantee_after_two_rounds_and_then_stay() {
    for_all(
        1500,
        (worlds(CLEAR_TWINS), any::<u64>()),
        |(mut world, seed)| {
            let mut dice = Dice(seed);
            world.decide_in_turn(&mut dice);
            world.decide_in_turn(&mut dice);
            world.check_settled()?;
            let settled = world.stored_hints();
            world.decide_in_turn(&mut dice);
            prop_assert_eq!(world.stored_hints(), settled);
            Ok(())
        },
    );
}

#[test]
fn slices_with_any_stored_hints_come_to_meet_the_guarantee_and_to_rest() {
    for_all(
        1500,
        (worlds(CLEAR_TWINS), any::<u64>()),
        |(mut world, seed)| {
            let mut dice = Dice(seed);
            world.hint_anyhow(&mut dice);
            let rounds = 2;
            (0..rounds).for_each(|_| world.decide_in_turn(&mut dice));
            world.check_settled()?;
            let settled = world.stored_hints();
            world.decide_in_turn(&mut dice);
            prop_assert_eq!(world.stored_hints(), settled);
            Ok(())
        },
    );
}

// === kube-proxy, thresholds, quantities ===

#[test]
fn the_mode_of_kube_proxy_tells_which_endpoints_it_uses() {
    let endpoints = vec(btree_set(0u8..4, 0..=3), 0..8);
    for_all(5000, (endpoints, 0u8..4), |(hints, zone)| {
        let seen = |zones: &BTreeSet<u8>| ReadyEndpoint {
            hinted: !zones.is_empty(),
            names_zone: zones.contains(&zone),
        };
        let mode = mode(hints.iter().map(seen));
        let naming: Vec<usize> = (0..hints.len())
            .filter(|&e| hints[e].contains(&zone))
            .collect();
        let used = match mode {
            Mode::PreferSameZone => naming.clone(),
            Mode::Cluster(_) => (0..hints.len()).collect(),
        };
        prop_assert_eq!(used, model::used_in_zone(&hints, zone));
        match mode {
            Mode::PreferSameZone => prop_assert!(!naming.is_empty()),
            Mode::Cluster(ClusterBecause::NoReadyEndpoint) => prop_assert!(hints.is_empty()),
            Mode::Cluster(ClusterBecause::EndpointWithoutHint) => {
                prop_assert!(hints.iter().any(BTreeSet::is_empty))
            }
            Mode::Cluster(ClusterBecause::ZoneNotNamed) => {
                prop_assert!(
                    naming.is_empty() && !hints.is_empty() && !hints.iter().any(BTreeSet::is_empty)
                );
            }
        }
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
        let millionths = (least.as_fraction() * 1e6).round() as u32;
        prop_assert_eq!(Threshold::from_millionths(millionths), least);
        prop_assert!(Needs::new(&weights, endpoints, least).is_ok());
        if let Some(less) = millionths.checked_sub(1) {
            prop_assert!(
                Needs::new(&weights, endpoints, Threshold::from_millionths(less)).is_err()
            );
        }
        Ok(())
    });
}

#[test]
fn any_text_is_a_quantity_of_no_more_than_the_cap_or_an_error() {
    let texts = prop_oneof![
        any::<String>(),
        "[-+]?[0-9]{0,30}[.]?[0-9]{0,30}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,25}",
        "[-+0-9.eEinumkKMGTP \u{a0}\u{2003}\u{85}\t]{0,12}",
    ];
    for_all(50_000, texts, |text| {
        prop_assert!(parse_cpu(&text).unwrap_or_default() <= Millicores::MOST);
        Ok(())
    });
}

#[test]
fn more_cores_are_never_fewer_millicores() {
    let integers = || prop_oneof![0u128..=2000, 0u128..=2_000_000_000, any::<u128>()];
    for_all(
        20_000,
        (integers(), integers(), 0usize..=3),
        |(a, b, zeros)| {
            let parse = |cores: u128| parse_cpu(&format!("{}{cores}", "0".repeat(zeros)));
            let millicores = |cores: u128| {
                Millicores((cores.saturating_mul(1000)).min(u128::from(Millicores::MOST.0)) as u64)
            };
            prop_assert_eq!(parse(a), Ok(millicores(a)));
            prop_assert!(parse(a.min(b)).unwrap() <= parse(a.max(b)).unwrap());
            Ok(())
        },
    );
}

// === Objects with anything in them ===

fn name_of<W: Wire>(read: Result<W, serde_json::Error>) -> Result<Option<String>, TestCaseError> {
    let object =
        read.map_err(|error| TestCaseError::fail(format!("{} does not parse: {error}", W::KIND)))?;
    Ok(object
        .metadata()
        .and_then(|metadata| metadata.name.text())
        .map(str::to_owned))
}

/// The object, from text and from a value, has the name that stands there.
fn check_name<W: Wire + DeserializeOwned>(json: &Value) -> Result<W, TestCaseError> {
    let text = json.to_string();
    let name = json
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .map(str::to_owned);
    prop_assert_eq!(&name_of(serde_json::from_str::<W>(&text))?, &name);
    prop_assert_eq!(&name_of(W::deserialize(json))?, &name);
    Ok(serde_json::from_str(&text).expect("it did parse"))
}

#[test]
fn anything_anywhere_in_an_object_leaves_it_its_name() {
    for_all(10_000, odd_objects(), |(kind, json)| {
        match kind {
            Kind::Node => {
                let node: wire::Node<Box<str>> = check_name(&json)?;
                let record = NodeRecord::read(&node, &NodeRules::default(), cluster::now());
                let name = json
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                prop_assert_eq!(&*record.node.name, name);
            }
            Kind::Service => {
                let service: wire::Service<Box<str>> = check_name(&json)?;
                prop_assert_eq!(ServiceRecord::read(&service).odd_field, service.odd_field());
            }
            Kind::EndpointSlice => {
                let slice: wire::EndpointSlice<Box<str>> = check_name(&json)?;
                let text = json.to_string();
                let borrowed: wire::EndpointSlice<Text<'_>> =
                    serde_json::from_str(&text).expect("it parses as owned");
                let record = SliceRecord::read(&slice);
                prop_assert_eq!(SliceRecord::read(&borrowed), record.clone());
                let endpoints = json["endpoints"].as_array().map_or(0, Vec::len);
                prop_assert_eq!(
                    record.endpoints.len(),
                    endpoints,
                    "a record for each endpoint"
                );
            }
        }
        Ok(())
    });
}
