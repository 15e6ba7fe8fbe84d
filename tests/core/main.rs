//! Tests of the library that need no process, no network and no clock.
//!
//! `CASES` scales how many random cases the properties try (`tests/support/for_all.rs`).

mod auto_vectors;
mod cases;
mod decisions;
#[path = "../support/dice.rs"]
mod dice;
#[path = "../support/for_all.rs"]
mod for_all;
mod golden;
mod guarantee;
mod properties;
mod quantity_vectors;
mod replica_table;

use jiff::Timestamp;

/// The time at which clusters are loaded, fixed since the age of a node decides whether it counts.
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}
