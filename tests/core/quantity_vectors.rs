//! CPU quantities against apimachinery's own parser: `tests/quantities` wrote the expected values.

use serde::Deserialize;
use zonewise::planner::quantity::{Millicores, parse_cpu};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    text: String,
    #[serde(rename = "milliCPU")]
    milli_cpu: Option<String>,
}

/// What zonewise holds for a value of any size: nothing below zero, and the cap above it.
fn held(exact: &str) -> Millicores {
    if exact.starts_with('-') {
        return Millicores(0);
    }
    Millicores(exact.parse().unwrap_or(u64::MAX)).min(Millicores::MOST)
}

#[test]
fn five_thousand_strings_parse_as_apimachinery_parses_them() {
    let lines: Vec<&str> = include_str!("../vectors/quantities.jsonl")
        .lines()
        .collect();
    assert_eq!(lines.len(), 5000);
    for line in lines {
        let vector: Vector = serde_json::from_str(line).unwrap();
        let expected = vector.milli_cpu.as_deref().map(held);
        assert_eq!(parse_cpu(&vector.text).ok(), expected, "{:?}", vector.text);
    }
}

#[test]
fn exponents_that_keep_apimachinery_busy_for_hours_cost_nothing() {
    assert_eq!(parse_cpu("1e2147483647"), Ok(Millicores::MOST));
    assert_eq!(parse_cpu("1e-2147483648"), Ok(Millicores(1)));
}
