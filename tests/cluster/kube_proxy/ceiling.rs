//! Decisions on random Services with endpoints that are not ready or in no known zone, judged by kube-proxy's own code: no
//! endpoint carries more than the threshold allows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zonewise::cluster::files::Objects;
use zonewise::cluster::store::StoreRules;
use zonewise::report::{Filter, Report};
use zonewise::settings::Settings;

use crate::support::dice::Dice;
use crate::support::for_all::{cases, is_often};
use crate::support::kube_proxy::{KubeProxy, Node};

const ZONES: [&str; 4] = ["zone-a", "zone-b", "zone-c", "zone-d"];
const MODES: [&str; 3] = ["zonewise.dev/Overlap", "Auto", "zonewise.dev/PreferZone"];

/// One node in each zone, and a Service.
struct Case {
    nodes: Vec<Node>,
    /// Millicores of each node.
    cpu: Vec<u64>,
    objects: Objects,
}

impl Case {
    fn random(dice: &mut Dice) -> Self {
        let zones = &ZONES[..2 + dice.below(3)];
        let equal = dice.below(2) == 0;
        let cpu = zones.iter().map(|_| {
            if equal {
                4000
            } else {
                1000 + dice.below(8000) as u64
            }
        });
        let cpu: Vec<u64> = cpu.collect();
        let name = |zone: &str| format!("node-{zone}");
        let node = |(zone, cpu): (&&str, &u64)| {
            json!({
                "metadata": {"name": name(zone), "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {
                    "allocatable": {"cpu": format!("{cpu}m")},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        };
        let mode = if dice.below(3) == 0 {
            MODES[dice.below(3)]
        } else {
            MODES[0]
        };
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop",
                "annotations": {"service.kubernetes.io/topology-mode": mode}},
            "spec": {"clusterIP": "10.96.0.1"},
        });
        let mut slices: Vec<Value> = (0..=dice.below(2)).map(slice).collect();
        for number in 0..=dice.below(14) {
            let place = dice.below(slices.len());
            let endpoint = endpoint(dice, zones, number);
            slices[place]["endpoints"]
                .as_array_mut()
                .expect("a list")
                .push(endpoint);
        }
        Self {
            nodes: zones
                .iter()
                .map(|zone| Node::new(&name(zone), zone))
                .collect(),
            objects: Objects {
                namespaces: Vec::new(),
                nodes: zones.iter().zip(&cpu).map(node).collect(),
                services: vec![service],
                slices,
            },
            cpu,
        }
    }

    /// Decides until every slice has what is decided.
    fn rest(&mut self) -> Report {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        for _ in 0..6 {
            let cluster = self.objects.load(StoreRules::default(), now).cluster();
            let report = Report::new(
                &cluster,
                &Settings::default(),
                &self.objects,
                &Filter::default(),
            );
            let before = self.objects.slices.clone();
            let service = &report.services[0];
            for (place, stored) in service.places.iter().zip(&service.stored) {
                self.objects.slices[*place] = stored.clone();
            }
            if self.objects.slices == before {
                return report;
            }
        }
        panic!("the slices do not come to rest: {:#?}", self.objects.slices);
    }

    /// What each ready endpoint carries, where 1 is the average, by the endpoints that kube-proxy uses on each node.
    #[expect(clippy::cast_precision_loss)]
    fn loads(&self, kube_proxy: &mut KubeProxy) -> BTreeMap<String, f64> {
        let endpoints = self
            .objects
            .slices
            .iter()
            .filter_map(|slice| slice["endpoints"].as_array());
        let ready = endpoints
            .flatten()
            .filter(|e| e["conditions"]["ready"] == true);
        let address = |endpoint: &Value| endpoint["addresses"][0].as_str().map(str::to_owned);
        let mut loads: BTreeMap<String, f64> = ready
            .filter_map(address)
            .map(|address| (address, 0.0))
            .collect();
        let count = loads.len() as f64;
        let total: u64 = self.cpu.iter().sum();
        for of_node in kube_proxy.uses(&self.nodes, &self.objects.slices) {
            let node = self.nodes.iter().position(|node| node.name == of_node.node);
            let share = self.cpu[node.expect("one of ours")] as f64 / total as f64;
            let used = of_node.cluster.unwrap_or_default();
            for endpoint in &used {
                let load = loads.get_mut(&endpoint.address).expect("it is ready");
                *load += share * count / used.len() as f64;
            }
        }
        loads
    }
}

fn slice(number: usize) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": format!("web-{number}"), "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "endpoints": [],
    })
}

fn endpoint(dice: &mut Dice, zones: &[&str], number: usize) -> Value {
    let ready = dice.below(4) > 0;
    let terminating = !ready && dice.below(2) == 0;
    let mut endpoint = json!({
        "addresses": [format!("10.0.0.{}", 1 + number)],
        "conditions": {"ready": ready, "serving": ready, "terminating": terminating},
    });
    if dice.below(6) > 0 {
        endpoint["zone"] = zones[dice.below(zones.len())].into();
    }
    if dice.below(3) == 0 {
        endpoint["hints"] = json!({"forZones": [{"name": zones[dice.below(zones.len())]}]});
    }
    endpoint
}

#[test]
fn no_endpoint_carries_more_than_the_threshold_allows() {
    const CASES: u32 = 20_000;
    let mut kube_proxy = KubeProxy::start();
    let mut dice = Dice(20_260_101);
    let (mut hinted, mut zoneless) = (0_u32, 0_u32);
    for _ in cases(CASES) {
        let mut case = Case::random(&mut dice);
        let report = case.rest();
        let service = &report.services[0];
        let loads = case.loads(&mut kube_proxy);
        if service.decision != "Hints" {
            continue;
        }
        hinted += 1;
        let mut endpoints = service.slices.iter().flat_map(|slice| &slice.endpoints);
        zoneless += u32::from(endpoints.any(|e| e.ready && e.zone.is_none()));
        let busiest = loads.values().copied().fold(0.0, f64::max);
        assert!(busiest <= 1.2 + 1e-9, "{busiest}: {:#?}", case.objects);
        let said = 1.0 + service.worst_overload.expect("it is known");
        assert!(
            (said - busiest).abs() < 1e-9,
            "{said} is not {busiest}: {:#?}",
            case.objects
        );
    }
    assert!(
        is_often(hinted, 8000) && is_often(zoneless, 1500),
        "{hinted}, {zoneless}"
    );
}
