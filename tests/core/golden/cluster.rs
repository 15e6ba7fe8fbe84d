//! Random clusters with one Service that matters, as JSON.

use serde::Deserialize as _;
use serde_json::{Value, json};
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::store::{StoreRules, Writer};
use zonewise::cluster::wire::Namespace;
use zonewise::settings::Settings;

use super::answers;
use super::slices::{Family, Slices};
use crate::dice::Dice;
use crate::now;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const THRESHOLD: &str = "zonewise.dev/overload-threshold";
const ZONE_WEIGHTS: &str = "zonewise.dev/zone-weights";
const MODE: &str = "zonewise.dev/mode";

/// Before [`now`].
const SECONDS_AGO: &str = "2025-12-31T23:59:30Z";
const YEARS_AGO: &str = "2020-01-01T00:00:00Z";

pub const ZONES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// A cluster, and what the slices of a review are made from.
pub struct World {
    pub objects: Vec<Value>,
    pub slices: Slices,
    /// One that has not listed its objects yet knows nothing.
    pub synced: bool,
}

/// A Service of which more than 256 slices have a port of their own.
const MANY_PORTS: usize = 257;

impl World {
    pub fn random(dice: &mut Dice) -> Self {
        let zones = dice.pick(&[1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 5, 10]);
        let mut slices = Slices::new(dice, zones);
        let mut objects = nodes(dice, zones);
        if dice.one_in(3) {
            objects.push(namespace(dice));
        }
        if !dice.one_in(40) {
            objects.push(service(dice));
        }
        if dice.one_in(8) {
            let mut own = service(dice);
            own["metadata"]["name"] = json!("kubernetes");
            own["metadata"]["namespace"] = json!("default");
            objects.push(own);
        }
        if dice.one_in(60) {
            rest_in_a(&mut objects);
        }
        let siblings = dice.pick(&[0, 0, 0, 1, 1, 1, 2, 2, 3]);
        for sibling in 0..siblings {
            let name = format!("web-sibling-{sibling}");
            let family = slices.family(dice);
            objects.push(slices.stored(dice, &name, family));
        }
        if dice.one_in(150) {
            objects.extend((0..MANY_PORTS).map(one_port));
        }
        Self {
            objects,
            slices,
            synced: !dice.one_in(60),
        }
    }

    /// A store that holds the objects, and `more`.
    pub fn load(&self, more: &[Value]) -> Writer {
        let rules = StoreRules::default();
        if !self.synced {
            return Writer::new(rules);
        }
        let mut objects = Objects::default();
        for object in self.objects.iter().chain(more) {
            match object["kind"].as_str() {
                Some("Node") => objects.nodes.push(object.clone()),
                Some("Service") => objects.services.push(object.clone()),
                Some("EndpointSlice") => objects.slices.push(object.clone()),
                _ => {
                    let namespace = Namespace::deserialize(object);
                    objects
                        .namespaces
                        .push(namespace.expect("any object is one"));
                }
            }
        }
        objects.load(rules, now())
    }

    /// Gives the stored slices the hints that they have once each was written.
    pub fn settle(&mut self) {
        let mut writer = self.load(&[]);
        let is_slice = |object: &&mut Value| object["kind"] == "EndpointSlice";
        for slice in self.objects.iter_mut().filter(is_slice) {
            *slice = answers::written(slice, &writer.cluster(), &Settings::default());
            writer.apply_slice(&typed_slice(slice).expect("it is an object"));
        }
    }
}

/// Leaves zone a without a node that counts, and Services with a weight for that zone alone.
fn rest_in_a(objects: &mut [Value]) {
    for object in objects {
        let is_in_a = object["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a";
        if object["kind"] == "Node" && is_in_a {
            object["status"]["conditions"] = json!([]);
        } else if object["kind"] == "Service" {
            object["metadata"]["annotations"] =
                json!({TOPOLOGY_MODE: "zonewise.dev/Overlap", ZONE_WEIGHTS: "a=1"});
        }
    }
}

fn one_port(number: usize) -> Value {
    json!({"kind": "EndpointSlice", "addressType": Family::Ipv4.word(),
        "metadata": {"name": format!("web-port-{number}"), "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": format!("p{number}"), "protocol": "TCP", "port": 1}],
        "endpoints": []})
}

/// One to three nodes in each zone, and rarely one that spoils capacity.
fn nodes(dice: &mut Dice, zones: usize) -> Vec<Value> {
    let equal = dice.one_in(2);
    let mut nodes = Vec::new();
    for zone in &ZONES[..zones] {
        for number in 0..=dice.below(3) {
            let cpu = match dice.below(40) {
                _ if equal => "4",
                0 => "500m",
                1 => "3.92",
                2 => "64",
                3..16 => "8",
                16..22 => "2",
                _ => "4",
            };
            let mut node = json!({"kind": "Node",
                "metadata": {"name": format!("node-{zone}-{number}"),
                    "labels": {"topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"}},
                "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}});
            change_node(dice, &mut node);
            nodes.push(node);
        }
    }
    dice.shuffle(&mut nodes);
    nodes
}

fn change_node(dice: &mut Dice, node: &mut Value) {
    match dice.below(300) {
        0..12 => node["status"]["conditions"][0]["status"] = json!("False"),
        12..16 => node["status"]["conditions"] = Value::Null,
        16..28 => {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        }
        28..30 => node["metadata"]["labels"] = json!({}),
        30..34 => {
            node["metadata"]["labels"] = json!({});
            node["metadata"]["creationTimestamp"] = json!(SECONDS_AGO);
        }
        34 => {
            node["metadata"]["labels"] = json!({});
            node["metadata"]["creationTimestamp"] = json!(YEARS_AGO);
        }
        35 => node["status"]["allocatable"]["cpu"] = json!("0"),
        36 => node["status"]["allocatable"]["cpu"] = json!("four"),
        37 => node["status"]["allocatable"] = json!(["4"]),
        38..44 => {
            let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"});
            node["spec"] = json!({"taints": [taint]});
        }
        _ => {}
    }
}

fn topology_mode(dice: &mut Dice) -> &'static str {
    match dice.below(72) {
        0..20 => "Auto",
        20..25 => "auto",
        25..45 => "zonewise.dev/Overlap",
        45..64 => "zonewise.dev/PreferZone",
        64 => "Disabled",
        65 => "disabled",
        66 => "zonewise.dev/Auto",
        67 => "zonewise.dev/overlap",
        68 => "example.com/ring",
        69 => "",
        70 => "AUTO",
        _ => "PreferZone",
    }
}

fn annotations(dice: &mut Dice, asks: usize) -> Value {
    let mut annotations = json!({});
    if dice.below(8) < asks {
        let key = if dice.one_in(8) {
            TOPOLOGY_AWARE_HINTS
        } else {
            TOPOLOGY_MODE
        };
        annotations[key] = json!(topology_mode(dice));
    }
    if dice.one_in(20) {
        annotations[TOPOLOGY_AWARE_HINTS] = json!(topology_mode(dice));
    }
    if dice.one_in(5) {
        let values = ["0", "0.1", "0.2", "0.35", "0.5", "1", "3", "10", "0.333333"];
        let invalid = ["20%", "-1", "", "11", "much", "1e1", "0.3333333333"];
        let values: &[&str] = if dice.one_in(10) { &invalid } else { &values };
        annotations[THRESHOLD] = json!(dice.pick(values));
    }
    if dice.one_in(5) {
        let values = [
            "a=3,b=1",
            "a=3,b=2",
            "a=1,b=1",
            "a=1,b=1,c=1",
            "a=6,b=1,c=1",
            "b=2,c=1",
            "a=1,b=0",
            "a=1",
            "x=1",
            "x=2,y=1",
            "a=1000,b=1",
        ];
        let invalid = ["a=3,b", "a=1,a=2", "", "a=-1", "a=0,b=0", "=1", "a=x"];
        let values: &[&str] = if dice.one_in(10) { &invalid } else { &values };
        annotations[ZONE_WEIGHTS] = json!(dice.pick(values));
    }
    annotations
}

fn namespace(dice: &mut Dice) -> Value {
    let mut annotations = annotations(dice, 3);
    if dice.one_in(4) {
        annotations[MODE] = json!(dice.pick(&["Active", "Observe", "Off", "off", "", "Dry"]));
    }
    json!({"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
}

/// The Service `shop/web`.
pub fn service(dice: &mut Dice) -> Value {
    let mut service = json!({"kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "annotations": annotations(dice, 7)},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "http", "port": 80}]}});
    if dice.one_in(5) {
        let values = [
            "PreferSameZone",
            "PreferClose",
            "PreferSameNode",
            "PreferMoon",
        ];
        service["spec"]["trafficDistribution"] = json!(dice.pick(&values));
    }
    let spec = &mut service["spec"];
    match dice.below(90) {
        0 => spec["clusterIP"] = json!("None"),
        1 => spec["type"] = json!("ExternalName"),
        2 => spec["internalTrafficPolicy"] = json!("Local"),
        3 => {
            spec["internalTrafficPolicy"] = json!("Local");
            spec["ports"][0]["nodePort"] = json!(30_000);
        }
        4 => {
            spec["internalTrafficPolicy"] = json!("Local");
            let ingress = dice.pick(&["VIP", "Proxy"]);
            service["status"] =
                json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": ingress}]}});
        }
        5 => {
            let label = json!({"service.kubernetes.io/service-proxy-name": "other"});
            service["metadata"]["labels"] = label;
        }
        6 => spec["trafficDistribution"] = json!(["PreferClose"]),
        7 => service["metadata"]["annotations"] = json!([]),
        8..12 => service["metadata"]["annotations"]["zonewise.dev/colour"] = json!("red"),
        12..16 => {
            service["metadata"]["annotations"]["zonewise.dev/overload-treshold"] = json!("0.3");
        }
        16..20 => service["metadata"]["annotations"][MODE] = json!("Off"),
        _ => {}
    }
    service
}
