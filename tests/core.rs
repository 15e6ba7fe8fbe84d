//! Tests of the library that need no process, no network and no clock.
//!
//! `CASES` scales how many random cases the properties try (`support/for_all.rs`).

#[path = "core/auto_vectors.rs"]
mod auto_vectors;
#[path = "core/decisions.rs"]
mod decisions;
#[path = "core/dice.rs"]
mod dice;
#[path = "support/for_all.rs"]
mod for_all;
#[path = "core/golden.rs"]
mod golden;
#[path = "core/guarantee.rs"]
mod guarantee;
#[path = "core/properties.rs"]
mod properties;
#[path = "core/quantity_vectors.rs"]
mod quantity_vectors;

use jiff::Timestamp;

/// The time at which clusters are loaded, fixed since the age of a node decides whether it counts.
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}
