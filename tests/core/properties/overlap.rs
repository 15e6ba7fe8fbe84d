//! Heuristic Overlap: what its hints come to is worked out anew here, in whole numbers and as kube-proxy would use them,
//! and compared with all hints that there could be.

use zonewise::planner::allocation::Threshold;
use zonewise::planner::auto::Origin;
use zonewise::planner::keep::KeepRules;
use zonewise::planner::overlap::{self, Endpoint, Judged, Plan, Refusal, judge};
use zonewise::planner::plan;
use zonewise::planner::zone_set::ZoneSet;

use crate::dice::Dice;
use crate::for_all::{cases, is_often, scaled};

/// The least common multiple of 1 to 40: what any zone gives to each of up to 40 endpoints is a whole number of parts.
const PARTS: u128 = 5_342_931_457_063_200;

/// Hints as kube-proxy uses them, in whole numbers.
///
/// Loads and traffic are counted so that all traffic together is `PARTS · total weight`.
struct Use {
    /// The most that one endpoint gets, times the number of endpoints.
    most: u128,
    in_zone: u128,
    all: u128,
}

impl Use {
    /// Of endpoints that stand in a zone, or in none, and name zones as bits.
    fn of(weights: &[u64], endpoints: &[(Option<usize>, u32)]) -> Self {
        let count = endpoints.len() as u128;
        let mut loads = vec![0; endpoints.len()];
        let mut in_zone = 0;
        for (zone, &weight) in weights.iter().enumerate() {
            let is_named_by = |&&(_, hints): &&(Option<usize>, u32)| hints & (1 << zone) != 0;
            let named = endpoints.iter().filter(is_named_by).count() as u128;
            let users = if named == 0 { count } else { named };
            let part = PARTS / users * u128::from(weight);
            for (load, endpoint) in loads.iter_mut().zip(endpoints) {
                if named == 0 || is_named_by(&endpoint) {
                    *load += part;
                    in_zone += if endpoint.0 == Some(zone) { part } else { 0 };
                }
            }
        }
        Self {
            most: loads.into_iter().max().unwrap_or(0) * count,
            in_zone,
            all: PARTS * u128::from(weights.iter().sum::<u64>()),
        }
    }

    /// Whether the most loaded endpoint is within the threshold, in millionths of the average.
    fn meets(&self, threshold: u32) -> bool {
        self.most * 1_000_000 <= self.all * (1_000_000 + u128::from(threshold))
    }

    fn in_zone(&self) -> f64 {
        self.in_zone as f64 / self.all as f64
    }

    fn worst_overload(&self) -> f64 {
        self.most as f64 / self.all as f64 - 1.0
    }
}

/// A Service with fewer than six endpoints a zone.
#[derive(Debug, Clone)]
struct Service {
    weights: Vec<u64>,
    threshold: u32,
    endpoints: Vec<Endpoint>,
}

impl Service {
    fn random(dice: &mut Dice) -> Self {
        // Services over three zones are the most common, and those over eight take the most work.
        let zones = [2, 2, 3, 3, 3, 3, 3, 4, 4, 5, 6, 7, 8][dice.below(13)];
        let mut weights = weights(dice, zones);
        if dice.below(8) == 0 {
            let weightless = dice.below(zones);
            weights[weightless] = 0;
        }
        let threshold = match dice.below(32) {
            0 => 0,
            1..=8 => dice.below(1_000_000) as u32,
            _ => 200_000,
        };
        let mut service = Self::new(&weights, &[]);
        service.threshold = threshold;
        for zone in 0..zones {
            for _ in 0..dice.below(6) {
                service.add(Origin::Zone(zone as u16), dice.below(3) as u32);
            }
        }
        if dice.below(8) == 0 {
            service.add(Origin::Homeless, 0);
        }
        dice.shuffle(&mut service.endpoints);
        service
    }

    /// New endpoints in zones of these weights, so many in each, under Kubernetes' threshold.
    fn new(weights: &[u64], counts: &[usize]) -> Self {
        let mut service = Self {
            weights: weights.into(),
            threshold: 200_000,
            endpoints: Vec::new(),
        };
        for (zone, &count) in counts.iter().enumerate() {
            for _ in 0..count {
                service.add(Origin::Zone(zone as u16), 0);
            }
        }
        service
    }

    fn add(&mut self, origin: Origin, slice: u32) {
        self.endpoints.push(Endpoint {
            origin,
            hints: ZoneSet::EMPTY,
            fixed: false,
            slice,
        });
    }

    fn plan(&self) -> Result<Plan, Refusal> {
        let threshold = Threshold::from_millionths(self.threshold);
        overlap::plan(
            &self.weights,
            threshold,
            KeepRules::default(),
            &self.endpoints,
        )
    }

    /// The share of a fresh plan; nothing where there is none.
    fn fresh(&self) -> Option<Plan> {
        let mut service = self.clone();
        for endpoint in service
            .endpoints
            .iter_mut()
            .filter(|endpoint| !endpoint.fixed)
        {
            endpoint.hints = ZoneSet::EMPTY;
        }
        service.plan().ok()
    }

    fn in_zone_without_hints(&self) -> f64 {
        self.used(&vec![ZoneSet::EMPTY; self.endpoints.len()])
            .in_zone()
    }

    fn used(&self, hints: &[ZoneSet]) -> Use {
        let endpoints = self.endpoints.iter().zip(hints);
        let endpoints = endpoints.map(|(endpoint, hints)| (home(endpoint), bits(*hints)));
        Use::of(&self.weights, &endpoints.collect::<Vec<_>>())
    }

    /// What must hold of every plan, fresh or not.
    fn check(&self, plan: &Plan) {
        let told = || format!("{self:?}\n{plan:?}");
        assert_eq!(plan.hints.len(), self.endpoints.len());
        for (endpoint, &hints) in self.endpoints.iter().zip(&plan.hints) {
            if endpoint.fixed {
                assert_eq!(hints, endpoint.hints, "{}", told());
                continue;
            }
            assert!(!hints.is_empty(), "{}", told());
            let weighs = |&zone: &u16| self.weights[usize::from(zone)] > 0;
            assert!(hints.zones().iter().all(weighs), "{}", told());
        }
        let used = self.used(&plan.hints);
        assert!(used.meets(self.threshold), "{}", told());
        assert!(used.in_zone() > self.in_zone_without_hints(), "{}", told());
        assert!((used.in_zone() - plan.in_zone).abs() < 1e-9, "{}", told());
        assert!(
            (used.worst_overload() - plan.worst_overload).abs() < 1e-9,
            "{}",
            told()
        );
    }

    fn adopt(&mut self, plan: &Plan) {
        for (endpoint, &hints) in self.endpoints.iter_mut().zip(&plan.hints) {
            endpoint.hints = hints;
        }
    }
}

fn home(endpoint: &Endpoint) -> Option<usize> {
    match endpoint.origin {
        Origin::Zone(zone) => Some(usize::from(zone)),
        Origin::Homeless => None,
    }
}

fn bits(hints: ZoneSet) -> u32 {
    hints.zones().iter().map(|zone| 1 << zone).sum()
}

fn zone_set(bits: u32) -> ZoneSet {
    let mut set = ZoneSet::EMPTY;
    for zone in (0..16).filter(|zone| bits & (1 << zone) != 0) {
        assert!(set.insert(zone));
    }
    set
}

/// Equal, in small proportions, or as CPU in millicores.
fn weights(dice: &mut Dice, zones: usize) -> Vec<u64> {
    let kind = dice.below(3);
    let weight = |_| match kind {
        0 => 1,
        1 => 1 + dice.below(4) as u64,
        _ => 1000 + dice.below(64_000) as u64,
    };
    (0..zones).map(weight).collect()
}

#[test]
fn no_endpoint_is_above_the_ceiling_and_more_traffic_stays_in_its_zone_than_without_hints() {
    let mut dice = Dice(1);
    let (mut planned, mut refused, mut ended) = (0, 0, 0);
    for _ in cases(100_000) {
        let service = Service::random(&mut dice);
        match service.plan() {
            Ok(plan) => {
                service.check(&plan);
                planned += 1;
            }
            Err(Refusal::NoBetterThanNone) => refused += 1,
            // Without any threshold, loads must be equal to the last digit.
            Err(Refusal::SearchEnded) if service.threshold < 20_000 => ended += 1,
            Err(refusal) => panic!("{refusal:?} of {service:?}"),
        }
    }
    println!("{planned} {refused} {ended}");
    assert!(
        is_often(planned, 70_000) && is_often(refused, 3000) && ended < scaled(2000).max(10),
        "{planned}, {refused}, {ended}"
    );
}

#[test]
fn planning_what_was_planned_changes_nothing() {
    let mut dice = Dice(2);
    for _ in cases(10_000) {
        let mut service = Service::random(&mut dice);
        let Ok(plan) = service.plan() else { continue };
        service.adopt(&plan);
        assert_eq!(
            service.plan().map(|again| again.hints),
            Ok(plan.hints),
            "{service:?}"
        );
    }
}

/// Endpoints come and go, one or two at a time, as in rollouts.
#[test]
fn through_a_life_every_plan_meets_the_threshold_and_few_hints_change() {
    let mut dice = Dice(3);
    let (mut changed, mut hinted, mut plans) = (0, 0, 0);
    for _ in cases(400) {
        let mut service = Service::random(&mut dice);
        for _ in 0..20 {
            if dice.below(2) == 0 && service.endpoints.len() > 2 {
                let gone = dice.below(service.endpoints.len());
                service.endpoints.remove(gone);
            } else if service.endpoints.len() < 40 {
                let zone = dice.below(service.weights.len()) as u16;
                service.add(Origin::Zone(zone), dice.below(3) as u32);
            }
            let Ok(plan) = service.plan() else {
                // What is stripped has no hints the next time.
                service
                    .endpoints
                    .iter_mut()
                    .for_each(|endpoint| endpoint.hints = ZoneSet::EMPTY);
                continue;
            };
            service.check(&plan);
            let before = service.endpoints.iter().map(|endpoint| endpoint.hints);
            let before: Vec<ZoneSet> = before.collect();
            hinted += before.iter().filter(|hints| !hints.is_empty()).count();
            changed += before
                .iter()
                .zip(&plan.hints)
                .filter(|(before, now)| !before.is_empty() && before != now)
                .count();
            plans += 1;
            service.adopt(&plan);
            assert_eq!(
                service.plan().map(|again| again.hints),
                Ok(plan.hints),
                "{service:?}"
            );
        }
    }
    println!("{changed} of {hinted} hints changed in {plans} plans");
    assert!(
        is_often(plans, 5000) && changed * 5 < hinted,
        "{changed} of {hinted} in {plans}"
    );
}

#[test]
fn hints_stay_while_they_meet_the_threshold_unless_a_fresh_plan_is_better_by_the_margin() {
    let mut dice = Dice(4);
    let (mut stayed, mut gave_way) = (0, 0);
    for _ in cases(20_000) {
        let mut service = Service::random(&mut dice);
        let zones = service.weights.len();
        for endpoint in &mut service.endpoints {
            endpoint.hints = match home(endpoint) {
                Some(home) if dice.below(4) > 0 => ZoneSet::one(home as u16),
                _ => ZoneSet::one(dice.below(zones) as u16),
            };
        }
        if service.weights.contains(&0) || service.endpoints.is_empty() {
            continue;
        }
        let now: Vec<ZoneSet> = service
            .endpoints
            .iter()
            .map(|endpoint| endpoint.hints)
            .collect();
        let used = service.used(&now);
        if !used.meets(service.threshold)
            || used.in_zone() <= service.in_zone_without_hints() + 1e-9
        {
            continue;
        }
        let plan = service.plan();
        let plan = plan.unwrap_or_else(|refusal| panic!("{refusal:?} of {service:?}"));
        service.check(&plan);
        let fresh = service.fresh();
        let better = fresh.is_some_and(|fresh| {
            fresh.in_zone > used.in_zone() + 0.05 + 1e-9
                || fresh.worst_overload < used.worst_overload() - 0.1 - 1e-9
        });
        assert_eq!(plan.hints != now, better, "{service:?}\n{plan:?}");
        *(if better { &mut gave_way } else { &mut stayed }) += 1;
    }
    assert!(
        is_often(stayed, 500) && is_often(gave_way, 500),
        "{stayed}, {gave_way}"
    );
}

/// All hints of up to five endpoints in up to three zones, each as many as there are.
fn best_of_all(service: &Service) -> Option<Use> {
    let names = 1..1_u32 << service.weights.len();
    let mut endpoints: Vec<(Option<usize>, u32)> = service
        .endpoints
        .iter()
        .map(|e| (home(e), bits(e.hints)))
        .collect();
    let mut best: Option<Use> = None;
    each_of(&mut endpoints, service, 0, names, &mut |endpoints| {
        let used = Use::of(&service.weights, endpoints);
        if used.meets(service.threshold)
            && best.as_ref().is_none_or(|best| used.in_zone > best.in_zone)
        {
            best = Some(used);
        }
    });
    best
}

fn each_of(
    endpoints: &mut Vec<(Option<usize>, u32)>,
    service: &Service,
    next: usize,
    names: std::ops::Range<u32>,
    see: &mut impl FnMut(&[(Option<usize>, u32)]),
) {
    let Some(endpoint) = service.endpoints.get(next) else {
        return see(endpoints);
    };
    if endpoint.fixed {
        return each_of(endpoints, service, next + 1, names, see);
    }
    for hints in names.clone() {
        // Endpoints of one zone that stand side by side are alike: their hints need not be tried in another order.
        let alike = next > 0
            && !service.endpoints[next - 1].fixed
            && service.endpoints[next - 1].origin == endpoint.origin;
        if alike && hints < endpoints[next - 1].1 {
            continue;
        }
        endpoints[next].1 = hints;
        each_of(endpoints, service, next + 1, names.clone(), see);
    }
}

#[test]
fn the_share_is_the_best_of_all_hints_that_there_are() {
    let mut dice = Dice(5);
    let (mut tried, mut gaps) = (0, Vec::new());
    for (counts, homeless) in small_services() {
        let zones = counts.len();
        let mut all_weights = vec![vec![1; zones], vec![2, 1, 1], vec![3, 2, 1], vec![5, 4, 1]];
        all_weights.extend((0..scaled(20)).map(|_| weights(&mut dice, zones)));
        for mut weights in all_weights {
            weights.truncate(zones);
            let mut service = Service::new(&weights, &counts);
            (0..homeless).for_each(|_| service.add(Origin::Homeless, 0));
            for threshold in [
                200_000,
                [0, 50_000, 333_333, 500_000, 1_000_000][dice.below(5)],
            ] {
                service.threshold = threshold;
                let best = best_of_all(&service).expect("no hints meet any threshold");
                let found = service
                    .plan()
                    .map_or(service.in_zone_without_hints(), |plan| plan.in_zone);
                tried += 1;
                if best.in_zone() > found + 1e-9 {
                    gaps.push((best.in_zone() - found, service.clone()));
                }
            }
        }
    }
    for (gap, service) in &gaps {
        println!("{gap:.3} below the best: {service:?}");
    }
    println!("{} of {tried} below the best", gaps.len());
    assert!(is_often(tried, 5000) && gaps.is_empty());
}

/// One to five endpoints in two or three zones, and up to two of them in a zone without capacity.
fn small_services() -> Vec<(Vec<usize>, usize)> {
    let mut services = Vec::new();
    for homeless in 0..=2 {
        for a in 0..=5 - homeless {
            for b in 0..=5 - homeless - a {
                let third = 0..=5 - homeless - a - b;
                services.push((vec![a, b], homeless));
                services.extend(third.map(|c| (vec![a, b, c], homeless)));
            }
        }
    }
    services.retain(|(counts, homeless)| counts.iter().sum::<usize>() + homeless > 0);
    services
}

/// In four zones there is more to choose from than the search goes through one by one.
#[test]
fn the_share_is_the_best_of_all_hints_in_four_zones_too() {
    let mut dice = Dice(8);
    let mut below = Vec::new();
    for _ in cases(60) {
        let mut service = Service::new(&weights(&mut dice, 4), &[0; 4]);
        for _ in 0..2 + dice.below(4) {
            service.add(Origin::Zone(dice.below(4) as u16), 0);
        }
        service.endpoints.sort_by_key(|endpoint| endpoint.origin);
        let best = best_of_all(&service).expect("no hints meet any threshold");
        let best = best.in_zone();
        let found = service
            .plan()
            .map_or(service.in_zone_without_hints(), |plan| plan.in_zone);
        if best > found + 1e-9 {
            below.push((best - found, service));
        }
    }
    assert!(below.is_empty(), "{below:?}");
}

#[test]
fn no_less_traffic_stays_in_its_zone_than_with_auto() {
    let mut dice = Dice(9);
    let (mut tried, mut better) = (0, 0);
    for _ in cases(10_000) {
        let service = Service::random(&mut dice);
        let threshold = Threshold::from_millionths(service.threshold);
        let origins: Vec<Origin> = service
            .endpoints
            .iter()
            .map(|endpoint| endpoint.origin)
            .collect();
        if service.weights.contains(&0) {
            continue;
        }
        let Ok(auto) = plan::auto(&service.weights, threshold, &origins) else {
            continue;
        };
        let auto: Vec<ZoneSet> = auto.into_iter().map(ZoneSet::one).collect();
        let auto = service.used(&auto).in_zone();
        let overlap = service
            .plan()
            .map_or(service.in_zone_without_hints(), |plan| plan.in_zone);
        assert!(
            overlap > auto - 1e-9,
            "{overlap} and not {auto}: {service:?}"
        );
        tried += 1;
        better += usize::from(overlap > auto + 1e-9);
    }
    assert!(
        is_often(tried, 1000) && is_often(better, 100),
        "{tried}, {better}"
    );
}

#[test]
fn known_services_keep_as_much_traffic_in_its_zone_as_they_can() {
    let in_zone = |weights: &[u64], counts: &[usize]| {
        let service = Service::new(weights, counts);
        let plan = service.plan().unwrap();
        service.check(&plan);
        (plan.in_zone * 1000.0).round() as u32
    };
    let equal = |counts: &[usize]| in_zone(&vec![1; counts.len()], counts);
    assert_eq!(equal(&[4, 4, 3]), 698);
    assert_eq!(equal(&[2, 2, 1]), 733);
    assert_eq!(equal(&[1, 1, 0]), 667);
    assert_eq!(equal(&[2, 1, 0]), 667);
    assert_eq!(equal(&[3, 3, 1]), 833);
    assert_eq!(equal(&[2, 1, 1]), 611);
    assert_eq!(equal(&[4, 1, 0]), 500);
    for balanced in [[2, 2, 3], [3, 2, 2], [5, 5, 4]] {
        assert_eq!(equal(&balanced), 1000);
    }
    // Loads at the ceiling exactly, which floats would refuse.
    assert_eq!(equal(&[2, 1, 1, 1, 1]), 1000);
    assert_eq!(in_zone(&[6, 4], &[1, 1]), 1000);
}

#[test]
fn a_zone_that_everyone_serves_is_not_named() {
    let hints = |counts: &[usize]| Service::new(&[1, 1, 1], counts).plan().unwrap().hints;
    assert_eq!(hints(&[1, 1, 0]), [ZoneSet::one(0), ZoneSet::one(1)]);
}

#[test]
fn hints_that_would_say_nothing_are_refused() {
    let refusal = |service: &Service| service.plan().unwrap_err();
    assert_eq!(
        refusal(&Service::new(&[1, 1, 1], &[1, 0, 0])),
        Refusal::NoBetterThanNone
    );
    assert_eq!(
        refusal(&Service::new(&[1, 1], &[0, 0])),
        Refusal::NoBetterThanNone
    );
    assert_eq!(
        refusal(&Service::new(&[0, 0], &[1, 1])),
        Refusal::NoBetterThanNone
    );
    assert_eq!(
        refusal(&Service::new(&[1; 9], &[2; 9])),
        Refusal::TooManyZones { zones: 9 }
    );
    let mut weightless = vec![1; 9];
    weightless[4] = 0;
    assert!(Service::new(&weightless, &[2; 9]).plan().is_ok());
}

#[test]
fn foreign_hints_gather_in_few_slices() {
    // One of three endpoints of the first zone serves the third; which one is for the slices to say.
    let mut service = Service::new(&[1, 1, 1], &[3, 3, 0]);
    for (endpoint, slice) in service.endpoints.iter_mut().zip([0, 1, 0, 1, 1, 2]) {
        endpoint.slice = slice;
    }
    service.threshold = 500_000;
    let plan = service.plan().unwrap();
    service.check(&plan);
    let foreign = service.endpoints.iter().zip(&plan.hints);
    let foreign =
        foreign.filter(|(endpoint, hints)| home(endpoint) != hints.only().map(usize::from));
    let slices: std::collections::BTreeSet<u32> =
        foreign.map(|(endpoint, _)| endpoint.slice).collect();
    assert_eq!(slices.len(), 1, "{plan:?}");
}

#[test]
fn a_thousand_endpoints_are_planned_to_the_last_one() {
    let service = Service::new(&[8000, 4000, 4000], &[200, 400, 400]);
    let plan = service.plan().unwrap();
    let judged = judged(&service, service.threshold, &plan.hints);
    // 417 must serve the first zone; the others keep all of their traffic.
    assert!(judged.meets && (judged.in_zone - (0.5 * 200.0 / 417.0 + 0.5)).abs() < 1e-9);
    let near = Service {
        threshold: 0,
        ..service
    };
    assert!(near.plan().map_or(true, |plan| plan.worst_overload < 1e-9));
}

#[test]
fn fixed_endpoints_keep_their_hints_and_the_others_are_planned_around_them() {
    let mut dice = Dice(6);
    let (mut planned, mut refused, mut impossible) = (0, 0, 0);
    for _ in cases(3000) {
        let zones = 2 + dice.below(2);
        let mut service = Service::new(&weights(&mut dice, zones), &vec![0; zones]);
        service.threshold = [200_000, 200_000, 500_000][dice.below(3)];
        for place in 0..2 + dice.below(4) {
            let home = dice.below(zones + 1);
            let origin = if home == zones {
                Origin::Homeless
            } else {
                Origin::Zone(home as u16)
            };
            service.add(origin, 0);
            // One in eight is hinted for zones without weight alone.
            service.endpoints[place].fixed = dice.below(2) == 0;
            if service.endpoints[place].fixed && dice.below(8) > 0 {
                service.endpoints[place].hints = zone_set(1 + dice.below((1 << zones) - 1) as u32);
            }
        }
        let best = best_of_all(&service);
        let none = service.in_zone_without_hints();
        let told = || format!("{service:?}");
        match service.plan() {
            Ok(plan) => {
                service.check(&plan);
                assert!(
                    plan.in_zone > best.unwrap().in_zone() - 1e-9,
                    "{}\n{plan:?}",
                    told()
                );
                planned += 1;
            }
            Err(Refusal::NoPlan) => {
                assert!(best.is_none(), "{}", told());
                impossible += 1;
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::NoBetterThanNone);
                assert!(best.unwrap().in_zone() < none + 1e-9, "{}", told());
                refused += 1;
            }
        }
    }
    assert!(
        is_often(planned, 500) && is_often(refused, 100) && is_often(impossible, 300),
        "{planned}, {refused}, {impossible}"
    );
}

#[test]
fn the_judge_agrees_with_whole_numbers_to_the_last_one() {
    let mut dice = Dice(7);
    let mut on_the_edge = 0;
    for _ in cases(20_000) {
        let service = Service::random(&mut dice);
        if service.endpoints.is_empty() {
            continue;
        }
        let zones = service.weights.len();
        let hints: Vec<ZoneSet> = service
            .endpoints
            .iter()
            .map(|_| zone_set(1 + dice.below((1 << zones) - 1) as u32))
            .collect();
        let used = service.used(&hints);
        // The nearest threshold above what they carry, and the nearest below.
        let nearest = (used.most * 1_000_000)
            .div_ceil(used.all)
            .saturating_sub(1_000_000) as u32;
        for threshold in [nearest, nearest.saturating_sub(1), service.threshold] {
            let judged = judged(&service, threshold, &hints);
            assert_eq!(judged.meets, used.meets(threshold), "{service:?}");
            let in_zone = judged.in_zone - used.in_zone();
            assert!(in_zone.abs() < 1e-9, "{service:?}");
            let overload = judged.worst_overload - used.worst_overload();
            assert!(overload.abs() < 1e-9, "{service:?}");
        }
        on_the_edge +=
            usize::from(used.most * 1_000_000 == used.all * (1_000_000 + u128::from(nearest)));
    }
    assert!(is_often(on_the_edge, 100), "{on_the_edge}");
}

fn judged(service: &Service, threshold: u32, hints: &[ZoneSet]) -> Judged {
    let origins = service.endpoints.iter().map(|endpoint| endpoint.origin);
    judge(
        &service.weights,
        Threshold::from_millionths(threshold),
        origins.zip(hints.iter().copied()),
    )
}
