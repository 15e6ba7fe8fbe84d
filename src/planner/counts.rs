//! Counts by zone, and fractions for people.

/// How many endpoints are hinted for each zone.
#[must_use]
pub fn count(hints: impl IntoIterator<Item = u16>, zones: usize) -> Vec<u32> {
    let mut counts = vec![0; zones];
    for zone in hints {
        counts[usize::from(zone)] += 1;
    }
    counts
}

/// A fraction for people; 0 of nothing.
#[must_use]
#[expect(clippy::cast_precision_loss)]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
