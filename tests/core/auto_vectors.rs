//! Auto against what Kubernetes' own topology cache gives, and against exact arithmetic (tests/vectors/README.md).

use std::collections::BTreeMap;

use serde::Deserialize;
use zonewise::planner::allocation::{Needs, Threshold};
use zonewise::planner::auto::Origin;
use zonewise::planner::capacity::{Capacity, CapacityRules, Cpu, Node};
use zonewise::planner::quantity::Millicores;
use zonewise::planner::reason::Reason;
use zonewise::planner::{counts, plan};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    id: u32,
    #[serde(rename = "milliCPU")]
    milli_cpu: BTreeMap<String, u64>,
    endpoints: BTreeMap<String, u32>,
    decision: String,
    minimum: BTreeMap<String, u32>,
    accepted: Vec<BTreeMap<String, u32>>,
}

impl Vector {
    fn zones(&self) -> Vec<&String> {
        self.milli_cpu.keys().collect()
    }

    /// The capacity of one node in each zone.
    fn capacity(&self) -> Capacity {
        let node = |(zone, cpu): (&String, &u64)| Node {
            name: format!("node-{zone}").into(),
            zone: Some(zone.as_str().into()),
            cpu: Cpu::Millicores(Millicores(*cpu)),
            ready: true,
            excluded: None,
            settling: false,
        };
        Capacity::measure(
            &self.milli_cpu.iter().map(node).collect::<Vec<_>>(),
            CapacityRules::default(),
        )
    }

    fn origins(&self) -> Vec<Origin> {
        let zones = self.zones();
        let of_zone = |(zone, count): (&String, &u32)| {
            let number = zones
                .iter()
                .position(|z| *z == zone)
                .expect("endpoints stand in zones with CPU");
            std::iter::repeat_n(
                Origin::Zone(u16::try_from(number).unwrap()),
                *count as usize,
            )
        };
        self.endpoints.iter().flat_map(of_zone).collect()
    }

    /// Counts with those of zones of equal CPU in order, so that a swap between such zones does not show.
    fn up_to_swaps(&self, counts: &BTreeMap<String, u32>) -> Vec<(u64, u32)> {
        let count = |zone: &String| counts.get(zone).copied().unwrap_or(0);
        let mut pairs: Vec<_> = self
            .milli_cpu
            .iter()
            .map(|(zone, cpu)| (*cpu, count(zone)))
            .collect();
        pairs.sort_unstable();
        pairs
    }
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("../vectors/auto-allocations.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn all_two_thousand_vectors_hold() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 2000);
    for vector in vectors {
        let id = vector.id;
        let capacity = vector.capacity();
        let planned = || {
            plan::auto(
                &capacity.weights(),
                Threshold::KUBERNETES,
                &vector.origins(),
            )
        };
        let hints = capacity
            .obstacle()
            .map_or_else(|| planned().map_err(Reason::Shortfall), Err);
        assert_eq!(
            if hints.is_ok() { "Hints" } else { "Strip" },
            vector.decision,
            "vector {id}"
        );
        let Ok(hints) = hints else { continue };
        let counts = counts::count(hints, vector.milli_cpu.len());
        let counts: BTreeMap<String, u32> =
            vector.zones().into_iter().cloned().zip(counts).collect();
        for (zone, minimum) in &vector.minimum {
            assert!(
                counts[zone] >= *minimum,
                "vector {id}: {zone} has {} of {minimum}",
                counts[zone]
            );
        }
        assert_eq!(
            counts.values().sum::<u32>(),
            vector.endpoints.values().sum::<u32>(),
            "vector {id}"
        );
        let accepted: Vec<_> = vector
            .accepted
            .iter()
            .map(|counts| vector.up_to_swaps(counts))
            .collect();
        let ours = vector.up_to_swaps(&counts);
        assert!(
            accepted.is_empty() || accepted.contains(&ours),
            "vector {id}: {ours:?} is none of {accepted:?}"
        );
    }
}

#[test]
fn minima_are_those_of_exact_arithmetic() {
    for vector in vectors().iter().filter(|vector| vector.decision == "Hints") {
        let endpoints = vector.endpoints.values().sum();
        let needs = Needs::new(
            &vector.capacity().weights(),
            endpoints,
            Threshold::KUBERNETES,
        )
        .unwrap();
        let expected: Vec<u32> = vector.minimum.values().copied().collect();
        assert_eq!(needs.minimum(), expected, "vector {}", vector.id);
    }
}
