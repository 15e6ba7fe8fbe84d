//! What an EndpointSlice says, as compact records.

use std::hash::{DefaultHasher, Hasher as _};
use std::net::{IpAddr, Ipv6Addr};

use super::key::Key;
use super::loose::{Pairs, WireText};
use super::wire::{Endpoint, EndpointSlice, Metadata, Wire};

/// The label that ties a slice to its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// The label that says who manages a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// Who manages a slice, by its label `endpointslice.kubernetes.io/managed-by`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Manager {
    /// It does not say.
    #[default]
    Unknown,
    /// `endpointslice-controller.k8s.io`, which writes the slices of Services with a selector.
    EndpointSliceController,
    /// `endpointslicemirroring-controller.k8s.io`, which copies Endpoints objects.
    EndpointSliceMirroringController,
    /// Another one.
    Other(Box<str>),
}

impl Manager {
    /// The value for Kubernetes' EndpointSlice controller.
    pub const CONTROLLER: &str = "endpointslice-controller.k8s.io";
    const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

    /// Reads the label's value.
    #[must_use]
    pub fn read(label: Option<&str>) -> Self {
        match label {
            None | Some("") => Self::Unknown,
            Some(Self::CONTROLLER) => Self::EndpointSliceController,
            Some(Self::MIRRORING_CONTROLLER) => Self::EndpointSliceMirroringController,
            Some(other) => Self::Other(other.into()),
        }
    }

    /// The value of the label.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Unknown => None,
            Self::EndpointSliceController => Some(Self::CONTROLLER),
            Self::EndpointSliceMirroringController => Some(Self::MIRRORING_CONTROLLER),
            Self::Other(manager) => Some(manager),
        }
    }
}

/// The kind of addresses in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressType {
    /// `IPv4`.
    Ipv4,
    /// `IPv6`.
    Ipv6,
    /// `FQDN` or anything else: kube-proxy does not use it.
    Other,
}

impl AddressType {
    fn read(text: Option<&str>) -> Self {
        match text {
            Some("IPv4") => Self::Ipv4,
            Some("IPv6") => Self::Ipv6,
            _ => Self::Other,
        }
    }

    /// Kubernetes' word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Other => "FQDN",
        }
    }
}

/// An address as a number: an IPv6 address, an IPv4 address mapped into IPv6, or a hash of a text that is neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u128);

impl Address {
    /// Reads an address.
    #[must_use]
    pub fn of(text: &str) -> Self {
        match text.parse() {
            Ok(IpAddr::V4(ip)) => Self(ip.to_ipv6_mapped().to_bits()),
            Ok(IpAddr::V6(ip)) => Self(ip.to_bits()),
            // Multicast, so no address of an endpoint. The same on every replica, since plans follow the order of addresses.
            Err(_) => {
                let mut hasher = DefaultHasher::new();
                hasher.write(text.as_bytes());
                Self((0xff << 120) | u128::from(hasher.finish()))
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ipv6Addr::from_bits(self.0).to_canonical().fmt(f)
    }
}

/// Where an endpoint says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In this zone.
    Zone(Key),
    /// On this node, with no zone of its own.
    Node(Key),
    /// It does not say.
    Nowhere,
}

/// The zones that an endpoint is hinted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintSet {
    /// None.
    Empty,
    /// One, as nearly always.
    One(Key),
    /// Several, in the order in which they stand.
    Several(Box<[Key]>),
}

impl HintSet {
    /// The set of these zones' names.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        names.map(Key::of).collect()
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> &[Key] {
        match self {
            Self::Empty => &[],
            Self::One(zone) => std::slice::from_ref(zone),
            Self::Several(zones) => zones,
        }
    }
}

impl FromIterator<Key> for HintSet {
    fn from_iter<I: IntoIterator<Item = Key>>(zones: I) -> Self {
        let mut zones = zones.into_iter();
        match (zones.next(), zones.next()) {
            (None, _) => Self::Empty,
            (Some(only), None) => Self::One(only),
            (Some(first), Some(second)) => {
                Self::Several([first, second].into_iter().chain(zones).collect())
            }
        }
    }
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRecord {
    /// Its first address, which is the one that kube-proxy uses.
    pub address: Address,
    /// Where it is.
    pub place: Place,
    /// Its zone hints.
    pub hints: HintSet,
    /// Whether kube-proxy takes it for ready.
    pub ready: bool,
    /// Whether it is terminating.
    pub terminating: bool,
}

impl EndpointRecord {
    /// Whether it is hinted for another zone than its own.
    fn is_hinted_elsewhere(&self) -> bool {
        let mut zones = self.hints.zones().iter();
        zones.any(|zone| self.place != Place::Zone(*zone))
    }
}

/// A port by which kube-proxy merges endpoints: name and protocol, whatever the number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// Its name, which may be empty.
    pub name: Box<str>,
    /// `TCP` unless it says otherwise.
    pub protocol: Box<str>,
}

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRecord {
    /// Its name; empty for one that is being created with a generated name.
    pub name: Box<str>,
    /// The kind of its addresses.
    pub address_type: AddressType,
    /// Ports with a number. Without any, kube-proxy takes no endpoint from the slice.
    pub ports: Box<[PortKey]>,
    /// The numbers of these ports, in their order.
    pub port_numbers: Box<[i64]>,
    /// Its endpoints that have an address, in their order.
    pub endpoints: Box<[EndpointRecord]>,
    /// Its labels: selectors of webhooks go by them.
    pub labels: Box<[(Key, Key)]>,
    /// Who manages it.
    pub manager: Manager,
    /// Its resourceVersion: another one, and it was written.
    pub version: Key,
    /// Whether an endpoint has node hints, which no plan gives.
    pub has_node_hints: bool,
    /// The first field of an unexpected type; then the slice is not understood.
    pub odd_field: Option<&'static str>,
}

impl SliceRecord {
    /// Reads a slice, and nothing but the slice: whether its zones exist is not asked here.
    ///
    /// An endpoint without an address, which no API server lets pass, gets a record too, so that records and endpoints
    /// have the same places.
    pub fn read<T: WireText>(wire: &EndpointSlice<T>) -> Self {
        let (ports, port_numbers) = read_ports(wire);
        Self {
            name: wire
                .metadata()
                .and_then(|m| m.name.text())
                .unwrap_or_default()
                .into(),
            address_type: AddressType::read(wire.address_type.text()),
            ports,
            port_numbers,
            endpoints: wire
                .endpoints
                .items()
                .iter()
                .map(|e| e.get().map_or_else(unreadable, read_endpoint))
                .collect(),
            labels: wire.metadata().map(read_labels).unwrap_or_default(),
            manager: Manager::read(wire.metadata().and_then(|m| m.label(MANAGED_BY_LABEL))),
            version: Key::of(
                wire.metadata()
                    .and_then(|m| m.resource_version.text())
                    .unwrap_or_default(),
            ),
            has_node_hints: wire
                .endpoints
                .items()
                .iter()
                .any(|e| e.get().is_some_and(has_node_hints)),
            odd_field: wire.odd_field(),
        }
    }

    /// Whether it has a label, with one of `values` if these are given.
    #[must_use]
    pub fn has_label(&self, key: &str, values: Option<&[String]>) -> bool {
        let key = Key::of(key);
        let value = self.labels.iter().find(|(known, _)| *known == key);
        value.is_some_and(|(_, value)| {
            values.is_none_or(|values| values.iter().any(|one| Key::of(one) == *value))
        })
    }

    /// Whether Kubernetes' EndpointSlice controller manages the slice, and it has hints that this controller never writes for
    /// `trafficDistribution: PreferSameZone`: for another zone than the endpoint's own (k8s.io/endpointslice/trafficdist).
    #[must_use]
    pub fn has_hints_foreign_to_kubernetes(&self) -> bool {
        let mut endpoints = self.endpoints.iter();
        self.manager == Manager::EndpointSliceController
            && endpoints.any(EndpointRecord::is_hinted_elsewhere)
    }
}

fn read_labels<T: WireText>(metadata: &Metadata<T>) -> Box<[(Key, Key)]> {
    let labels = metadata.labels.get().into_iter().flat_map(Pairs::iter);
    let labels = labels.filter_map(|(key, value)| Some((Key::of(key), Key::of(value?))));
    labels.collect()
}

fn has_node_hints<T: WireText>(endpoint: &Endpoint<T>) -> bool {
    let hints = endpoint.hints.get();
    hints.is_some_and(|hints| !hints.for_nodes.items().is_empty())
}

/// The Service that a slice belongs to, as `namespace/name`.
pub fn service_of<T: WireText>(wire: &EndpointSlice<T>) -> Option<String> {
    service_in("", wire)
}

/// The same for a slice in `namespace`, or in its own where that is empty.
pub fn service_in<T: WireText>(namespace: &str, wire: &EndpointSlice<T>) -> Option<String> {
    let metadata = wire.metadata()?;
    let service = metadata
        .label(SERVICE_NAME_LABEL)
        .filter(|name| !name.is_empty())?;
    let namespace = match namespace {
        "" => metadata.namespace.text().unwrap_or_default(),
        namespace => namespace,
    };
    Some(format!("{namespace}/{service}"))
}

fn read_ports<T: WireText>(wire: &EndpointSlice<T>) -> (Box<[PortKey]>, Box<[i64]>) {
    let usable = wire
        .ports
        .items()
        .iter()
        .filter_map(|port| port.get())
        .filter(|port| port.port.get().is_some_and(|&number| number != 0));
    let mut ports: Vec<(PortKey, i64)> = usable
        .map(|port| {
            let key = PortKey {
                name: port.name.text().unwrap_or_default().into(),
                protocol: port.protocol.text().unwrap_or("TCP").into(),
            };
            (key, port.port.get().copied().unwrap_or_default())
        })
        .collect();
    ports.sort_unstable();
    ports.dedup_by(|later, first| later.0 == first.0);
    let (keys, numbers): (Vec<PortKey>, Vec<i64>) = ports.into_iter().unzip();
    (keys.into(), numbers.into())
}

fn read_endpoint<T: WireText>(endpoint: &Endpoint<T>) -> EndpointRecord {
    let place = Key::of_present(endpoint.zone.text()).map(Place::Zone);
    let place = place.or_else(|| Key::of_present(endpoint.node_name.text()).map(Place::Node));
    EndpointRecord {
        address: Address::of(endpoint.address().unwrap_or_default()),
        place: place.unwrap_or(Place::Nowhere),
        hints: HintSet::of(endpoint.zone_hints()),
        ready: endpoint.is_ready(),
        terminating: endpoint.is_terminating(),
    }
}

fn unreadable() -> EndpointRecord {
    EndpointRecord {
        address: Address::of(""),
        place: Place::Nowhere,
        hints: HintSet::Empty,
        ready: false,
        terminating: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> SliceRecord {
        SliceRecord::read::<Box<str>>(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn ready_is_true_when_absent() {
        let slice = read(
            r#"{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"],"conditions":{"ready":false}}]}"#,
        );
        assert_eq!(
            slice.endpoints.iter().map(|e| e.ready).collect::<Vec<_>>(),
            [true, false]
        );
    }

    #[test]
    fn an_empty_zone_or_node_name_says_nothing() {
        let slice = read(r#"{"endpoints":[{"addresses":["10.0.0.1"],"zone":"","nodeName":""}]}"#);
        assert_eq!(slice.endpoints[0].place, Place::Nowhere);
    }

    #[test]
    fn ports_without_a_number_are_not_usable() {
        assert!(read(r#"{"ports":null}"#).ports.is_empty());
        assert!(
            read(r#"{"ports":[{"name":"http","port":null}]}"#)
                .ports
                .is_empty()
        );
        assert_eq!(
            read(r#"{"ports":[{"name":"http","port":80}]}"#).ports[0].name,
            "http".into()
        );
    }

    #[test]
    fn addresses_are_read_as_numbers_and_shown_as_addresses() {
        assert_eq!(Address::of("10.0.0.1").to_string(), "10.0.0.1");
        assert_eq!(Address::of("FD00::1"), Address::of("fd00:0::1"));
        assert_ne!(Address::of("a.example"), Address::of("b.example"));
    }
}
