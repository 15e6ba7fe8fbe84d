//! Random EndpointSlices of one Service.

use serde_json::{Value, json};

use super::cluster::ZONES;
use crate::dice::Dice;

#[derive(Clone, Copy, PartialEq)]
pub enum Family {
    Ipv4,
    Ipv6,
    Fqdn,
    Unknown,
}

impl Family {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Fqdn => "FQDN",
            Self::Unknown => "IPv5",
        }
    }

    fn address(self, pod: usize) -> String {
        match self {
            Self::Ipv6 => format!("fd00::{pod:x}"),
            Self::Fqdn => format!("pod-{pod}.example"),
            Self::Ipv4 | Self::Unknown => format!("10.0.{}.{}", pod / 250, pod % 250),
        }
    }
}

/// What the slices of one Service have in common.
pub struct Slices {
    zones: usize,
    family: Family,
    /// In how many of eight slices the ports are `http` alone.
    plain_ports: usize,
    /// The most endpoints of a slice.
    most: usize,
    pods: usize,
}

impl Slices {
    pub fn new(dice: &mut Dice, zones: usize) -> Self {
        Self {
            zones,
            family: dice.pick(&[Family::Ipv4, Family::Ipv4, Family::Ipv6]),
            plain_ports: dice.pick(&[8, 8, 5]),
            most: dice.pick(&[3, 6, 9, 12, 12, 20, 40]),
            pods: 0,
        }
    }

    pub fn family(&self, dice: &mut Dice) -> Family {
        match dice.below(60) {
            0 => Family::Fqdn,
            1 => Family::Unknown,
            2..6 => Family::Ipv4,
            6..9 => Family::Ipv6,
            _ => self.family,
        }
    }

    /// A slice that already has hints, as often as not.
    pub fn stored(&mut self, dice: &mut Dice, name: &str, family: Family) -> Value {
        let mut slice = self.bare(dice, name, family);
        self.hint(dice, &mut slice);
        if dice.one_in(80) {
            break_field(dice, &mut slice);
        }
        slice
    }

    /// A slice without hints.
    pub fn bare(&mut self, dice: &mut Dice, name: &str, family: Family) -> Value {
        let count = dice.below(self.most + 1);
        let endpoints: Vec<Value> = (0..count).map(|_| self.endpoint(dice, family)).collect();
        json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": family.word(),
            "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": self.ports(dice), "endpoints": endpoints})
    }

    fn ports(&self, dice: &mut Dice) -> Value {
        let http = json!({"name": "http", "protocol": "TCP", "port": 8080});
        let grpc = json!({"name": "grpc", "protocol": "TCP", "port": 9090});
        if dice.below(8) < self.plain_ports {
            return json!([http]);
        }
        match dice.below(10) {
            0..4 => json!([http, grpc]),
            4 => json!([grpc]),
            5 => json!([{"name": "http", "protocol": "UDP", "port": 8080}]),
            6 => json!([{"name": "http", "port": 8081}]),
            7 => json!([{"name": "http", "port": null}]),
            8 => json!([]),
            _ => Value::Null,
        }
    }

    pub fn endpoint(&mut self, dice: &mut Dice, family: Family) -> Value {
        let pod = if dice.one_in(30) && self.pods > 0 {
            dice.below(self.pods)
        } else {
            self.pods += 1;
            self.pods - 1
        };
        let uid = if dice.one_in(40) {
            format!("other-{pod}")
        } else {
            format!("pod-{pod}")
        };
        let mut endpoint = json!({"addresses": [family.address(pod)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("web-{pod}"), "uid": uid}});
        match dice.below(24) {
            0..2 => endpoint["conditions"]["ready"] = json!(false),
            2 => endpoint["conditions"] = json!({}),
            3 => endpoint["conditions"] = json!({"ready": null}),
            4 => {
                endpoint["conditions"] =
                    json!({"ready": false, "serving": true, "terminating": true});
            }
            5 if dice.one_in(4) => endpoint["conditions"]["terminating"] = json!(true),
            _ => {}
        }
        let zone = ZONES[dice.below(self.zones)];
        match dice.below(240) {
            0 => {}
            1..9 => endpoint["nodeName"] = json!(format!("node-{zone}-0")),
            9 => endpoint["nodeName"] = json!("node-gone"),
            10..16 => endpoint["zone"] = json!("x"),
            16 => endpoint["zone"] = json!(""),
            _ => {
                endpoint["zone"] = json!(zone);
                endpoint["nodeName"] = json!(format!("node-{zone}-0"));
            }
        }
        endpoint
    }

    /// Gives the endpoints hints, as another writer may have left them.
    pub fn hint(&self, dice: &mut Dice, slice: &mut Value) {
        let kind = dice.below(16);
        let zone = |dice: &mut Dice| json!({"name": ZONES[dice.below(self.zones)]});
        let endpoints = slice["endpoints"].as_array_mut().into_iter().flatten();
        for endpoint in endpoints.filter(|endpoint| endpoint.is_object()) {
            let own = endpoint["zone"].as_str().unwrap_or(ZONES[0]).to_owned();
            let own = json!({"forZones": [{"name": own}]});
            let is_ready = endpoint["conditions"]["ready"] != false;
            match kind {
                5..8 if is_ready => endpoint["hints"] = own,
                8..10 if is_ready => endpoint["hints"] = json!({"forZones": [zone(dice)]}),
                10..12 if is_ready => {
                    endpoint["hints"] = json!({"forZones": [zone(dice), zone(dice)]});
                }
                12 if dice.one_in(2) => endpoint["hints"] = own,
                13 if dice.one_in(4) => endpoint["hints"] = json!({}),
                13 if dice.one_in(4) => endpoint["hints"] = Value::Null,
                14 => endpoint["hints"] = json!({"forZones": [zone(dice)]}),
                15 if dice.one_in(6) => {
                    endpoint["hints"] = own;
                    endpoint["hints"]["forNodes"] = json!([{"name": "node-a-0"}]);
                }
                15 if dice.one_in(6) => {
                    endpoint["hints"] = json!({"forZones": [{"name": "gone"}]});
                }
                15 if dice.one_in(10) => endpoint["hints"] = json!({"forZones": []}),
                13 | 15 => endpoint["hints"] = own,
                _ => {}
            }
        }
    }
}

/// Puts a value of another type, or none, in one place of an object.
pub fn break_field(dice: &mut Dice, object: &mut Value) {
    const FIELDS: [&str; 16] = [
        "/metadata",
        "/metadata/name",
        "/metadata/labels",
        "/metadata/labels/kubernetes.io~1service-name",
        "/metadata/annotations",
        "/addressType",
        "/ports",
        "/ports/0",
        "/ports/0/port",
        "/endpoints",
        "/endpoints/0",
        "/endpoints/0/addresses",
        "/endpoints/0/conditions/ready",
        "/endpoints/1/zone",
        "/endpoints/1/targetRef",
        "/endpoints/1/hints",
    ];
    let value = match dice.below(7) {
        0 => Value::Null,
        1 => json!(7),
        2 => json!("text"),
        3 => json!([]),
        4 => json!({}),
        5 => json!(true),
        _ => json!([{"name": "a"}]),
    };
    if let Some(place) = object.pointer_mut(dice.pick(&FIELDS)) {
        *place = value;
    }
}
