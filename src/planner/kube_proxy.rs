//! What kube-proxy does with the hints: `topologyModeFromHints` of k8s.io/kubernetes/pkg/proxy, for a zone.
//!
//! Node hints are left out: zonewise never lets one stand beside zone hints.

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
            Self::Cluster(ClusterBecause::EndpointWithoutHint) => Some("a ready endpoint has no zone hint"),
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

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: ReadyEndpoint = ReadyEndpoint { hinted: true, names_zone: true };
    const OTHERS: ReadyEndpoint = ReadyEndpoint { hinted: true, names_zone: false };
    const BARE: ReadyEndpoint = ReadyEndpoint { hinted: false, names_zone: false };

    #[test]
    fn hints_are_followed_when_all_have_one_and_one_names_the_zone() {
        assert_eq!(mode([OURS, OTHERS]), Mode::PreferSameZone);
    }

    #[test]
    fn one_endpoint_without_a_hint_turns_hints_off() {
        assert_eq!(mode([OURS, BARE]), Mode::Cluster(ClusterBecause::EndpointWithoutHint));
    }

    #[test]
    fn a_zone_that_nobody_names_uses_all() {
        assert_eq!(mode([OTHERS]), Mode::Cluster(ClusterBecause::ZoneNotNamed));
        assert_eq!(mode([]), Mode::Cluster(ClusterBecause::NoReadyEndpoint));
    }
}
