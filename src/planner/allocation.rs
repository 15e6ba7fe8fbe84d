//! How many endpoints each zone needs, in exact arithmetic.

use super::decimal;
use super::reason::{Behind, Shortfall, ShortfallKind};

/// The overload threshold: how far above the average an endpoint may be loaded, in millionths of the average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold {
    millionths: u32,
}

impl Threshold {
    /// What a text that is none is not, for people.
    pub const FORM: &str =
        "decimal from 0 to 10 such as 0.35, with at most six digits behind the point";

    /// Kubernetes' own threshold, `OverloadThreshold` in k8s.io/endpointslice: 20 %.
    pub const KUBERNETES: Self = Self {
        millionths: 200_000,
    };

    /// A threshold of so many millionths of the average load.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Self {
        Self { millionths }
    }

    /// In millionths of the average load.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.millionths
    }

    /// The highest that can be set.
    pub const HIGHEST: Self = Self {
        millionths: MOST * MILLION,
    };

    /// The least threshold that allows this overload, a fraction of the average; nothing where none does.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn at_least(overload: f64) -> Option<Self> {
        let millionths = (overload * f64::from(MILLION)).ceil().max(0.0);
        (millionths <= f64::from(Self::HIGHEST.millionths)).then_some(Self {
            millionths: millionths as u32,
        })
    }

    /// Reads a decimal between 0 and 10 of at most six digits behind the point, such as `0.35`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let millionths = u32::try_from(decimal::millionths(text, MOST)?).ok()?;
        Some(Self { millionths })
    }

    /// As a fraction of the average load, for people and JSON.
    #[must_use]
    pub fn as_fraction(self) -> f64 {
        f64::from(self.millionths) / f64::from(MILLION)
    }

    pub(super) fn ceiling(self) -> u128 {
        u128::from(MILLION) + u128::from(self.millionths)
    }
}

pub(super) const MILLION: u32 = 1_000_000;

/// The highest threshold that can be set.
const MOST: u32 = 10;

/// What each zone of one Service needs: its share of `endpoints`, and the least that keeps it under the ceiling.
///
/// Shares are `weights[zone] / total`; both stay integers, so that nothing is lost to rounding. Products stay below
/// 2^127 for totals up to 10^18 (a million nodes of the largest size that counts), 10^9 endpoints and thresholds up
/// to 10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    weights: Box<[u64]>,
    total: u64,
    endpoints: u32,
    minimum: Box<[u32]>,
    /// `max(desired, minimum)` of each zone, in parts of an endpoint.
    targets: Box<[i128]>,
}

impl Needs {
    /// What zones of these weights need of `endpoints` ready endpoints under `threshold`.
    ///
    /// # Errors
    /// [`Shortfall`] when the minima can't be had: fewer endpoints than zones, or more minima than endpoints.
    ///
    /// # Panics
    /// When no weight is above zero: there is no share without capacity.
    pub fn new(weights: &[u64], endpoints: u32, threshold: Threshold) -> Result<Self, Shortfall> {
        let total: u64 = weights.iter().sum();
        assert!(total > 0, "shares need capacity");
        let short = |kind| Shortfall {
            endpoints,
            weights: weights.into(),
            threshold,
            kind,
            behind: Behind::EveryPort,
        };
        let zones = weights.iter().filter(|&&w| w > 0).count();
        if (endpoints as usize) < zones {
            return Err(short(ShortfallKind::Endpoints));
        }
        let minimum: Box<[u32]> = weights
            .iter()
            .map(|&w| minimum(w, total, endpoints, threshold))
            .collect();
        let needed: u64 = minimum.iter().map(|&m| u64::from(m)).sum();
        if needed > u64::from(endpoints) {
            return Err(short(ShortfallKind::Minima { needed }));
        }
        let target = |(&weight, &minimum): (&u64, &u32)| {
            let desired = i128::from(weight) * i128::from(endpoints);
            desired.max(i128::from(minimum) * i128::from(total))
        };
        Ok(Self {
            targets: weights.iter().zip(&minimum).map(target).collect(),
            weights: weights.into(),
            total,
            endpoints,
            minimum,
        })
    }

    /// Number of zones.
    #[must_use]
    pub fn zones(&self) -> usize {
        self.weights.len()
    }

    /// The least number of hints for each zone, in zone order.
    #[must_use]
    pub fn minimum(&self) -> &[u32] {
        &self.minimum
    }

    /// Endpoints that the needs are for.
    #[must_use]
    pub fn endpoints(&self) -> u32 {
        self.endpoints
    }

    /// A zone's part of all capacity, as a fraction.
    #[must_use]
    pub fn share(&self, zone: usize) -> f64 {
        super::counts::ratio(self.weights[zone], self.total)
    }

    /// The total that fractions of endpoints are counted in: one endpoint is `unit()` parts.
    #[must_use]
    pub(super) fn unit(&self) -> i128 {
        i128::from(self.total)
    }

    /// How far a zone with so many hints is above `max(desired, minimum)`, or below where it is negative, in parts of
    /// [`Self::unit`].
    #[must_use]
    pub(super) fn surplus(&self, zone: usize, hinted: u32) -> i128 {
        i128::from(hinted) * self.unit() - self.targets[zone]
    }

    /// The zone that is furthest below its target, the first of several.
    #[must_use]
    pub(super) fn furthest_below(&self, hinted: &[u32]) -> usize {
        let below = (0..self.zones()).map(|zone| (zone, -self.surplus(zone, hinted[zone])));
        most(below).map_or(0, |(zone, _)| zone)
    }

    /// The zone that misses the most of its minimum, the first of several; nothing where every zone has its own.
    #[must_use]
    pub(super) fn furthest_below_minimum(&self, hinted: &[u32]) -> Option<usize> {
        let zones = self.minimum.iter().zip(hinted).enumerate();
        let missing =
            zones.map(|(zone, (minimum, hinted))| (zone, minimum.saturating_sub(*hinted)));
        most(missing.filter(|(_, missing)| *missing > 0)).map(|(zone, _)| zone)
    }
}

/// The first of the zones with the greatest value.
pub(super) fn most<T: PartialOrd>(values: impl Iterator<Item = (usize, T)>) -> Option<(usize, T)> {
    values.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// `ceil(share · endpoints / (1 + threshold))`.
#[must_use]
pub fn minimum(weight: u64, total: u64, endpoints: u32, threshold: Threshold) -> u32 {
    if weight == 0 {
        return 0;
    }
    let least = small_minimum(weight, total, endpoints, threshold).unwrap_or_else(|| {
        let numerator = u128::from(weight) * u128::from(endpoints) * u128::from(MILLION);
        let least = numerator.div_ceil(u128::from(total) * threshold.ceiling());
        u64::try_from(least).unwrap_or(u64::MAX)
    });
    u32::try_from(least).expect("a share of the endpoints is no more than the endpoints")
}

/// The same where 64 bits hold it, as for every real cluster: division of 128 bits is slow.
fn small_minimum(weight: u64, total: u64, endpoints: u32, threshold: Threshold) -> Option<u64> {
    let numerator = weight
        .checked_mul(u64::from(endpoints))?
        .checked_mul(u64::from(MILLION))?;
    let ceiling = u64::from(MILLION) + u64::from(threshold.millionths);
    Some(numerator.div_ceil(total.checked_mul(ceiling)?))
}

/// The least threshold at which Auto has a plan, rounded up to a millionth; `None` when no threshold helps because
/// there are fewer endpoints than zones.
///
/// The counts that load the busiest zone least are found by giving each next endpoint to the busiest zone.
#[must_use]
pub fn least_threshold(weights: &[u64], endpoints: u32) -> Option<Threshold> {
    let total: u64 = weights.iter().sum();
    let loaded: Vec<u64> = weights.iter().copied().filter(|&w| w > 0).collect();
    if loaded.is_empty() || loaded.len() > endpoints as usize {
        return None;
    }
    let mut counts = vec![1u32; loaded.len()];
    let busiest = |counts: &[u32]| {
        (0..counts.len()).max_by(|&a, &b| {
            // weight/count compared by cross multiplication; ties to the first zone.
            let left = u128::from(loaded[a]) * u128::from(counts[b]);
            let right = u128::from(loaded[b]) * u128::from(counts[a]);
            left.cmp(&right).then(b.cmp(&a))
        })
    };
    for _ in loaded.len()..endpoints as usize {
        let next = busiest(&counts)?;
        counts[next] += 1;
    }
    let worst = busiest(&counts)?;
    let load = (u128::from(loaded[worst]) * u128::from(endpoints) * u128::from(MILLION))
        .div_ceil(u128::from(total) * u128::from(counts[worst]));
    let over = load.saturating_sub(u128::from(MILLION));
    Some(Threshold::from_millionths(
        u32::try_from(over).unwrap_or(u32::MAX),
    ))
}

/// The zone that has the fewest of `own` for its weight, the first of several.
#[must_use]
pub fn most_short(weights: &[u64], own: &[u32]) -> usize {
    // Cross-multiplied: weight / (own + 1) of both.
    let load = |zone: usize| (u128::from(weights[zone]), u128::from(own[zone]) + 1);
    let is_shorter = |a: usize, b: usize| {
        let ((weight_a, own_a), (weight_b, own_b)) = (load(a), load(b));
        weight_a * own_b > weight_b * own_a
    };
    let zones = 0..weights.len();
    let shortest = zones.reduce(|best, zone| if is_shorter(zone, best) { zone } else { best });
    shortest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Threshold = Threshold::KUBERNETES;

    #[test]
    fn five_equal_zones_are_not_refused_by_rounding() {
        for endpoints in [6, 12, 24] {
            let needs = Needs::new(&[4000; 5], endpoints, T).unwrap();
            assert_eq!(needs.minimum(), [endpoints / 6; 5]);
        }
    }

    #[test]
    fn thresholds_are_decimals_of_six_digits() {
        let millionths = |text| Threshold::parse(text).map(|threshold| threshold.millionths);
        assert_eq!(millionths("0.2"), Some(200_000));
        assert_eq!(millionths("0.333334"), Some(333_334));
        assert_eq!(millionths("10"), Some(10_000_000));
        for bad in ["", "-1", "10.1", "0.1234567"] {
            assert_eq!(millionths(bad), None, "{bad}");
        }
    }

    #[test]
    fn minima_are_rounded_up() {
        let needs = Needs::new(&[16_000, 4000], 6, T).unwrap();
        assert_eq!(needs.minimum(), [4, 1]);
    }

    #[test]
    fn minima_that_do_not_fit_are_told_with_numbers() {
        let short = |endpoints| Needs::new(&[1, 1, 1], endpoints, T).unwrap_err();
        assert_eq!(short(4).kind, ShortfallKind::Minima { needed: 6 });
        assert_eq!(short(2).kind, ShortfallKind::Endpoints);
        assert_eq!(short(2).zones(), 3);
    }

    #[test]
    fn the_least_threshold_is_the_least() {
        // 4 endpoints over three equal zones: 2/1/1 loads a zone with 4/3 of the average.
        assert_eq!(
            least_threshold(&[1, 1, 1], 4),
            Some(Threshold::from_millionths(333_334))
        );
        assert_eq!(
            least_threshold(&[1, 1, 1], 9),
            Some(Threshold::from_millionths(0))
        );
        assert_eq!(least_threshold(&[1, 1, 1], 2), None);
        for (weights, endpoints) in [(&[7u64, 2, 1][..], 5), (&[5, 4, 3, 2], 11), (&[100, 1], 3)] {
            let least = least_threshold(weights, endpoints).unwrap();
            assert!(Needs::new(weights, endpoints, least).is_ok());
            assert!(
                Needs::new(
                    weights,
                    endpoints,
                    Threshold::from_millionths(least.millionths - 1)
                )
                .is_err()
            );
        }
    }

    #[test]
    fn minima_beyond_64_bits_are_the_same() {
        let huge = 1_000_000_000_000_000_000;
        assert_eq!(
            minimum(huge, 3 * huge, 1_000_000, T),
            minimum(1, 3, 1_000_000, T)
        );
        assert_eq!(minimum(huge, 3 * huge, 9, T), 3);
    }

    #[test]
    fn a_zone_that_weighs_nothing_needs_nothing() {
        let needs = Needs::new(&[3, 0, 1], 4, T).unwrap();
        assert_eq!(needs.minimum(), [3, 0, 1]);
        assert_eq!(minimum(0, 0, 4, T), 0, "nor does any where none weighs");
    }
}
