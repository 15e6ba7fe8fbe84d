//! Whether a Service asks for hints, and for which heuristic: the first match counts.

use crate::cluster::annotations::{AnnotationKey, Annotations, Invalid, TopologyMode};
use crate::cluster::namespace::NamespaceRecord;
use crate::cluster::service::{ServiceRecord, TrafficDistribution};
use crate::planner::heuristic::Heuristic;
use crate::settings::Settings;

/// What asks for hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptInSource {
    /// The annotation `service.kubernetes.io/topology-aware-hints`.
    TopologyAwareHints,
    /// The annotation `service.kubernetes.io/topology-mode`.
    TopologyMode,
    /// `spec.trafficDistribution`.
    TrafficDistribution,
    /// Either annotation, on the Namespace.
    Namespace,
    /// `--default-mode`.
    DefaultMode,
}

impl OptInSource {
    /// Its word, in JSON and for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::TopologyAwareHints => "topology-aware-hints",
            Self::TopologyMode => "topology-mode",
            Self::TrafficDistribution => "trafficDistribution",
            Self::Namespace => "namespace",
            Self::DefaultMode => "default-mode",
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
    /// `trafficDistribution: PreferSameZone` (or `PreferClose`), and neither an annotation nor a flag opts in: Kubernetes writes
    /// its own hints.
    LeftToKubernetes,
    /// `trafficDistribution: PreferSameNode`, which is Kubernetes' alone.
    SameNode,
    /// It says nothing.
    Nothing,
}

/// Whose annotation can't be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Whose it is.
    pub owner: Owner,
    /// The annotation.
    pub invalid: Invalid,
}

/// Whose annotations ask for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The Service's own.
    Service,
    /// Those of its Namespace.
    Namespace,
}

/// Reads what a Service says, or its Namespace in its place, or the settings.
///
/// A `trafficDistribution` opts in only with `--traffic-distribution`, and then counts before the Namespace. Without that flag
/// the Namespace's annotation counts before the field, and `--default-mode` never applies.
///
/// # Errors
/// [`Mistake`] where the annotation that counts names a heuristic of zonewise's that there is none of.
pub fn read(
    service: &ServiceRecord,
    namespace: Option<&NamespaceRecord>,
    settings: &Settings,
) -> Result<OptIn, Mistake> {
    let own = by_annotation(&service.annotations, Owner::Service, service)?;
    if let Some(opt_in) = own {
        return Ok(opt_in);
    }
    let by_distribution = match service.traffic_distribution {
        Some(TrafficDistribution::SameNode) => return Ok(OptIn::SameNode),
        Some(TrafficDistribution::SameZone) => Some(settings.traffic_distribution),
        None => None,
    };
    if let Some(Some(heuristic)) = by_distribution {
        let source = OptInSource::TrafficDistribution;
        return Ok(OptIn::Heuristic(source, heuristic));
    }
    let of_namespace = namespace.map(|n| by_annotation(&n.annotations, Owner::Namespace, service));
    let of_namespace = of_namespace.transpose()?.flatten();
    if by_distribution.is_some() {
        let opt_in = of_namespace.filter(|opt_in| !matches!(opt_in, OptIn::Disabled { .. }));
        return Ok(opt_in.unwrap_or(OptIn::LeftToKubernetes));
    }
    if let Some(opt_in) = of_namespace {
        return Ok(opt_in);
    }
    Ok(settings.default_mode.map_or(OptIn::Nothing, |heuristic| {
        OptIn::Heuristic(OptInSource::DefaultMode, heuristic)
    }))
}

fn by_annotation(
    annotations: &Annotations,
    owner: Owner,
    service: &ServiceRecord,
) -> Result<Option<OptIn>, Mistake> {
    if let Some(invalid) = annotations.unknown_heuristic() {
        return Err(Mistake { owner, invalid });
    }
    let Some((key, mode)) = &annotations.topology_mode else {
        return Ok(None);
    };
    let source = match owner {
        Owner::Service => (*key).into(),
        Owner::Namespace => OptInSource::Namespace,
    };
    Ok(Some(match mode {
        TopologyMode::Heuristic(heuristic) => OptIn::Heuristic(source, *heuristic),
        TopologyMode::Disabled => OptIn::Disabled {
            kubernetes_hints: service.traffic_distribution.is_some(),
        },
        TopologyMode::Other(value) => OptIn::Other(value.clone()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(service: &ServiceRecord) -> OptIn {
        super::read(service, None, &Settings::default()).unwrap()
    }

    fn annotations(mode: Option<TopologyMode>) -> Annotations {
        Annotations {
            topology_mode: mode.map(|mode| (AnnotationKey::TopologyMode, mode)),
            ..Annotations::default()
        }
    }

    fn service(
        mode: Option<TopologyMode>,
        traffic_distribution: Option<TrafficDistribution>,
    ) -> ServiceRecord {
        ServiceRecord {
            uid: "".into(),
            annotations: annotations(mode),
            traffic_distribution,
            hints_unused: None,
            odd_field: None,
        }
    }

    fn namespace(mode: TopologyMode) -> NamespaceRecord {
        NamespaceRecord {
            annotations: annotations(Some(mode)),
            odd_field: None,
        }
    }

    const AUTO: TopologyMode = TopologyMode::Heuristic(Heuristic::Auto);

    #[test]
    fn the_annotation_comes_before_the_traffic_distribution() {
        let auto = service(Some(AUTO), Some(TrafficDistribution::SameNode));
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

    const SAME_ZONE: Option<TrafficDistribution> = Some(TrafficDistribution::SameZone);

    #[test]
    fn a_traffic_distribution_alone_is_left_to_kubernetes() {
        let with = |distribution| read(&service(None, distribution));
        assert_eq!(with(SAME_ZONE), OptIn::LeftToKubernetes);
        let same_node = Some(TrafficDistribution::SameNode);
        assert_eq!(with(same_node), OptIn::SameNode);
        assert_eq!(with(None), OptIn::Nothing);
    }

    #[test]
    fn the_default_mode_never_applies_to_a_traffic_distribution() {
        let settings = Settings {
            default_mode: Some(Heuristic::Auto),
            ..Settings::default()
        };
        let alone = service(None, SAME_ZONE);
        let opt_in = super::read(&alone, None, &settings);
        assert_eq!(opt_in, Ok(OptIn::LeftToKubernetes));
    }

    #[test]
    fn the_flag_opts_a_traffic_distribution_in_before_the_namespace() {
        let settings = Settings {
            traffic_distribution: Some(Heuristic::Overlap),
            ..Settings::default()
        };
        let read = |distribution, mode| {
            let namespace = namespace(mode);
            super::read(&service(None, distribution), Some(&namespace), &settings).unwrap()
        };
        let overlap = OptIn::Heuristic(OptInSource::TrafficDistribution, Heuristic::Overlap);
        assert_eq!(read(SAME_ZONE, AUTO), overlap);
        assert_eq!(read(SAME_ZONE, TopologyMode::Disabled), overlap);
        let same_node = Some(TrafficDistribution::SameNode);
        assert_eq!(read(same_node, AUTO), OptIn::SameNode);
        let by_namespace = OptIn::Heuristic(OptInSource::Namespace, Heuristic::Auto);
        assert_eq!(read(None, AUTO), by_namespace);
    }

    #[test]
    fn without_the_flag_the_namespace_counts_before_the_field() {
        let read = |mode| {
            let namespace = namespace(mode);
            let service = service(None, SAME_ZONE);
            super::read(&service, Some(&namespace), &Settings::default()).unwrap()
        };
        let by_namespace = OptIn::Heuristic(OptInSource::Namespace, Heuristic::Auto);
        assert_eq!(read(AUTO), by_namespace);
        assert_eq!(read(TopologyMode::Disabled), OptIn::LeftToKubernetes);
        let other = read(TopologyMode::Other("x".into()));
        assert_eq!(other, OptIn::Other("x".into()));
    }

    #[test]
    fn the_namespace_comes_after_what_the_service_says_and_before_the_settings() {
        let settings = Settings {
            default_mode: Some(Heuristic::PreferZone),
            ..Settings::default()
        };
        let overlap = namespace(TopologyMode::Heuristic(Heuristic::Overlap));
        let read =
            |service: &ServiceRecord, namespace| match super::read(service, namespace, &settings)
                .unwrap()
            {
                OptIn::Heuristic(source, heuristic) => (source, heuristic),
                other => panic!("{other:?}"),
            };
        let silent = service(None, None);
        assert_eq!(
            read(&silent, Some(&overlap)),
            (OptInSource::Namespace, Heuristic::Overlap)
        );
        assert_eq!(
            read(&service(Some(AUTO), None), Some(&overlap)),
            (OptInSource::TopologyMode, Heuristic::Auto)
        );
        assert_eq!(
            read(&silent, None),
            (OptInSource::DefaultMode, Heuristic::PreferZone)
        );
        let disabled = namespace(TopologyMode::Disabled);
        assert_eq!(
            super::read(&silent, Some(&disabled), &settings),
            Ok(OptIn::Disabled {
                kubernetes_hints: false
            })
        );
    }

    #[test]
    fn a_heuristic_that_there_is_none_of_is_a_mistake_of_whoever_names_it() {
        let unknown = || TopologyMode::Other("zonewise.dev/Nothing".into());
        let owner = |service: &ServiceRecord, namespace: Option<&NamespaceRecord>| {
            super::read(service, namespace, &Settings::default()).map_err(|m| m.owner)
        };
        assert_eq!(
            owner(&service(Some(unknown()), None), None),
            Err(Owner::Service)
        );
        let of_namespace = namespace(unknown());
        assert_eq!(
            owner(&service(None, None), Some(&of_namespace)),
            Err(Owner::Namespace)
        );
        assert!(owner(&service(Some(AUTO), None), Some(&of_namespace)).is_ok());
    }
}
