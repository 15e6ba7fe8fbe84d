//! Nodes, Namespaces, Services and EndpointSlices as they come over the wire: only the fields that are used, none of which can fail
//! to parse.
//!
//! `T` is the type of texts: `Box<str>` for objects that are watched, [`Text`](super::loose::Text) for those that a
//! request brings.

use serde::Deserialize;

use super::loose::{Loose, Number, Pairs, Shape, Shaped, WireText};

macro_rules! map_shaped {
    ($($type:ident),* $(,)?) => {
        $(impl<T> Shaped for $type<T> { const SHAPE: Shape = Shape::Map; })*
    };
}

map_shaped!(
    Metadata,
    Node,
    NodeSpec,
    Taint,
    NodeStatus,
    Condition,
    Service,
    ServiceSpec,
    ServicePort,
    ServiceStatus,
    LoadBalancer,
    Namespace,
    EndpointSlice,
    Endpoint,
    Conditions,
    TargetRef,
    Hints,
    HintName,
    Port,
);

impl Shaped for Resources {
    const SHAPE: Shape = Shape::Map;
}

macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_attr:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "T: WireText + Deserialize<'de>"))]
        #[allow(missing_docs)]
        pub struct $name<T> {
            $($(#[$field_attr])* #[serde(default)] pub $field: Loose<$type>,)*
        }

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self { $($field: Loose::Absent,)* }
            }
        }
    };
}

wire!(
    /// `ObjectMeta`.
    Metadata {
        name: T,
        namespace: T,
        uid: T,
        resource_version: T,
        creation_timestamp: T,
        deletion_timestamp: T,
        labels: Pairs<T>,
        annotations: Pairs<T>,
    }
);

wire!(
    /// A `v1` Node.
    Node { metadata: Metadata<T>, spec: NodeSpec<T>, status: NodeStatus<T> }
);
wire!(
    /// Its `spec`.
    NodeSpec { taints: Vec<Loose<Taint<T>>> }
);
wire!(
    /// A taint.
    Taint { key: T }
);
wire!(
    /// Its `status`.
    NodeStatus { allocatable: Resources, capacity: Resources, conditions: Vec<Loose<Condition<T>>> }
);
wire!(
    /// A condition.
    Condition { #[serde(rename = "type")] kind: T, status: T, last_transition_time: T }
);

/// What a Node has, or offers to pods.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Resources {
    /// A CPU quantity.
    #[serde(default)]
    pub cpu: Loose<Number>,
}

wire!(
    /// A `v1` Service.
    Service { metadata: Metadata<T>, spec: ServiceSpec<T>, status: ServiceStatus<T> }
);
wire!(
    /// Its `spec`.
    ServiceSpec {
        #[serde(rename = "type")]
        kind: T,
        #[serde(rename = "clusterIP")]
        cluster_ip: T,
        #[serde(rename = "externalIPs")]
        external_ips: Vec<Loose<T>>,
        internal_traffic_policy: T,
        traffic_distribution: T,
        ports: Vec<Loose<ServicePort<T>>>,
    }
);
wire!(
    /// A port of a Service.
    ServicePort { name: T, node_port: i64 }
);
wire!(
    /// Its `status`.
    ServiceStatus { load_balancer: LoadBalancer<T> }
);
wire!(
    /// What a load balancer says of itself.
    LoadBalancer { ingress: Vec<Loose<Pairs<T>>> }
);

wire!(
    /// A `v1` Namespace.
    Namespace { metadata: Metadata<T> }
);

wire!(
    /// A `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice {
        metadata: Metadata<T>,
        address_type: T,
        endpoints: Vec<Loose<Endpoint<T>>>,
        ports: Vec<Loose<Port<T>>>,
    }
);
wire!(
    /// An endpoint.
    Endpoint {
        addresses: Vec<Loose<T>>,
        conditions: Conditions<T>,
        target_ref: TargetRef<T>,
        node_name: T,
        zone: T,
        hints: Hints<T>,
    }
);
/// The conditions of an endpoint; `T` is not used, and keeps all wire types alike.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(bound(deserialize = "T: WireText"))]
#[allow(missing_docs)]
pub struct Conditions<T> {
    #[serde(default)]
    pub ready: Loose<bool>,
    #[serde(default)]
    pub serving: Loose<bool>,
    #[serde(default)]
    pub terminating: Loose<bool>,
    #[serde(skip)]
    text: std::marker::PhantomData<T>,
}

impl<T> Default for Conditions<T> {
    fn default() -> Self {
        Self {
            ready: Loose::Absent,
            serving: Loose::Absent,
            terminating: Loose::Absent,
            text: std::marker::PhantomData,
        }
    }
}
wire!(
    /// The object behind an endpoint, mostly a Pod: its uid says which.
    TargetRef { uid: T }
);
wire!(
    /// Topology hints.
    Hints { for_zones: Vec<Loose<HintName<T>>>, for_nodes: Vec<Loose<HintName<T>>> }
);
wire!(
    /// A zone or node that an endpoint is hinted for.
    HintName { name: T }
);
wire!(
    /// A port of an EndpointSlice.
    Port { name: T, protocol: T, port: i64 }
);

impl<T: WireText> Metadata<T> {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get()?.get(key)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get()?.get(key)
    }

    fn odd(&self) -> Option<&'static str> {
        first_odd(&[
            ("metadata.name", self.name.is_odd()),
            ("metadata.namespace", self.namespace.is_odd()),
            ("metadata.labels", is_odd_map(&self.labels)),
            ("metadata.annotations", is_odd_map(&self.annotations)),
            (
                "metadata.creationTimestamp",
                self.creation_timestamp.is_odd(),
            ),
        ])
    }
}

fn is_odd_map<T: WireText>(pairs: &Loose<Pairs<T>>) -> bool {
    pairs.is_odd() || pairs.get().is_some_and(Pairs::has_odd)
}

fn is_odd_list<T>(list: &Loose<Vec<Loose<T>>>) -> bool {
    list.is_odd() || list.items().iter().any(|item| item.get().is_none())
}

/// Whether a list, one of its items, or something in an item is odd.
fn has_odd<T>(list: &Loose<Vec<Loose<T>>>, in_item: impl Fn(&T) -> bool) -> bool {
    is_odd_list(list)
        || list
            .items()
            .iter()
            .any(|item| item.get().is_some_and(&in_item))
}

fn first_odd(fields: &[(&'static str, bool)]) -> Option<&'static str> {
    fields.iter().find(|(_, odd)| *odd).map(|(field, _)| *field)
}

/// A kind that is watched.
pub trait Wire {
    /// The type of its texts.
    type Text: WireText;
    /// API group, empty for the core.
    const GROUP: &'static str;
    /// API version within the group.
    const VERSION: &'static str;
    /// Its kind.
    const KIND: &'static str;
    /// Its resource: the plural in URLs and metrics.
    const PLURAL: &'static str;
    /// Its metadata.
    fn metadata(&self) -> Option<&Metadata<Self::Text>>;
    /// The first of the used fields that has an unexpected type.
    fn odd_field(&self) -> Option<&'static str>;

    /// `namespace/name`, or `name` alone.
    fn full_name(&self) -> String {
        let metadata = self.metadata();
        let name = metadata.and_then(|m| m.name.text()).unwrap_or("");
        match metadata.and_then(|m| m.namespace.text()) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }
}

fn metadata_odd<T: WireText>(metadata: &Loose<Metadata<T>>) -> Option<&'static str> {
    if metadata.is_odd() {
        Some("metadata")
    } else {
        metadata.get().and_then(Metadata::odd)
    }
}

impl<T: WireText> Wire for Node<T> {
    type Text = T;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";

    fn metadata(&self) -> Option<&Metadata<T>> {
        self.metadata.get()
    }

    fn odd_field(&self) -> Option<&'static str> {
        metadata_odd(&self.metadata).or_else(|| {
            let spec = self.spec.get();
            let status = self.status.get();
            first_odd(&[
                ("spec", self.spec.is_odd()),
                (
                    "spec.taints",
                    spec.is_some_and(|s| has_odd(&s.taints, |taint| taint.key.is_odd())),
                ),
                ("status", self.status.is_odd()),
                (
                    "status.conditions",
                    status.is_some_and(|s| {
                        has_odd(&s.conditions, |c| c.kind.is_odd() || c.status.is_odd())
                    }),
                ),
                (
                    "status.allocatable",
                    status.is_some_and(|s| s.allocatable.is_odd()),
                ),
                (
                    "status.allocatable.cpu",
                    status
                        .and_then(|s| s.allocatable.get())
                        .is_some_and(|allocatable| allocatable.cpu.is_odd()),
                ),
            ])
        })
    }
}

impl<T: WireText> Wire for Service<T> {
    type Text = T;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Service";
    const PLURAL: &'static str = "services";

    fn metadata(&self) -> Option<&Metadata<T>> {
        self.metadata.get()
    }

    fn odd_field(&self) -> Option<&'static str> {
        metadata_odd(&self.metadata).or_else(|| {
            let spec = self.spec.get();
            let status = self.status.get();
            let ingress = status
                .and_then(|s| s.load_balancer.get())
                .map(|l| &l.ingress);
            first_odd(&[
                ("status", self.status.is_odd()),
                (
                    "status.loadBalancer",
                    status.is_some_and(|s| s.load_balancer.is_odd()),
                ),
                ("spec", self.spec.is_odd()),
                (
                    "spec.clusterIP",
                    spec.is_some_and(|s| s.cluster_ip.is_odd()),
                ),
                (
                    "spec.externalIPs",
                    spec.is_some_and(|s| s.external_ips.is_odd()),
                ),
                (
                    "spec.internalTrafficPolicy",
                    spec.is_some_and(|s| s.internal_traffic_policy.is_odd()),
                ),
                (
                    "spec.trafficDistribution",
                    spec.is_some_and(|s| s.traffic_distribution.is_odd()),
                ),
                (
                    "spec.ports",
                    spec.is_some_and(|s| has_odd(&s.ports, |port| port.node_port.is_odd())),
                ),
                (
                    "status.loadBalancer.ingress",
                    ingress.is_some_and(Loose::is_odd),
                ),
            ])
        })
    }
}

impl<T: WireText> Wire for Namespace<T> {
    type Text = T;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Namespace";
    const PLURAL: &'static str = "namespaces";

    fn metadata(&self) -> Option<&Metadata<T>> {
        self.metadata.get()
    }

    fn odd_field(&self) -> Option<&'static str> {
        metadata_odd(&self.metadata)
    }
}

impl<T: WireText> Wire for EndpointSlice<T> {
    type Text = T;
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";

    fn metadata(&self) -> Option<&Metadata<T>> {
        self.metadata.get()
    }

    fn odd_field(&self) -> Option<&'static str> {
        metadata_odd(&self.metadata).or_else(|| {
            first_odd(&[
                ("addressType", self.address_type.is_odd()),
                ("ports", has_odd(&self.ports, is_odd_port)),
                ("endpoints", is_odd_list(&self.endpoints)),
            ])
            .or_else(|| {
                self.endpoints
                    .items()
                    .iter()
                    .find_map(|endpoint| endpoint.get()?.odd_field())
            })
        })
    }
}

fn is_odd_port<T>(port: &Port<T>) -> bool {
    port.name.is_odd() || port.protocol.is_odd() || port.port.is_odd()
}

impl<T: WireText> Endpoint<T> {
    fn odd_field(&self) -> Option<&'static str> {
        let conditions = self.conditions.get();
        let hints = self.hints.get();
        let target = self.target_ref.get();
        first_odd(&[
            ("endpoints.addresses", is_odd_list(&self.addresses)),
            ("endpoints.conditions", self.conditions.is_odd()),
            (
                "endpoints.conditions",
                conditions.is_some_and(|c| {
                    c.ready.is_odd() || c.serving.is_odd() || c.terminating.is_odd()
                }),
            ),
            (
                "endpoints.targetRef",
                self.target_ref.is_odd() || target.is_some_and(|target| target.uid.is_odd()),
            ),
            ("endpoints.nodeName", self.node_name.is_odd()),
            ("endpoints.zone", self.zone.is_odd()),
            ("endpoints.hints", self.hints.is_odd()),
            (
                "endpoints.hints.forZones",
                hints.is_some_and(|h| has_odd(&h.for_zones, |zone| zone.name.is_odd())),
            ),
        ])
    }

    /// Whether kube-proxy takes it for ready: the condition is true or absent.
    pub fn is_ready(&self) -> bool {
        self.conditions
            .get()
            .and_then(|c| c.ready.get())
            .copied()
            .unwrap_or(true)
    }

    /// Whether it is terminating.
    pub fn is_terminating(&self) -> bool {
        self.conditions
            .get()
            .and_then(|c| c.terminating.get())
            .copied()
            .unwrap_or(false)
    }

    /// The address that kube-proxy uses: the first.
    pub fn address(&self) -> Option<&str> {
        self.addresses.items().first()?.text()
    }

    /// The names of its zone hints.
    pub fn zone_hints(&self) -> impl Iterator<Item = &str> {
        let zones = self
            .hints
            .get()
            .map_or(&[][..], |hints| hints.for_zones.items());
        zones.iter().filter_map(|zone| zone.get()?.name.text())
    }

    /// The same without its hints.
    #[must_use]
    pub fn without_hints(&self) -> Self {
        Self {
            addresses: self.addresses.clone(),
            conditions: self.conditions.clone(),
            target_ref: self.target_ref.clone(),
            node_name: self.node_name.clone(),
            zone: self.zone.clone(),
            hints: Loose::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_object_keeps_its_name_and_tells_the_field() {
        let json = r#"{"metadata":{"name":"web-1","namespace":"shop"},"addressType":"IPv4",
            "endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":"yes"}}]}"#;
        let slice: EndpointSlice<Box<str>> = serde_json::from_str(json).unwrap();
        assert_eq!(slice.full_name(), "shop/web-1");
        assert_eq!(slice.odd_field(), Some("endpoints.conditions"));
    }

    #[test]
    fn nulls_and_unknown_fields_are_not_odd() {
        let json = r#"{"kind":"EndpointSlice","metadata":{"name":"x","managedFields":[{"a":1}]},"endpoints":null,"ports":null}"#;
        let slice: EndpointSlice<Box<str>> = serde_json::from_str(json).unwrap();
        assert_eq!(slice.odd_field(), None);
        assert!(slice.endpoints.items().is_empty());
    }
}
