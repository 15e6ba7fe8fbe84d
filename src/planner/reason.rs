//! Why a decision is not `Hints`: a word for machines and a sentence for people, made from the same value.

use std::fmt::Write as _;
use std::sync::Arc;

use super::allocation::{self, Threshold};
use super::capacity::{InsufficientNode, Missing, ZONE_LABEL};
use super::heuristic::Heuristic;
use super::zone_set::ZoneSet;
use super::zoneless::Zoneless;
use crate::words::{self, NAMED, and_more};

/// A number of endpoints that Auto has no plan for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Ready endpoints.
    pub endpoints: u32,
    /// The weights of the zones' shares.
    pub weights: Box<[u64]>,
    /// The overload threshold that the minima follow from.
    pub threshold: Threshold,
    /// What is short.
    pub kind: ShortfallKind,
    /// Which ports have these endpoints.
    pub behind: Behind,
}

/// The ports that have some endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Behind {
    /// All of the Service's.
    #[default]
    EveryPort,
    /// This one, `""` where it has no name; others have other endpoints.
    Port(Box<str>),
    /// Different ones each of which has some of the endpoints.
    SomePort,
}

/// What is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortfallKind {
    /// There are fewer ready endpoints than zones.
    Endpoints,
    /// The zones' minima add up to `needed`, which is more than there is.
    Minima {
        /// The sum of the minima.
        needed: u64,
    },
}

impl Shortfall {
    /// Zones with weight.
    #[must_use]
    pub fn zones(&self) -> usize {
        self.weights.iter().filter(|&&weight| weight > 0).count()
    }

    /// What would help, found by trying it, which takes longer than deciding: for sentences.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        const REACH: u32 = 1000;
        let enough = |more: &u32| {
            allocation::Needs::new(
                &self.weights,
                self.endpoints.saturating_add(*more),
                self.threshold,
            )
            .is_ok()
        };
        Remedy {
            more_endpoints: (1..=REACH).find(enough),
            threshold: allocation::least_threshold(&self.weights, self.endpoints),
        }
    }

    fn message(&self) -> String {
        if self.endpoints == 0 {
            return NONE_READY.into();
        }
        let ready = words::count(self.endpoints as usize, "ready endpoint");
        let zones = self.zones();
        let behind = match &self.behind {
            Behind::EveryPort => String::new(),
            Behind::Port(port) => format!(" behind port {port:?}"),
            Behind::SomePort => " behind ports that differ".to_owned(),
        };
        let problem = match self.kind {
            ShortfallKind::Endpoints => {
                format!("{ready}{behind} for {zones} zones, and each zone needs one of its own")
            }
            ShortfallKind::Minima { needed } => format!(
                "{ready}{behind} over {zones} zones can't keep every endpoint within {} above the average: the zones need \
                 at least {needed}",
                percent(self.threshold)
            ),
        };
        // What would do behind one port may not be enough behind another.
        let advice = match self.behind {
            Behind::EveryPort => self.remedy().advice(),
            Behind::Port(_) | Behind::SomePort => String::new(),
        };
        problem + &advice + "."
    }
}

/// What would make Auto work for a Service that it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// The fewest additional ready endpoints that do, within reach of a search.
    pub more_endpoints: Option<u32>,
    /// The least threshold that does with the endpoints there are.
    pub threshold: Option<Threshold>,
}

impl Remedy {
    fn advice(self) -> String {
        let endpoints = self
            .more_endpoints
            .map(|more| words::count(more as usize, "more ready endpoint") + " would do");
        let threshold = self
            .threshold
            .map(|t| format!("a threshold of {} would", percent(t)));
        match (endpoints, threshold) {
            (Some(endpoints), Some(threshold)) => format!("; {endpoints}, or {threshold}"),
            (Some(help), None) | (None, Some(help)) => format!("; {help}"),
            (None, None) => String::new(),
        }
    }
}

/// How far above the average an endpoint is loaded, in thousandths, rounded up: for sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    thousandths: u32,
}

impl Overload {
    /// From a fraction of the average load.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn of(fraction: f64) -> Self {
        Self {
            thousandths: (fraction * 1000.0 - 1e-6).ceil().max(0.0) as u32,
        }
    }

    /// In percent, with its sign.
    #[must_use]
    pub fn percent(self) -> String {
        format!("{}%", f64::from(self.thousandths) / 10.0)
    }
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A counted node lacks zone or CPU, or no node counts at all.
    InsufficientNodeInfo {
        /// The first nodes by name, each with what it lacks.
        first: Box<[InsufficientNode]>,
        /// How many more there are.
        more: usize,
    },
    /// All counted nodes are in one zone.
    NodesReadyInOneZoneOnly {
        /// That zone.
        zone: Arc<str>,
        /// Its counted nodes.
        nodes: u32,
    },
    /// `InsufficientNumberOfEndpoints` or `MinAllocationExceedsOverloadThreshold`.
    Shortfall(Shortfall),
    /// Ready endpoints without a known zone.
    NoZoneSpecified(Zoneless),
    /// Under the plan for all endpoints, those behind one port fall short in a zone.
    PortBelowMinimum {
        /// The port's name, `""` where it has none.
        port: Box<str>,
        /// The zone.
        zone: Arc<str>,
        /// Endpoints of the port that serve the zone.
        hinted: u32,
        /// How many it needs.
        minimum: u32,
    },
    /// The slices have so many different sets of ports that they are not all looked at.
    TooManyPorts,
    /// No hints for the slice keep the guarantee beside those that the Service's other slices have.
    SiblingsOutOfStep {
        /// How many other slices there are.
        siblings: usize,
    },
    /// The annotation says `Disabled`.
    OptedOut,
    /// Nothing asks for hints.
    NotOptedIn,
    /// The annotation names a heuristic of somebody else.
    OtherHeuristic {
        /// Its value.
        value: Box<str>,
    },
    /// `trafficDistribution: PreferSameZone`, and nothing opts the Service in.
    LeftToKubernetes,
    /// `trafficDistribution: PreferSameNode`.
    PreferSameNode,
    /// kube-proxy uses endpoints on its own node alone.
    InternalTrafficPolicyLocal,
    /// No cluster IP (headless, or of type ExternalName), so kube-proxy is not asked.
    Headless,
    /// The label `service.kubernetes.io/service-proxy-name` hands the Service to another proxy.
    OtherServiceProxy,
    /// Address type FQDN, or one that is unknown.
    UnsupportedAddressType,
    /// The slice names no Service, or one that is not in the cache.
    UnknownService {
        /// Whether the slice has a label with a Service's name.
        has_label: bool,
    },
    /// The slices of `default/kubernetes` and of zonewise itself.
    ReservedService,
    /// `--ignored-slice-managers` names the manager of the slice.
    IgnoredManager {
        /// The manager.
        manager: Box<str>,
    },
    /// `--mode Off`, or the Namespace's annotation says so.
    ModeOff,
    /// An annotation that counts can't be used.
    InvalidAnnotation {
        /// `Service` or `Namespace`.
        kind: &'static str,
        /// Its name.
        name: Box<str>,
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: Box<str>,
        /// What is wrong with it, as the end of a sentence.
        problem: Box<str>,
    },
    /// More zones than a hint can name, and Auto has no plan.
    TooManyZones {
        /// Zones with weight.
        zones: usize,
    },
    /// No hints would keep more traffic in its zone than none do.
    NoBetterThanNone {
        /// All ready endpoints, where the zone of none is known.
        zoneless: Option<Box<Zoneless>>,
    },
    /// No plan of heuristic Overlap keeps every endpoint under the ceiling.
    NoOverlap {
        /// Ready endpoints.
        endpoints: u32,
        /// The overload threshold.
        threshold: Threshold,
    },
    /// Hints for every endpoint's own zone would overload one.
    OwnZonesOverloaded {
        /// How far above the average the busiest endpoint would be loaded.
        worst_overload: Overload,
        /// The overload threshold.
        threshold: Threshold,
    },
    /// Under the plan for all endpoints, one of those behind one port is overloaded.
    PortOverloaded {
        /// The port's name, `""` where it has none.
        port: Box<str>,
        /// How far above the average the busiest of its endpoints would be loaded.
        worst_overload: Overload,
        /// The overload threshold.
        threshold: Threshold,
    },
    /// The annotation's weights are for zones none of which has counted capacity.
    WeighedZonesWithoutCapacity,
    /// The caches are still filling.
    NotSynced,
    /// The Service or a slice of it could not be understood.
    UnreadableObject {
        /// `Service` or `EndpointSlice`.
        kind: &'static str,
        /// Its name.
        name: Box<str>,
        /// The first field of an unexpected type, or with more items than the API allows.
        field: &'static str,
    },
}

impl Reason {
    /// [`Reason::InsufficientNodeInfo`] for these nodes, which are in the order of their names.
    #[must_use]
    pub fn insufficient_node_info(nodes: &[InsufficientNode]) -> Self {
        let named = nodes.len().min(NAMED);
        Self::InsufficientNodeInfo {
            first: nodes[..named].into(),
            more: nodes.len() - named,
        }
    }

    /// Its word, in JSON, metrics and logs. The set is fixed.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::InsufficientNodeInfo { .. } => "InsufficientNodeInfo",
            Self::NodesReadyInOneZoneOnly { .. } => "NodesReadyInOneZoneOnly",
            Self::Shortfall(shortfall) => match shortfall.kind {
                ShortfallKind::Endpoints => "InsufficientNumberOfEndpoints",
                ShortfallKind::Minima { .. } => "MinAllocationExceedsOverloadThreshold",
            },
            Self::NoZoneSpecified(_) => "NoZoneSpecified",
            Self::PortBelowMinimum { .. } => "PortBelowMinimum",
            Self::TooManyPorts => "TooManyPorts",
            Self::SiblingsOutOfStep { .. } => "SiblingsOutOfStep",
            Self::OptedOut => "OptedOut",
            Self::NotOptedIn => "NotOptedIn",
            Self::OtherHeuristic { .. } => "OtherHeuristic",
            Self::LeftToKubernetes => "LeftToKubernetes",
            Self::PreferSameNode => "PreferSameNode",
            Self::InternalTrafficPolicyLocal => "InternalTrafficPolicyLocal",
            Self::Headless => "Headless",
            Self::OtherServiceProxy => "OtherServiceProxy",
            Self::UnsupportedAddressType => "UnsupportedAddressType",
            Self::UnknownService { .. } => "UnknownService",
            Self::ReservedService => "ReservedService",
            Self::IgnoredManager { .. } => "IgnoredManager",
            Self::ModeOff => "ModeOff",
            Self::InvalidAnnotation { .. } => "InvalidAnnotation",
            Self::TooManyZones { .. } => "TooManyZones",
            Self::NoBetterThanNone { .. } => "NoBetterThanNone",
            Self::NoOverlap { .. } => "NoOverlap",
            Self::OwnZonesOverloaded { .. } => "OwnZonesOverloaded",
            Self::PortOverloaded { .. } => "PortOverloaded",
            Self::WeighedZonesWithoutCapacity => "WeighedZonesWithoutCapacity",
            Self::NotSynced => "NotSynced",
            Self::UnreadableObject { .. } => "UnreadableObject",
        }
    }

    /// All words: the fixed set of the metrics' label.
    pub const WORDS: [&str; 30] = [
        "InsufficientNodeInfo",
        "NodesReadyInOneZoneOnly",
        "InsufficientNumberOfEndpoints",
        "MinAllocationExceedsOverloadThreshold",
        "NoZoneSpecified",
        "PortBelowMinimum",
        "TooManyPorts",
        "SiblingsOutOfStep",
        "OptedOut",
        "NotOptedIn",
        "OtherHeuristic",
        "LeftToKubernetes",
        "PreferSameNode",
        "InternalTrafficPolicyLocal",
        "Headless",
        "OtherServiceProxy",
        "UnsupportedAddressType",
        "UnknownService",
        "ReservedService",
        "IgnoredManager",
        "ModeOff",
        "InvalidAnnotation",
        "TooManyZones",
        "NoBetterThanNone",
        "NoOverlap",
        "OwnZonesOverloaded",
        "PortOverloaded",
        "WeighedZonesWithoutCapacity",
        "NotSynced",
        "UnreadableObject",
    ];

    /// One sentence: what is the matter, with its numbers, and what to do.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::InsufficientNodeInfo { first, more } => insufficient_nodes(first, *more),
            Self::NodesReadyInOneZoneOnly { zone, nodes } => one_zone_only(zone, *nodes),
            Self::Shortfall(shortfall) => shortfall.message(),
            Self::NoZoneSpecified(zoneless) => zoneless.message(),
            Self::PortBelowMinimum {
                port,
                zone,
                hinted,
                minimum,
            } => format!(
                "Of the endpoints behind port {port:?}, {hinted} would serve zone {zone}, which needs {minimum}: they \
                 are not those of the Service's other ports; give the port more, or a Service of its own."
            ),
            Self::TooManyPorts => TOO_MANY_PORTS.into(),
            Self::SiblingsOutOfStep { siblings } => siblings_out_of_step(*siblings),
            Self::OptedOut => OPTED_OUT.into(),
            Self::NotOptedIn => NOT_OPTED_IN.into(),
            Self::OtherHeuristic { value } => other_heuristic(value),
            Self::LeftToKubernetes => LEFT_TO_KUBERNETES.into(),
            Self::PreferSameNode => PREFER_SAME_NODE.into(),
            Self::InternalTrafficPolicyLocal => INTERNAL_TRAFFIC_POLICY_LOCAL.into(),
            Self::Headless => HEADLESS.into(),
            Self::OtherServiceProxy => OTHER_SERVICE_PROXY.into(),
            Self::UnsupportedAddressType => UNSUPPORTED_ADDRESS_TYPE.into(),
            Self::UnknownService { has_label: true } => UNKNOWN_SERVICE.into(),
            Self::UnknownService { has_label: false } => NO_SERVICE_NAME.into(),
            Self::ReservedService => RESERVED_SERVICE.into(),
            Self::IgnoredManager { manager } => format!(
                "{manager} manages the slice, and --ignored-slice-managers leaves its slices out: zonewise neither hints \
                 nor counts them."
            ),
            Self::ModeOff => MODE_OFF.into(),
            Self::InvalidAnnotation {
                kind,
                name,
                key,
                value,
                problem,
            } => format!(
                "{kind} {name} has the annotation {key}: {value:?}, which can't be used: {problem}; until that is put right \
                 the hints that the slice had are kept."
            ),
            Self::TooManyZones { zones } => format!(
                "There are {zones} zones, and an endpoint's hint can name {} at most; give the Service enough endpoints for \
                 heuristic Auto.",
                ZoneSet::MOST
            ),
            Self::NoBetterThanNone { zoneless: None } => NO_BETTER_THAN_NONE.into(),
            Self::NoBetterThanNone {
                zoneless: Some(zoneless),
            } => format!(
                "Hints need a ready endpoint in a known zone. {}",
                zoneless.message()
            ),
            Self::NoOverlap {
                endpoints,
                threshold,
            } => no_overlap(*endpoints, *threshold),
            Self::OwnZonesOverloaded {
                worst_overload,
                threshold,
            } => format!(
                "With every endpoint for its own zone the busiest would carry {} above the average, and {} is allowed; \
                 spread endpoints over the zones by their shares, or let heuristic Overlap share them.",
                worst_overload.percent(),
                percent(*threshold)
            ),
            Self::PortOverloaded {
                port,
                worst_overload,
                threshold,
            } => format!(
                "Of the endpoints behind port {port:?} the busiest would carry {} above the average, and {} is allowed: \
                 they are not those of the Service's other ports; give the port more, or a Service of its own.",
                worst_overload.percent(),
                percent(*threshold)
            ),
            Self::WeighedZonesWithoutCapacity => WEIGHED_ZONES_WITHOUT_CAPACITY.into(),
            Self::NotSynced => NOT_SYNCED.into(),
            Self::UnreadableObject { kind, name, field } => format!(
                "The field {field} of {kind} {name} has an unexpected type or more items than the API allows, so the hints \
                 that the slice had are kept."
            ),
        }
    }
}

const TOO_MANY_PORTS: &str = "The Service's EndpointSlices have more than 256 different sets of ports; give groups of \
                              ports Services of their own.";
const NONE_READY: &str = "No endpoint is ready, of those behind a port; there is nothing to hint.";
const OPTED_OUT: &str =
    "The topology annotation of the Service, or of its Namespace, says Disabled.";
const NOT_OPTED_IN: &str = "Nothing asks for hints; annotate the Service with \
                            service.kubernetes.io/topology-mode: zonewise.dev/Overlap.";
const LEFT_TO_KUBERNETES: &str = "Kubernetes writes the hints for the Service's trafficDistribution, with no ceiling on the load of \
                                  an endpoint; for a ceiling annotate the Service with \
                                  service.kubernetes.io/topology-mode: zonewise.dev/Overlap.";
const PREFER_SAME_NODE: &str = "trafficDistribution is PreferSameNode, which Kubernetes acts on.";
const INTERNAL_TRAFFIC_POLICY_LOCAL: &str = "internalTrafficPolicy is Local and nothing comes from outside, so \
                                             kube-proxy uses only endpoints on its own node; set \
                                             internalTrafficPolicy: Cluster to use hints.";
const HEADLESS: &str = "The Service has no cluster IP, so clients choose endpoints and kube-proxy follows no hints; to use \
                        hints, create the Service again with a cluster IP.";
const OTHER_SERVICE_PROXY: &str = "The label service.kubernetes.io/service-proxy-name gives the Service to another \
                                   proxy than kube-proxy.";
const UNSUPPORTED_ADDRESS_TYPE: &str =
    "kube-proxy uses hints for address types IPv4 and IPv6 alone.";
const UNKNOWN_SERVICE: &str =
    "The slice's label kubernetes.io/service-name names no Service that exists.";
const NO_SERVICE_NAME: &str =
    "The slice has no label kubernetes.io/service-name, so it belongs to no Service.";
const RESERVED_SERVICE: &str = "zonewise never changes the EndpointSlices of default/kubernetes and of itself, since the \
                                API server must reach both when zonewise fails; no setting changes that.";
const MODE_OFF: &str =
    "zonewise is switched off here (--mode Off, or the Namespace's annotation zonewise.dev/mode).";
const NO_BETTER_THAN_NONE: &str =
    "No hints under the ceiling would keep more traffic in its zone than none do.";
const WEIGHED_ZONES_WITHOUT_CAPACITY: &str = "No zone that the annotation zonewise.dev/zone-weights names has a node that \
                                              counts.";
const NOT_SYNCED: &str = "The caches of Nodes, Services and EndpointSlices are still filling, so the hints that the \
                          slice had are kept.";

fn no_overlap(endpoints: u32, threshold: Threshold) -> String {
    format!(
        "{} can't be shared between the zones so that every endpoint stays within {} above the average.",
        words::count(endpoints as usize, "ready endpoint"),
        percent(threshold)
    )
}

fn one_zone_only(zone: &str, nodes: u32) -> String {
    let nodes = match nodes {
        1 => "The only counted node is".to_owned(),
        nodes => format!("All {nodes} counted nodes are"),
    };
    format!("{nodes} in zone {zone}; hints need Ready nodes in at least two zones.")
}

fn siblings_out_of_step(siblings: usize) -> String {
    let others = match siblings {
        1 => "the Service's other EndpointSlice has".to_owned(),
        count => format!("the Service's {count} other EndpointSlices have"),
    };
    format!(
        "No hints for this EndpointSlice keep every endpoint under the ceiling beside those that {others} now; it gets \
         its own once they are written anew and leave room for them."
    )
}

fn other_heuristic(value: &str) -> String {
    let own = value.strip_prefix("zonewise.dev/");
    let who = match own {
        Some(_) => "is no heuristic of this version",
        None => "another implementation may act on",
    };
    let words = Heuristic::ALL.map(Heuristic::word).into_iter();
    let meant = words::nearest(own.unwrap_or(value), words.chain(["Disabled"]));
    let value = shortened(value);
    let says = format!(
        "The topology annotation of the Service, or of its Namespace, says {value:?}, which {who}"
    );
    let Some(meant) = meant else {
        return format!("{says}; zonewise.dev/Overlap and Auto ask zonewise for hints.");
    };
    let heuristic = Heuristic::ALL.into_iter().find(|h| h.word() == meant);
    let meant = heuristic.map_or(meant, Heuristic::annotation);
    format!("{says}; if {meant} is meant, write it exactly so.")
}

fn insufficient_nodes(first: &[InsufficientNode], more: usize) -> String {
    if first.is_empty() {
        return "No node counts: none is Ready, outside the control plane, and chosen by --capacity-node-selector if that is set.".into();
    }
    let mut text = String::new();
    for (i, node) in first.iter().enumerate() {
        let separator = if i == 0 { "" } else { "; " };
        let lacks: Vec<String> = node.missing.iter().map(describe).collect();
        let _ = write!(
            text,
            "{separator}node {} has {}",
            node.name,
            lacks.join(" and ")
        );
    }
    let _ = write!(
        text,
        "{}; zones' shares of capacity can't be known without it.",
        and_more(more)
    );
    text[..1].to_uppercase() + &text[1..]
}

/// As much of a text that somebody else wrote as fits a sentence.
fn shortened(text: &str) -> &str {
    const MOST: usize = 100;
    text.char_indices()
        .nth(MOST)
        .map_or(text, |(end, _)| &text[..end])
}

fn describe(missing: &Missing) -> String {
    match missing {
        Missing::Zone => format!("no label {ZONE_LABEL}"),
        Missing::Cpu => "no allocatable CPU".into(),
        Missing::CpuAboveZero => "allocatable CPU of zero".into(),
        Missing::ReadableCpu(text) => format!("allocatable CPU {text:?}, which is no quantity"),
    }
}

/// A threshold in percent, with its sign, rounded up to a tenth so that what is advised works.
#[must_use]
pub fn percent(threshold: Threshold) -> String {
    let tenths = threshold.millionths().div_ceil(1_000);
    format!("{}%", f64::from(tenths) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_are_named_and_the_rest_counted() {
        let node = |i: u8| InsufficientNode {
            name: format!("n{i}").into(),
            missing: vec![Missing::Zone],
        };
        let nodes: Vec<_> = (1..=5).map(node).collect();
        let message = Reason::insufficient_node_info(&nodes).message();
        assert!(
            message.starts_with("Node n1 has no label topology.kubernetes.io/zone; node n2"),
            "{message}"
        );
        assert!(
            message.contains("n3") && !message.contains("n4") && message.contains("+2 more"),
            "{message}"
        );
    }

    #[test]
    fn one_node_is_not_several() {
        let one_zone = |nodes| {
            Reason::NodesReadyInOneZoneOnly {
                zone: "a".into(),
                nodes,
            }
            .message()
        };
        assert_eq!(
            [one_zone(1), one_zone(3)],
            [
                "The only counted node is in zone a; hints need Ready nodes in at least two zones.",
                "All 3 counted nodes are in zone a; hints need Ready nodes in at least two zones."
            ]
        );
    }

    #[test]
    fn a_heuristic_that_may_be_meant_is_named_by_its_annotation() {
        for (value, end) in [
            (
                "auto",
                "another implementation may act on; if Auto is meant, write it exactly so.",
            ),
            (
                "Overlap",
                "another implementation may act on; if zonewise.dev/Overlap is meant, write it exactly so.",
            ),
            (
                "zonewise.dev/overlp",
                "is no heuristic of this version; if zonewise.dev/Overlap is meant, write it exactly so.",
            ),
            (
                "zonewise.dev/Nearest",
                "is no heuristic of this version; zonewise.dev/Overlap and Auto ask zonewise for hints.",
            ),
        ] {
            let value = value.into();
            let message = Reason::OtherHeuristic { value }.message();
            assert!(message.ends_with(end), "{message}");
        }
    }

    #[test]
    fn a_threshold_of_nothing_has_no_sign() {
        assert_eq!(percent(Threshold::from_millionths(0)), "0%");
        assert_eq!(percent(Threshold::from_millionths(333_334)), "33.4%");
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        let weights = [1, 1, 1];
        let needs = allocation::Needs::new(&weights, 4, Threshold::KUBERNETES);
        let reason = Reason::Shortfall(needs.unwrap_err());
        assert_eq!(
            reason.message(),
            "4 ready endpoints over 3 zones can't keep every endpoint within 20% above the average: the zones need \
             at least 6; 2 more ready endpoints would do, or a threshold of 33.4% would."
        );
    }
}
