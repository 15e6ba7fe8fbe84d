//! Weights that a person gives zones in place of their CPU: `zone-a=3,zone-b=1`.

use std::fmt;

use super::decimal;

/// Weights by zone, for traffic that does not come in proportion to CPU. A zone that is not named weighs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneWeights {
    by_name: Box<[(Box<str>, u64)]>,
}

impl ZoneWeights {
    /// Reads `ZONE=WEIGHT,…`, where a weight is a decimal above 0 and up to 1,000,000 of at most six digits behind its point.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split(',').count() > MOST_ZONES {
            return Err(format!("it names more than {MOST_ZONES} zones"));
        }
        let mut by_name: Vec<(Box<str>, u64)> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let (name, weight) = item
                .split_once('=')
                .map(|(name, weight)| (name.trim(), weight.trim()))
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| format!("{item:?} is not ZONE=WEIGHT, such as zone-a=3"))?;
            let weight = decimal::millionths(weight, MOST)
                .filter(|weight| *weight > 0)
                .ok_or_else(|| {
                    format!(
                        "the weight {weight:?} is no decimal above 0 and up to 1000000 of at most six digits behind its point"
                    )
                })?;
            if name.len() > LONGEST_NAME {
                return Err(format!(
                    "a zone's name has at most {LONGEST_NAME} characters"
                ));
            }
            if by_name.iter().any(|(other, _)| **other == *name) {
                return Err(format!("zone {name} stands twice"));
            }
            by_name.push((name.into(), weight));
        }
        Ok(Self {
            by_name: by_name.into(),
        })
    }

    /// The names, in the order in which they stand.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.iter().map(|(name, _)| &**name)
    }

    /// The weight of a zone; 0 for one that is not named. Only its proportion to others says anything.
    #[must_use]
    pub fn of(&self, zone: &str) -> u64 {
        let named = self.by_name.iter().find(|(name, _)| **name == *zone);
        named.map_or(0, |(_, weight)| *weight)
    }
}

impl fmt::Display for ZoneWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, weight)) in self.by_name.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let (whole, fraction) = (weight / MILLION, weight % MILLION);
            let fraction = format!(".{fraction:06}");
            write!(
                f,
                "{comma}{name}={whole}{}",
                fraction.trim_end_matches(['0', '.'])
            )?;
        }
        Ok(())
    }
}

const MILLION: u64 = 1_000_000;
/// What a label's value may have (`LabelValueMaxLength` of k8s.io/apimachinery/pkg/util/validation).
const LONGEST_NAME: usize = 63;
const MOST: u32 = 1_000_000;
/// More than any cluster has: each is compared with all before it.
const MOST_ZONES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_and_zones_that_are_not_named_weigh_nothing() {
        let weights = ZoneWeights::parse("zone-a=3, zone-b=0.5").unwrap();
        assert_eq!(weights.of("zone-a"), 6 * weights.of("zone-b"));
        assert_eq!(weights.of("zone-c"), 0);
        assert_eq!(weights.to_string(), "zone-a=3,zone-b=0.5");
        assert_eq!(weights.names().collect::<Vec<_>>(), ["zone-a", "zone-b"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!("{}=1", "z".repeat(64));
        for (text, told) in [
            (&*long, "a zone's name has at most 63"),
            ("", "\"\" is not ZONE=WEIGHT"),
            ("a=1,", "\"\" is not ZONE=WEIGHT"),
            ("a", "\"a\" is not ZONE=WEIGHT"),
            ("=1", "\"=1\" is not ZONE=WEIGHT"),
            ("a=0", "the weight \"0\""),
            ("a=1000001", "the weight \"1000001\""),
            ("a=-1", "the weight \"-1\""),
            ("a=1,a=2", "zone a stands twice"),
        ] {
            let error = ZoneWeights::parse(text).unwrap_err();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
