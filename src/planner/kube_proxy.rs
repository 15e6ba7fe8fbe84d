//! What kube-proxy does with the hints: `topologyModeFromHints` of k8s.io/kubernetes/pkg/proxy, for a zone.
//!
//! Node hints, which kube-proxy tries first, are left out: a slice that is hinted here has none, and one that Kubernetes
//! hints for nodes is left to it.

/// A ready endpoint as kube-proxy in one zone sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyEndpoint {
    /// It names at least one zone.
    pub hinted: bool,
    /// It names this zone.
    pub names_zone: bool,
}

/// Which endpoints kube-proxy spreads a zone's traffic over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
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
            Self::PreferSameZone => "PreferSameZone",
            Self::Cluster(_) => "Cluster",
        }
    }

    /// Why, in a few words, where hints are not followed.
    #[must_use]
    pub fn because(self) -> Option<&'static str> {
        match self {
            Self::PreferSameZone => None,
            Self::Cluster(ClusterBecause::NoReadyEndpoint) => Some("no endpoint is ready"),
            Self::Cluster(ClusterBecause::EndpointWithoutHint) => {
                Some("a ready endpoint has no zone hint")
            }
            Self::Cluster(ClusterBecause::ZoneNotNamed) => Some("no endpoint names this zone"),
        }
    }
}

/// The mode of kube-proxy in a zone, given every ready endpoint of one port.
pub fn mode(endpoints: impl IntoIterator<Item = ReadyEndpoint>) -> Mode {
    let mut any = false;
    let mut all_hinted = true;
    let mut zone_named = false;
    for endpoint in endpoints {
        any = true;
        all_hinted &= endpoint.hinted;
        zone_named |= endpoint.names_zone;
    }
    match (any, all_hinted, zone_named) {
        (false, ..) => Mode::Cluster(ClusterBecause::NoReadyEndpoint),
        (true, false, _) => Mode::Cluster(ClusterBecause::EndpointWithoutHint),
        (true, true, false) => Mode::Cluster(ClusterBecause::ZoneNotNamed),
        (true, true, true) => Mode::PreferSameZone,
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
}

/// Where the traffic of each zone goes, when it comes in proportion to the zones' weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// What kube-proxy does, in zone order.
    pub modes: Vec<Mode>,
    /// How far above the average the busiest endpoint that a zone uses is loaded: 0.2 is 20 % above. In zone order;
    /// nothing where there is no endpoint.
    pub overload: Vec<Option<f64>>,
    /// The same over all endpoints.
    pub worst_overload: Option<f64>,
    /// The part of the traffic, between 0 and 1, that stays in its zone.
    pub in_zone_share: f64,
}

impl Traffic {
    /// Follows the hints of every ready endpoint of a Service.
    #[must_use]
    pub fn follow(weights: &[u64], endpoints: &[Endpoint]) -> Self {
        let total: u64 = weights.iter().sum();
        let share = |zone: usize| super::plan::ratio(weights[zone], total);
        let mut modes = Vec::with_capacity(weights.len());
        let mut used_by_zone = Vec::with_capacity(weights.len());
        let mut load = vec![0.0; endpoints.len()];
        let mut in_zone_share = 0.0;
        for zone in 0..weights.len() {
            let seen = |e: &Endpoint| ReadyEndpoint {
                hinted: e.hinted,
                names_zone: e.hints.contains(&zone),
            };
            let mode = mode(endpoints.iter().map(seen));
            let all = mode != Mode::PreferSameZone;
            let used: Vec<usize> = (0..endpoints.len())
                .filter(|&i| all || endpoints[i].hints.contains(&zone))
                .collect();
            let at_home = used
                .iter()
                .filter(|&&i| endpoints[i].zone == Some(zone))
                .count() as u64;
            in_zone_share += share(zone) * super::plan::ratio(at_home, used.len() as u64);
            let each = share(zone) * super::plan::ratio(endpoints.len() as u64, used.len() as u64);
            for &endpoint in &used {
                load[endpoint] += each;
            }
            modes.push(mode);
            used_by_zone.push(used);
        }
        let worst = |indices: &mut dyn Iterator<Item = usize>| {
            indices.map(|i| load[i] - 1.0).reduce(f64::max)
        };
        Self {
            modes,
            overload: used_by_zone
                .iter()
                .map(|used| worst(&mut used.iter().copied()))
                .collect(),
            worst_overload: worst(&mut (0..endpoints.len())),
            in_zone_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: ReadyEndpoint = ReadyEndpoint {
        hinted: true,
        names_zone: true,
    };
    const OTHERS: ReadyEndpoint = ReadyEndpoint {
        hinted: true,
        names_zone: false,
    };
    const BARE: ReadyEndpoint = ReadyEndpoint {
        hinted: false,
        names_zone: false,
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

    #[test]
    fn traffic_follows_hints_and_spreads_evenly_over_them() {
        let hinted = |zone, hint| Endpoint {
            zone: Some(zone),
            hinted: true,
            hints: vec![hint],
        };
        let traffic = Traffic::follow(
            &[1, 1],
            &[hinted(0, 0), hinted(0, 1), hinted(0, 1), hinted(1, 1)],
        );
        assert_eq!(traffic.modes, [Mode::PreferSameZone; 2]);
        assert_eq!(traffic.worst_overload, Some(1.0));
        assert!((traffic.overload[1].unwrap() - (2.0 / 3.0 - 1.0)).abs() < 1e-9);
        assert!((traffic.in_zone_share - (0.5 + 0.5 / 3.0)).abs() < 1e-9);
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
        assert!((traffic.in_zone_share - 0.5).abs() < 1e-9);
    }
}
