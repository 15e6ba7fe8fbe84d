//! What kube-proxy does with the hints: `topologyModeFromHints` of k8s.io/kubernetes/pkg/proxy, on a node and, for
//! where traffic goes, in a zone.
//!
//! Node hints come first, as in Kubernetes since 1.34, where the feature gate `PreferSameTrafficDistribution` is on.

/// What an endpoint's hints for zones, or those for nodes, say to one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// There are none.
    Nothing,
    /// Others alone.
    Others,
    /// This node, or its zone.
    This,
}

impl Naming {
    fn of(hinted: bool, names_this: bool) -> Self {
        match (hinted, names_this) {
            (_, true) => Self::This,
            (true, false) => Self::Others,
            (false, false) => Self::Nothing,
        }
    }
}

/// A ready endpoint as kube-proxy on one node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyEndpoint {
    /// Its node hints.
    pub nodes: Naming,
    /// Its zone hints.
    pub zones: Naming,
}

/// Which endpoints kube-proxy spreads its node's traffic over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those that name the node.
    PreferSameNode,
    /// Those that name the zone.
    PreferSameZone,
    /// All ready ones, and why.
    Cluster(ClusterBecause),
}

/// Why hints are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterBecause {
    /// There is nothing to choose from.
    NoReadyEndpoint,
    /// One ready endpoint without a zone hint is enough to ignore all.
    EndpointWithoutHint,
    /// Every endpoint names a zone, none this one.
    ZoneNotNamed,
}

impl Mode {
    /// Kubernetes' word for it; the empty word of kube-proxy's code is `Cluster` here.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::PreferSameNode => "PreferSameNode",
            Self::PreferSameZone => "PreferSameZone",
            Self::Cluster(_) => "Cluster",
        }
    }

    /// Why, in a few words, where hints are not followed.
    #[must_use]
    pub fn because(self) -> Option<&'static str> {
        match self {
            Self::PreferSameNode | Self::PreferSameZone => None,
            Self::Cluster(ClusterBecause::NoReadyEndpoint) => Some("no endpoint is ready"),
            Self::Cluster(ClusterBecause::EndpointWithoutHint) => {
                Some("a ready endpoint has no zone hint")
            }
            Self::Cluster(ClusterBecause::ZoneNotNamed) => Some("no endpoint names the zone"),
        }
    }
}

/// The mode of kube-proxy on a node, given every ready endpoint of one port.
pub fn mode(endpoints: impl IntoIterator<Item = ReadyEndpoint>) -> Mode {
    let mut any = false;
    let (mut nodes, mut zones) = (Summary::default(), Summary::default());
    for endpoint in endpoints {
        any = true;
        nodes.add(endpoint.nodes);
        zones.add(endpoint.zones);
    }
    if !any {
        Mode::Cluster(ClusterBecause::NoReadyEndpoint)
    } else if !nodes.any_without && nodes.any_names_this {
        Mode::PreferSameNode
    } else if zones.any_without {
        Mode::Cluster(ClusterBecause::EndpointWithoutHint)
    } else if zones.any_names_this {
        Mode::PreferSameZone
    } else {
        Mode::Cluster(ClusterBecause::ZoneNotNamed)
    }
}

/// What all endpoints' hints of one kind come to.
#[derive(Default)]
struct Summary {
    any_without: bool,
    any_names_this: bool,
}

impl Summary {
    fn add(&mut self, naming: Naming) {
        self.any_without |= naming == Naming::Nothing;
        self.any_names_this |= naming == Naming::This;
    }
}

/// A ready endpoint with its zone and its hints, as numbers of zones with capacity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its own zone, where that has capacity.
    pub zone: Option<usize>,
    /// Whether it has any zone hint, even for a zone without capacity.
    pub hinted: bool,
    /// The zones with capacity that it is hinted for.
    pub hints: Vec<usize>,
    /// Whether it has any node hint.
    pub node_hinted: bool,
    /// The zones with capacity of the nodes that it is hinted for.
    pub node_hints: Vec<usize>,
}

impl Endpoint {
    /// As a node of `zone` sees it that node hints name where they name any node of the zone.
    fn on_named_node(&self, zone: usize) -> ReadyEndpoint {
        ReadyEndpoint {
            nodes: Naming::of(self.node_hinted, self.node_hints.contains(&zone)),
            ..self.on_other_node(zone)
        }
    }

    /// As a node of `zone` sees it that no node hint names.
    fn on_other_node(&self, zone: usize) -> ReadyEndpoint {
        ReadyEndpoint {
            nodes: Naming::of(self.node_hinted, false),
            zones: Naming::of(self.hinted, self.hints.contains(&zone)),
        }
    }
}

/// Where the traffic of each zone goes, when it comes in proportion to the zones' weights.
///
/// How much traffic a single node has, zones' weights do not tell: with [`Mode::PreferSameNode`] in any zone there are
/// modes and no loads.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// What kube-proxy does, in zone order: on the nodes that node hints name, in a zone with such nodes.
    pub modes: Vec<Mode>,
    /// What it does on a zone's other nodes, in zone order.
    pub modes_elsewhere: Vec<Mode>,
    /// How far above the average the busiest endpoint that a zone uses is loaded: 0.2 is 20 % above. In zone order;
    /// nothing where there is no endpoint.
    pub overload: Vec<Option<f64>>,
    /// The same over all endpoints.
    pub worst_overload: Option<f64>,
    /// The part of the traffic, between 0 and 1, that stays in its zone; nothing where there is no endpoint.
    pub in_zone_share: Option<f64>,
}

impl Traffic {
    /// Follows the hints of every ready endpoint of a Service.
    #[must_use]
    pub fn follow(weights: &[u64], endpoints: &[Endpoint]) -> Self {
        let zones = 0..weights.len();
        let on_named = |zone| mode(endpoints.iter().map(|e| e.on_named_node(zone)));
        let elsewhere = |zone| mode(endpoints.iter().map(|e| e.on_other_node(zone)));
        let modes: Vec<Mode> = zones.clone().map(on_named).collect();
        let spread = Spread::by_zone(weights, endpoints, &modes);
        let spread = spread.filter(|_| !endpoints.is_empty());
        Self {
            modes_elsewhere: zones.map(elsewhere).collect(),
            overload: spread
                .as_ref()
                .map_or_else(|| vec![None; weights.len()], Spread::overload),
            worst_overload: spread.as_ref().and_then(Spread::worst_overload),
            in_zone_share: spread.map(|spread| spread.in_zone_share),
            modes,
        }
    }
}

/// What zones load endpoints with.
struct Spread {
    used_by_zone: Vec<Vec<usize>>,
    /// Of each endpoint; 1 is the average.
    load: Vec<f64>,
    in_zone_share: f64,
}

impl Spread {
    /// Nothing where traffic stays on nodes.
    fn by_zone(weights: &[u64], endpoints: &[Endpoint], modes: &[Mode]) -> Option<Self> {
        let total: u64 = weights.iter().sum();
        let mut spread = Self {
            used_by_zone: Vec::with_capacity(weights.len()),
            load: vec![0.0; endpoints.len()],
            in_zone_share: 0.0,
        };
        for (zone, mode) in modes.iter().enumerate() {
            let used: Vec<usize> = match mode {
                Mode::PreferSameNode => return None,
                Mode::PreferSameZone => (0..endpoints.len())
                    .filter(|&i| endpoints[i].hints.contains(&zone))
                    .collect(),
                Mode::Cluster(_) => (0..endpoints.len()).collect(),
            };
            let is_home = |&&i: &&usize| endpoints[i].zone == Some(zone);
            let at_home = used.iter().filter(is_home).count() as u64;
            let (share, users) = (
                super::counts::ratio(weights[zone], total),
                used.len() as u64,
            );
            spread.in_zone_share += share * super::counts::ratio(at_home, users);
            let each = share * super::counts::ratio(endpoints.len() as u64, users);
            for &endpoint in &used {
                spread.load[endpoint] += each;
            }
            spread.used_by_zone.push(used);
        }
        Some(spread)
    }

    fn overload(&self) -> Vec<Option<f64>> {
        self.used_by_zone
            .iter()
            .map(|used| self.worst(used.iter().copied()))
            .collect()
    }

    fn worst_overload(&self) -> Option<f64> {
        self.worst(0..self.load.len())
    }

    fn worst(&self, endpoints: impl Iterator<Item = usize>) -> Option<f64> {
        endpoints.map(|i| self.load[i] - 1.0).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: ReadyEndpoint = ReadyEndpoint {
        nodes: Naming::Nothing,
        zones: Naming::Nothing,
    };
    const OTHERS: ReadyEndpoint = ReadyEndpoint {
        zones: Naming::Others,
        ..BARE
    };
    const OURS: ReadyEndpoint = ReadyEndpoint {
        zones: Naming::This,
        ..BARE
    };

    #[test]
    fn hints_are_followed_when_all_have_one_and_one_names_the_zone() {
        assert_eq!(mode([OURS, OTHERS]), Mode::PreferSameZone);
    }

    #[test]
    fn one_endpoint_without_a_hint_turns_hints_off() {
        assert_eq!(
            mode([OURS, BARE]),
            Mode::Cluster(ClusterBecause::EndpointWithoutHint)
        );
    }

    #[test]
    fn a_zone_that_nobody_names_uses_all() {
        assert_eq!(mode([OTHERS]), Mode::Cluster(ClusterBecause::ZoneNotNamed));
        assert_eq!(mode([]), Mode::Cluster(ClusterBecause::NoReadyEndpoint));
    }

    fn with_nodes(endpoint: ReadyEndpoint, nodes: Naming) -> ReadyEndpoint {
        ReadyEndpoint { nodes, ..endpoint }
    }

    #[test]
    fn node_hints_come_first_where_all_have_one_and_one_names_the_node() {
        let on_named = [
            with_nodes(OURS, Naming::This),
            with_nodes(OTHERS, Naming::Others),
        ];
        assert_eq!(mode(on_named), Mode::PreferSameNode);
        let elsewhere = on_named.map(|endpoint| with_nodes(endpoint, Naming::Others));
        assert_eq!(mode(elsewhere), Mode::PreferSameZone);
        assert_eq!(mode([on_named[0], OTHERS]), Mode::PreferSameZone);
        assert_eq!(
            mode([with_nodes(BARE, Naming::This), BARE]),
            Mode::Cluster(ClusterBecause::EndpointWithoutHint)
        );
    }

    #[test]
    fn with_node_hints_there_are_modes_and_no_loads() {
        let on_node_of = |zone| Endpoint {
            zone: Some(zone),
            node_hinted: true,
            node_hints: vec![zone],
            ..Endpoint::default()
        };
        let traffic = Traffic::follow(&[1, 1, 1], &[on_node_of(0), on_node_of(2)]);
        let without = Mode::Cluster(ClusterBecause::EndpointWithoutHint);
        assert_eq!(
            traffic.modes,
            [Mode::PreferSameNode, without, Mode::PreferSameNode]
        );
        assert_eq!(traffic.modes_elsewhere, [without; 3]);
        assert_eq!(traffic.overload, [None; 3]);
        assert_eq!(
            (traffic.worst_overload, traffic.in_zone_share),
            (None, None)
        );
    }

    #[test]
    fn traffic_follows_hints_and_spreads_evenly_over_them() {
        let hinted = |zone, hint| Endpoint {
            zone: Some(zone),
            hinted: true,
            hints: vec![hint],
            ..Endpoint::default()
        };
        let traffic = Traffic::follow(
            &[1, 1],
            &[hinted(0, 0), hinted(0, 1), hinted(0, 1), hinted(1, 1)],
        );
        assert_eq!(traffic.modes, [Mode::PreferSameZone; 2]);
        assert_eq!(traffic.worst_overload, Some(1.0));
        assert!((traffic.overload[1].unwrap() - (2.0 / 3.0 - 1.0)).abs() < 1e-9);
        assert!((traffic.in_zone_share.unwrap() - (0.5 + 0.5 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn without_hints_every_endpoint_carries_the_average() {
        let bare = |zone| Endpoint {
            zone: Some(zone),
            ..Endpoint::default()
        };
        let traffic = Traffic::follow(&[3, 1], &[bare(0), bare(1)]);
        assert_eq!(
            traffic.modes,
            [Mode::Cluster(ClusterBecause::EndpointWithoutHint); 2]
        );
        assert_eq!(traffic.worst_overload, Some(0.0));
        assert!((traffic.in_zone_share.unwrap() - 0.5).abs() < 1e-9);
    }
}
