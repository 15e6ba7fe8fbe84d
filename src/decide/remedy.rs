//! What would help a Service, each found by deciding on the Service as it would be then.

use super::trial::Trial;
use crate::planner::allocation::{Threshold, least_threshold, most_short};
use crate::planner::heuristic::Heuristic;
use crate::planner::keep::Quality;
use crate::planner::overlap::ROUNDING;

/// Something that would give a Service hints, or better ones; with what these would come to over the least of its ports, where
/// that depends on nothing else.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// More ready endpoints: `more[ports][zone]`, by the numbers of the trial's sets of ports and of the zones.
    Endpoints(Vec<Vec<u32>>),
    /// Another threshold.
    Threshold(Threshold, Quality),
    /// Heuristic Overlap.
    Overlap(Quality),
}

/// The most endpoints that are added to a slice of a trial.
const MOST_MORE: u32 = 100;

/// The same where each costs a search for a plan of heuristic Overlap.
const MOST_MORE_SHARED: u32 = 20;

/// A threshold that is higher by at most this, in millionths, is worth its gain…
const SLIGHTLY_HIGHER: u32 = 100_000;

/// …where it keeps more traffic in its zone by this part of all.
const MUCH_MORE: f64 = 0.1;

const PERCENT: u32 = 10_000;

/// What would give hints to a Service that opted in and gets none: the smallest change of each kind that was found. Nothing
/// where it would get some from no hints, so that it only waits for other slices.
#[must_use]
pub fn remedies(trial: &Trial<'_>) -> Vec<Remedy> {
    let joined = trial.joined();
    let Some(asked) = trial.asked().filter(|_| joined.quality().is_none()) else {
        return Vec::new();
    };
    let search = Search {
        trial: &joined,
        heuristic: asked.heuristic,
        threshold: asked.threshold,
        weights: trial.weights(&asked),
    };
    let found = [search.more_endpoints(), search.threshold()];
    let found = found.into_iter().flatten();
    // That the joined slices get hints does not tell that those get some which there are.
    let holds = found.filter_map(|remedy| remedy.held_by(trial));
    let overlap = (asked.heuristic != Heuristic::Overlap).then(|| overlap(trial));
    holds.chain(overlap.flatten()).collect()
}

impl Remedy {
    /// The remedy with what it comes to for these slices, if it gives them hints.
    fn held_by(&self, trial: &Trial<'_>) -> Option<Self> {
        let changed = match self {
            Self::Endpoints(more) => trial.with_endpoints(more),
            Self::Threshold(threshold, _) => trial.with_threshold(*threshold),
            Self::Overlap(_) => trial.with_heuristic(Heuristic::Overlap),
        };
        let quality = changed.quality()?;
        Some(match self {
            Self::Endpoints(more) => Self::Endpoints(more.clone()),
            Self::Threshold(threshold, _) => Self::Threshold(*threshold, quality),
            Self::Overlap(_) => Self::Overlap(quality),
        })
    }
}

/// What heuristic Overlap would come to.
#[must_use]
pub fn overlap(trial: &Trial<'_>) -> Option<Remedy> {
    let quality = trial.with_heuristic(Heuristic::Overlap).quality()?;
    Some(Remedy::Overlap(quality))
}

/// A slightly higher threshold that keeps much more traffic in its zone than hints that keep `in_zone` of it: the least one of
/// whole percents.
#[must_use]
pub fn higher_threshold(trial: &Trial<'_>, in_zone: f64) -> Option<Remedy> {
    let joined = trial.joined();
    let threshold = trial.asked()?.threshold;
    let highest = threshold.millionths().saturating_add(SLIGHTLY_HIGHER);
    let enough = |percents: u32| {
        let threshold = Threshold::from_millionths(percents * PERCENT);
        let quality = joined.with_threshold(threshold).quality()?;
        (quality.in_zone >= in_zone + MUCH_MORE).then_some(Remedy::Threshold(threshold, quality))
    };
    let range =
        threshold.millionths() / PERCENT..highest.min(Threshold::HIGHEST.millionths()) / PERCENT;
    let found = least(range, enough)?.held_by(trial)?;
    matches!(&found, Remedy::Threshold(_, quality) if quality.in_zone >= in_zone + MUCH_MORE)
        .then_some(found)
}

/// The last number of a range or the least one for which there is something, given that there is for every higher one.
fn least<T>(range: std::ops::Range<u32>, found: impl Fn(u32) -> Option<T>) -> Option<T> {
    let (mut too_low, mut enough) = (range.start, range.end);
    if enough <= too_low {
        return None;
    }
    let mut best = found(enough)?;
    while enough - too_low > 1 {
        let between = too_low.midpoint(enough);
        match found(between) {
            Some(better) => (enough, best) = (between, better),
            None => too_low = between,
        }
    }
    Some(best)
}

/// The search for what would give a Service hints.
struct Search<'a> {
    trial: &'a Trial<'a>,
    heuristic: Heuristic,
    threshold: Threshold,
    weights: Vec<u64>,
}

impl Search<'_> {
    /// More endpoints that do: for each set of ports as many as its endpoints need to have hints by themselves, which then hold
    /// behind every port, whatever addresses the new endpoints get.
    /// Nothing where an endpoint is behind several sets of ports: its one hint ties them together.
    fn more_endpoints(&self) -> Option<Remedy> {
        if self.trial.shares_addresses() {
            return None;
        }
        let ports = 0..self.trial.with_ports().len();
        let more = ports.map(|ports| {
            let alone = self.trial.only(ports);
            match alone.quality() {
                Some(_) => Some(vec![0; self.weights.len()]),
                None => self.more_of_one(&alone),
            }
        });
        more.collect::<Option<_>>().map(Remedy::Endpoints)
    }

    /// More endpoints for the only set of ports: one in any zone, or several, each in the zone that has the fewest for its share,
    /// of all zones or of those that have some.
    fn more_of_one(&self, alone: &Trial<'_>) -> Option<Vec<u32>> {
        let own = alone.ready_in_zones(alone.with_ports().next()?);
        if let Some(one) = self.one_more(alone, &own) {
            return Some(one);
        }
        let most = match self.heuristic {
            Heuristic::Overlap => MOST_MORE_SHARED,
            Heuristic::Auto | Heuristic::PreferZone => MOST_MORE,
        };
        let anywhere = several_more(alone, &self.weights, &own, most);
        let fewer = anywhere
            .as_ref()
            .map_or(most, |more| more.iter().sum::<u32>() - 1);
        // A zone without any is served by all, which the first that comes there ends.
        let inhabited = self.weights.iter().zip(&own);
        let inhabited: Vec<u64> = inhabited
            .map(|(&weight, &own)| if own > 0 { weight } else { 0 })
            .collect();
        several_more(alone, &inhabited, &own, fewer).or(anywhere)
    }

    /// The zone in which one more is enough, the first of those that have the fewest for their share.
    fn one_more(&self, alone: &Trial<'_>, own: &[u32]) -> Option<Vec<u32>> {
        let mut weights = self.weights.clone();
        while weights.iter().any(|weight| *weight > 0) {
            let zone = most_short(&weights, own);
            weights[zone] = 0;
            let mut more = vec![0; own.len()];
            more[zone] = 1;
            if gets_hints_with(alone, &more) {
                return Some(more);
            }
        }
        None
    }

    /// The least threshold that does: exactly where arithmetic tells it, else of whole percents.
    fn threshold(&self) -> Option<Remedy> {
        let exact = match self.heuristic {
            Heuristic::Auto => self.least_of_auto().into_iter().collect(),
            Heuristic::Overlap => Vec::new(),
            Heuristic::PreferZone => self.least_of_own_zones(),
        };
        let exact = exact
            .into_iter()
            .filter(|threshold| *threshold > self.threshold);
        exact
            .take(2)
            .find_map(|threshold| self.at(threshold))
            .or_else(|| self.percents())
    }

    fn at(&self, threshold: Threshold) -> Option<Remedy> {
        let within = (threshold <= Threshold::HIGHEST).then_some(threshold)?;
        let quality = self.trial.with_threshold(within).quality()?;
        Some(Remedy::Threshold(within, quality))
    }

    fn least_of_auto(&self) -> Option<Threshold> {
        let mut slices = self.trial.with_ports();
        let (slice, None) = (slices.next()?, slices.next()) else {
            return None;
        };
        let ready = slice
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ready)
            .count();
        least_threshold(&self.weights, u32::try_from(ready).ok()?)
    }

    /// What own zones come to, whatever rounding there is in that.
    fn least_of_own_zones(&self) -> Vec<Threshold> {
        let own_zones = self.trial.with_threshold(Threshold::HIGHEST).quality();
        let overload = own_zones.map_or(f64::INFINITY, |quality| quality.worst_overload);
        let near = [overload - ROUNDING, overload + ROUNDING].into_iter();
        near.filter_map(Threshold::at_least).collect()
    }

    fn percents(&self) -> Option<Remedy> {
        let range =
            self.threshold.millionths() / PERCENT..Threshold::HIGHEST.millionths() / PERCENT;
        least(range, |percents| {
            self.at(Threshold::from_millionths(percents * PERCENT))
        })
    }
}

/// The fewest, at most so many, where each comes to the zone that then has the fewest for its weight.
fn several_more(alone: &Trial<'_>, weights: &[u64], own: &[u32], most: u32) -> Option<Vec<u32>> {
    if weights.iter().all(|weight| *weight == 0) {
        return None;
    }
    let (mut own, mut more) = (own.to_vec(), vec![0; own.len()]);
    (0..most).find_map(|_| {
        let zone = most_short(weights, &own);
        own[zone] += 1;
        more[zone] += 1;
        gets_hints_with(alone, &more).then(|| more.clone())
    })
}

fn gets_hints_with(alone: &Trial<'_>, more: &[u32]) -> bool {
    let grown = alone.with_endpoints(&[more.to_vec()]);
    grown.quality().is_some()
}

/// A threshold and what the hints come to at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TradeOff {
    /// The least threshold of whole percents at which that can be had.
    pub threshold: Threshold,
    /// What the hints come to.
    pub quality: Quality,
}

/// The most plans for a trade-off, and how long they may take.
const MOST_PLANS: u32 = 12;
const MOST_TIME: std::time::Duration = std::time::Duration::from_millis(50);

/// For a Service that opted in, the highest share in zone at each threshold, the lowest threshold first; only those that no
/// lower one reaches. The highest thresholds are tried first, and the list ends where plans or time do.
#[must_use]
pub fn trade_offs(trial: &Trial<'_>) -> Vec<TradeOff> {
    let joined = trial.joined();
    let began = std::time::Instant::now();
    let mut found: Vec<TradeOff> = Vec::new();
    let mut next = Some(Threshold::HIGHEST);
    for _ in 0..MOST_PLANS {
        let Some(threshold) = next.filter(|_| began.elapsed() < MOST_TIME) else {
            break;
        };
        let Some(quality) = joined.with_threshold(threshold).quality() else {
            break;
        };
        let least = Threshold::at_least(quality.worst_overload - ROUNDING);
        let least = least.map_or(threshold, |least| {
            let percents = least.millionths().div_ceil(PERCENT);
            Threshold::from_millionths(percents * PERCENT).min(threshold)
        });
        let equals = |last: &TradeOff| last.quality.in_zone <= quality.in_zone + ROUNDING;
        found.pop_if(|last| equals(last));
        found.push(TradeOff {
            threshold: least,
            quality,
        });
        next = least
            .millionths()
            .checked_sub(PERCENT)
            .map(Threshold::from_millionths);
    }
    found.reverse();
    found
}
