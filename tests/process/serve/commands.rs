//! Commands that end by themselves.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{generate_certificates, replace, run, run_with_input, stderr, stdout};
use crate::client::Tls;
use crate::cluster::{self, With as _, ZONES, balanced, endpoints, hinted, slice_of};
use crate::port::Port;
use crate::program::zonewise;

/// The sample cluster with a slice that is hinted and one that is not.
fn cluster_with_slices() -> String {
    let few = slice_of("api", endpoints(&["zone-a"]));
    format!(
        "{}---\n{}---\n{}",
        cluster::sample(),
        yaml(&balanced()),
        yaml(&few)
    )
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap()
}

struct Folder(TempDir);

impl Folder {
    fn with(name: &str, text: &str) -> Self {
        let folder = Self(TempDir::new().unwrap());
        replace(&folder.0.path().join(name), text);
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// A file of the repository.
fn repository(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(path).display().to_string()
}

fn assert_success(output: &Output) -> &str {
    assert!(output.status.success(), "{}", stderr(output));
    assert_eq!(stderr(output), "");
    let text = stdout(output);
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text}");
    text
}

fn assert_failure(output: &Output, code: i32, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(
        (output.status.code(), stdout(output)),
        (Some(code), ""),
        "{text}"
    );
    assert!(
        text.starts_with("error: ") && !text.contains('\u{1b}'),
        "{text:?}"
    );
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// A text with its lines put together again.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_fits_a_terminal(text: &str) {
    let wide: Vec<_> = text
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn assert_keys(value: &Value, expected: &[&str]) {
    let lacking: Vec<_> = expected
        .iter()
        .filter(|key| !keys(value).contains(**key))
        .collect();
    assert!(lacking.is_empty(), "{lacking:?} in {value}");
}

#[test]
fn explain_in_json_has_the_keys_that_stay() {
    let nodes = "---\nkind: Node\nmetadata: {name: cp1, labels: {node-role.kubernetes.io/control-plane: \"\"}}\n";
    let folder = Folder::with("cluster.yaml", &(cluster_with_slices() + nodes));
    let output = run(&["explain", "-f", &folder.path("cluster.yaml"), "-o", "json"]);
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    assert_keys(&report, &["schemaVersion", "capacity", "services"]);
    assert_eq!(report["schemaVersion"], 1);
    let capacity = &report["capacity"];
    assert_keys(
        capacity,
        &[
            "usable",
            "reason",
            "message",
            "zones",
            "insufficientNodes",
            "ignoredNodes",
        ],
    );
    assert_eq!(capacity["usable"], true);
    assert_keys(
        &capacity["zones"][0],
        &["name", "milliCPU", "share", "nodes"],
    );
    assert_eq!(capacity["zones"][0]["milliCPU"], 4000);
    assert_eq!(
        capacity["ignoredNodes"],
        serde_json::json!([{"name": "cp1", "because": "ControlPlane"}])
    );
    let services = report["services"].as_array().unwrap();
    let names: Vec<_> = services
        .iter()
        .map(|service| service["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["api", "plain", "web"]);
    for service in services {
        let expected = [
            "namespace",
            "name",
            "addressType",
            "optIn",
            "heuristic",
            "threshold",
            "decision",
            "reason",
            "message",
            "readyEndpoints",
            "worstOverload",
            "inZoneShare",
            "leastThreshold",
            "zones",
            "slices",
        ];
        assert_keys(service, &expected);
    }
    let web = &services[2];
    assert_eq!(
        (&web["decision"], &web["reason"]),
        (&"Hints".into(), &Value::Null)
    );
    assert_eq!(
        (&web["optIn"], &web["heuristic"]),
        (&"topology-mode".into(), &"Auto".into())
    );
    assert_eq!(web["readyEndpoints"], 3);
    let zone = [
        "name",
        "share",
        "endpoints",
        "desired",
        "minimum",
        "hinted",
        "overload",
        "kubeProxy",
    ];
    assert_keys(&web["zones"][0], &zone);
    assert_eq!(web["zones"][0]["kubeProxy"], "PreferSameZone");
    let slice = &web["slices"][0];
    assert_keys(slice, &["name", "endpoints", "patch"]);
    assert_keys(
        &slice["endpoints"][0],
        &["address", "zone", "ready", "hints"],
    );
    let hints: Vec<_> = slice["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["hints"][0].clone())
        .collect();
    assert_eq!(hints, ZONES);
    assert_eq!(slice["patch"].as_array().unwrap().len(), 3);
    let api = &services[0];
    assert_eq!(
        (&api["decision"], &api["reason"]),
        (&"Strip".into(), &"InsufficientNumberOfEndpoints".into())
    );
    assert_eq!(services[1]["reason"], "NotOptedIn");
}

#[test]
fn explain_names_the_nodes_that_lack_something() {
    let nodes = "---\nkind: Node\nmetadata: {name: n7}\n\
                 status: {allocatable: {cpu: 1}, conditions: [{type: Ready, status: \"True\"}]}\n";
    let folder = Folder::with("cluster.yaml", &(cluster_with_slices() + nodes));
    let output = run(&["explain", "-f", &folder.path("cluster.yaml"), "-o", "json"]);
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    let capacity = &report["capacity"];
    assert_eq!(
        (&capacity["usable"], &capacity["reason"]),
        (&false.into(), &"InsufficientNodeInfo".into())
    );
    assert_eq!(
        capacity["insufficientNodes"],
        serde_json::json!([{"name": "n7", "missing": ["zone"]}])
    );
    assert!(capacity["message"].as_str().unwrap().contains("n7"));
}

#[test]
fn explain_in_yaml_prints_the_slices_as_they_would_be_stored() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let output = run(&[
        "explain",
        "-f",
        &folder.path("cluster.yaml"),
        "-o",
        "yaml",
        "web",
    ]);
    let text = assert_success(&output);
    let slices: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    assert_eq!(slices, [hinted(&balanced(), &ZONES)]);
    let again = run_with_input(
        &["explain", "-f", "-", "-o", "yaml"],
        &(cluster::sample() + text),
    );
    let again: Vec<Value> = serde_saphyr::from_multiple(assert_success(&again)).unwrap();
    assert_eq!(again, slices, "what was printed is explained as it stands");
}

#[test]
fn explain_reads_yaml_and_json_from_standard_input() {
    let output = run_with_input(&["explain", "-f", "-"], &cluster_with_slices());
    let text = assert_success(&output);
    for part in [
        "zone-a",
        "33.3%",
        "shop/web",
        "shop/api",
        "1 ready endpoint for 3 zones",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": [balanced()]});
    let output = run_with_input(&["explain", "-o", "json", "-f", "-"], &list.to_string());
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    assert_eq!(report["services"][0]["reason"], "UnknownService");
    assert_eq!(report["capacity"]["usable"], false);
}

#[test]
fn explain_takes_a_name_and_a_namespace() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let file = folder.path("cluster.yaml");
    let output = run(&["explain", "web", "-n", "shop", "-o", "json", "-f", &file]);
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    assert_eq!(report["services"].as_array().unwrap().len(), 1);
    assert_failure(
        &run(&["explain", "nothing", "-f", &file]),
        2,
        &["there is no Service nothing in any namespace; there are api, plain, web\n"],
    );
    let output = run(&["explain", "web", "-n", "elsewhere", "-f", &file]);
    assert_failure(
        &output,
        2,
        &["there is no Service web in namespace elsewhere; one is in shop\n"],
    );
    let output = run(&["explain", "-n", "elsewhere", "-f", &file]);
    assert_failure(
        &output,
        2,
        &["there is no Service in namespace elsewhere; there are some in shop\n"],
    );
    let output = run(&["explain", "-n", "elsewhere", "-A", "-f", &file]);
    assert!(assert_success(&output).contains("shop/web"));
}

#[test]
fn a_service_may_be_named_as_output_and_kubectl_name_it() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let file = folder.path("cluster.yaml");
    for name in ["shop/web", "svc/web", "service/web"] {
        let output = run(&["explain", name, "-o", "json", "-f", &file]);
        let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
        assert_eq!(report["services"][0]["name"], "web", "{name}");
    }
    assert_failure(
        &run(&["explain", "shop/wbe", "-f", &file]),
        2,
        &["there is no Service wbe in namespace shop; did you mean web?\n"],
    );
    assert_failure(
        &run(&["explain", "shop/web", "-n", "other", "-f", &file]),
        2,
        &["in namespace shop, and by -n in other: leave out one of both"],
    );
}

#[test]
fn a_cluster_without_services_is_told_beside_its_zones() {
    let nodes = cluster::nodes(&[("zone-a", 4)]);
    let output = run_with_input(&["explain", "-f", "-"], &nodes);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(&output),
        "there is no Service at all in what was read\n"
    );
    let text = flowing(stdout(&output));
    let sentence = "The only counted node is in zone zone-a; hints need";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn a_missing_file_that_may_be_a_service_s_name_is_told_as_that_and_others_are_not() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let file = folder.path("cluster.yaml");
    let advice = "; a Service's name goes before -f";
    assert_failure(&run(&["explain", "-f", &file, "web"]), 2, &[advice]);
    for arguments in [
        ["explain", "-f", "web", "-A"],
        ["explain", "-f", &file, "web.yaml"],
        ["explain", "api", "-f", "web"],
    ] {
        let output = run(&arguments);
        assert_failure(&output, 2, &["No such file"]);
        assert!(!stderr(&output).contains(advice), "{}", stderr(&output));
    }
}

#[test]
fn explain_names_the_file_that_is_missing_or_wrong_and_the_line() {
    assert_failure(
        &run(&["explain", "-f", "no/such.yaml"]),
        2,
        &["error: no/such.yaml: No such file"],
    );
    let cases = [
        (
            "wrong.yaml",
            "kind: Node\nmetadata:\n  name: n1\n bad: [\n",
            "4",
        ),
        ("tab.yaml", "kind: Node\nmetadata:\n\tname: n1\n", "3"),
        (
            "wrong.json",
            "{\n \"kind\": \"Node\",\n \"metadata\": }\n",
            "3",
        ),
    ];
    for (name, text, line) in cases {
        let folder = Folder::with(name, text);
        let path = folder.path(name);
        assert_failure(
            &run(&["explain", "-f", &path]),
            2,
            &[&format!("error: {path}:{line}: ")],
        );
    }
    let folder = Folder::with("nameless.yaml", "kind: ConfigMap\n---\nkind: Node\n");
    let path = folder.path("nameless.yaml");
    let told = format!("error: {path}:3: document 2: a Node without metadata.name");
    assert_failure(&run(&["explain", "-f", &path]), 2, &[&told]);
    assert_failure(
        &run_with_input(&["explain", "-f", "-"], "a: [\n"),
        2,
        &["error: standard input:1: "],
    );
    assert_failure(
        &run_with_input(&["explain", "-f", "-"], "kind: ConfigMap\n"),
        2,
        &["error: standard input: no Node, Service or EndpointSlice in there\n"],
    );
    assert_failure(
        &run(&["explain", "-o", "xml"]),
        2,
        &["[possible values: table, json, yaml]"],
    );
}

#[test]
fn the_example_is_explained_and_played() {
    let explained = run(&["explain", "-f", &repository("examples/cluster.yaml")]);
    let explained = assert_success(&explained);
    let played = run(&["demo", "--once"]);
    let played = assert_success(&played);
    assert!(
        played.starts_with(explained),
        "the demo shows the report of its example"
    );
    assert_fits_a_terminal(played);
    let sent = &played[explained.len()..];
    assert!(
        sent.contains("slices were sent to https://localhost:"),
        "{sent}"
    );
    for part in ["shop/web", "zone-a", "zone-b", "zone-c"] {
        assert!(explained.contains(part), "{part:?} in {explained}");
    }
}

#[test]
fn the_readme_shows_what_the_demo_prints() {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let sample = readme.split("```").nth(1).expect("a block of output");
    let played = run(&["demo", "--once"]);
    let mut rest = assert_success(&played);
    let parts: Vec<_> = sample.split("…").map(str::trim).collect();
    assert!(parts.len() > 2, "{sample}");
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part}\nis not in\n{rest}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn the_sample_names_what_is_left_out_and_tells_one_from_several() {
    let explained = run(&["explain", "-f", &repository("examples/cluster.yaml")]);
    let text = flowing(assert_success(&explained));
    for part in [
        "control-plane-a, control-plane-b, control-plane-c (ControlPlane)",
        "worker-c3 (NotReady)",
        "worker-new (Settling: new, and still without zone or CPU)",
        "2 ready endpoints for 3 zones, and each zone needs one of its own; 2 more ready endpoints would do.",
        "Endpoints 10.1.0.66, 10.1.0.67, 10.1.0.68 have no known zone",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let partners = run(&[
        "explain",
        "partners",
        "-o",
        "json",
        "-f",
        &repository("examples/cluster.yaml"),
    ]);
    let partners: Value = serde_json::from_str(assert_success(&partners)).unwrap();
    assert_eq!(
        partners["services"][0]["inZoneShare"], 0.0,
        "endpoints of no known zone count in none"
    );
}

#[test]
fn of_many_nodes_that_are_left_out_three_are_named() {
    let node = "---\nkind: Node\nmetadata: {name: NAME, labels: {node-role.kubernetes.io/control-plane: \"\"}}\n";
    let control_planes = ["cp1", "cp2", "cp3", "cp4", "cp5"].map(|name| node.replace("NAME", name));
    let input = cluster_with_slices() + &control_planes.concat();
    let output = run_with_input(&["explain", "-f", "-"], &input);
    let text = assert_success(&output);
    assert!(
        text.contains("cp1, cp2, cp3, +2 more (ControlPlane)\n"),
        "{text}"
    );
}

#[test]
fn long_names_fit_a_terminal_too() {
    let zones = [
        "us-gov-west-1-wavelength-zone-las-1a",
        "us-gov-west-1-wavelength-zone-las-1b",
    ];
    let nodes = cluster::nodes(&[(zones[0], 64), (zones[1], 1)]);
    let name = "a-service-whose-name-is-nearly-as-long-as-a-label-may-be-in-all";
    let slice = slice_of(name, endpoints(&[zones[0], zones[0], zones[1]]));
    let input = nodes + &cluster::service(name, "Auto") + "---\n" + &yaml(&slice);
    let output = run_with_input(&["explain", "-f", "-"], &input);
    let text = assert_success(&output);
    assert_fits_a_terminal(text);
    assert!(
        text.contains(&format!("shop/{name} IPv4\n  Strip ")),
        "{text}"
    );
    assert!(text.contains(zones[0]), "in full where it fits: {text}");
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = zonewise();
        command
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        let example = repository("examples/cluster.yaml");
        let explained = command.args(["explain", "-f", &example]).output().unwrap();
        stdout(&explained).contains('\u{1b}')
    };
    assert!(!coloured(&[]), "a pipe");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

/// Three endpoints of a Service that is left to Kubernetes, hinted for their zones and nodes.
fn node_hinted(name: &str, zones: [&str; 3]) -> String {
    let hinted = |(i, zone): (usize, Value)| {
        let hints = serde_json::json!({
            "forZones": [{"name": ZONES[i]}],
            "forNodes": [{"name": zone["nodeName"]}],
        });
        zone.with("/hints", hints)
    };
    let endpoints = endpoints(&zones).into_iter().enumerate().map(hinted);
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: shop}\n\
                   spec: {clusterIP: 10.96.0.13, trafficDistribution: PreferSameNode, ports: [{name: http, port: 80}]}\n";
    let slice = slice_of(name, endpoints.collect());
    service.replace("NAME", name) + "---\n" + &yaml(&slice)
}

#[test]
fn node_hints_are_told_as_kube_proxy_follows_them() {
    let input = cluster::sample() + &node_hinted("local", ["zone-a", "zone-b", "zone-b"]);
    let output = run_with_input(&["explain", "local", "-o", "json", "-f", "-"], &input);
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    let local = &report["services"][0];
    assert_eq!(
        (&local["decision"], &local["reason"]),
        (&"Untouched".into(), &"PreferSameNode".into())
    );
    let modes: Vec<_> = local["zones"]
        .as_array()
        .unwrap()
        .iter()
        .map(|zone| zone["kubeProxy"].as_str().unwrap())
        .collect();
    assert_eq!(
        modes,
        ["PreferSameNode", "PreferSameNode", "PreferSameZone"],
        "no endpoint is on zone-c's node, and one is hinted for zone-c"
    );
    assert_eq!(
        (&local["worstOverload"], &local["inZoneShare"]),
        (&Value::Null, &Value::Null)
    );
    let output = run_with_input(&["explain", "local", "-f", "-"], &input);
    let text = flowing(assert_success(&output));
    for part in [
        "- its own node's",
        "- its 1 hinted",
        "zone-a, zone-b: nodes that no endpoint names use the zone's hinted endpoints",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn of_an_address_with_two_copies_the_one_that_counts_has_the_node_hints() {
    let hints = serde_json::json!({"forNodes": [{"name": "node-zone-c"}]});
    let going = endpoints(&["zone-c"])[0]
        .clone()
        .with("/conditions/terminating", true.into())
        .with("/hints", hints);
    let copy = slice_of("local", vec![going]).with("/metadata/name", "local-0".into());
    let input = cluster::sample()
        + &node_hinted("local", ["zone-a", "zone-b", "zone-b"])
        + "---\n"
        + &yaml(&copy);
    let output = run_with_input(&["explain", "local", "-o", "json", "-f", "-"], &input);
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    let modes = report["services"][0]["zones"].as_array().unwrap().iter();
    let modes: Vec<_> = modes
        .map(|zone| zone["kubeProxy"].as_str().unwrap())
        .collect();
    assert_eq!(
        modes,
        ["PreferSameNode", "PreferSameNode", "PreferSameZone"]
    );
}

#[test]
fn ports_that_differ_have_tables_of_their_own() {
    let metrics = serde_json::json!([{"name": "metrics", "port": 9090, "protocol": "TCP"}]);
    let other = web_in_b("web-2").with("/ports", metrics);
    let both = cluster::sample() + "---\n" + &yaml(&balanced()) + "---\n" + &yaml(&other);
    let one = cluster::sample() + "---\n" + &yaml(&balanced());
    for (input, differ) in [(both, true), (one, false)] {
        let explain = |more: &[&str]| {
            let arguments = [&["explain", "web", "-f", "-"], more].concat();
            let output = run_with_input(&arguments, &input);
            assert_success(&output).to_owned()
        };
        let report: Value = serde_json::from_str(&explain(&["-o", "json"])).unwrap();
        assert_eq!(report["services"][0]["portsDiffer"], differ);
        let ports = report["services"][0]["ports"].as_array().unwrap();
        assert_eq!(ports.len(), if differ { 2 } else { 0 });
        let text = explain(&[]);
        for heading in ["  Behind port http\n", "  Behind port metrics\n"] {
            assert_eq!(text.contains(heading), differ, "{text}");
        }
    }
}

#[test]
fn a_node_hint_that_one_endpoint_lacks_counts_for_nothing() {
    let bare = node_hinted("local", ZONES).replacen("forNodes", "forNobody", 1);
    let output = run_with_input(
        &["explain", "local", "-o", "json", "-f", "-"],
        &(cluster::sample() + &bare),
    );
    let report: Value = serde_json::from_str(assert_success(&output)).unwrap();
    let local = &report["services"][0];
    assert_eq!(local["zones"][0]["kubeProxy"], "PreferSameZone");
    assert_eq!(local["inZoneShare"], 1.0);
}

fn kubeconfig(server: &str) -> Folder {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
         clusters: [{{name: test, cluster: {{server: \"{server}\"}}}}]\n\
         users: [{{name: test, user: {{token: secret}}}}]\n"
    );
    Folder::with("kubeconfig", &text)
}

/// Checks that what went wrong is one sentence on one line.
fn assert_one_line(output: &Output) {
    let text = stderr(output);
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn an_api_server_that_is_not_there_is_named_with_every_cause() {
    let nobody = Port::reserve();
    let server = format!("http://127.0.0.1:{}", nobody.number());
    let folder = kubeconfig(&server);
    let output = run(&["explain", "--kubeconfig", &folder.path("kubeconfig")]);
    assert_failure(
        &output,
        2,
        &[
            &format!("can't list nodes from {server}"),
            "Connection refused",
            "--kubeconfig",
            "-f",
        ],
    );
    assert_one_line(&output);
}

#[test]
fn an_api_server_that_refuses_is_named_with_what_it_says() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let folder = kubeconfig(&server);
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden","reason":"Forbidden","code":403}"#;
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let length = status.len();
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + status).as_bytes()).unwrap();
    });
    let output = run(&["explain", "--kubeconfig", &folder.path("kubeconfig")]);
    answering.join().unwrap();
    assert_failure(
        &output,
        2,
        &[&server, "refuses to list nodes: nodes is forbidden (403)"],
    );
    assert_one_line(&output);
}

#[test]
fn without_a_kubeconfig_one_sentence_says_what_to_give() {
    let home = TempDir::new().unwrap();
    let explain = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = zonewise();
        command
            .env("HOME", home.path())
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST");
        command.envs(variables.iter().copied());
        command.arg("explain").args(arguments).output().unwrap()
    };
    let output = explain(&[], &[]);
    assert_failure(
        &output,
        2,
        &[
            "no cluster: there is no kubeconfig ",
            "/.kube/config; give --kubeconfig",
        ],
    );
    assert_one_line(&output);
    let folder = Folder::with("wrong", "a: [\n");
    let output = explain(&[], &[("KUBECONFIG", &folder.path("wrong"))]);
    assert_failure(&output, 2, &["the kubeconfig can't be used", "line 1"]);
    assert_one_line(&output);
    let output = explain(&["--kubeconfig", "no/such"], &[]);
    assert_failure(&output, 2, &["error: kubeconfig no/such: No such file"]);
    assert_one_line(&output);
}

/// A running `zonewise demo`, which ends with this value.
struct Demo(Child);

impl Demo {
    /// Starts it and waits for the last line; the lines that say how to try it by hand.
    fn start() -> (Self, String) {
        let mut command = zonewise();
        let mut child = command
            .arg("demo")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the demo starts");
        let out = BufReader::new(child.stdout.take().unwrap());
        let demo = Self(child);
        let lines = out.lines().map(Result::unwrap);
        let lines: Vec<_> = lines.take_while(|line| line != "Ctrl-C ends it.").collect();
        let printed = lines.join("\n");
        let (_, manual) = printed
            .split_once("Try it by hand")
            .expect("a way to try it");
        (demo, manual.to_owned())
    }
}

impl Demo {
    fn end(&mut self, signal: &str) -> ExitStatus {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args([signal, &id]).status();
        assert!(told.is_ok_and(|status| status.success()));
        self.0.wait().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stands in a text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

#[test]
fn what_the_demo_says_to_try_by_hand_gives_a_patch() {
    let (mut demo, manual) = Demo::start();
    assert!(
        manual.contains("| base64 -d | jq -c"),
        "it says how to read the patch: {manual}"
    );
    let ca = between(&manual, "--cacert ", " ");
    let review = std::fs::read(between(&manual, "--data @", " ")).unwrap();
    let port: u16 = between(&manual, "https://localhost:", "/").parse().unwrap();
    let mut webhook = Tls::trusting(Path::new(ca))
        .connect((Ipv4Addr::LOCALHOST, port).into())
        .unwrap();
    let answer = webhook.post("/mutate?timeout=1s", &review).json();
    assert!(answer["response"]["patch"].is_string(), "{answer}");
    assert!(demo.end("-INT").success());
}

#[test]
fn the_files_of_the_demo_end_with_it() {
    for signal in ["-INT", "-TERM"] {
        let (mut demo, manual) = Demo::start();
        let ca = Path::new(between(&manual, "--cacert ", " "));
        assert!(ca.exists());
        assert!(demo.end(signal).success(), "{signal}");
        assert!(!ca.exists(), "{signal}");
    }
}

#[test]
fn each_command_teaches_by_example() {
    for command in [
        &["--help"][..],
        &["explain", "--help"],
        &["demo", "--help"],
        &["certs", "generate", "--help"],
        &["completions", "--help"],
    ] {
        let output = run(command);
        assert!(
            assert_success(&output).contains("Examples:\n  "),
            "{command:?}"
        );
    }
}

#[test]
fn the_demo_plays_other_files_and_names_one_that_is_missing() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let output = run(&["demo", "--once", "-f", &folder.path("cluster.yaml")]);
    let text = assert_success(&output);
    assert!(
        text.contains("2 slices were sent to https://localhost:"),
        "{text}"
    );
    let one = cluster::sample() + "---\n" + &yaml(&balanced());
    let played = run_with_input(&["demo", "--once", "-f", "-"], &one);
    let text = assert_success(&played);
    assert!(text.contains("\n1 slice was sent to https://"), "{text}");
    assert_failure(
        &run(&["demo", "--once", "-f", "no/such.yaml"]),
        2,
        &["error: no/such.yaml: No such file"],
    );
}

/// Plays the sample cluster with these slices, in this order, and checks that the answers are as planned.
fn assert_plays(slices: &[Value]) {
    let documents: Vec<String> = slices.iter().map(yaml).collect();
    let input = cluster::sample() + "---\n" + &documents.join("---\n");
    assert_success(&run_with_input(&["demo", "--once", "-f", "-"], &input));
}

#[test]
fn the_demo_sends_slices_in_the_order_in_which_they_are_planned() {
    let second = web_in_b("web-2");
    assert_plays(&[second, hinted(&balanced(), &ZONES)]);
}

#[test]
fn the_report_looks_at_all_slices_of_a_service_that_the_webhook_looks_at() {
    let of_odd_type = web_in_b("web-2").with("/addressType", 7.into());
    assert_plays(&[balanced(), of_odd_type]);
}

/// A slice whose hints are so one-sided that no others fit beside them.
fn web_in_b(name: &str) -> Value {
    let endpoints = (10..16).map(|number| cluster::endpoint(number, "zone-b"));
    let slice = cluster::web(endpoints.collect()).with("/metadata/name", name.into());
    hinted(&slice, &["zone-b"; 6])
}

#[test]
fn certificates_for_development_fit_together_and_the_key_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("new/folder");
    generate_certificates(&dir, "24h");
    let mode = |name: &str| {
        std::fs::metadata(dir.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        ["ca.crt", "tls.crt", "tls.key"].map(mode),
        [0o644, 0o644, 0o600]
    );
    let names: BTreeSet<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_failure(
        &run(&["certs", "generate", "--dns", "not a name"]),
        2,
        &["neither a DNS name nor an IP address"],
    );
    assert_failure(&run(&["certs", "generate"]), 2, &["--dns"]);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for (shell, part) in [
        ("bash", "complete -F _zonewise"),
        ("zsh", "#compdef zonewise"),
        ("fish", "complete -c zonewise"),
    ] {
        let output = run(&["completions", shell]);
        let text = assert_success(&output);
        assert!(text.contains(part), "{part:?} in the script for {shell}");
        for word in ["serve", "explain", "demo", "certs", "from-files"] {
            assert!(text.contains(word), "{word:?} in the script for {shell}");
        }
    }
    assert_failure(&run(&["completions", "tcsh"]), 2, &["bash"]);
}

/// Runs a command whose reader has gone; it must end as if nobody minded.
fn assert_content_without_reader(arguments: &[&str]) {
    let mut command = zonewise();
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut told = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(
        status.success() && told.is_empty(),
        "{arguments:?}: {status}: {told}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let file = folder.path("cluster.yaml");
    for output in ["table", "json", "yaml"] {
        assert_content_without_reader(&["explain", "-o", output, "-f", &file]);
    }
}

#[test]
fn a_reader_that_has_seen_enough_of_the_demo_is_no_error() {
    assert_content_without_reader(&["demo", "--once"]);
}

#[test]
fn a_reader_that_has_seen_enough_of_a_completion_script_is_no_error() {
    assert_content_without_reader(&["completions", "bash"]);
}

#[test]
fn without_arguments_it_says_what_it_can_do() {
    let output = run::<&str>(&[]);
    assert_eq!(output.status.code(), Some(2));
    for word in ["serve", "demo", "explain", "certs", "completions"] {
        assert!(
            stderr(&output).contains(word),
            "{word:?} in {}",
            stderr(&output)
        );
    }
    let output = run(&["--version"]);
    assert_eq!(
        assert_success(&output),
        concat!("zonewise ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
