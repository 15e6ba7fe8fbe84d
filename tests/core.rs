//! Tests of the library that need no process, no network and no clock.

#[path = "core/dice.rs"]
mod dice;
#[path = "core/golden.rs"]
mod golden;
