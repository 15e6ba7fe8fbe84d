//! Tests of the library that need no process, no network and no clock.
//!
//! `CASES` scales how many random cases the properties try (`tests/support/for_all.rs`).

mod auto_vectors;
mod decisions;
mod dice;
#[path = "../support/for_all.rs"]
mod for_all;
mod golden;
mod guarantee;
mod properties;
mod quantity_vectors;
