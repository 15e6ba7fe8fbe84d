//! Heuristic Overlap: hints that name several zones, for Services that are too small for Auto.
//!
//! An endpoint's hint may name several zones, and kube-proxy in a zone spreads its traffic evenly over all endpoints that
//! name the zone, or over all there are where none does. So an endpoint can serve its own zone and carry a part of
//! another's. With `N` ready endpoints, a zone with the share `s` of the traffic that `n` endpoints serve gives each of
//! them `s · N / n`, where 1 is the average. A plan keeps what every endpoint carries at most at `1 + threshold`, to the
//! last digit, and keeps as much traffic in its zone as it can.
//!
//! | file | step |
//! |---|---|
//! | `planner` | a fresh plan, plans that keep hints, and which of them is taken |
//! | `judgement` | what hints do to traffic |
//! | `crowd` | endpoints in groups among which it makes no difference which is which |
//! | `ceiling` | whether an endpoint may carry what it would, exactly |
//! | `choice` | by how many endpoints, own and foreign, a zone could be served |
//! | `search` | which of these choices keeps the most traffic in its zone |
//! | `single` | choices in which every endpoint serves one zone, to start with |
//! | `frontier` | all choices, those that keep the most traffic first |
//! | `packing` | which endpoints serve which zones, once that is chosen |
//! | `assignment` | from groups to single endpoints, with few changes |

mod assignment;
mod ceiling;
mod choice;
mod crowd;
mod frontier;
mod judgement;
mod packing;
mod planner;
mod search;
mod single;

use super::allocation::Threshold;
use super::auto::Origin;
use super::keep::KeepRules;
use super::zone_set::ZoneSet;
pub use judgement::{Judged, judge};
use planner::Planner;

/// In-zone shares that are equal may differ by so much.
pub const ROUNDING: f64 = 1e-9;

/// For so many endpoints there should be plans at most. Auto has one for more, with nearly as much traffic in its zone, and
/// takes less time.
pub const MOST_ENDPOINTS: usize = 1000;

/// A ready endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it stands.
    pub origin: Origin,
    /// What it is hinted for now; a free endpoint that is hinted for nothing is new.
    pub hints: ZoneSet,
    /// Whether its hints can't be changed, because they stand in another slice. It counts as hinted even where `hints`
    /// is empty: for zones that have no counted capacity.
    pub fixed: bool,
    /// The slice that it stands in.
    pub slice: u32,
}

/// Hints that keep every endpoint under the ceiling and more traffic in its zone than no hints do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The zones that each endpoint is to be hinted for, in the order in which the endpoints were given.
    pub hints: Vec<ZoneSet>,
    /// How far the most loaded endpoint is above the average, as a fraction of it.
    pub worst_overload: f64,
    /// The part of the traffic that stays in its zone.
    pub in_zone: f64,
    /// How many steps the search took.
    pub expansions: u32,
}

/// Why there is no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// More zones have weight than one hint can name.
    TooManyZones {
        /// How many have weight.
        zones: usize,
    },
    /// No plan keeps more traffic in its zone than no hints do.
    NoBetterThanNone,
    /// Whatever the free endpoints do, some endpoint is above the ceiling beside those that are fixed.
    NoPlan,
    /// The search ended early, before it found a plan that is better than no hints.
    SearchEnded,
}

/// Whether hints keep more traffic in its zone than none do: of each endpoint where it stands, and the zones that it is hinted
/// for.
#[must_use]
pub fn gains(
    weights: &[u64],
    threshold: Threshold,
    endpoints: impl IntoIterator<Item = (Origin, ZoneSet), IntoIter: Clone>,
) -> bool {
    let hinted = endpoints.into_iter();
    let bare = hinted.clone().map(|(origin, _)| (origin, ZoneSet::EMPTY));
    let without_hints = judge(weights, threshold, bare).in_zone;
    judge(weights, threshold, hinted).in_zone > without_hints + ROUNDING
}

/// Plans hints for `endpoints` in zones of these weights.
///
/// Hints that meet the threshold stay, and new endpoints are planned around them, unless a fresh plan is better by
/// `keep`. The plan depends on nothing else, and planning what was planned changes nothing.
///
/// # Errors
/// A [`Refusal`] where there is no plan that is better than no hints.
pub fn plan(
    weights: &[u64],
    threshold: Threshold,
    keep: KeepRules,
    endpoints: &[Endpoint],
) -> Result<Plan, Refusal> {
    Planner::new(weights, threshold, endpoints)?.plan(keep)
}
