//! Whether a Service asks for hints, and for which heuristic: the first match counts.

use crate::cluster::service::{AnnotationKey, ServiceRecord, TopologyMode, TrafficDistribution};
use crate::settings::Settings;

/// A way to plan hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heuristic {
    /// In proportion to CPU, every endpoint for one zone.
    Auto,
}

impl Heuristic {
    /// Its word, in JSON and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
        }
    }
}

/// What asks for hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptInSource {
    /// The annotation `service.kubernetes.io/topology-aware-hints`.
    TopologyAwareHints,
    /// The annotation `service.kubernetes.io/topology-mode`.
    TopologyMode,
    /// `spec.trafficDistribution`.
    TrafficDistribution,
}

impl OptInSource {
    /// Its word, in JSON and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::TopologyAwareHints => "topology-aware-hints",
            Self::TopologyMode => "topology-mode",
            Self::TrafficDistribution => "trafficDistribution",
        }
    }
}

impl From<AnnotationKey> for OptInSource {
    fn from(key: AnnotationKey) -> Self {
        match key {
            AnnotationKey::TopologyAwareHints => Self::TopologyAwareHints,
            AnnotationKey::TopologyMode => Self::TopologyMode,
        }
    }
}

/// What a Service says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptIn {
    /// It asks for hints.
    Heuristic(OptInSource, Heuristic),
    /// It opts out by name.
    Disabled {
        /// Whether a `trafficDistribution` has Kubernetes write hints of its own, which then stay.
        kubernetes_hints: bool,
    },
    /// It names the heuristic of another implementation.
    Other(Box<str>),
    /// `trafficDistribution: PreferSameNode`, which is Kubernetes' alone.
    SameNode,
    /// It says nothing.
    Nothing,
}

/// Reads what a Service says.
#[must_use]
pub fn read(service: &ServiceRecord, settings: &Settings) -> OptIn {
    match (&service.topology_mode, service.traffic_distribution) {
        (Some((key, TopologyMode::Auto)), _) => OptIn::Heuristic((*key).into(), Heuristic::Auto),
        (Some((_, TopologyMode::Disabled)), distribution) => OptIn::Disabled {
            kubernetes_hints: distribution.is_some(),
        },
        (Some((_, TopologyMode::Other(value))), _) => OptIn::Other(value.clone()),
        (None, Some(TrafficDistribution::SameZone)) if settings.honor_traffic_distribution => {
            OptIn::Heuristic(OptInSource::TrafficDistribution, Heuristic::Auto)
        }
        (None, Some(TrafficDistribution::SameNode)) => OptIn::SameNode,
        (None, Some(TrafficDistribution::SameZone) | None) => OptIn::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(service: &ServiceRecord) -> OptIn {
        super::read(service, &Settings::default())
    }

    fn service(
        mode: Option<TopologyMode>,
        traffic_distribution: Option<TrafficDistribution>,
    ) -> ServiceRecord {
        ServiceRecord {
            uid: "".into(),
            topology_mode: mode.map(|mode| (AnnotationKey::TopologyMode, mode)),
            traffic_distribution,
            hints_unused: None,
            odd_field: None,
        }
    }

    #[test]
    fn the_annotation_comes_before_the_traffic_distribution() {
        let auto = service(
            Some(TopologyMode::Auto),
            Some(TrafficDistribution::SameNode),
        );
        assert_eq!(
            read(&auto),
            OptIn::Heuristic(OptInSource::TopologyMode, Heuristic::Auto)
        );
        let other = service(
            Some(TopologyMode::Other("x".into())),
            Some(TrafficDistribution::SameZone),
        );
        assert_eq!(read(&other), OptIn::Other("x".into()));
    }

    #[test]
    fn disabled_leaves_to_kubernetes_what_a_traffic_distribution_asks_of_it() {
        let disabled = |distribution| read(&service(Some(TopologyMode::Disabled), distribution));
        assert_eq!(
            disabled(None),
            OptIn::Disabled {
                kubernetes_hints: false
            }
        );
        assert_eq!(
            disabled(Some(TrafficDistribution::SameZone)),
            OptIn::Disabled {
                kubernetes_hints: true
            }
        );
    }

    #[test]
    fn a_traffic_distribution_alone_opts_in_unless_it_is_for_the_node() {
        let with = |distribution| read(&service(None, distribution));
        assert_eq!(
            with(Some(TrafficDistribution::SameZone)),
            OptIn::Heuristic(OptInSource::TrafficDistribution, Heuristic::Auto)
        );
        assert_eq!(with(Some(TrafficDistribution::SameNode)), OptIn::SameNode);
        assert_eq!(with(None), OptIn::Nothing);
    }

    #[test]
    fn a_traffic_distribution_alone_can_be_left_to_kubernetes() {
        let settings = Settings {
            honor_traffic_distribution: false,
            ..Settings::default()
        };
        let alone = service(None, Some(TrafficDistribution::SameZone));
        assert_eq!(super::read(&alone, &settings), OptIn::Nothing);
    }
}
