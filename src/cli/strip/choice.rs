//! Which slices have hints that zonewise gave.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cluster::loose::Loose;
use crate::cluster::service::ServiceRecord;
use crate::cluster::slice::{AddressType, SERVICE_NAME_LABEL, SliceRecord, service_of};
use crate::cluster::wire::{Endpoint, EndpointSlice, Service, Wire as _};
use crate::decide::opt_in::OptInSource;
use crate::decide::who_asks;
use crate::settings::Settings;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const KUBERNETES: &str = "endpointslice-controller.k8s.io";

type Slice = EndpointSlice<Box<str>>;

/// Which Services are looked at.
#[derive(Debug, Default)]
pub struct Scope {
    /// Only those of this namespace.
    pub namespace: Option<String>,
    /// Only those of these names; all where there are none.
    pub names: Vec<String>,
}

impl Scope {
    /// The label selector of their slices.
    fn labels(&self) -> String {
        if self.names.is_empty() {
            return SERVICE_NAME_LABEL.to_owned();
        }
        format!("{SERVICE_NAME_LABEL} in ({})", self.names.join(","))
    }
}

/// The Services that ask zonewise for hints, by `namespace/name`, and what asks.
#[derive(Debug, Default)]
pub struct Asking {
    asking: HashMap<String, OptInSource>,
    /// Names that some Service has, whether it asks or not.
    known: BTreeSet<String>,
}

impl Asking {
    /// Lists the Services of a scope.
    pub async fn list(api: &Api, scope: &Scope, settings: &Settings) -> Result<Self, Refusal> {
        let mut services = Self::default();
        let path = collection("/api/v1", scope.namespace.as_deref(), "services");
        api.list(&path, None, |service: Service<Box<str>>| {
            services.note(&service, settings);
        })
        .await?;
        Ok(services)
    }

    fn note(&mut self, service: &Service<Box<str>>, settings: &Settings) {
        let full_name = service.full_name();
        let name = full_name.split_once('/').map_or(&*full_name, |(_, n)| n);
        self.known.insert(name.to_owned());
        let record = ServiceRecord::read(service);
        if let Some(asked) = who_asks(&full_name, &record, None, settings) {
            self.asking.insert(full_name, asked.source);
        }
    }

    /// Whether any Service has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// What is to be done with the hints of a slice.
    pub fn judge(&self, slice: &Slice) -> Hints {
        let Some(source) = service_of(slice).and_then(|service| self.asking.get(&service)) else {
            return Hints::NotOurs;
        };
        let is_ip = SliceRecord::read(slice).address_type != AddressType::Other;
        let endpoints = slice.endpoints.items();
        let is_hinted = |endpoint: &Loose<Endpoint<_>>| endpoint.get().is_some_and(has_hints);
        if !is_ip || !endpoints.iter().any(is_hinted) {
            return Hints::None;
        }
        let by_distribution = *source == OptInSource::TrafficDistribution;
        if by_distribution && is_as_kubernetes_writes(slice) {
            return Hints::Kubernetes;
        }
        Hints::Strip(Candidate::new(slice))
    }
}

/// What is to be done with the hints of a slice.
#[derive(Debug, PartialEq, Eq)]
pub enum Hints {
    /// Its Service does not ask zonewise.
    NotOurs,
    /// There are none.
    None,
    /// They are what Kubernetes itself writes, and would write again.
    Kubernetes,
    /// They go.
    Strip(Candidate),
}

/// A slice that is to lose its hints.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidate {
    pub namespace: String,
    pub name: String,
    /// The version that was looked at.
    pub version: String,
    /// The places of endpoints that have a field `hints`.
    places: Box<[usize]>,
    /// How many of them name a zone or a node.
    pub hinted: usize,
}

impl Candidate {
    fn new(slice: &Slice) -> Self {
        let metadata = slice.metadata();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let endpoints = slice.endpoints.items().iter().enumerate();
        let with_field = endpoints
            .filter_map(|(place, endpoint)| Some((place, endpoint.get()?)))
            .filter(|(_, endpoint)| !matches!(endpoint.hints, Loose::Absent));
        let with_field: Vec<_> = with_field.collect();
        Self {
            namespace: text(metadata.and_then(|m| m.namespace.text())),
            name: text(metadata.and_then(|m| m.name.text())),
            version: text(metadata.and_then(|m| m.resource_version.text())),
            hinted: with_field.iter().filter(|(_, e)| has_hints(e)).count(),
            places: with_field.into_iter().map(|(place, _)| place).collect(),
        }
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The JSON patch that takes its hints away, if nobody has written it since.
    pub fn patch(&self) -> Vec<u8> {
        let version =
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": self.version});
        let remove =
            |place: &usize| json!({"op": "remove", "path": format!("/endpoints/{place}/hints")});
        let operations: Vec<Value> = std::iter::once(version)
            .chain(self.places.iter().map(remove))
            .collect();
        Value::from(operations).to_string().into_bytes()
    }
}

/// What a look at all slices of a scope gave.
#[derive(Debug, Default)]
pub struct Choice {
    pub candidates: Vec<Candidate>,
    /// Slices that have what Kubernetes itself writes.
    pub kubernetes: usize,
}

impl Choice {
    /// Lists the slices of a scope.
    pub async fn list(api: &Api, scope: &Scope, services: &Asking) -> Result<Self, Refusal> {
        let mut choice = Self::default();
        let path = collection(SLICES, scope.namespace.as_deref(), "endpointslices");
        let labels = scope.labels();
        api.list(&path, Some(&labels), |slice: Slice| {
            match services.judge(&slice) {
                Hints::Strip(candidate) => choice.candidates.push(candidate),
                Hints::Kubernetes => choice.kubernetes += 1,
                Hints::None | Hints::NotOurs => {}
            }
        })
        .await?;
        Ok(choice)
    }
}

/// Whether any endpoint of a slice has a hint.
pub fn is_hinted(slice: &Slice) -> bool {
    let endpoints = slice.endpoints.items().iter().filter_map(|e| e.get());
    endpoints.into_iter().any(has_hints)
}

fn has_hints(endpoint: &Endpoint<Box<str>>) -> bool {
    endpoint.hints.get().is_some_and(|hints| {
        !hints.for_zones.items().is_empty() || !hints.for_nodes.items().is_empty()
    })
}

/// Whether the EndpointSlice controller manages the slice, and its hints are those that it gives for `PreferSameZone`:
/// each ready endpoint its own zone, and nothing else (pkg/controller/endpointslice, trafficdist).
fn is_as_kubernetes_writes(slice: &Slice) -> bool {
    let manager = slice.metadata().and_then(|m| m.label(MANAGED_BY));
    let own_zone = |endpoint: &Endpoint<Box<str>>| {
        let zone = endpoint.zone.text().filter(|zone| !zone.is_empty());
        let nodes = endpoint
            .hints
            .get()
            .map_or(&[][..], |h| h.for_nodes.items());
        zone.is_some() && nodes.is_empty() && endpoint.zone_hints().eq(zone)
    };
    manager == Some(KUBERNETES)
        && slice.endpoints.items().iter().all(|endpoint| {
            endpoint.get().is_some_and(|endpoint| {
                if endpoint.is_ready() {
                    own_zone(endpoint)
                } else {
                    !has_hints(endpoint)
                }
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(services: &[Value]) -> Asking {
        let mut asking = Asking::default();
        for service in services {
            let service = serde_json::from_value(service.clone()).unwrap();
            asking.note(&service, &Settings::default());
        }
        asking
    }

    fn service(changes: &Value) -> Value {
        let mut service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"clusterIP": "10.0.0.1"}});
        json_patch::merge(&mut service, changes);
        service
    }

    fn auto() -> Value {
        service(
            &json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}}),
        )
    }

    fn same_zone() -> Value {
        service(&json!({"spec": {"trafficDistribution": "PreferSameZone"}}))
    }

    fn slice(manager: &str, endpoints: &Value) -> Slice {
        let labels = json!({SERVICE_NAME_LABEL: "web", MANAGED_BY: manager});
        let slice = json!({
            "metadata": {"namespace": "shop", "name": "web-1", "resourceVersion": "7", "labels": labels},
            "addressType": "IPv4",
            "endpoints": endpoints,
        });
        serde_json::from_value(slice).unwrap()
    }

    fn endpoint(zone: &str, hint: &str) -> Value {
        json!({"addresses": ["10.0.0.1"], "zone": zone, "hints": {"forZones": [{"name": hint}]}})
    }

    fn is_stripped(service: Value, slice: &Slice) -> bool {
        matches!(asking(&[service]).judge(slice), Hints::Strip(_))
    }

    #[test]
    fn only_services_that_ask_zonewise_lose_hints() {
        let hinted = slice("by-hand", &json!([endpoint("a", "a")]));
        assert!(is_stripped(auto(), &hinted));
        assert!(is_stripped(same_zone(), &hinted));
        let annotated = |value: &str| {
            service(
                &json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": value}}}),
            )
        };
        for other in [
            service(&json!({})),
            annotated("example.com/other"),
            annotated("Disabled"),
            service(&json!({"spec": {"trafficDistribution": "PreferSameNode"}})),
            service(
                &json!({"spec": {"trafficDistribution": "PreferSameZone", "clusterIP": "None"}}),
            ),
            service(&json!({"metadata": {"name": "other"}})),
        ] {
            let asking = asking(std::slice::from_ref(&other));
            assert_eq!(asking.judge(&hinted), Hints::NotOurs, "{other}");
        }
    }

    #[test]
    fn what_kubernetes_itself_writes_stays() {
        let judge = |service: Value, manager: &str, endpoints: Value| {
            asking(&[service]).judge(&slice(manager, &endpoints))
        };
        let unready =
            json!({"addresses": ["10.0.0.2"], "zone": "b", "conditions": {"ready": false}});
        let own = json!([endpoint("a", "a"), unready]);
        assert_eq!(
            judge(same_zone(), KUBERNETES, own.clone()),
            Hints::Kubernetes
        );
        let strips = |hints| matches!(hints, Hints::Strip(_));
        assert!(strips(judge(auto(), KUBERNETES, own.clone())));
        assert!(strips(judge(same_zone(), "by-hand", own.clone())));
        let abroad = json!([endpoint("a", "a"), endpoint("a", "b")]);
        assert!(strips(judge(same_zone(), KUBERNETES, abroad)));
        let partial = json!([endpoint("a", "a"), {"addresses": ["10.0.0.2"], "zone": "b"}]);
        assert!(strips(judge(same_zone(), KUBERNETES, partial)));
        let mut for_node = endpoint("a", "a");
        for_node["hints"]["forNodes"] = json!([{"name": "n"}]);
        assert!(strips(judge(same_zone(), KUBERNETES, json!([for_node]))));
        let both = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
            "spec": {"trafficDistribution": "PreferSameZone"}});
        assert!(strips(judge(service(&both), KUBERNETES, own)));
    }

    #[test]
    fn the_patch_takes_all_hints_of_one_version() {
        let endpoints = json!([
            endpoint("a", "a"),
            {"addresses": ["10.0.0.2"], "zone": "b"},
            {"addresses": ["10.0.0.3"], "zone": "b", "hints": {}},
        ]);
        let Hints::Strip(candidate) = asking(&[auto()]).judge(&slice("x", &endpoints)) else {
            panic!("its hints go");
        };
        assert_eq!(
            (candidate.hinted, &*candidate.full_name()),
            (1, "shop/web-1")
        );
        let patch: Value = serde_json::from_slice(&candidate.patch()).unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "remove", "path": "/endpoints/0/hints"},
                {"op": "remove", "path": "/endpoints/2/hints"},
            ])
        );
        let bare = slice("x", &json!([{"addresses": ["10.0.0.2"], "hints": {}}]));
        assert_eq!(asking(&[auto()]).judge(&bare), Hints::None);
    }
}
