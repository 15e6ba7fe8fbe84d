//! The figures of one Service's slices, port by port, and what would help it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::played::Played;
use super::{EndpointsBehind, PortsReport, RemedyReport, TradeOffReport, ZoneReport};
use crate::cluster::files::typed_slice;
use crate::cluster::key::Key;
use crate::cluster::slice::SliceRecord;
use crate::cluster::store::{Cluster, MeasuredCapacity};
use crate::cluster::wire::EndpointSlice;
use crate::decide::endpoint_set::EndpointSet;
use crate::decide::remedy::{self, Remedy, TradeOff};
use crate::decide::traffic::{self, PortTraffic, by_port, label};
use crate::decide::trial::Trial;
use crate::decide::{Decision, Snapshot, is_ignored};
use crate::planner::allocation::{self, Threshold};
use crate::planner::capacity::{Measure, Zone};
use crate::planner::counts::ratio;
use crate::planner::keep::Quality;
use crate::planner::reason::Reason;
use crate::settings::Settings;
use crate::words;

/// Slices with their hints, and where traffic goes by them.
pub(super) struct Outcome {
    capacity: Arc<MeasuredCapacity>,
    /// In zone order: capacity, or what a person says in its place.
    weights: Vec<u64>,
    /// Ready endpoints behind any port, each address once.
    pub ready: usize,
    ports: Vec<PortTraffic>,
    threshold: Threshold,
}

impl Outcome {
    /// By the hints that the slices have, and by those that they get. The latter leaves out slices that are ignored, if others
    /// are not.
    pub fn before_and_after(
        cluster: &Cluster,
        snapshot: &Snapshot<'_>,
        played: &Played,
        settings: &Settings,
    ) -> (Self, Self) {
        let asked = played.deciding.asked.as_ref();
        let threshold = asked.map_or(settings.threshold, |asked| asked.threshold);
        let weights = asked.map_or_else(
            || snapshot.capacity().weights.to_vec(),
            |asked| asked.zones(snapshot.capacity()).weights.into_owned(),
        );
        let of = |slices: &[(&SliceRecord, &Value)]| {
            let wires: Vec<_> = slices.iter().map(|(_, slice)| typed_slice(slice)).collect();
            let records: Vec<&SliceRecord> = slices.iter().map(|(record, _)| *record).collect();
            let zones = |slice: usize, place| {
                let wire = wires[slice].as_ref();
                wire.map_or_else(Vec::new, |wire| zones_of_node_hints(cluster, wire, place))
            };
            let capacity = snapshot.capacity();
            let set =
                EndpointSet::gather_stored(&records, capacity, |record| snapshot.stand(record));
            Self {
                capacity: capacity.clone(),
                ready: set.members().len(),
                ports: by_port(snapshot, &records, &weights, zones),
                weights: weights.clone(),
                threshold,
            }
        };
        let before = played
            .before
            .iter()
            .map(|record| &**record)
            .zip(&played.read);
        let after = played
            .after
            .iter()
            .map(|record| &**record)
            .zip(&played.stored);
        let after: Vec<_> = after.collect();
        let counting = after
            .iter()
            .filter(|(slice, _)| !is_ignored(slice, settings));
        let counting: Vec<_> = counting.copied().collect();
        let after = if counting.is_empty() { after } else { counting };
        (of(&before.collect::<Vec<_>>()), of(&after))
    }

    pub fn ports_differ(&self) -> bool {
        self.ports.len() > 1
    }

    /// Over the least of the ports.
    pub fn quality(&self) -> Option<Quality> {
        traffic::quality(&self.ports)
    }

    pub fn least_threshold(&self) -> Option<f64> {
        let [all] = &self.ports[..] else { return None };
        self.least_threshold_for(all.endpoints.len())
    }

    fn least_threshold_for(&self, endpoints: usize) -> Option<f64> {
        let least = allocation::least_threshold(&self.weights, count(endpoints));
        least.map(Threshold::as_fraction)
    }

    /// The figures of each group of ports; without loads where kube-proxy does not choose among endpoints.
    pub fn ports(&self, chooses: bool) -> Vec<PortsReport> {
        let report = |port: &PortTraffic| PortsReport {
            ports: port.ports.clone(),
            ready_endpoints: port.endpoints.len(),
            worst_overload: port.traffic.worst_overload.filter(|_| chooses),
            in_zone_share: port.traffic.in_zone_share.filter(|_| chooses),
            least_threshold: self.least_threshold_for(port.endpoints.len()),
            zones: self.zones(port),
        };
        self.ports.iter().map(report).collect()
    }

    fn zones(&self, port: &PortTraffic) -> Vec<ZoneReport> {
        let total: u64 = self.weights.iter().sum();
        let endpoints = count(port.endpoints.len());
        let zone = |(i, zone): (usize, &Zone)| ZoneReport {
            name: zone.name.clone(),
            share: ratio(self.weights[i], total),
            endpoints: port.endpoints.iter().filter(|e| e.zone == Some(i)).count(),
            desired: ratio(self.weights[i], total) * f64::from(endpoints),
            minimum: allocation::minimum(self.weights[i], total, endpoints, self.threshold),
            hinted: port
                .endpoints
                .iter()
                .filter(|e| e.hints.contains(&i))
                .count(),
            overload: port.traffic.overload[i],
            kube_proxy: port.traffic.modes[i].word(),
            mode: port.traffic.modes[i],
            mode_elsewhere: port.traffic.modes_elsewhere[i],
        };
        let zones = self.capacity.capacity.zones.iter();
        zones.enumerate().map(zone).collect()
    }

    /// What decision Hints comes to, port by port.
    pub fn message(&self) -> String {
        if let [all] = &self.ports[..] {
            let text = self.message_of(all);
            return text[..1].to_uppercase() + &text[1..];
        }
        let used = self.ports.iter().filter(|port| !port.endpoints.is_empty());
        let sentence = |port: &PortTraffic| {
            format!("Behind {}, {}", behind(&port.ports), self.message_of(port))
        };
        used.map(sentence).collect::<Vec<_>>().join(" ")
    }

    fn message_of(&self, port: &PortTraffic) -> String {
        let endpoints = &port.endpoints;
        let away = endpoints
            .iter()
            .filter(|e| e.zone.is_none_or(|zone| !e.hints.contains(&zone)));
        let several = endpoints.iter().filter(|e| e.hints.len() > 1).count();
        let abroad = match away.count() {
            _ if several > 0 => format!("{several} of them several zones"),
            0 => "each its own".to_owned(),
            1 => "1 of them another zone than its own".to_owned(),
            away => format!("{away} of them another zone than their own"),
        };
        let zones = self.weights.iter().filter(|weight| **weight > 0).count();
        let (serve, zones) = (
            if endpoints.len() == 1 {
                "serves"
            } else {
                "serve"
            },
            words::count(zones, "zone"),
        );
        format!(
            "{} {serve} {zones} by their {}, {abroad}; {}.",
            words::count(endpoints.len(), "ready endpoint"),
            self.measured_by(),
            load(port.traffic.worst_overload.unwrap_or_default())
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

    /// What would help, where endpoints, the threshold or an annotation can.
    pub fn remedies(&self, trial: &Trial<'_>, deciding: &Decision) -> Vec<RemedyReport> {
        let remedies = match &deciding.reason {
            None => {
                let in_zone = self.quality().map(|quality| quality.in_zone);
                let higher = in_zone.and_then(|in_zone| remedy::higher_threshold(trial, in_zone));
                higher.into_iter().collect()
            }
            Some(reason) if may_opt_in(reason) => remedy::overlap(trial).into_iter().collect(),
            Some(Reason::NoZoneSpecified(_)) => remedy::overlap(trial).into_iter().collect(),
            Some(reason) if is_about_endpoints(reason) => remedy::remedies(trial),
            Some(_) => Vec::new(),
        };
        let reports = remedies.iter().map(|remedy| self.remedy(trial, remedy));
        reports.collect()
    }

    fn remedy(&self, trial: &Trial<'_>, remedy: &Remedy) -> RemedyReport {
        match remedy {
            Remedy::Endpoints(more) => {
                let in_zones = |more: &[u32]| -> BTreeMap<Arc<str>, u32> {
                    let zones = self.capacity.capacity.zones.iter().zip(more);
                    let zones = zones.filter(|(_, more)| **more > 0);
                    zones
                        .map(|(zone, more)| (zone.name.clone(), *more))
                        .collect()
                };
                let sum = |zone: usize| more.iter().map(|more| more[zone]).sum();
                let sum: Vec<u32> = (0..self.weights.len()).map(sum).collect();
                let behind = trial.with_ports().zip(more).filter(|_| more.len() > 1);
                let behind = behind.filter(|(_, more)| more.iter().any(|more| *more > 0));
                RemedyReport::Endpoints {
                    endpoints: more.iter().flatten().sum(),
                    zones: in_zones(&sum),
                    behind: behind
                        .map(|(slice, more)| EndpointsBehind {
                            ports: slice.ports.iter().map(label).collect(),
                            zones: in_zones(more),
                        })
                        .collect(),
                }
            }
            Remedy::Threshold(threshold, quality) => RemedyReport::Threshold {
                threshold: threshold.as_fraction(),
                in_zone_share: quality.in_zone,
                worst_overload: quality.worst_overload,
            },
            Remedy::Overlap(quality) => RemedyReport::Overlap {
                in_zone_share: quality.in_zone,
                worst_overload: quality.worst_overload,
            },
        }
    }
}

/// Whether the annotation would opt a Service in that nothing else keeps from hints.
fn may_opt_in(reason: &Reason) -> bool {
    matches!(reason, Reason::NotOptedIn | Reason::LeftToKubernetes)
}

fn is_about_endpoints(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Shortfall(_)
            | Reason::TooManyZones { .. }
            | Reason::NoBetterThanNone { zoneless: None }
            | Reason::NoOverlap { .. }
            | Reason::OwnZonesOverloaded { .. }
            | Reason::PortBelowMinimum { .. }
            | Reason::PortOverloaded { .. }
    )
}

/// The trade-offs of a Service that gets hints of this quality at this threshold, in which these stand for those that are no
/// better.
pub(super) fn trade_offs(
    found: impl Iterator<Item = TradeOff>,
    quality: Option<Quality>,
    threshold: Threshold,
) -> Vec<TradeOffReport> {
    let mut reports: Vec<TradeOffReport> = found
        .map(|found| TradeOffReport {
            threshold: found.threshold.as_fraction(),
            in_zone_share: found.quality.in_zone,
            worst_overload: found.quality.worst_overload,
            current: false,
        })
        .collect();
    if reports.is_empty() {
        return reports;
    }
    let within = |report: &TradeOffReport| report.threshold <= threshold.as_fraction();
    let best_within = reports.iter().rposition(within);
    if let (Some(place), Some(quality)) = (best_within, quality) {
        // Hints that are kept may be a little less than what is best at the threshold.
        reports[place].in_zone_share = quality.in_zone;
        reports[place].worst_overload = quality.worst_overload;
        reports[place].current = true;
    }
    reports
}

/// The load of the busiest endpoint, in words.
pub fn load(overload: f64) -> String {
    if overload < 0.005 {
        return "load is even".to_owned();
    }
    format!(
        "the busiest carries {:.0}% above the average",
        overload * 100.0
    )
}

/// Ports in words: `port http` or `ports a, b`.
pub fn behind(ports: &[String]) -> String {
    let shown = |port: &String| {
        if port.is_empty() {
            "\"\"".to_owned()
        } else {
            port.clone()
        }
    };
    let names: Vec<String> = ports.iter().map(shown).collect();
    let plural = if ports.len() == 1 { "" } else { "s" };
    format!("port{plural} {}", words::first(&names))
}

fn count(endpoints: usize) -> u32 {
    u32::try_from(endpoints).unwrap_or(u32::MAX)
}

/// The zones, where they are known, of the Nodes that an endpoint is hinted for.
fn zones_of_node_hints(
    cluster: &Cluster,
    slice: &EndpointSlice<Box<str>>,
    place: usize,
) -> Vec<Option<Key>> {
    let endpoint = slice
        .endpoints
        .items()
        .get(place)
        .and_then(|endpoint| endpoint.get());
    let hints = endpoint.and_then(|endpoint| endpoint.hints.get());
    let nodes = hints.map_or(&[][..], |hints| hints.for_nodes.items());
    let names = nodes.iter().filter_map(|node| node.get()?.name.text());
    names
        .map(|name| cluster.zone_of_node(Key::of(name)))
        .collect()
}
