//! What the cluster offers: nodes with zones and CPU, Services that ask for hints, slices that have drifted.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{Line, Thing};
use super::versions::Version;
use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cli::decisions::DecisionArgs;
use crate::cluster::service::{ServiceRecord, TrafficDistribution};
use crate::cluster::store::{Cluster, Resource, Writer};
use crate::cluster::wire::{EndpointSlice, Namespace, Node, Service, Wire as _};
use crate::controller::look::{Look, look};
use crate::decide::Verdict;
use crate::decide::opt_in::{self, OptIn};
use crate::report::CapacityReport;
use crate::settings::{Mode, Settings};
use crate::words;

/// What could be read.
pub struct Seen {
    cluster: Arc<Cluster>,
    settings: Settings,
    nodes: Result<(), Refusal>,
    namespaces: Result<(), Refusal>,
    services: Result<(), Refusal>,
    slices: Result<(), Refusal>,
    /// Versions of kubelets; kube-proxy is as old as they are.
    pub kubelets: BTreeSet<Version>,
    /// Services with a traffic distribution and no annotation.
    pub by_traffic_distribution: usize,
    /// Services that name the heuristic of another implementation.
    others: Vec<String>,
}

#[derive(Deserialize)]
struct NodeVersion {
    status: Option<NodeStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    kubelet_version: Option<String>,
}

impl Seen {
    /// Reads all of it, as far as that is allowed.
    pub async fn read(api: &Api, decisions: &DecisionArgs) -> Self {
        let now = Timestamp::now();
        let settings = decisions.settings();
        let mut writer = Writer::new(decisions.store_rules());
        for resource in Resource::ALL {
            writer.begin(resource);
        }
        let (mut kubelets, mut others) = (BTreeSet::new(), Vec::new());
        let mut by_traffic_distribution = 0;
        let nodes = api
            .list("/api/v1/nodes", None, |node: Box<RawValue>| {
                kubelets.extend(kubelet(&node));
                // A wire type takes any JSON object.
                if let Ok(node) = serde_json::from_str::<Node<Box<str>>>(node.get()) {
                    writer.apply_node(&node, now);
                }
            })
            .await;
        let namespaces = api
            .list(
                "/api/v1/namespaces",
                None,
                |namespace: Namespace<Box<str>>| {
                    writer.apply_namespace(&namespace);
                },
            )
            .await;
        let cluster = writer.cluster();
        let services = api
            .list("/api/v1/services", None, |service: Service<Box<str>>| {
                let record = ServiceRecord::read(&service);
                let distributed =
                    record.traffic_distribution == Some(TrafficDistribution::SameZone);
                by_traffic_distribution +=
                    usize::from(distributed && record.annotations.topology_mode.is_none());
                let name = service.full_name();
                let namespace = name.split_once('/').and_then(|(n, _)| cluster.namespace(n));
                if let Ok(OptIn::Other(value)) =
                    opt_in::read(&record, namespace.as_deref(), &settings)
                {
                    others.push(format!("{name} ({value})"));
                }
                writer.apply_service(&service);
            })
            .await;
        let path = collection(SLICES, None, "endpointslices");
        let slices = api
            .list(&path, None, |slice: EndpointSlice<Box<str>>| {
                writer.apply_slice(&slice);
            })
            .await;
        for resource in Resource::ALL {
            writer.finish(resource, now);
        }
        Self {
            cluster: writer.cluster(),
            settings,
            nodes,
            namespaces,
            services,
            slices,
            kubelets,
            by_traffic_distribution,
            others,
        }
    }

    /// What nodes lack.
    pub fn nodes(&self) -> Line {
        if let Err(refusal) = &self.nodes {
            return Line::not_looked_at(Thing::Nodes, refusal, "list nodes");
        }
        let capacity = CapacityReport::new(&self.cluster.capacity());
        let lacking: Vec<String> = capacity
            .insufficient_nodes
            .iter()
            .map(|node| format!("{} (no {})", node.name, node.missing.join(", no ")))
            .collect();
        if !lacking.is_empty() {
            return Line::warning(
                Thing::Nodes,
                format!(
                    "no Service gets hints, since {} {}: {}",
                    words::count(lacking.len(), "node"),
                    if lacking.len() == 1 {
                        "lacks something"
                    } else {
                        "lack something"
                    },
                    words::first(&lacking)
                ),
                "label each node with topology.kubernetes.io/zone, and see why its kubelet reports no CPU; nodes that are \
                 not to count get one of --excluded-node-labels",
            );
        }
        if capacity.frozen {
            return Line::warning(
                Thing::Nodes,
                "so many nodes are NotReady at once that zonewise leaves hints as they are",
                "see why the nodes are NotReady; --freeze-not-ready is the part from which that counts as a storm",
            );
        }
        if let Some(message) = capacity.message {
            return Line::warning(
                Thing::Nodes,
                format!("no Service gets hints: {message}"),
                "nothing, until nodes of two zones are Ready",
            );
        }
        let zones = capacity.zones.iter().map(|zone| {
            let nodes = words::count(zone.nodes as usize, "node");
            format!("{} ({nodes}, {:.0}%)", zone.name, zone.share * 100.0)
        });
        let zones: Vec<String> = zones.collect();
        let left_out = match capacity.ignored_nodes.len() {
            0 => String::new(),
            ignored => format!("; {} left out", words::count(ignored, "node")),
        };
        Line::ok(
            Thing::Nodes,
            format!(
                "{}: {}{left_out}",
                words::count(zones.len(), "zone"),
                words::first(&zones)
            ),
        )
    }

    /// What is missing to look at Services and slices.
    fn blindness(&self, thing: Thing) -> Option<Line> {
        let parts = [&self.nodes, &self.namespaces, &self.services, &self.slices];
        let refusal = parts.into_iter().find_map(|part| part.as_ref().err())?;
        let needs = "list nodes, namespaces, services and endpointslices in the whole cluster";
        Some(Line::not_looked_at(thing, refusal, needs))
    }

    /// Looks at every Service, if all may be read; one on which deciding panics is left as it is.
    fn looks(&self) -> Vec<(Box<str>, Look)> {
        let names = self.cluster.service_names().into_iter();
        names
            .filter_map(|name| {
                let look = look(&self.cluster, &self.settings, &name).ok()?;
                Some((name, look))
            })
            .collect()
    }

    /// Services that ask for hints and what they get, and slices that differ from a fresh decision.
    pub fn services_and_drift(&self) -> [Line; 2] {
        let blind = [Thing::Services, Thing::Drift].map(|thing| self.blindness(thing));
        if let [Some(services), Some(drift)] = blind {
            return [services, drift];
        }
        if self.settings.mode != Mode::Active {
            let message = format!(
                "not looked at: nothing is to be hinted with --mode {:?}",
                self.settings.mode
            );
            return [Thing::Services, Thing::Drift].map(|thing| Line::ok(thing, message.clone()));
        }
        let looks = self.looks();
        [self.services(&looks), self.drift(&looks)]
    }

    fn services(&self, looks: &[(Box<str>, Look)]) -> Line {
        let asked = |look: &Look| look.states.iter().any(|s| s.decision.asked.is_some());
        let asking: Vec<_> = looks.iter().filter(|(_, look)| asked(look)).collect();
        let without: Vec<String> = asking
            .iter()
            .filter_map(|(name, look)| {
                let mut states = look.states.iter().map(|state| &state.decision);
                let refused = states.find(|decision| decision.verdict != Verdict::Hints)?;
                Some(format!("{name} ({})", refused.reason_word()))
            })
            .collect();
        let others = match self.others.len() {
            0 => String::new(),
            _ => format!(
                "; left to another implementation of topology: {}",
                words::first(&self.others)
            ),
        };
        let all = words::count(looks.len(), "Service");
        if asking.is_empty() {
            return Line::ok(
                Thing::Services,
                format!("none of {all} asks for hints yet{others}"),
            );
        }
        let message = format!(
            "{} of {all} ask for hints, {} get none{others}",
            asking.len(),
            without.len()
        );
        if without.is_empty() {
            return Line::ok(Thing::Services, message);
        }
        Line::ok(
            Thing::Services,
            format!(
                "{message}: {}; zonewise explain tells why",
                words::first(&without)
            ),
        )
    }

    fn drift(&self, looks: &[(Box<str>, Look)]) -> Line {
        if self.cluster.capacity().frozen {
            return Line::ok(
                Thing::Drift,
                "not looked at: nothing is mended while nodes are NotReady in a storm",
            );
        }
        let drifted = looks.iter().filter(|(_, look)| !look.drifted.is_empty());
        let drifted: Vec<_> = drifted.collect();
        let slices: usize = drifted.iter().map(|(_, look)| look.drifted.len()).sum();
        if slices == 0 {
            return Line::ok(Thing::Drift, "every slice is as a fresh decision has it");
        }
        let names: Vec<&str> = drifted.iter().map(|(name, _)| &**name).collect();
        Line::warning(
            Thing::Drift,
            format!(
                "{} differ from a fresh decision, of {}: {}",
                words::count(slices, "slice"),
                words::count(names.len(), "Service"),
                words::first(&names)
            ),
            "run the check again in a minute: the replica that leads mends them; if they stay, see that one leads (lease), \
             that the webhook is reached (probe), and that the flags of the check are those of zonewise serve",
        )
    }
}

fn kubelet(node: &RawValue) -> Option<Version> {
    let node: NodeVersion = serde_json::from_str(node.get()).ok()?;
    Version::read(&node.status?.node_info?.kubelet_version?)
}
