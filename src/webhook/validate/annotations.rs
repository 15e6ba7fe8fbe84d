//! Faults of annotations, which Services and Namespaces have in common.

use super::Fault;
use crate::cluster::annotations::{Invalid, MODE, own_keys};
use crate::cluster::wire::Metadata;
use crate::words;

/// How many keys that do not exist are reported: an object may have tens of thousands.
const MOST_REPORTED: usize = 10;

/// Faults of values (`mistakes`) and of keys (`misplaced`), given the metadata that is written and the one that is stored.
pub(super) fn annotation_faults(
    mistakes: impl Iterator<Item = Invalid>,
    misplaced: fn(&str) -> Option<String>,
    [object, stored]: [Option<&Metadata<Box<str>>>; 2],
) -> Vec<Fault> {
    let is_new = |key: &str| value(object, key) != value(stored, key);
    let mut faults: Vec<Fault> = mistakes
        .map(|invalid| Fault {
            word: "InvalidAnnotation",
            sentence: unusable(&invalid),
            made_now: is_new(invalid.key),
        })
        .collect();
    let misplaced = own_keys(object).filter_map(|key| Some((key, misplaced(key)?)));
    faults.extend(misplaced.take(MOST_REPORTED).map(|(key, sentence)| Fault {
        word: if key == MODE {
            "MisplacedAnnotation"
        } else {
            "UnknownAnnotation"
        },
        sentence,
        made_now: is_new(key),
    }));
    faults
}

pub(super) fn value<'a>(metadata: Option<&'a Metadata<Box<str>>>, key: &str) -> Option<&'a str> {
    metadata?.annotation(key)
}

/// Why a value can't be used. The key goes without its domain to leave room for the reason.
pub(super) fn unusable(invalid: &Invalid) -> String {
    const SHOWN: usize = 40;
    let key = invalid.key.rsplit('/').next().unwrap_or(invalid.key);
    let value = words::at_most(&invalid.value, SHOWN);
    format!("{key} {value:?}: {}", invalid.problem)
}
