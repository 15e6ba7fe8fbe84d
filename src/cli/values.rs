//! Values of flags.

use std::convert::Infallible;
use std::time::Duration;

use crate::cluster::selector::{self, NodeSelector};
use crate::planner::allocation::Threshold;
use crate::planner::capacity::Measure;
use crate::planner::decimal;
use crate::planner::heuristic::Heuristic;
use crate::telemetry::Human;

impl clap::ValueEnum for Measure {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Cpu, Self::Nodes]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let (word, help) = match self {
            Self::Cpu => ("cpu", "The allocatable CPU of their nodes"),
            Self::Nodes => ("nodes", "The number of their nodes"),
        };
        Some(clap::builder::PossibleValue::new(word).help(help))
    }
}

/// A duration such as `15s`, `5m` or `1h30m`, of at most a hundred years, with which any clock can reckon.
pub fn duration(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("{text:?} is no duration; write it like 15s, 5m or 1h30m"))?;
    let duration = Duration::try_from(parsed).map_err(|_| format!("{text:?} is below zero"))?;
    if duration > LONGEST {
        return Err(format!("{text} is longer than a hundred years"));
    }
    Ok(duration)
}

fn duration_of(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let duration = duration(text)?;
    if (least..=most).contains(&duration) {
        return Ok(duration);
    }
    let (least, most) = (Human(least), Human(most));
    Err(format!("{text} is not between {least} and {most}"))
}

/// A duration of at most ten minutes.
pub fn waiting_time(text: &str) -> Result<Duration, String> {
    duration_of(text, Duration::ZERO, Duration::from_mins(10))
}

/// A duration between ten seconds and a day.
pub fn full_look(text: &str) -> Result<Duration, String> {
    duration_of(text, Duration::from_secs(10), Duration::from_hours(24))
}

/// A duration of at least two minutes.
pub fn idle_duration(text: &str) -> Result<Duration, String> {
    let least = Duration::from_mins(2);
    let duration = duration(text)?;
    if duration < least {
        return Err(
            "API servers keep idle connections for 90s, so this must be at least 120s".into(),
        );
    }
    Ok(duration)
}

/// A number of bytes such as `65536`, `64Ki` or `16Mi`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("", 1)];
    let parse = |(suffix, unit): (&str, usize)| {
        text.strip_suffix(suffix)?
            .parse::<usize>()
            .ok()?
            .checked_mul(unit)
    };
    units
        .into_iter()
        .find_map(parse)
        .ok_or_else(|| format!("{text:?} is no number of bytes; write it like 65536, 64Ki or 16Mi"))
}

/// A number a second, above zero.
pub fn pace(text: &str) -> Result<f64, String> {
    let parsed: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.001..=1e6).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(format!("{text} is not between 0.001 and 1000000"))
    }
}

/// A fraction between 0 and 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    let parsed: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.0..=1.0).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(format!("{text} is not between 0 and 1"))
    }
}

/// How many events a trace has.
pub fn events(text: &str) -> Result<usize, String> {
    whole_number(text, 1_000_000)
}

/// The least and the most of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: usize,
    /// The most, no less than the least.
    pub most: usize,
}

/// How many pods a trace may have, as in `2-14`.
pub fn pods(text: &str) -> Result<Range, String> {
    const MOST: usize = 1000;
    let range = text.split_once('-').and_then(|(least, most)| {
        Some(Range {
            least: least.parse().ok()?,
            most: most.parse().ok()?,
        })
    });
    range
        .filter(|range| 1 <= range.least && range.least <= range.most && range.most <= MOST)
        .ok_or_else(|| format!("{text:?} is not LEAST-MOST between 1 and {MOST}, as in 2-14"))
}

/// How many endpoints a slice holds at most; the API allows no more.
pub fn slice_size(text: &str) -> Result<usize, String> {
    whole_number(text, 1000)
}

/// How many seeds are played.
pub fn seeds(text: &str) -> Result<u64, String> {
    whole_number(text, 100_000).map(|seeds| seeds as u64)
}

/// A seed.
pub fn seed(text: &str) -> Result<u64, String> {
    let most = u64::MAX;
    text.parse()
        .map_err(|_| format!("{text:?} is no whole number between 0 and {most}"))
}

fn whole_number(text: &str, most: usize) -> Result<usize, String> {
    let parsed = text.parse().ok();
    parsed
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("{text:?} is no whole number between 1 and {most}"))
}

/// A heuristic by its word.
pub fn heuristic(text: &str) -> Result<Heuristic, String> {
    let all = Heuristic::ALL;
    all.into_iter()
        .find(|heuristic| heuristic.word().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            let words = all.map(Heuristic::word).join(", ");
            format!("{text:?} is no heuristic; there are {words}")
        })
}

/// A heuristic, or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalHeuristic(pub Option<Heuristic>);

/// A heuristic by its word, or `None`.
pub fn optional_heuristic(text: &str) -> Result<OptionalHeuristic, String> {
    if text.eq_ignore_ascii_case("None") {
        return Ok(OptionalHeuristic(None));
    }
    let heuristic = heuristic(text).map_err(|problem| format!("{problem}, or None"))?;
    Ok(OptionalHeuristic(Some(heuristic)))
}

/// The flag `--honor-traffic-distribution`, which `--traffic-distribution` replaces.
pub fn honor_traffic_distribution(text: &str) -> Result<Infallible, String> {
    Err(if text.eq_ignore_ascii_case("false") {
        "write --traffic-distribution None (the default), which replaces it".to_owned()
    } else {
        "write --traffic-distribution Overlap, which replaces it".to_owned()
    })
}

/// The flag `--default-heuristic`, which `--traffic-distribution` replaces.
pub fn default_heuristic(text: &str) -> Result<Infallible, String> {
    let heuristic = heuristic(text).unwrap_or(Heuristic::Overlap).word();
    Err(format!(
        "write --traffic-distribution {heuristic}, which replaces it"
    ))
}

/// The key of a label; nothing at all stands for no label.
pub fn label_key(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    selector::key_of(text).map_err(|problem| format!("{problem}; write it like example.com/pool"))
}

/// The value of a label; nothing at all stands for no label.
pub fn label_value(text: &str) -> Result<String, String> {
    if text.is_empty() || selector::is_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is no value of a label, which has at most 63 letters, digits, dashes, underscores and dots"
    ))
}

/// Labels that a node needs.
pub fn node_selector(text: &str) -> Result<NodeSelector, String> {
    NodeSelector::parse(text)
}

/// A decimal between 0 and 1, in millionths.
pub fn tolerance(text: &str) -> Result<u32, String> {
    let millionths = decimal::millionths(text, 1).and_then(|millionths| millionths.try_into().ok());
    millionths.ok_or_else(|| {
        format!("{text:?} is no decimal between 0 and 1 of at most six digits behind its point, such as 0.05")
    })
}

/// An overload threshold.
pub fn threshold(text: &str) -> Result<Threshold, String> {
    Threshold::parse(text).ok_or_else(|| format!("{text:?} is no {}", Threshold::FORM))
}

/// A Service as `namespace/name`.
pub fn service_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(text.to_owned())
        }
        _ => Err(format!(
            "{text:?} is no Service; write it as NAMESPACE/NAME"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_bytes_and_fractions_are_read() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("5").is_err() && duration("-5s").is_err());
        assert!(duration("876000h").is_ok() && duration("876001h").is_err());
        assert!(duration("9223372036854775807s").is_err());
        assert!(idle_duration("90s").is_err());
        assert!(full_look("10s").is_ok() && full_look("9.9s").is_err());
        assert!(full_look("24h").is_ok() && full_look("0s").is_err());
        assert_eq!(waiting_time("0s"), Ok(Duration::ZERO));
        assert_eq!(
            waiting_time("10m1s"),
            Err("10m1s is not between 0s and 10m".to_owned())
        );
        assert_eq!(bytes("16Mi"), Ok(16 << 20));
        assert_eq!(bytes("100"), Ok(100));
        assert!(bytes("Mi").is_err() && bytes("16MB").is_err());
        assert_eq!(label_key(""), Ok(String::new()));
        assert!(label_key("example.com/pool").is_ok() && label_key("a=b").is_err());
        assert_eq!(tolerance("0.05"), Ok(50_000));
        assert!(tolerance("1.000001").is_err() && tolerance("0.0000001").is_err());
        assert_eq!(threshold("10"), Ok(Threshold::HIGHEST));
        assert!(threshold("10.000001").is_err() && threshold("-0.1").is_err());
        let none = OptionalHeuristic(None);
        assert_eq!(optional_heuristic("none"), Ok(none));
        let overlap = OptionalHeuristic(Some(Heuristic::Overlap));
        assert_eq!(optional_heuristic("overlap"), Ok(overlap));
        assert!(optional_heuristic("Nothing").is_err_and(|problem| problem.ends_with("or None")));
        assert!(fraction("1.5").is_err() && fraction("NaN").is_err());
        assert!(service_name("zonewise").is_err());
        assert_eq!(pods("2-14"), Ok(Range { least: 2, most: 14 }));
        assert!(pods("14-2").is_err() && pods("0-2").is_err() && pods("2").is_err());
    }
}
