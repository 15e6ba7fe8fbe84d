//! What holds whatever the cluster looks like, tried on many random ones: the same ones in every run.
//!
//! The properties are in `plans`, `overlap`, `decisions`, `rounds`, `traffic`, `quantities`, `json` and `oddities`; `model`
//! works out a second time, in the plainest way, what must come of the clusters that `cluster` makes up.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "all numbers that are cast here are small"
)]

#[path = "properties/checks.rs"]
mod checks;
#[path = "properties/cluster.rs"]
mod cluster;
#[path = "properties/decisions.rs"]
mod decisions;
#[path = "properties/json.rs"]
mod json;
#[path = "properties/model.rs"]
mod model;
#[path = "properties/odd_json.rs"]
mod odd_json;
#[path = "properties/oddities.rs"]
mod oddities;
#[path = "properties/overlap.rs"]
mod overlap;
#[path = "properties/plans.rs"]
mod plans;
#[path = "properties/quantities.rs"]
mod quantities;
#[path = "properties/rounds.rs"]
mod rounds;
#[path = "properties/traffic.rs"]
mod traffic;
