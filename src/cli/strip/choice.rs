//! Which slices have hints that zonewise may have given.

use std::collections::{BTreeSet, HashMap};

use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cluster::namespace::NamespaceRecord;
use crate::cluster::service::ServiceRecord;
use crate::cluster::slice::{
    AddressType, MANAGED_BY_LABEL, Manager, SERVICE_NAME_LABEL, SliceRecord, service_of,
};
use crate::cluster::wire::{Endpoint, Namespace, Service, Wire as _};
use crate::controller::removal::{Removal, StoredSlice, has_hints};
use crate::decide::opt_in::OptInSource;
use crate::decide::who_asks;
use crate::settings::Settings;

const CORE: &str = "/api/v1";

/// Which Services are looked at.
#[derive(Debug, Default)]
pub struct Scope {
    /// Only those of this namespace.
    pub namespace: Option<String>,
    /// Only those of these names; all where there are none.
    pub names: Vec<String>,
    /// Only slices with these labels, as kubectl writes them.
    pub selector: Option<String>,
}

impl Scope {
    /// The label selector of their slices.
    fn labels(&self) -> String {
        let services = if self.names.is_empty() {
            SERVICE_NAME_LABEL.to_owned()
        } else {
            format!("{SERVICE_NAME_LABEL} in ({})", self.names.join(","))
        };
        let selector = self.selector.as_deref();
        selector.map_or_else(|| services.clone(), |more| format!("{services},{more}"))
    }
}

/// The Services that ask zonewise for hints, by `namespace/name`, and what asks.
#[derive(Debug, Default)]
pub struct Asking {
    settings: Settings,
    /// Those that say something, by name.
    namespaces: HashMap<String, NamespaceRecord>,
    sources: HashMap<String, OptInSource>,
    /// Names that some Service has, whether it asks or not.
    known: BTreeSet<String>,
}

impl Asking {
    /// Lists the Services of a scope.
    pub async fn list(api: &Api, scope: &Scope, settings: Settings) -> Result<Self, Refusal> {
        let mut services = Self {
            settings,
            ..Self::default()
        };
        services.read_namespaces(api, scope).await?;
        let path = collection(CORE, scope.namespace.as_deref(), "services");
        api.list(&path, None, |service: Service<Box<str>>| {
            services.note(&service);
        })
        .await?;
        Ok(services)
    }

    /// Who may not read Namespaces strips what Services ask for themselves.
    async fn read_namespaces(&mut self, api: &Api, scope: &Scope) -> Result<(), Refusal> {
        let path = collection(CORE, None, "namespaces");
        let mut note = |namespace: Namespace<Box<str>>| {
            let record = NamespaceRecord::read(&namespace);
            if !record.is_silent() {
                self.namespaces.insert(namespace.full_name(), record);
            }
        };
        let read = match &scope.namespace {
            Some(name) => api.get(&path, name).await.map(note),
            None => api.list(&path, None, &mut note).await,
        };
        match read {
            Err(Refusal::Forbidden(_) | Refusal::NotFound(_)) => Ok(()),
            read => read,
        }
    }

    fn note(&mut self, service: &Service<Box<str>>) {
        let full_name = service.full_name();
        let name = full_name.split_once('/').map_or(&*full_name, |(_, n)| n);
        self.known.insert(name.to_owned());
        if let Some(source) = self.source(service) {
            self.sources.insert(full_name, source);
        }
    }

    fn source(&self, service: &Service<Box<str>>) -> Option<OptInSource> {
        let record = ServiceRecord::read(service);
        let name = service.full_name();
        let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
        let namespace = self.namespaces.get(namespace);
        who_asks(&name, &record, namespace, &self.settings)
    }

    /// Whether any Service has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// What asks for hints at this moment, for a Service that was listed a while ago.
    pub async fn look_again(
        &self,
        api: &Api,
        service: &str,
    ) -> Result<Option<OptInSource>, Refusal> {
        let (namespace, name) = service.split_once('/').unwrap_or(("", service));
        let path = collection(CORE, Some(namespace), "services");
        match api.get(&path, name).await {
            Ok(service) => Ok(self.source(&service)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// What is to be done with the hints of a slice, by the Services as they were listed.
    fn judge(&self, slice: &StoredSlice) -> Hints {
        let service = service_of(slice).unwrap_or_default();
        judge(slice, self.sources.get(&service).copied())
    }
}

/// What is to be done with the hints of a slice, by what asks for hints for its Service.
pub fn judge(slice: &StoredSlice, source: Option<OptInSource>) -> Hints {
    let Some(source) = source else {
        return Hints::NotOurs;
    };
    let is_ip = SliceRecord::read(slice).address_type != AddressType::Other;
    let Some(removal) = Removal::of(slice).filter(|_| is_ip) else {
        return Hints::None;
    };
    let candidate = Candidate::new(slice, removal);
    if candidate.goes(Some(source)) {
        Hints::Strip(candidate)
    } else {
        Hints::Kubernetes
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
    /// Its Service, as `namespace/name`.
    pub service: String,
    /// Whether its hints are what Kubernetes itself gives for `PreferSameZone`.
    is_as_kubernetes_writes: bool,
    pub removal: Removal,
}

impl Candidate {
    fn new(slice: &StoredSlice, removal: Removal) -> Self {
        let metadata = slice.metadata();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Self {
            namespace: text(metadata.and_then(|m| m.namespace.text())),
            name: text(metadata.and_then(|m| m.name.text())),
            service: service_of(slice).unwrap_or_default(),
            is_as_kubernetes_writes: is_as_kubernetes_writes(slice),
            removal,
        }
    }

    /// Whether its hints go, by what asks for hints for its Service.
    pub fn goes(&self, source: Option<OptInSource>) -> bool {
        match source {
            None => false,
            Some(OptInSource::TrafficDistribution) => !self.is_as_kubernetes_writes,
            Some(_) => true,
        }
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
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
        api.list(&path, Some(&labels), |slice: StoredSlice| {
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

/// Whether the EndpointSlice controller manages the slice, and its hints are those that it gives for `PreferSameZone`:
/// the own zone of each ready endpoint, and nothing else (pkg/controller/endpointslice, trafficdist).
fn is_as_kubernetes_writes(slice: &StoredSlice) -> bool {
    let manager = slice.metadata().and_then(|m| m.label(MANAGED_BY_LABEL));
    let own_zone = |endpoint: &Endpoint<Box<str>>| {
        let zone = endpoint.zone.text().filter(|zone| !zone.is_empty());
        let nodes = endpoint
            .hints
            .get()
            .map_or(&[][..], |h| h.for_nodes.items());
        zone.is_some() && nodes.is_empty() && endpoint.zone_hints().eq(zone)
    };
    Manager::read(manager) == Manager::EndpointSliceController
        && slice.endpoints.items().iter().all(|endpoint| {
            endpoint.get().is_some_and(|endpoint| {
                // The controller leaves the hint of an endpoint that is no longer ready.
                own_zone(endpoint) || !endpoint.is_ready() && !has_hints(endpoint)
            })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::planner::heuristic::Heuristic;

    const KUBERNETES: &str = Manager::CONTROLLER;

    fn asking(services: &[Value]) -> Asking {
        let mut asking = Asking {
            settings: Settings {
                traffic_distribution: Some(Heuristic::Overlap),
                ..Settings::default()
            },
            ..Asking::default()
        };
        for service in services {
            asking.note(&serde_json::from_value(service.clone()).unwrap());
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

    fn slice(manager: &str, endpoints: &Value) -> StoredSlice {
        let labels = json!({SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: manager});
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

    fn is_stripped(service: Value, slice: &StoredSlice) -> bool {
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
    fn hints_that_were_kept_for_an_annotation_that_means_nothing_go_too() {
        let hinted = slice("by-hand", &json!([endpoint("a", "b")]));
        let mut too_high = auto();
        too_high["metadata"]["annotations"]["zonewise.dev/overload-threshold"] = "much".into();
        assert!(is_stripped(too_high, &hinted));
        let mut misspelt = auto();
        misspelt["metadata"]["annotations"] =
            json!({"service.kubernetes.io/topology-mode": "zonewise.dev/Overlapp"});
        assert!(is_stripped(misspelt, &hinted));
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
    fn a_slice_that_was_chosen_stays_if_its_service_has_changed_its_mind() {
        let own = json!([endpoint("a", "a")]);
        let Hints::Strip(candidate) = asking(&[auto()]).judge(&slice(KUBERNETES, &own)) else {
            panic!("its hints go");
        };
        assert!(candidate.goes(Some(OptInSource::TopologyMode)));
        assert!(!candidate.goes(Some(OptInSource::TrafficDistribution)));
        assert!(!candidate.goes(None));
        assert_eq!(candidate.service, "shop/web");
    }

    #[test]
    fn a_selector_goes_with_the_names_of_services() {
        let labels = |names: &[&str], selector: Option<&str>| {
            let scope = Scope {
                names: names.iter().map(ToString::to_string).collect(),
                selector: selector.map(str::to_owned),
                ..Scope::default()
            };
            scope.labels()
        };
        let label = SERVICE_NAME_LABEL;
        assert_eq!(labels(&[], None), label);
        assert_eq!(
            labels(&["web", "api"], Some("team=a,tier in (x,y)")),
            format!("{label} in (web,api),team=a,tier in (x,y)")
        );
    }
}
