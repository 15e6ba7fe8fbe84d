//! The most that an endpoint may carry, to the last digit.

use super::super::allocation::{MILLION, Threshold};

/// The ceiling of a Service's endpoints: the average load and the threshold on top.
///
/// What an endpoint carries is the sum of `weight / total · endpoints / served by` over the zones that it serves. Floats
/// decide unless they are so near to the ceiling that rounding could; then [`sum_is_at_most`] does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceiling {
    total: u64,
    endpoints: u32,
    threshold: Threshold,
}

/// Sums of a few floats that come from exact numbers are nearer to the truth than this part of them.
const ROUNDING: f64 = 1e-9;

impl Ceiling {
    /// Of so many endpoints that share the traffic of zones which weigh `total`.
    pub(super) fn new(total: u64, endpoints: u32, threshold: Threshold) -> Self {
        Self {
            total,
            endpoints,
            threshold,
        }
    }

    /// The ceiling itself, where 1 is the average.
    pub(super) fn most(&self) -> f64 {
        1.0 + self.threshold.as_fraction()
    }

    /// What each of `served_by` endpoints gets of a zone of that weight, where 1 is the average.
    #[expect(clippy::cast_precision_loss)]
    pub(super) fn part(&self, weight: u64, served_by: u32) -> f64 {
        weight as f64 * f64::from(self.endpoints) / (self.total as f64 * f64::from(served_by))
    }

    /// Whether an endpoint may carry `load`, which is roughly what comes of the `zones` that it serves: the weight of
    /// each, and how many endpoints serve it.
    pub(super) fn allows(&self, load: f64, zones: impl Iterator<Item = (u64, u32)>) -> bool {
        let most = self.most();
        if (load - most).abs() > ROUNDING * most {
            return load < most;
        }
        let scale = u128::from(self.endpoints) * u128::from(MILLION);
        let fractions = zones.map(|(weight, served_by)| (u128::from(weight) * scale, served_by));
        sum_is_at_most(fractions, u128::from(self.total) * self.threshold.ceiling())
    }
}

/// Whether fractions, each a numerator below 2^120 and a denominator, sum up to at most `limit`.
///
/// A long division, 64 binary digits at a time: what is left of the limit is either clearly more or clearly less than
/// what is left of the fractions, or they are equal. A sum of `n` fractions with 32-bit denominators is a whole number or
/// at least `2^(-32 n)` away from one, so that `n / 2 + 1` digits tell equality from a near miss.
fn sum_is_at_most(fractions: impl Iterator<Item = (u128, u32)>, limit: u128) -> bool {
    let mut left = signed(limit);
    let mut rests: Vec<(u128, u128)> = Vec::new();
    for (numerator, denominator) in fractions {
        let denominator = u128::from(denominator);
        left -= signed(numerator / denominator);
        rests.push((numerator % denominator, denominator));
    }
    for _ in 0..rests.len() / 2 + 2 {
        if left < 0 || left >= signed(rests.len() as u128) {
            break;
        }
        left <<= 64;
        for (rest, denominator) in &mut rests {
            let shifted = *rest << 64;
            left -= signed(shifted / *denominator);
            *rest = shifted % *denominator;
        }
    }
    left >= 0
}

fn signed(number: u128) -> i128 {
    i128::try_from(number).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 1_000_000_000_000_000_000;

    fn at_most(fractions: &[(u128, u32)], limit: u128) -> bool {
        sum_is_at_most(fractions.iter().copied(), limit)
    }

    #[test]
    fn fractions_that_sum_up_to_the_limit_are_not_above_it() {
        let sevenths = [(1, 7), (2, 7), (4, 7)];
        assert!(at_most(&sevenths, 1));
        assert!(at_most(&[(1, 3), (1, 6), (1, 2)], 1) && at_most(&[], 0));
        assert!(!at_most(&[(1, 3), (1, 6), (1, 2), (1, u32::MAX)], 1));
    }

    #[test]
    fn a_near_miss_by_the_largest_denominators_is_seen() {
        // 1/p - 1/q for neighbours near 2^32 is about 2^-64; beside whole numbers near 2^119 no float sees it.
        let (p, q) = (u32::MAX, u32::MAX - 1);
        let below = |denominator: u32| u128::from(denominator) - 1;
        let whole = 1 << 86;
        let above = [(whole * u128::from(p) + below(p), p), (1, q)];
        let under = [(whole * u128::from(q) + below(q), q), (1, p)];
        assert!(!at_most(&above, whole + 1));
        assert!(at_most(&under, whole + 1));
    }

    #[test]
    fn loads_at_the_ceiling_are_allowed_and_a_hair_above_are_not() {
        let ceiling = Ceiling::new(HUGE, 6, Threshold::KUBERNETES);
        let allows = |weight, served_by| {
            let load = ceiling.part(weight, served_by);
            ceiling.allows(load, std::iter::once((weight, served_by)))
        };
        assert!(allows(HUGE / 5, 1));
        assert!(!allows(HUGE / 5 + 1, 1));
    }
}
