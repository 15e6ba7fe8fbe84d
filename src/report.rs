//! What is decided for each Service and why, as `explain`, `demo` and the status JSON show it.
//!
//! The keys are stable: some may be added, none renamed.

mod notes;
mod outcome;
mod played;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use self::outcome::Outcome;
pub use self::outcome::{behind, load};
use self::played::Played;
use crate::cluster::files::{Objects, typed_slice};
use crate::cluster::slice::{self, AddressType, SliceRecord};
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::cluster::wire::Endpoint;
use crate::decide::{Snapshot, remedy, trial::Trial, who_asks};
use crate::planner::capacity::{Measure, Missing, Zone};
use crate::planner::keep::Quality;
use crate::planner::kube_proxy::Mode;
use crate::planner::reason::Reason;
use crate::settings::Settings;

/// Everything that is known and decided.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Of this JSON.
    pub schema_version: u32,
    /// The zones' shares.
    pub capacity: CapacityReport,
    /// How many Services of all that were read are opted in.
    pub opted_in_services: usize,
    /// One entry for each Service and address type.
    pub services: Vec<ServiceReport>,
}

/// The zones' shares and what keeps them from being known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReport {
    /// Whether Services can be hinted.
    pub usable: bool,
    /// Why not.
    pub reason: Option<&'static str>,
    /// Why not, in a sentence.
    pub message: Option<String>,
    /// Whether it is held as it was before a storm of NotReady nodes. For people; metrics tell programs.
    #[serde(skip)]
    pub frozen: bool,
    /// What shares are measured by. For people.
    #[serde(skip)]
    pub measure: Measure,
    /// Zones by name.
    pub zones: Vec<ZoneCapacityReport>,
    /// Counted nodes that lack something.
    pub insufficient_nodes: Vec<InsufficientNodeReport>,
    /// Nodes that do not count.
    pub ignored_nodes: Vec<IgnoredNodeReport>,
    /// What may be wrong with the nodes, each in a sentence.
    pub notes: Vec<String>,
}

/// A zone's share.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneCapacityReport {
    /// Its name.
    pub name: Arc<str>,
    /// Allocatable CPU of its counted nodes, in millicores.
    #[serde(rename = "milliCPU")]
    pub milli_cpu: u64,
    /// Its part of all, between 0 and 1.
    pub share: f64,
    /// Its counted nodes.
    pub nodes: u32,
}

/// A counted node that lacks something.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsufficientNodeReport {
    /// Its name.
    pub name: Box<str>,
    /// `zone`, `cpu` or both.
    pub missing: Vec<&'static str>,
}

/// A node that does not count.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IgnoredNodeReport {
    /// Its name.
    pub name: Box<str>,
    /// Why.
    pub because: &'static str,
}

/// A Service's endpoints of one address type.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReport {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: &'static str,
    /// What asks for hints.
    pub opt_in: Option<&'static str>,
    /// How they are planned.
    pub heuristic: Option<&'static str>,
    /// The overload threshold.
    pub threshold: f64,
    /// `Hints`, `Strip`, `Kept` or `Untouched`.
    pub decision: &'static str,
    /// Why, where it is not `Hints`.
    pub reason: Option<&'static str>,
    /// In a sentence.
    pub message: String,
    /// Ready endpoints, each address once.
    pub ready_endpoints: usize,
    /// Whether ports have different endpoints: some slices have ports that others lack, or the same number of one port and
    /// other numbers of another. kube-proxy goes by the endpoints of each port, and so do `ports` and all other figures.
    pub ports_differ: bool,
    /// How far above the average the busiest endpoint behind any port is loaded, once the decision is carried out.
    pub worst_overload: Option<f64>,
    /// The part of the traffic that stays in its zone then, behind the port where that is least.
    pub in_zone_share: Option<f64>,
    /// The same by the hints that the slices have now, as kube-proxy follows them: those that zonewise ignores count too.
    pub now: QualityReport,
    /// The least threshold at which Auto has a plan; nothing where ports differ.
    pub least_threshold: Option<f64>,
    /// What would help where it gets no hints, or would keep much more traffic in its zone, each found by planning it.
    pub remedies: Vec<RemedyReport>,
    /// The highest share in zone at each threshold, the lowest threshold first, where one Service was asked for that gets hints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trade_offs: Vec<TradeOffReport>,
    /// What else there is to know, each in a sentence.
    pub notes: Vec<String>,
    /// The zones with capacity; none where ports differ.
    pub zones: Vec<ZoneReport>,
    /// Where ports differ, the figures of the endpoints behind each group of ports that have the same.
    pub ports: Vec<PortsReport>,
    /// Whether kube-proxy chooses among its endpoints at all. For people.
    #[serde(skip)]
    pub kube_proxy_chooses: bool,
    /// Its slices by name, in which order they are decided on.
    pub slices: Vec<SliceReport>,
    /// The places that these have among all slices that were reported on.
    #[serde(skip)]
    pub places: Vec<usize>,
    /// The slices as they would be stored, for YAML and for tests.
    #[serde(skip)]
    pub stored: Vec<Value>,
}

/// What hints do to traffic.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QualityReport {
    /// How far above the average the busiest endpoint behind any port is loaded.
    pub worst_overload: Option<f64>,
    /// The part of the traffic that stays in its zone, behind the port where that is least.
    pub in_zone_share: Option<f64>,
}

impl From<Option<Quality>> for QualityReport {
    fn from(quality: Option<Quality>) -> Self {
        Self {
            worst_overload: quality.map(|quality| quality.worst_overload),
            in_zone_share: quality.map(|quality| quality.in_zone),
        }
    }
}

/// The figures of ports that have the same endpoints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortsReport {
    /// The ports' names, `""` for one without, and `/UDP` or `/SCTP` behind the name of one that is not TCP.
    pub ports: Vec<String>,
    /// Ready endpoints behind each of them.
    pub ready_endpoints: usize,
    /// How far above the average the busiest of them is loaded, once the decision is carried out.
    pub worst_overload: Option<f64>,
    /// The part of the traffic that stays in its zone then.
    pub in_zone_share: Option<f64>,
    /// The least threshold at which Auto has a plan for them.
    pub least_threshold: Option<f64>,
    /// The zones with capacity.
    pub zones: Vec<ZoneReport>,
}

/// Something that would give a Service hints, or better ones, and what its hints would come to.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum RemedyReport {
    /// More ready endpoints.
    Endpoints {
        /// How many.
        endpoints: u32,
        /// How many in which zone.
        zones: BTreeMap<Arc<str>, u32>,
        /// Where ports differ, how many in which zone behind which ports.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        behind: Vec<EndpointsBehind>,
    },
    /// Another overload threshold.
    Threshold {
        /// The least that does.
        threshold: f64,
        /// The part of the traffic that would stay in its zone.
        in_zone_share: f64,
        /// How far above the average the busiest endpoint would be.
        worst_overload: f64,
    },
    /// Heuristic Overlap.
    Overlap {
        /// The part of the traffic that would stay in its zone.
        in_zone_share: f64,
        /// How far above the average the busiest endpoint would be.
        worst_overload: f64,
    },
}

/// More ready endpoints behind some ports.
#[derive(Debug, Serialize)]
pub struct EndpointsBehind {
    /// The ports of the slice that they belong in.
    pub ports: Vec<String>,
    /// How many in which zone.
    pub zones: BTreeMap<Arc<str>, u32>,
}

/// A threshold and what hints come to at it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TradeOffReport {
    /// The least threshold of whole percents at which that can be had.
    pub threshold: f64,
    /// The part of the traffic that stays in its zone.
    pub in_zone_share: f64,
    /// How far above the average the busiest endpoint is loaded.
    pub worst_overload: f64,
    /// Whether it is what the Service gets at its threshold.
    pub current: bool,
}

/// What a zone has and gets of one Service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its share of CPU.
    pub share: f64,
    /// Ready endpoints that stand in it.
    pub endpoints: usize,
    /// Its share of the ready endpoints.
    pub desired: f64,
    /// The fewest that keep them under the ceiling.
    pub minimum: u32,
    /// Endpoints hinted for it once the decision is carried out.
    pub hinted: usize,
    /// How far above the average the busiest endpoint that it uses is loaded.
    pub overload: Option<f64>,
    /// What kube-proxy there does: `PreferSameZone`, `Cluster`, or `PreferSameNode` on the nodes that endpoints name.
    pub kube_proxy: &'static str,
    /// The same as the model has it, with the reason where it does not follow hints. For people; it follows from hints.
    #[serde(skip)]
    pub mode: Mode,
    /// What it does on those nodes of the zone that node hints do not name. For people.
    #[serde(skip)]
    pub mode_elsewhere: Mode,
}

/// A slice once the decision is carried out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceReport {
    /// Its name.
    pub name: String,
    /// Its endpoints in their order.
    pub endpoints: Vec<EndpointReport>,
    /// The JSON patch that carries the decision out.
    pub patch: Value,
}

/// An endpoint once the decision is carried out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// Its first address.
    pub address: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// The zones that it is hinted for.
    pub hints: Vec<String>,
}

/// Which Services to report.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only this name.
    pub name: Option<String>,
}

impl Filter {
    fn takes(&self, service: &str) -> bool {
        let (namespace, name) = split(service);
        self.namespace
            .as_deref()
            .is_none_or(|wanted| wanted == namespace)
            && self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

fn split(service: &str) -> (&str, &str) {
    service.split_once('/').unwrap_or(("", service))
}

impl Report {
    /// Reports on a cluster and the objects that it was loaded from: the cluster keeps only what decisions need of them.
    #[must_use]
    pub fn new(cluster: &Cluster, settings: &Settings, objects: &Objects, filter: &Filter) -> Self {
        let capacity = cluster.capacity();
        let services: Vec<_> = group(cluster, &objects.slices)
            .into_iter()
            .filter(|((service, _), _)| filter.takes(service))
            .collect();
        let one = filter.name.is_some();
        let report =
            |((service, address_type), slices): ((String, AddressType), Vec<Placed<'_>>)| {
                let context = Context {
                    cluster,
                    settings,
                    objects,
                    with_trade_offs: one,
                };
                context.service(&service, address_type, slices)
            };
        Self {
            schema_version: 1,
            capacity: CapacityReport {
                notes: notes::of_nodes(&objects.nodes, &capacity),
                ..CapacityReport::new(&capacity)
            },
            opted_in_services: opted_in(cluster, settings),
            services: services.into_iter().map(report).collect(),
        }
    }
}

/// How many Services are opted in, also where their annotation can't be used.
fn opted_in(cluster: &Cluster, settings: &Settings) -> usize {
    let names = cluster.service_names();
    let is_opted_in = |name: &str| {
        let snapshot = Snapshot::take(cluster, Some(name));
        let service = snapshot
            .service()
            .and_then(|state| state.service.as_deref());
        service.is_some_and(|service| {
            who_asks(name, service, snapshot.namespace(), settings).is_some()
        })
    };
    names.iter().filter(|name| is_opted_in(name)).count()
}

/// A slice and its place among all.
type Placed<'a> = (usize, &'a Value);

/// Slices by Service and address type, in order; a Service without slices has an empty entry.
fn group<'a>(
    cluster: &Cluster,
    slices: &'a [Value],
) -> BTreeMap<(String, AddressType), Vec<Placed<'a>>> {
    let mut groups: BTreeMap<(String, AddressType), Vec<Placed<'_>>> = BTreeMap::new();
    for (place, value) in slices.iter().enumerate() {
        let Some(wire) = typed_slice(value) else {
            continue;
        };
        let service = slice::service_of(&wire).unwrap_or_default();
        groups
            .entry((service, SliceRecord::read(&wire).address_type))
            .or_default()
            .push((place, value));
    }
    for service in cluster.service_names() {
        let known = groups.keys().any(|(name, _)| **name == *service);
        if !known {
            groups.insert((service.into(), AddressType::Ipv4), Vec::new());
        }
    }
    groups
}

impl CapacityReport {
    /// Reports on a capacity.
    #[must_use]
    pub fn new(measured: &MeasuredCapacity) -> Self {
        let capacity = &measured.capacity;
        let obstacle = capacity.obstacle();
        let zone = |(i, zone): (usize, &Zone)| ZoneCapacityReport {
            name: zone.name.clone(),
            milli_cpu: zone.cpu.0,
            share: capacity.share(i),
            nodes: zone.nodes,
        };
        Self {
            usable: obstacle.is_none(),
            reason: obstacle.as_ref().map(Reason::word),
            message: obstacle.as_ref().map(Reason::message),
            frozen: measured.frozen,
            measure: capacity.rules.measure,
            zones: capacity.zones.iter().enumerate().map(zone).collect(),
            insufficient_nodes: capacity
                .insufficient
                .iter()
                .map(|node| InsufficientNodeReport {
                    name: node.name.clone(),
                    missing: node.missing.iter().map(Missing::word).collect(),
                })
                .collect(),
            ignored_nodes: capacity
                .ignored
                .iter()
                .map(|(name, because)| IgnoredNodeReport {
                    name: name.clone(),
                    because: because.word(),
                })
                .collect(),
            notes: Vec::new(),
        }
    }
}

/// What Services are reported from.
struct Context<'a> {
    cluster: &'a Cluster,
    settings: &'a Settings,
    objects: &'a Objects,
    with_trade_offs: bool,
}

impl Context<'_> {
    fn service(
        &self,
        service: &str,
        address_type: AddressType,
        mut slices: Vec<Placed<'_>>,
    ) -> ServiceReport {
        let key = (!service.is_empty()).then_some(service);
        slices.sort_by(|(_, a), (_, b)| slice_name(a).cmp(slice_name(b)));
        let snapshot = Snapshot::take(self.cluster, key);
        let played = Played::new(&snapshot, self.settings, key, address_type, &slices);
        let deciding = &played.deciding;
        let asked = deciding.asked.as_ref();
        let threshold = asked.map_or(self.settings.threshold, |asked| asked.threshold);
        let chooses = kube_proxy_chooses(&snapshot) && !snapshot.capacity().weights.is_empty();
        let (now, outcome) =
            Outcome::before_and_after(self.cluster, &snapshot, &played, self.settings);
        let quality = outcome.quality().filter(|_| chooses);
        let read: Vec<&SliceRecord> = played.before.iter().map(|record| &**record).collect();
        let trial = Trial::new(&snapshot, service, &read, self.settings);
        let trial = trial.filter(|_| chooses && outcome.ready > 0);
        let remedies = trial
            .iter()
            .flat_map(|trial| outcome.remedies(trial, deciding));
        let trade_offs = trial
            .iter()
            .filter(|_| self.with_trade_offs && deciding.reason.is_none());
        let trade_offs = trade_offs.flat_map(remedy::trade_offs);
        let reason = deciding.reason.as_ref();
        let (namespace, name) = split(service);
        let mut report = ServiceReport {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            address_type: address_type.word(),
            opt_in: asked.map(|asked| asked.source.word()),
            heuristic: asked.map(|asked| asked.heuristic.word()),
            threshold: threshold.as_fraction(),
            decision: deciding.verdict.word(),
            reason: reason.map(Reason::word),
            message: reason.map_or_else(|| outcome.message(), Reason::message),
            ready_endpoints: outcome.ready,
            ports_differ: outcome.ports_differ(),
            worst_overload: quality.map(|quality| quality.worst_overload),
            in_zone_share: quality.map(|quality| quality.in_zone),
            now: now.quality().filter(|_| chooses).into(),
            least_threshold: outcome.least_threshold(),
            remedies: remedies.collect(),
            trade_offs: outcome::trade_offs(trade_offs, quality, threshold),
            notes: notes::of_service(self.cluster, self.objects, service, &played, self.settings),
            zones: Vec::new(),
            ports: Vec::new(),
            kube_proxy_chooses: chooses,
            slices: Vec::new(),
            places: slices.into_iter().map(|(place, _)| place).collect(),
            stored: Vec::new(),
        };
        let mut ports = outcome.ports(chooses);
        match &mut ports[..] {
            [all] => report.zones = std::mem::take(&mut all.zones),
            _ => report.ports = ports,
        }
        report.slices = played.reports;
        report.stored = played.stored;
        report
    }
}

/// Whether kube-proxy chooses among the Service's endpoints: by hints, or all of them where there are none.
fn kube_proxy_chooses(snapshot: &Snapshot<'_>) -> bool {
    let service = snapshot.service().and_then(|state| state.service.as_ref());
    service.is_some_and(|service| service.hints_unused.is_none())
}

/// The name of a slice, `""` where it has none.
#[must_use]
pub fn slice_name(slice: &Value) -> &str {
    slice
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl SliceReport {
    fn new(slice: &Value, patch: Value) -> Self {
        let typed = typed_slice(slice).unwrap_or_default();
        let endpoints = typed
            .endpoints
            .items()
            .iter()
            .filter_map(|endpoint| endpoint.get());
        Self {
            name: slice_name(slice).to_owned(),
            endpoints: endpoints.map(EndpointReport::new).collect(),
            patch,
        }
    }
}

impl EndpointReport {
    fn new(endpoint: &Endpoint<Box<str>>) -> Self {
        Self {
            address: endpoint.address().unwrap_or_default().to_owned(),
            zone: endpoint.zone.text().map(str::to_owned),
            ready: endpoint.is_ready(),
            hints: endpoint.zone_hints().map(str::to_owned).collect(),
        }
    }
}
