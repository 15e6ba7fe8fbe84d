//! What the annotations of a Service or a Namespace ask of zonewise.

use std::sync::Arc;

use super::loose::{Pairs, WireText};
use super::wire::Metadata;
use crate::planner::allocation::Threshold;
use crate::planner::heuristic::Heuristic;
use crate::planner::zone_weights::ZoneWeights;
use crate::settings::Mode;
use crate::words;

/// The annotation of Kubernetes before 1.27, which still wins over [`TOPOLOGY_MODE`] where both stand.
pub const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The annotation that asks for hints.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The overload threshold, a decimal between 0 and 10.
pub const OVERLOAD_THRESHOLD: &str = "zonewise.dev/overload-threshold";
/// Weights of zones in place of their CPU.
pub const ZONE_WEIGHTS: &str = "zonewise.dev/zone-weights";
/// On a Namespace, what is done with decisions on its Services: `Active`, `Observe` or `Off`.
pub const MODE: &str = "zonewise.dev/mode";

/// The annotations of zonewise's own that a Service may have.
pub const ON_SERVICES: [&str; 2] = [OVERLOAD_THRESHOLD, ZONE_WEIGHTS];
/// The annotations of zonewise's own that a Namespace may have.
pub const ON_NAMESPACES: [&str; 3] = [OVERLOAD_THRESHOLD, ZONE_WEIGHTS, MODE];

/// What values and annotations of zonewise's own begin with.
pub const OWN_PREFIX: &str = "zonewise.dev/";

/// The keys of zonewise's own annotations, and of those that only look like one.
pub fn own_keys<T: WireText>(metadata: Option<&Metadata<T>>) -> impl Iterator<Item = &str> {
    let annotations = metadata.and_then(|metadata| metadata.annotations.get());
    let keys = annotations.into_iter().flat_map(Pairs::iter);
    keys.map(|(key, _)| key)
        .filter(|key| key.starts_with(OWN_PREFIX))
}

/// What is wrong with an own key that no Service may have, as a sentence without its full stop; nothing where one may.
#[must_use]
pub fn misplaced_on_service(key: &str) -> Option<String> {
    if key == MODE {
        return Some(format!(
            "{MODE} is for Namespaces; on a Service it does nothing"
        ));
    }
    unknown(key, &ON_SERVICES, "Services")
}

/// The same for an own key on a Namespace.
#[must_use]
pub fn misplaced_on_namespace(key: &str) -> Option<String> {
    unknown(key, &ON_NAMESPACES, "Namespaces")
}

/// Names the key that may be meant, unless `key` is one of `known`, the keys of objects of `kinds`.
fn unknown(key: &str, known: &[&str], kinds: &str) -> Option<String> {
    if known.contains(&key) {
        return None;
    }
    let known = known.iter().map(|key| without_prefix(key));
    let meant = words::nearest(without_prefix(key), known.clone());
    let key = words::at_most(key, 100);
    Some(match meant {
        Some(meant) => format!("there is no annotation {key}; {OWN_PREFIX}{meant} may be meant"),
        None => format!(
            "there is no annotation {key}; {kinds} may have {}",
            known.collect::<Vec<_>>().join(", ")
        ),
    })
}

fn without_prefix(key: &str) -> &str {
    key.strip_prefix(OWN_PREFIX).unwrap_or(key)
}

/// A value of the topology annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyMode {
    /// One of zonewise's heuristics; `Auto` and `auto` are the same.
    Heuristic(Heuristic),
    /// `Disabled` or `disabled`.
    Disabled,
    /// Anything else, the empty text included.
    Other(Box<str>),
}

impl TopologyMode {
    fn read(value: &str) -> Self {
        match value {
            "auto" => Self::Heuristic(Heuristic::Auto),
            "Disabled" | "disabled" => Self::Disabled,
            other => Heuristic::ALL
                .into_iter()
                .find(|heuristic| heuristic.annotation() == other)
                .map_or_else(|| Self::Other(other.into()), Self::Heuristic),
        }
    }
}

/// The annotation that an opt-in was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationKey {
    /// [`TOPOLOGY_AWARE_HINTS`].
    TopologyAwareHints,
    /// [`TOPOLOGY_MODE`].
    TopologyMode,
}

impl AnnotationKey {
    /// The annotation's key.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::TopologyAwareHints => TOPOLOGY_AWARE_HINTS,
            Self::TopologyMode => TOPOLOGY_MODE,
        }
    }
}

/// An annotation of zonewise's own whose value can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Its key.
    pub key: &'static str,
    /// Its value.
    pub value: Box<str>,
    /// What is wrong with it, as the end of a sentence.
    pub problem: Box<str>,
}

/// What an annotation says, or what is wrong with it.
pub type Said<T> = Result<T, Box<Invalid>>;

/// Annotations that zonewise reads, as far as they are there. A value that can't be used is an error, never a default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The topology annotation that counts.
    pub topology_mode: Option<(AnnotationKey, TopologyMode)>,
    /// [`OVERLOAD_THRESHOLD`].
    pub threshold: Option<Said<Threshold>>,
    /// [`ZONE_WEIGHTS`].
    pub zone_weights: Option<Said<Arc<ZoneWeights>>>,
    /// [`MODE`].
    pub mode: Option<Said<Mode>>,
}

impl Annotations {
    /// Reads the annotations of an object.
    #[must_use]
    pub fn read<T: WireText>(metadata: Option<&Metadata<T>>) -> Self {
        let annotation = |key: &str| metadata?.annotation(key);
        let topology_mode = [
            AnnotationKey::TopologyAwareHints,
            AnnotationKey::TopologyMode,
        ]
        .into_iter()
        .find_map(|key| Some((key, TopologyMode::read(annotation(key.key())?))));
        Self {
            topology_mode,
            threshold: annotation(OVERLOAD_THRESHOLD).map(read_threshold),
            zone_weights: annotation(ZONE_WEIGHTS).map(read_zone_weights),
            mode: annotation(MODE).map(read_mode),
        }
    }

    /// Those of a Service's annotations that can't be used, whether they count or not.
    pub fn mistakes(&self) -> impl Iterator<Item = Invalid> {
        let threshold = self.threshold.as_ref().and_then(|said| said.as_ref().err());
        let weights = self.zone_weights.as_ref();
        let weights = weights.and_then(|said| said.as_ref().err());
        let parameters = [threshold, weights].into_iter().flatten();
        let parameters = parameters.map(|invalid| Invalid::clone(invalid));
        self.unknown_heuristic().into_iter().chain(parameters)
    }

    /// Those of a Namespace's annotations that can't be used.
    pub fn mistakes_on_namespace(&self) -> impl Iterator<Item = Invalid> {
        let mode = self.mode.as_ref().and_then(|said| said.as_ref().err());
        self.mistakes()
            .chain(mode.map(|invalid| Invalid::clone(invalid)))
    }

    /// The topology annotation, if it names a heuristic of zonewise's that there is none of.
    #[must_use]
    pub fn unknown_heuristic(&self) -> Option<Invalid> {
        match &self.topology_mode {
            Some((key, TopologyMode::Other(value))) if value.starts_with(OWN_PREFIX) => {
                let all = Heuristic::ALL.map(Heuristic::annotation);
                let own = all.into_iter().filter(|mode| mode.starts_with(OWN_PREFIX));
                let own: Vec<&str> = own.collect();
                Some(invalid(
                    key.key(),
                    value,
                    format!("zonewise has {}", own.join(" and ")),
                ))
            }
            _ => None,
        }
    }
}

/// An annotation whose value can't be used, its value cut to what can be shown.
pub fn invalid(key: &'static str, value: &str, problem: impl AsRef<str>) -> Invalid {
    /// A value may be as long as all annotations together may be, and the problem may name all of it.
    const SHOWN: usize = 200;
    Invalid {
        key,
        value: value.chars().take(SHOWN).collect(),
        problem: words::printable(&words::at_most(problem.as_ref(), SHOWN)).into(),
    }
}

fn read_threshold(value: &str) -> Said<Threshold> {
    let problem = || format!("it is no {}", Threshold::FORM);
    Threshold::parse(value).ok_or_else(|| invalid(OVERLOAD_THRESHOLD, value, problem()).into())
}

fn read_zone_weights(value: &str) -> Said<Arc<ZoneWeights>> {
    ZoneWeights::parse(value)
        .map(Arc::new)
        .map_err(|problem| invalid(ZONE_WEIGHTS, value, problem).into())
}

fn read_mode(value: &str) -> Said<Mode> {
    let mode = Mode::ALL
        .into_iter()
        .find(|mode| mode.word().eq_ignore_ascii_case(value));
    mode.ok_or_else(|| invalid(MODE, value, "there are Active, Observe and Off").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Annotations {
        let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
        let json = serde_json::json!({"annotations": annotations}).to_string();
        let metadata: Metadata<Box<str>> = serde_json::from_str(&json).unwrap();
        Annotations::read(Some(&metadata))
    }

    #[test]
    fn the_deprecated_annotation_wins() {
        let both = read(&[(TOPOLOGY_MODE, "x"), (TOPOLOGY_AWARE_HINTS, "auto")]);
        assert_eq!(
            both.topology_mode,
            Some((
                AnnotationKey::TopologyAwareHints,
                TopologyMode::Heuristic(Heuristic::Auto)
            ))
        );
    }

    #[test]
    fn every_heuristic_is_asked_for_by_its_annotation() {
        for heuristic in Heuristic::ALL {
            let read = read(&[(TOPOLOGY_MODE, heuristic.annotation())]);
            let (_, mode) = read.topology_mode.clone().unwrap();
            assert_eq!(mode, TopologyMode::Heuristic(heuristic));
            assert_eq!(read.unknown_heuristic(), None);
        }
    }

    #[test]
    fn a_heuristic_of_ours_that_there_is_none_of_is_a_mistake_and_that_of_others_is_not() {
        let ours = read(&[(TOPOLOGY_MODE, "zonewise.dev/overlap")]);
        assert_eq!(ours.unknown_heuristic().unwrap().key, TOPOLOGY_MODE);
        let theirs = read(&[(TOPOLOGY_MODE, "example.com/overlap")]);
        assert_eq!(theirs.unknown_heuristic(), None);
    }

    #[test]
    fn values_that_do_not_parse_are_no_defaults() {
        let bad = read(&[
            (OVERLOAD_THRESHOLD, "20%"),
            (ZONE_WEIGHTS, "a"),
            (MODE, "on"),
        ]);
        assert_eq!(&*bad.threshold.unwrap().unwrap_err().value, "20%");
        assert!(bad.zone_weights.unwrap().is_err());
        assert_eq!(bad.mode.unwrap().unwrap_err().key, MODE);
        let good = read(&[(OVERLOAD_THRESHOLD, "0.35"), (MODE, "observe")]);
        assert_eq!(
            good.threshold,
            Some(Ok(Threshold::from_millionths(350_000)))
        );
        assert_eq!(good.mode, Some(Ok(Mode::Observe)));
    }
}
