//! Cases that fit a screen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::cases::{Case, Endpoint, Port, Slice};
use super::{Tally, check, ready};
use crate::support::kube_proxy::{self, KubeProxy, Node};

fn port(name: &'static str, number: i64) -> Port {
    Port {
        name: Some(name),
        protocol: None,
        number: Some(number),
    }
}

fn slice(ports: &[Port], endpoints: &[Endpoint]) -> Slice {
    Slice {
        ports: Some(ports.to_vec()),
        endpoints: endpoints.to_vec(),
    }
}

fn nodes() -> Vec<Node> {
    ["zone-a", "zone-b", "zone-c", "zone-d"]
        .map(|zone| Node::new(&format!("node-in-{zone}"), zone))
        .to_vec()
}

#[test]
fn zones_use_what_is_hinted_for_them_and_a_zone_that_nothing_names_uses_all() {
    let case = Case {
        nodes: nodes(),
        slices: vec![slice(
            &[port("http", 80)],
            &[
                Endpoint::new("10.0.0.1").for_zones(&["zone-a", "zone-b"]),
                Endpoint::new("10.0.0.2").for_zones(&["zone-b", "zone-c"]),
            ],
        )],
    };
    let used = KubeProxy::start().used_by_zone(&case.nodes, &case.slices_json());
    let addresses = |zone: &str| -> BTreeSet<&str> { used[zone].iter().map(|a| &**a).collect() };
    assert_eq!(addresses("zone-a"), ["10.0.0.1"].into());
    assert_eq!(addresses("zone-b"), ["10.0.0.1", "10.0.0.2"].into());
    assert_eq!(addresses("zone-c"), ["10.0.0.2"].into());
    assert_eq!(addresses("zone-d"), ["10.0.0.1", "10.0.0.2"].into());
}

// === The smallest cases that showed a bug ===

/// Checks a case and returns how many ready endpoints kube-proxy has behind each port in a zone that nothing names.
fn checked(slices: &[Slice]) -> BTreeMap<String, usize> {
    let case = Case {
        nodes: nodes(),
        slices: slices.to_vec(),
    };
    let mut kube_proxy = KubeProxy::start();
    check(&case, &mut kube_proxy, &mut Tally::new()).expect("all agree");
    let uses = kube_proxy.uses(&case.nodes, &case.slices_json());
    let on_first = uses
        .into_iter()
        .filter(|theirs| theirs.node == case.nodes[0].name);
    on_first
        .map(|theirs| (theirs.port.clone(), ready(&theirs).len()))
        .collect()
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(port, count)| (port.to_owned(), count)).into()
}

/// A pod that is going, of a Service that publishes all as ready.
fn ending(address: &str) -> Endpoint {
    let mut endpoint = Endpoint::new(address);
    endpoint.conditions.terminating = Some(true);
    endpoint
}

fn unready(address: &str) -> Endpoint {
    let mut endpoint = Endpoint::new(address);
    endpoint.conditions.ready = Some(false);
    endpoint
}

#[test]
fn an_address_is_one_endpoint_behind_a_port_with_one_number_though_another_has_two() {
    let pod = Endpoint::new("10.0.0.1");
    let slices = [
        slice(
            &[port("http", 80), port("grpc", 90)],
            std::slice::from_ref(&pod),
        ),
        slice(&[port("http", 80), port("grpc", 91)], &[pod]),
    ];
    assert_eq!(checked(&slices), counts([("http", 1), ("grpc", 2)]));
}

#[test]
fn slices_with_other_numbers_are_linked_by_a_third_that_shares_a_port_with_each() {
    let pod = Endpoint::new("10.0.0.1");
    let slices = [
        slice(&[port("http", 80)], &[]),
        slice(
            &[port("http", 8080), port("grpc", 90)],
            std::slice::from_ref(&pod),
        ),
        slice(&[port("grpc", 90)], &[pod]),
    ];
    assert_eq!(checked(&slices), counts([("http", 1), ("grpc", 1)]));
}

#[test]
fn a_pod_hides_one_that_ends_under_its_address_only_behind_its_own_ports() {
    let slices = [
        slice(&[port("http", 80)], &[unready("10.0.0.1")]),
        slice(&[port("http", 80), port("grpc", 90)], &[ending("10.0.0.1")]),
    ];
    assert_eq!(checked(&slices), counts([("http", 0), ("grpc", 1)]));
}

#[test]
fn a_report_counts_no_pod_that_another_hides_in_whichever_slice_it_is() {
    let http = [port("http", 80)];
    let other = Endpoint::new("10.0.0.2").for_zones(&["zone-a"]);
    let slices = [
        slice(&http, &[ending("10.0.0.1"), other]),
        slice(&http, &[unready("10.0.0.1")]),
    ];
    assert_eq!(checked(&slices), counts([("http", 1)]));
}

// === The program's own manners ===

/// What the program says of its input before it ends.
fn complaint(input: &str) -> String {
    let mut child = kube_proxy::command()
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // It may end before it has read all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(1), "{input}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn wrong_input_ends_with_a_sentence() {
    let slice = |changes: &[(&str, Value)]| {
        let mut slice = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [],
            "ports": [],
        });
        for (path, value) in changes {
            let field = slice.pointer_mut(path).expect("the field is there");
            *field = value.clone();
        }
        slice
    };
    let ask = |slices: Value| json!({"nodes": nodes(), "slices": slices}).to_string();
    let endpoint = |address: &str, hints: Value| json!([{"addresses": [address], "hints": {"forZones": hints}}]);
    let zones: Vec<Value> = (0..9)
        .map(|i| json!({"name": format!("zone-{i}")}))
        .collect();
    let address = ("/endpoints", endpoint("10.0.0.300", json!([])));
    let hints = ("/endpoints", endpoint("10.0.0.1", json!(zones)));
    let other = [
        ("/metadata/name", json!("api-1")),
        (
            "/metadata/labels",
            json!({"kubernetes.io/service-name": "api"}),
        ),
    ];
    let wrong = [
        ("no JSON".to_owned(), "question 1: invalid character"),
        (
            json!({"nodes": [], "slices": []}).to_string(),
            "a node and a slice",
        ),
        (json!({"pods": []}).to_string(), "unknown field \"pods\""),
        (
            json!({"nodes": [{}], "slices": [slice(&[])]}).to_string(),
            "a node has no name",
        ),
        (ask(json!([null])), "a slice is null"),
        (
            ask(json!([slice(&[]), slice(&[])])),
            "two slices have the name \"web-1\"",
        ),
        (
            ask(json!([slice(&[]), slice(&other)])),
            "slice \"api-1\" is not of the Service shop/web",
        ),
        (
            ask(json!([slice(&[("/metadata/labels", json!({}))])])),
            "no label kubernetes.io/service-name",
        ),
        (
            ask(json!([slice(&[address])])),
            "endpoints[0].addresses[0]: Invalid value",
        ),
        (ask(json!([slice(&[hints])])), "forZones: Too many"),
    ];
    for (input, expected) in wrong {
        let complaint = complaint(&input);
        let is_one_line = complaint.trim_end().lines().count() == 1;
        assert!(
            is_one_line && complaint.contains(expected),
            "{input}: {complaint}"
        );
    }
}
