//! What is decided for each Service and why, as `explain`, `demo` and the status JSON show it.
//!
//! The keys are stable: some may be added, none renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::cluster::files::typed_slice;
use crate::cluster::key::Key;
use crate::cluster::slice::{self, AddressType, Manager, SliceRecord};
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::cluster::wire::{Endpoint, EndpointSlice};
use crate::decide::endpoint_set::{EndpointSet, Member, Stand};
use crate::decide::{Decision, Snapshot, Verdict, decide, ports};
use crate::planner::allocation::{self, Threshold};
use crate::planner::auto::Origin;
use crate::planner::capacity::{Measure, Missing, Zone};
use crate::planner::counts::ratio;
use crate::planner::kube_proxy::{self, Mode, Traffic};
use crate::planner::reason::Reason;
use crate::planner::remedy::{Patient, Remedy};
use crate::settings::Settings;
use crate::webhook::mutate::patch_for;
use crate::words;

/// Everything that is known and decided.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Of this JSON.
    pub schema_version: u32,
    /// The zones' shares.
    pub capacity: CapacityReport,
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
    /// other numbers of another. kube-proxy goes by the endpoints of each port, while all figures here are of the endpoints
    /// of all ports together.
    pub ports_differ: bool,
    /// How far above the average the busiest endpoint is loaded, once the decision is carried out.
    pub worst_overload: Option<f64>,
    /// The part of the traffic that stays in its zone then.
    pub in_zone_share: Option<f64>,
    /// The least threshold at which Auto has a plan.
    pub least_threshold: Option<f64>,
    /// What would help where it gets no hints, each found by planning it.
    pub remedies: Vec<RemedyReport>,
    /// The zones with capacity.
    pub zones: Vec<ZoneReport>,
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

/// Something that would give a Service hints.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum RemedyReport {
    /// More ready endpoints.
    Endpoints {
        /// How many.
        endpoints: u32,
        /// How many in which zone.
        zones: BTreeMap<Arc<str>, u32>,
    },
    /// Another overload threshold.
    Threshold {
        /// The least that does.
        threshold: f64,
    },
    /// Heuristic Overlap.
    Overlap {
        /// The part of the traffic that would stay in its zone.
        in_zone_share: f64,
        /// How far above the average the busiest endpoint would be.
        worst_overload: f64,
    },
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
    /// What kube-proxy there does: `PreferSameZone`, `Cluster`, or `PreferSameNode` on the nodes that endpoints name. Where
    /// ports differ, what it would do if all endpoints were behind one.
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
    /// Reports on a cluster and its slices, which are given whole since the cluster keeps only what it needs of them.
    #[must_use]
    pub fn new(cluster: &Cluster, settings: &Settings, slices: &[Value], filter: &Filter) -> Self {
        let capacity = cluster.capacity();
        let services = group(cluster, slices);
        let services = services
            .into_iter()
            .filter(|((service, _), _)| filter.takes(service));
        Self {
            schema_version: 1,
            capacity: CapacityReport::new(&capacity),
            services: services
                .map(|((service, address_type), slices)| {
                    ServiceReport::new(cluster, settings, &service, address_type, slices)
                })
                .collect(),
        }
    }
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
        }
    }
}

/// The slices of one Service and address type, decided on one by one, each seeing what was decided for those before
/// it, as writes one after the other would.
struct Played {
    /// The decision that tells most: the first that is not to hint. A Service without slices is decided on with an empty
    /// one.
    deciding: Decision,
    records: Vec<Arc<SliceRecord>>,
    reports: Vec<SliceReport>,
    stored: Vec<Value>,
}

impl Played {
    fn new(
        snapshot: &Snapshot<'_>,
        settings: &Settings,
        service: Option<&str>,
        address_type: AddressType,
        slices: &[Placed<'_>],
    ) -> Self {
        let others = of_other_types(snapshot, address_type);
        let mut records: Vec<_> = slices
            .iter()
            .filter_map(|(_, slice)| record(slice))
            .collect();
        let (mut reports, mut stored) = (Vec::new(), Vec::new());
        let mut deciding: Option<Decision> = None;
        for (i, (_, slice)) in slices.iter().enumerate() {
            let snapshot = snapshot.with_slices([&others[..], &records].concat());
            let decision = decide(&snapshot, service, &records[i], settings);
            let (next, patch) = carry_out(&decision, slice);
            if let Some(record) = record(&next) {
                records[i] = record;
            }
            reports.push(SliceReport::new(&next, patch));
            stored.push(next);
            if deciding
                .as_ref()
                .is_none_or(|d| d.verdict == Verdict::Hints)
            {
                deciding = Some(decision);
            }
        }
        let on_nothing = || decide(snapshot, service, &empty_slice(address_type), settings);
        Self {
            deciding: deciding.unwrap_or_else(on_nothing),
            records,
            reports,
            stored,
        }
    }
}

/// The slices of the Service that have another address type, which decisions look at too.
fn of_other_types(snapshot: &Snapshot<'_>, address_type: AddressType) -> Vec<Arc<SliceRecord>> {
    let slices = snapshot
        .service()
        .into_iter()
        .flat_map(|state| state.slices.iter());
    slices
        .filter(|slice| slice.address_type != address_type)
        .cloned()
        .collect()
}

impl ServiceReport {
    fn new(
        cluster: &Cluster,
        settings: &Settings,
        service: &str,
        address_type: AddressType,
        mut slices: Vec<Placed<'_>>,
    ) -> Self {
        let key = (!service.is_empty()).then_some(service);
        slices.sort_by(|(_, a), (_, b)| slice_name(a).cmp(slice_name(b)));
        let snapshot = Snapshot::take(cluster, key);
        let played = Played::new(&snapshot, settings, key, address_type, &slices);
        let asked = played.deciding.asked.as_ref();
        let threshold = asked.map_or(settings.threshold, |asked| asked.threshold);
        let set = Outcome::of(cluster, &snapshot, &played, threshold);
        let kube_proxy_chooses = !set.capacity.weights.is_empty() && kube_proxy_chooses(&snapshot);
        let deciding = &played.deciding;
        let reason = deciding.reason.as_ref();
        let (namespace, name) = split(service);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            address_type: address_type.word(),
            opt_in: asked.map(|asked| asked.source.word()),
            heuristic: asked.map(|asked| asked.heuristic.word()),
            threshold: threshold.as_fraction(),
            decision: deciding.verdict.word(),
            reason: reason.map(Reason::word),
            message: reason.map_or_else(|| set.message(), Reason::message),
            ready_endpoints: set.endpoints.len(),
            ports_differ: set.ports_differ,
            worst_overload: set.traffic.worst_overload.filter(|_| kube_proxy_chooses),
            in_zone_share: set.in_zone_share().filter(|_| kube_proxy_chooses),
            least_threshold: set.least_threshold(),
            remedies: set.remedies(deciding),
            zones: set.zones(),
            kube_proxy_chooses,
            slices: played.reports,
            places: slices.into_iter().map(|(place, _)| place).collect(),
            stored: played.stored,
        }
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

fn record(slice: &Value) -> Option<Arc<SliceRecord>> {
    typed_slice(slice).map(|wire| Arc::new(SliceRecord::read(&wire)))
}

fn empty_slice(address_type: AddressType) -> SliceRecord {
    SliceRecord {
        name: "".into(),
        address_type,
        ports: Box::default(),
        port_numbers: Box::default(),
        endpoints: Box::default(),
        labels: Box::default(),
        version: Key::of(""),
        manager: Manager::default(),
        has_node_hints: false,
        odd_field: None,
    }
}

/// The slice as the API server would store it, and the patch that makes it so.
fn carry_out(decision: &Decision, slice: &Value) -> (Value, Value) {
    let typed = typed_slice(slice);
    let patch = typed.and_then(|typed| patch_for(decision, &typed, Some(&typed), || None));
    let patch: json_patch::Patch = patch
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let mut next = slice.clone();
    if let Err(error) = json_patch::patch(&mut next, &patch) {
        tracing::error!(slice = slice_name(slice), %error, "the patch does not fit the slice it was made for");
    }
    (next, serde_json::to_value(&patch).unwrap_or_default())
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

/// The zones, where they are known, of the nodes that an endpoint is hinted for.
fn zones_of_hinted_nodes(
    cluster: &Cluster,
    slice: &EndpointSlice<Box<str>>,
    place: usize,
) -> Vec<Option<Key>> {
    let hints = slice.endpoints.items()[place]
        .get()
        .and_then(|endpoint| endpoint.hints.get());
    let nodes = hints.map_or(&[][..], |hints| hints.for_nodes.items());
    let names = nodes.iter().filter_map(|node| node.get()?.name.text());
    names
        .map(|name| cluster.zone_of_node(Key::of(name)))
        .collect()
}

/// The endpoints of a Service with the hints that they end with, and where traffic then goes.
struct Outcome {
    capacity: Arc<MeasuredCapacity>,
    /// In zone order: capacity, or what a person says in its place.
    weights: Vec<u64>,
    endpoints: Vec<kube_proxy::Endpoint>,
    /// Whether the zone of each endpoint is known.
    all_placed: bool,
    /// Whether ports have different endpoints.
    ports_differ: bool,
    traffic: Traffic,
    threshold: Threshold,
}

impl Outcome {
    fn of(
        cluster: &Cluster,
        snapshot: &Snapshot<'_>,
        played: &Played,
        threshold: Threshold,
    ) -> Self {
        let slices: Vec<&SliceRecord> = played.records.iter().map(|record| &**record).collect();
        let set = EndpointSet::gather_stored(&slices, snapshot.capacity(), |record| {
            snapshot.stand(record)
        });
        let capacity = snapshot.capacity().clone();
        let number = |zone: &Key| capacity.zone_number(*zone).map(usize::from);
        let stored: Vec<_> = played.stored.iter().filter_map(typed_slice).collect();
        let endpoint = |member: &Member<'_>| {
            let hints = member.record.hints.zones();
            let nodes = zones_of_hinted_nodes(cluster, &stored[member.slice], member.place);
            kube_proxy::Endpoint {
                zone: match member.stand {
                    Stand::Zone(zone) => Some(usize::from(zone)),
                    Stand::Homeless | Stand::Unknown => None,
                },
                hinted: !hints.is_empty(),
                hints: hints.iter().filter_map(number).collect(),
                node_hinted: !nodes.is_empty(),
                node_hints: nodes.iter().flatten().filter_map(number).collect(),
            }
        };
        let endpoints: Vec<_> = set.members().iter().map(endpoint).collect();
        let is_placed = |member: &Member<'_>| member.stand != Stand::Unknown;
        let asked = played.deciding.asked.as_ref();
        let weights = asked.map_or_else(
            || capacity.weights.to_vec(),
            |asked| asked.zones(&capacity).weights.into_owned(),
        );
        let traffic = Traffic::follow(&weights, &endpoints);
        Self {
            weights,
            all_placed: set.members().iter().all(is_placed),
            ports_differ: !ports::are_even(&slices),
            capacity,
            endpoints,
            traffic,
            threshold,
        }
    }

    fn in_zone_share(&self) -> Option<f64> {
        self.traffic.in_zone_share.filter(|_| self.all_placed)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)
    }

    fn least_threshold(&self) -> Option<f64> {
        allocation::least_threshold(&self.weights, self.count()).map(Threshold::as_fraction)
    }

    /// What would help, where endpoints are what it is about and those of each port are the same.
    fn remedies(&self, deciding: &Decision) -> Vec<RemedyReport> {
        let Some(asked) = deciding
            .asked
            .as_ref()
            .filter(|_| self.may_be_helped(deciding))
        else {
            return Vec::new();
        };
        let origin = |endpoint: &kube_proxy::Endpoint| {
            let zone = endpoint.zone.filter(|&zone| self.weights[zone] > 0);
            let zone = zone.and_then(|zone| u16::try_from(zone).ok());
            zone.map_or(Origin::Homeless, Origin::Zone)
        };
        let origins: Vec<Origin> = self.endpoints.iter().map(origin).collect();
        let patient = Patient {
            heuristic: asked.heuristic,
            weights: &self.weights,
            threshold: asked.threshold,
            origins: &origins,
        };
        let remedies = patient.remedies().into_iter();
        remedies.map(|remedy| self.remedy(&remedy)).collect()
    }

    fn may_be_helped(&self, deciding: &Decision) -> bool {
        let is_about_endpoints = matches!(
            deciding.reason,
            Some(
                Reason::Shortfall(_)
                    | Reason::TooManyZones { .. }
                    | Reason::NoBetterThanNone { zoneless: None }
                    | Reason::NoOverlap { .. }
                    | Reason::OwnZonesOverloaded { .. }
            )
        );
        is_about_endpoints && self.all_placed && !self.ports_differ
    }

    fn remedy(&self, remedy: &Remedy) -> RemedyReport {
        match remedy {
            Remedy::Endpoints(more) => {
                let zones = self.capacity.capacity.zones.iter().zip(more);
                let zones = zones.filter(|(_, more)| **more > 0);
                RemedyReport::Endpoints {
                    endpoints: more.iter().sum(),
                    zones: zones
                        .map(|(zone, more)| (zone.name.clone(), *more))
                        .collect(),
                }
            }
            Remedy::Threshold(threshold) => RemedyReport::Threshold {
                threshold: threshold.as_fraction(),
            },
            Remedy::Overlap {
                in_zone,
                worst_overload,
            } => RemedyReport::Overlap {
                in_zone_share: *in_zone,
                worst_overload: *worst_overload,
            },
        }
    }

    fn message(&self) -> String {
        let away = self
            .endpoints
            .iter()
            .filter(|e| e.zone.is_none_or(|zone| !e.hints.contains(&zone)))
            .count();
        let worst = self.traffic.worst_overload.unwrap_or(0.0).max(0.0);
        let several = self.endpoints.iter().filter(|e| e.hints.len() > 1).count();
        let abroad = match away {
            _ if several > 0 => format!("{several} of them several zones"),
            0 => "each its own".to_owned(),
            1 => "1 of them another zone than its own".to_owned(),
            away => format!("{away} of them another zone than their own"),
        };
        format!(
            "{} serve {} by their {}, {abroad}; the busiest carries {:.0}% above the average.",
            words::count(self.endpoints.len(), "ready endpoint"),
            words::count(
                self.weights.iter().filter(|weight| **weight > 0).count(),
                "zone"
            ),
            self.measured_by(),
            worst * 100.0
        )
    }

    fn measured_by(&self) -> &'static str {
        if *self.weights != *self.capacity.weights {
            return "weights";
        }
        match self.capacity.capacity.rules.measure {
            Measure::Cpu => "CPU",
            Measure::Nodes => "nodes",
        }
    }

    fn zones(&self) -> Vec<ZoneReport> {
        let weights = &self.weights;
        let total: u64 = weights.iter().sum();
        let zone = |(i, zone): (usize, &Zone)| ZoneReport {
            name: zone.name.clone(),
            share: ratio(weights[i], total),
            endpoints: self
                .endpoints
                .iter()
                .filter(|endpoint| endpoint.zone == Some(i))
                .count(),
            desired: ratio(weights[i], total) * f64::from(self.count()),
            minimum: allocation::minimum(weights[i], total, self.count(), self.threshold),
            hinted: self
                .endpoints
                .iter()
                .filter(|endpoint| endpoint.hints.contains(&i))
                .count(),
            overload: self.traffic.overload[i],
            kube_proxy: self.traffic.modes[i].word(),
            mode: self.traffic.modes[i],
            mode_elsewhere: self.traffic.modes_elsewhere[i],
        };
        self.capacity
            .capacity
            .zones
            .iter()
            .enumerate()
            .map(zone)
            .collect()
    }
}
