//! Where traffic goes by the hints that slices have: behind each port by itself, as kube-proxy spreads it.

use super::Snapshot;
use super::endpoint_set::{Backend, EndpointSet, Stand};
use super::ports;
use crate::cluster::key::Key;
use crate::cluster::slice::{PortKey, SliceRecord};
use crate::planner::keep::Quality;
use crate::planner::kube_proxy::{Endpoint, Traffic};

/// Ports with the same endpoints, and where their traffic goes.
#[derive(Debug)]
pub struct PortTraffic {
    /// The ports' names, `""` for one without, and `/UDP` or `/SCTP` behind the name of one that is not TCP.
    pub ports: Vec<String>,
    /// The ready endpoints that kube-proxy has behind each of them.
    pub endpoints: Vec<Endpoint>,
    /// Where the traffic goes.
    pub traffic: Traffic,
}

/// The traffic of slices that form one endpoint set, for zones of these weights: one entry where all ports have the same
/// endpoints. `zones_of_node_hints` gives the zones of the Nodes that an endpoint is hinted for, by the place of its slice
/// and its own.
#[must_use]
pub fn by_port(
    snapshot: &Snapshot<'_>,
    slices: &[&SliceRecord],
    weights: &[u64],
    zones_of_node_hints: impl Fn(usize, usize) -> Vec<Option<Key>>,
) -> Vec<PortTraffic> {
    let capacity = snapshot.capacity();
    let number = |zone: &Key| capacity.zone_number(*zone).map(usize::from);
    let set = EndpointSet::gather_stored(slices, capacity, |record| snapshot.stand(record));
    let endpoint = |backend: Backend<'_>| {
        let copy = set.used_copy(backend);
        let hints = copy.record.hints.zones();
        let nodes = zones_of_node_hints(copy.slice, copy.place);
        Endpoint {
            zone: match set.members()[backend.member].stand {
                Stand::Zone(zone) => Some(usize::from(zone)),
                Stand::Homeless | Stand::Unknown => None,
            },
            hinted: !hints.is_empty(),
            hints: hints.iter().filter_map(number).collect(),
            node_hinted: !nodes.is_empty(),
            node_hints: nodes.iter().flatten().filter_map(number).collect(),
        }
    };
    let traffic = |ports: Vec<&PortKey>, backends: Vec<Backend<'_>>| {
        let endpoints: Vec<Endpoint> = backends.into_iter().map(endpoint).collect();
        PortTraffic {
            ports: ports.into_iter().map(label).collect(),
            traffic: Traffic::follow(weights, &endpoints),
            endpoints,
        }
    };
    // With too many sets of ports there are no hints, and no load to tell apart.
    let groups = ports::uneven(slices).unwrap_or_default();
    if groups.is_empty() {
        let mut counting = slices.iter().filter(|slice| !slice.ports.is_empty());
        let ports = counting.next().map(|slice| slice.ports.iter().collect());
        let all = (0..set.members().len()).map(Backend::behind_all);
        return vec![traffic(ports.unwrap_or_default(), all.collect())];
    }
    let groups = groups.iter();
    groups
        .map(|group| traffic(group.ports.clone(), set.behind(group)))
        .collect()
}

/// A port's name, with its protocol unless that is TCP.
#[must_use]
pub fn label(port: &PortKey) -> String {
    match &*port.protocol {
        "TCP" => port.name.to_string(),
        protocol => format!("{}/{protocol}", port.name),
    }
}

/// The highest overload and the least share in zone of all ports with a ready endpoint; nothing where none has one, or where
/// traffic stays on nodes, whose loads are not known.
#[must_use]
pub fn quality(ports: &[PortTraffic]) -> Option<Quality> {
    let used = ports.iter().filter(|port| !port.endpoints.is_empty());
    let qualities = used.map(|port| {
        Some(Quality {
            worst_overload: port.traffic.worst_overload?,
            in_zone: port.traffic.in_zone_share?,
        })
    });
    let all: Vec<Quality> = qualities.collect::<Option<_>>()?;
    all.into_iter().reduce(|one, other| Quality {
        worst_overload: one.worst_overload.max(other.worst_overload),
        in_zone: one.in_zone.min(other.in_zone),
    })
}
