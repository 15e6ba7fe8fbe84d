//! What the cluster offers: nodes with zones and CPU, Services that ask for hints, slices that have drifted.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{Line, Thing};
use super::versions::Version;
use crate::cli::api::{Api, Refusal, SLICES, collection};
use crate::cli::decisions::DecisionArgs;
use crate::cluster::service::ServiceRecord;
use crate::cluster::store::{Cluster, Resource, Writer};
use crate::cluster::wire::{EndpointSlice, Namespace, Node, Service, Wire as _};
use crate::controller::look::{Look, State, look};
use crate::controller::scope::{self, Scope};
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
    /// Services that ask for hints without an annotation of their own.
    pub without_annotation: usize,
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
        let mut without_annotation = 0;
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
                let name = service.full_name();
                let namespace = name.split_once('/').and_then(|(n, _)| cluster.namespace(n));
                match opt_in::read(&record, namespace.as_deref(), &settings) {
                    Ok(OptIn::Heuristic(..)) if record.annotations.topology_mode.is_none() => {
                        without_annotation += 1;
                    }
                    Ok(OptIn::Other(value)) => others.push(format!("{name} ({value})")),
                    _ => {}
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
            without_annotation,
            others,
        }
    }

    /// What nodes lack.
    pub fn nodes(&self) -> Line {
        if let Err(refusal) = &self.nodes {
            return Line::not_looked_at(Thing::Nodes, refusal, "list nodes");
        }
        let measured = self.cluster.capacity();
        let capacity = CapacityReport::new(&measured);
        let lacking: Vec<String> = capacity
            .insufficient_nodes
            .iter()
            .map(|node| format!("{} (no {})", node.name, node.missing.join(", no ")))
            .collect();
        if !measured.capacity.culprits().is_empty() {
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
        let tolerated = match lacking.len() {
            0 => String::new(),
            _ => format!("; within --node-info-tolerance: {}", words::first(&lacking)),
        };
        Line::ok(
            Thing::Nodes,
            format!(
                "{}: {}{left_out}{tolerated}",
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
    pub fn services_and_drift(&self, scope: Option<&Scope>) -> [Line; 2] {
        let blind = [Thing::Services, Thing::Drift].map(|thing| self.blindness(thing));
        if let [Some(services), Some(drift)] = blind {
            return [services, drift];
        }
        let (looks, passive): (Vec<_>, Vec<_>) = self
            .looks()
            .into_iter()
            .partition(|(_, look)| look.is_active());
        if looks.is_empty() && self.settings.mode != Mode::Active {
            let message = format!(
                "not looked at: nothing is to be hinted with --mode {:?}",
                self.settings.mode
            );
            return [Thing::Services, Thing::Drift].map(|thing| Line::ok(thing, message.clone()));
        }
        let passive = passive.iter().filter(|(_, look)| look.asks()).count();
        [
            self.services(&looks, passive, scope),
            self.drift(&looks, scope),
        ]
    }

    /// Of Services whose mode is Active, and how many more ask for hints.
    fn services(&self, looks: &[(Box<str>, Look)], passive: usize, scope: Option<&Scope>) -> Line {
        let asking: Vec<_> = looks.iter().filter(|(_, look)| look.asks()).collect();
        let is_left_out = |name: &&str| !self.left_out(name, scope).is_empty();
        let names = asking.iter().map(|(name, _)| &**name);
        let unasked: Vec<&str> = names.filter(is_left_out).collect();
        let without: Vec<String> = asking
            .iter()
            .filter_map(|(name, look)| Some(format!("{name} ({})", why_without(look)?)))
            .collect();
        let others = match self.others.len() {
            0 => String::new(),
            _ => format!(
                "; left to another implementation of topology: {}",
                words::first(&self.others)
            ),
        };
        let all = words::count(looks.len(), "Service");
        let (asking, lacking) = (asking.len(), without.len());
        let one_or_more = |number, one, more| if number == 1 { one } else { more };
        let ask = one_or_more(asking, "asks", "ask");
        let go = one_or_more(lacking, "goes", "go");
        let message = match (asking, lacking) {
            (0, _) => format!("none of {all} asks for hints yet"),
            (1, 0) => format!("1 of {all} asks for hints and gets them"),
            (asking, 0) => format!("{asking} of {all} ask for hints, and all get them"),
            (asking, lacking) => format!(
                "{asking} of {all} {ask} for hints, {lacking} {go} without: {}; zonewise explain tells why",
                words::first(&without)
            ),
        };
        let left_alone = match passive {
            0 => String::new(),
            _ => format!(
                "; {} more whose mode is not Active {} left alone",
                passive,
                one_or_more(passive, "is", "are")
            ),
        };
        let message = message + &left_alone + &others;
        if scope.is_none() && asking > 0 {
            return Line::warning(
                Thing::Services,
                format!("by decision alone, since nobody knows a webhook that is asked: {message}"),
                "see the line on the webhook configuration",
            );
        }
        if !unasked.is_empty() {
            return Line::warning(
                Thing::Services,
                format!(
                    "{message}; but of {} the API server does not ask about every slice, so that these get no hints: {}",
                    words::count(unasked.len(), "Service"),
                    words::first(&unasked)
                ),
                "give what they lack of the webhook's selectors (webhook-scope): labels of a Service go down to its slices",
            );
        }
        Line::ok(Thing::Services, message)
    }

    /// The slices of a Service that the API server does not ask about.
    fn left_out(&self, service: &str, scope: Option<&Scope>) -> HashSet<Box<str>> {
        let (Some(scope), Some(state)) = (scope, self.cluster.service(service)) else {
            return HashSet::new();
        };
        let left_out = scope::left_out(std::slice::from_ref(scope), service, &state.slices);
        left_out.into_iter().map(Box::from).collect()
    }

    /// Slices that the API server does not ask about stay as they are, and `webhook-scope` tells of them.
    fn drift(&self, looks: &[(Box<str>, Look)], scope: Option<&Scope>) -> Line {
        if self.cluster.capacity().frozen {
            return Line::ok(
                Thing::Drift,
                "not looked at: nothing is mended while nodes are NotReady in a storm",
            );
        }
        let asked_about = looks.iter().map(|(name, look)| {
            let left_out = self.left_out(name, scope);
            let slices = look.drifted.iter().map(|slice| &slice.name);
            (
                &**name,
                slices.filter(|name| !left_out.contains(*name)).count(),
            )
        });
        let drifted: Vec<_> = asked_about.filter(|(_, slices)| *slices > 0).collect();
        let slices: usize = drifted.iter().map(|(_, slices)| slices).sum();
        if slices == 0 {
            return Line::ok(Thing::Drift, "every slice is as a fresh decision has it");
        }
        let names: Vec<&str> = drifted.iter().map(|(name, _)| *name).collect();
        Line::warning(
            Thing::Drift,
            format!(
                "{} {} from a fresh decision, of {}: {}",
                words::count(slices, "slice"),
                if slices == 1 { "differs" } else { "differ" },
                words::count(names.len(), "Service"),
                words::first(&names)
            ),
            "run the check again in a minute: the replica that leads mends them; if they stay, see that one leads (lease), \
             that the webhook is reached (probe), and that the flags of the check are those of zonewise serve",
        )
    }
}

/// Why a Service that asks for hints has none, for each address type that goes without.
fn why_without(look: &Look) -> Option<String> {
    let refused = |state: &&State| state.decision.verdict != Verdict::Hints;
    let refused: Vec<&State> = look.states.iter().filter(refused).collect();
    let first = refused.first()?.decision.reason_word();
    let is_same = |state: &&State| state.decision.reason_word() == first;
    if refused.len() == look.states.len() && refused.iter().all(is_same) {
        return Some(first.to_owned());
    }
    let each = refused.iter().map(|state| {
        let reason = state.decision.reason_word();
        format!("{}: {reason}", state.address_type.word())
    });
    Some(each.collect::<Vec<_>>().join(", "))
}

fn kubelet(node: &RawValue) -> Option<Version> {
    let node: NodeVersion = serde_json::from_str(node.get()).ok()?;
    Version::read(&node.status?.node_info?.kubelet_version?)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::files::Objects;
    use crate::cluster::store::StoreRules;

    const ZONES: [&str; 2] = ["zone-a", "zone-b"];

    fn node(zone: &&str) -> Value {
        json!({
            "metadata": {"name": format!("node-{zone}"), "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn service(name: &str, mode: &str) -> Value {
        let annotations = json!({"service.kubernetes.io/topology-mode": mode});
        json!({"metadata": {"name": name, "namespace": "shop", "annotations": annotations},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}})
    }

    /// A slice with an endpoint in each of the first zones, without hints.
    fn slice(service: &str, address_type: &str, endpoints: usize) -> Value {
        let network = if address_type == "IPv6" {
            "fd00::"
        } else {
            "10.0.0."
        };
        let endpoint = |(number, zone): (usize, &&str)| json!({"addresses": [format!("{network}{}", number + 1)], "zone": zone});
        let endpoints: Vec<Value> = ZONES
            .iter()
            .take(endpoints)
            .enumerate()
            .map(endpoint)
            .collect();
        let labels = json!({"kubernetes.io/service-name": service});
        json!({"metadata": {"name": format!("{service}-{address_type}"), "namespace": "shop", "labels": labels},
            "addressType": address_type, "endpoints": endpoints, "ports": [{"name": "http", "port": 80}]})
    }

    fn objects(services: &[Value], slices: &[Value]) -> Objects {
        Objects {
            namespaces: Vec::new(),
            nodes: ZONES.iter().map(node).collect(),
            services: services.to_vec(),
            slices: slices.to_vec(),
        }
    }

    fn seen_of(objects: &Objects, rules: StoreRules, settings: Settings) -> Seen {
        Seen {
            cluster: objects.load(rules, Timestamp::now()).cluster(),
            settings,
            nodes: Ok(()),
            namespaces: Ok(()),
            services: Ok(()),
            slices: Ok(()),
            kubelets: BTreeSet::new(),
            without_annotation: 0,
            others: Vec::new(),
        }
    }

    fn seen(services: &[Value], slices: &[Value]) -> Seen {
        seen_of(
            &objects(services, slices),
            StoreRules::default(),
            Settings::default(),
        )
    }

    fn told(services: &[Value], slices: &[Value]) -> String {
        let [services, _] = seen(services, slices).services_and_drift(Some(&Scope::everything()));
        services.message
    }

    #[test]
    fn services_are_told_in_words_that_fit_their_number() {
        let (web, api) = (service("web", "Auto"), service("api", "Auto"));
        let (good, few) = (slice("web", "IPv4", 2), slice("api", "IPv4", 1));
        let other = service("other", "Disabled");
        assert_eq!(
            told(from_ref(&other), &[]),
            "none of 1 Service asks for hints yet"
        );
        assert_eq!(
            told(from_ref(&web), from_ref(&good)),
            "1 of 1 Service asks for hints and gets them"
        );
        assert_eq!(
            told(
                &[web.clone(), service("more", "Auto"), other],
                &[good.clone(), slice("more", "IPv4", 2)]
            ),
            "2 of 3 Services ask for hints, and all get them",
        );
        assert_eq!(
            told(from_ref(&api), from_ref(&few)),
            "1 of 1 Service asks for hints, 1 goes without: shop/api (InsufficientNumberOfEndpoints); zonewise explain \
             tells why"
        );
        assert!(told(&[web, api], &[good, few]).starts_with(
            "2 of 2 Services ask for hints, 1 goes without: shop/api (InsufficientNumberOfEndpoints)"
        ));
    }

    #[test]
    fn of_two_address_families_each_that_goes_without_is_told() {
        let service = [service("web", "Auto")];
        let without = |v4, v6| {
            let message = told(
                &service,
                &[slice("web", "IPv4", v4), slice("web", "IPv6", v6)],
            );
            let (_, told) = message.split_once("without: ").unwrap();
            told.split_once(';').unwrap().0.to_owned()
        };
        let few = "InsufficientNumberOfEndpoints";
        assert_eq!(without(1, 1), format!("shop/web ({few})"));
        assert_eq!(without(2, 1), format!("shop/web (IPv6: {few})"));
    }

    #[test]
    fn nodes_that_are_tolerated_keep_no_service_from_hints() {
        let mut objects = objects(&[], &[]);
        let mut bare = node(&"zone-a");
        bare["metadata"] = json!({"name": "bare"});
        objects.nodes.push(bare);
        let told = |tolerance| {
            let mut rules = StoreRules::default();
            rules.nodes.capacity.tolerance = tolerance;
            seen_of(&objects, rules, Settings::default())
                .nodes()
                .message
        };
        assert_eq!(
            told(0),
            "no Service gets hints, since 1 node lacks something: bare (no zone)"
        );
        assert_eq!(
            told(500_000),
            "2 zones: zone-a (1 node, 50%), zone-b (1 node, 50%); within --node-info-tolerance: bare (no zone)"
        );
    }

    #[test]
    fn what_a_namespace_says_of_the_mode_counts_for_its_services() {
        let of = |namespace: &str, mut object: Value| {
            object["metadata"]["namespace"] = namespace.into();
            object
        };
        let both = |object: Value| [of("shop", object.clone()), of("lab", object)];
        let objects = objects(
            &both(service("web", "Auto")),
            &both(slice("web", "IPv4", 2)),
        );
        let told = |namespace: &str, says: &str, mode| {
            let annotations = json!({"zonewise.dev/mode": says});
            let mut objects = objects.clone();
            objects.namespaces = vec![
                serde_json::from_value(
                    json!({"metadata": {"name": namespace, "annotations": annotations}}),
                )
                .unwrap(),
            ];
            let settings = Settings {
                mode,
                ..Settings::default()
            };
            let seen = seen_of(&objects, StoreRules::default(), settings);
            seen.services_and_drift(Some(&Scope::everything()))
                .map(|line| line.message)
        };
        let of_one = "1 of 1 Service asks for hints and gets them; 1 more whose mode is not Active is left alone";
        let [services, drift] = told("lab", "Observe", Mode::Active);
        assert_eq!(services, of_one);
        assert_eq!(
            drift,
            "1 slice differs from a fresh decision, of 1 Service: shop/web"
        );
        let [services, drift] = told("lab", "Active", Mode::Observe);
        assert_eq!(services, of_one);
        assert_eq!(
            drift,
            "1 slice differs from a fresh decision, of 1 Service: lab/web"
        );
        let [services, _] = told("lab", "Active", Mode::Off);
        assert_eq!(
            services,
            "not looked at: nothing is to be hinted with --mode Off"
        );
    }

    #[test]
    fn what_the_webhook_is_not_asked_about_has_not_drifted() {
        let seen = seen(&[service("web", "Auto")], &[slice("web", "IPv4", 2)]);
        let drift = |selector: Value| {
            let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
            let scope = json!({"rules": rules, "objectSelector": {"matchLabels": selector}});
            let scope = serde_json::from_value(scope).unwrap();
            seen.services_and_drift(Some(&scope))[1].message.clone()
        };
        let others = json!({"hints": "please"});
        let scope: Scope = serde_json::from_value(json!({
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
            "objectSelector": {"matchLabels": others},
        }))
        .unwrap();
        let [services, _] = seen.services_and_drift(Some(&scope));
        assert!(
            services.message.ends_with("these get no hints: shop/web"),
            "{}",
            services.message
        );
        let [services, _] = seen.services_and_drift(None);
        assert!(services.message.starts_with("by decision alone"));
        let named = json!({"kubernetes.io/service-name": "web"});
        assert!(drift(named).starts_with("1 slice differ"));
        let others = json!({"hints": "please"});
        assert_eq!(drift(others), "every slice is as a fresh decision has it");
    }
}
