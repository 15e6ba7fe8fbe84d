//! What holds whatever the cluster looks like, tried on many random ones: the same ones in every run.
//!
//! The properties are in `plans`, `overlap`, `decisions`, `rounds`, `cilium`, `remedies`, `traffic`, `quantities`, `json` and `oddities`; `model`
//! works out a second time, in the plainest way, what must come of the clusters that `cluster` makes up.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "all numbers that are cast here are small"
)]

mod checks;
mod cilium;
mod cluster;
mod decisions;
mod json;
mod model;
mod odd_json;
mod oddities;
mod overlap;
mod plans;
mod quantities;
mod remedies;
mod rounds;
mod traffic;
