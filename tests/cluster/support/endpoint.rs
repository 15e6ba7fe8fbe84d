//! Endpoints for slices written by hand.

use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, ForNode, ForZone,
};

use super::objects::ZONES;

/// A ready endpoint in a zone.
#[must_use]
pub fn ready(address: &str, zone: &str) -> Endpoint {
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        zone: Some(zone.to_owned()),
        ..Endpoint::default()
    }
}

/// Ready endpoints `{network}.1`, `{network}.2`, …: so many in each zone.
#[must_use]
pub fn spread(network: &str, counts: [usize; 3]) -> Vec<Endpoint> {
    let zones = ZONES
        .iter()
        .zip(counts)
        .flat_map(|(zone, count)| std::iter::repeat_n(*zone, count));
    zones
        .enumerate()
        .map(|(i, zone)| ready(&format!("{network}.{}", i + 1), zone))
        .collect()
}

/// Nine endpoints, 4, 4 and 1 in the zones: of three equal zones each must get 3.
#[must_use]
pub fn uneven() -> Vec<Endpoint> {
    spread("10.9.0", [4, 4, 1])
}

/// What tests change about an endpoint.
pub trait With {
    /// The same, not ready.
    #[must_use]
    fn unready(self) -> Self;
    /// The same, of a pod that is going.
    #[must_use]
    fn terminating(self) -> Self;
    /// The same, hinted for a zone.
    #[must_use]
    fn hinted(self, zone: &str) -> Self;
    /// The same, hinted for a zone or not at all.
    #[must_use]
    fn hinted_only(self, zone: Option<&str>) -> Self;
    /// The same, with a node hint beside its zone hint.
    #[must_use]
    fn hinted_for_node(self, node: &str) -> Self;
}

impl With for Endpoint {
    fn unready(mut self) -> Self {
        self.conditions.get_or_insert_default().ready = Some(false);
        self
    }

    fn terminating(mut self) -> Self {
        self.conditions.get_or_insert_default().terminating = Some(true);
        self.unready()
    }

    fn hinted(mut self, zone: &str) -> Self {
        let zone = ForZone {
            name: zone.to_owned(),
        };
        self.hints = Some(EndpointHints {
            for_zones: Some(vec![zone]),
            for_nodes: None,
        });
        self
    }

    fn hinted_only(mut self, zone: Option<&str>) -> Self {
        self.hints = None;
        match zone {
            Some(zone) => self.hinted(zone),
            None => self,
        }
    }

    fn hinted_for_node(mut self, node: &str) -> Self {
        let node = ForNode {
            name: node.to_owned(),
        };
        self.hints.get_or_insert_default().for_nodes = Some(vec![node]);
        self
    }
}
