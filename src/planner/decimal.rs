//! Decimals that people write, held as whole millionths so that nothing is lost to rounding.

/// A decimal of digits and at most one point, with at most six digits behind it, in millionths; nothing for other texts and
/// for more than `most` (whole units).
#[must_use]
pub fn millionths(text: &str, most: u32) -> Option<u64> {
    const PLACES: usize = 6;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_decimal = !whole.is_empty() && digits(whole) && digits(fraction);
    if !is_decimal || whole.len() > 9 || fraction.len() > PLACES {
        return None;
    }
    let millionths: u64 = format!("{whole}{fraction:0<PLACES$}").parse().ok()?;
    (millionths <= u64::from(most) * 1_000_000).then_some(millionths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_behind_the_point_are_kept_and_a_seventh_is_refused() {
        assert_eq!(millionths("0.333334", 10), Some(333_334));
        assert_eq!(millionths("1000000", 1_000_000), Some(1_000_000_000_000));
        assert_eq!(millionths("2.", 10), Some(2_000_000));
        for bad in [
            "",
            ".2",
            "-1",
            "+1",
            "10.1",
            "0.1234567",
            "1e1",
            "nan",
            "٣",
            "1.2.3",
            " 1",
        ] {
            assert_eq!(millionths(bad, 10), None, "{bad}");
        }
    }
}
