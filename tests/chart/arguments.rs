//! The arguments of the rendered container, given to the real program.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::helm::{Helm, Release};
use super::program::zonewise;
use super::refusals::refused;
use super::switches::switches;
use super::tools::root;
use super::values::{at, certificates, ways};

/// Files that a pod would have, and a kubeconfig of a cluster that is not there.
struct Pod {
    files: TempDir,
}

impl Pod {
    fn new() -> Self {
        let files = TempDir::new().expect("a temporary folder can be made");
        let made = zonewise()
            .args(["certs", "generate", "--dns", "localhost", "--dir"])
            .arg(files.path())
            .output();
        assert!(
            made.is_ok_and(|made| made.status.success()),
            "zonewise certs generate failed"
        );
        std::fs::write(files.path().join("kubeconfig"), KUBECONFIG).expect("a file can be written");
        Self { files }
    }

    /// An argument as it is outside of a pod.
    fn outside(&self, argument: &str) -> String {
        let at = |name: &str| self.files.path().join(name).display().to_string();
        match argument.split_once('=') {
            Some((flag @ ("--webhook-bind-address" | "--metrics-bind-address"), _)) => {
                format!("{flag}=127.0.0.1:0")
            }
            Some((flag @ "--log-format", _)) => format!("{flag}=json"),
            Some((flag, path))
                if path.starts_with("/certificates/") || path.starts_with("/client-ca/") =>
            {
                let name = if path.starts_with("/client-ca/") {
                    "ca.crt"
                } else {
                    file_name(path)
                };
                format!("{flag}={}", at(name))
            }
            _ => argument.to_owned(),
        }
    }

    /// What the program says first, in a line of its log or in a refusal of its arguments.
    fn first_words(&self, arguments: &[&str]) -> String {
        let mut child = zonewise()
            .args(arguments.iter().map(|argument| self.outside(argument)))
            .arg("--kubeconfig")
            .arg(self.files.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("zonewise starts");
        let mut line = String::new();
        let stderr = child.stderr.take().expect("standard error is piped");
        BufReader::new(stderr)
            .read_line(&mut line)
            .expect("it says something");
        let _ = child.kill();
        child.wait().expect("it ends");
        line
    }
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none, namespace: zonewise}}]
current-context: none
";

/// Asserts that the program starts with the arguments that these values give.
fn works(pod: &Pod, values: &Value) {
    let objects = Helm::four().objects(&Release::usual(), values);
    let arguments = objects.arguments();
    let line = pod.first_words(&arguments);
    let logged: Result<Value, _> = serde_json::from_str(&line);
    assert!(logged.is_ok(), "{arguments:?}: {line}");
}

#[test]
fn the_program_takes_them_in_every_way() {
    let pod = Pod::new();
    for values in ways() {
        works(&pod, &values);
    }
}

#[test]
fn the_program_takes_what_each_value_makes_of_them() {
    let pod = Pod::new();
    let usual = Helm::four().objects(&Release::usual(), &json!({}));
    for switch in switches() {
        let [_, values] = switch.values();
        let objects = Helm::four().objects(&Release::usual(), &values);
        if objects.arguments() != usual.arguments() {
            works(&pod, &values);
        }
    }
}

#[test]
fn a_flag_that_there_is_not_is_noticed() {
    let pod = Pod::new();
    let objects = Helm::four().objects(&Release::usual(), &certificates("provided"));
    let mut arguments = objects.arguments();
    arguments.push("--no-such-flag=1");
    let line = pod.first_words(&arguments);
    assert!(line.contains("error: unexpected argument '--"), "{line}");
}

/// Values at the edges of what the chart takes, each with the rest of the values that it needs.
fn edges() -> Vec<Value> {
    let lifetimes = |lifetime: &str, ca_lifetime: &str| {
        at(
            "certificates.selfManaged",
            json!({"certificateLifetime": lifetime, "caLifetime": ca_lifetime}),
        )
    };
    let mut edges = vec![
        lifetimes("1h", "2h"),
        lifetimes("438000h", "876000h"),
        lifetimes("99999h", "799999h"),
        json!({"shutdownDelaySeconds": 0}),
        json!({"shutdownDelaySeconds": 86400, "terminationGracePeriodSeconds": 86411}),
        json!({"excludedNodeLabels": []}),
        json!({"excludedNodeLabels": ["a", "b.example/c_D"]}),
        json!({"ignoredSliceManagers": ["A", "endpointslice-mesh-controller.cilium.io", "a_b-c.d"]}),
        json!({"ports": {"webhook": 1, "metrics": 65535}}),
    ];
    edges.extend(each(
        "nodeGrace",
        [
            "0h",
            "0s",
            "0ms",
            "00s",
            "90m",
            "1h30m",
            "1m30s500ms",
            "99999h",
            "9999999m",
            "999999999s",
            "999999999999ms",
            "99999h9999999m999999999s999999999999ms",
        ],
    ));
    edges.extend(each(
        "overloadThreshold",
        [0.0, 0.000_001, 0.001, 0.123_456, 9.999_999, 10.0],
    ));
    edges.extend(each(
        "trafficDistribution",
        ["None", "Auto", "Overlap", "PreferZone"],
    ));
    edges.extend(each(
        "defaultMode",
        ["None", "Auto", "Overlap", "PreferZone"],
    ));
    edges.extend(each("capacity", ["cpu", "nodes"]));
    edges.extend(each(
        "capacityNodeSelector",
        [
            "pool",
            "!spot",
            "a=b,c!=d",
            "pool in (web,api)",
            "b.example/pool notin (a, b), x==",
            "pool in ()",
        ],
    ));
    edges.extend(each("nodeInfoTolerance", [0.0, 0.000_001, 0.05, 1.0]));
    edges.extend(each("freezeNotReady", [0.0, 0.001, 1.0 / 3.0, 1.0]));
    edges.extend(each("listenAddress", ["[::]", "0.0.0.0"]));
    edges.extend(each("mode", ["Active", "Observe", "Off"]));
    edges.extend(each("log.format", ["json", "text"]));
    edges.extend(each(
        "log.level",
        [
            "off",
            "trace",
            "debug,kube_client::client=off",
            "zonewise=debug,kube=warn,a-b:c=error",
        ],
    ));
    edges
}

fn each<T: Into<Value>>(path: &str, values: impl IntoIterator<Item = T>) -> Vec<Value> {
    let values = values.into_iter();
    values.map(|value| at(path, value.into())).collect()
}

/// What `zonewise serve` says to flags that come without a certificate, which it asks for once it has read them all.
fn said_without_a_certificate(flags: &[&str]) -> String {
    let output = zonewise().arg("serve").args(flags).output();
    String::from_utf8_lossy(&output.expect("zonewise runs").stderr).into_owned()
}

const ASKS_FOR_A_CERTIFICATE: &str = "no certificate: give ";

fn is_a_certificate(argument: &str) -> bool {
    let flags = ["--certificate-secret=", "--tls-"];
    flags.iter().any(|flag| argument.starts_with(flag))
}

#[test]
fn what_the_chart_takes_at_its_edges_the_program_takes() {
    let pod = Pod::new();
    for values in edges() {
        let objects = Helm::four().objects(&Release::usual(), &values);
        let mut flags = objects.arguments().split_off(1);
        flags.retain(|flag| !is_a_certificate(flag));
        let said = said_without_a_certificate(&flags);
        assert!(said.contains(ASKS_FOR_A_CERTIFICATE), "{values}: {said}");
        if values.get("certificates").is_some() {
            works(&pod, &values);
        }
    }
}

each_helm!(the_chart_refuses_what_the_program_cannot_read);

fn the_chart_refuses_what_the_program_cannot_read(helm: &Helm) {
    for (path, value, flag) in [
        ("nodeGrace", json!("30s1m"), "--node-grace=30s1m"),
        ("nodeGrace", json!(""), "--node-grace="),
        (
            "ignoredSliceManagers",
            json!(["example.com/mesh"]),
            "--ignored-slice-managers=example.com/mesh",
        ),
        ("nodeGrace", json!("876001h"), "--node-grace=876001h"),
        (
            "overloadThreshold",
            json!(0.123_456_7),
            "--overload-threshold=0.1234567",
        ),
        (
            "certificates.selfManaged.caLifetime",
            json!("876001h"),
            "--ca-lifetime=876001h",
        ),
        (
            "certificates.selfManaged.certificateLifetime",
            json!("1000000h"),
            "--certificate-lifetime=1000000h",
        ),
        (
            "listenAddress",
            json!("1.2.3"),
            "--webhook-bind-address=1.2.3:8443",
        ),
        (
            "listenAddress",
            json!("[1:2]"),
            "--webhook-bind-address=[1:2]:8443",
        ),
        (
            "capacityNodeSelector",
            json!("pool>1"),
            "--capacity-node-selector=pool>1",
        ),
        (
            "capacityNodeSelector",
            json!("pool=web,"),
            "--capacity-node-selector=pool=web,",
        ),
        (
            "capacityNodeSelector",
            json!("a b"),
            "--capacity-node-selector=a b",
        ),
        (
            "capacityNodeSelector",
            json!("pool==web=x"),
            "--capacity-node-selector=pool==web=x",
        ),
        (
            "capacityNodeSelector",
            json!("a in (x) b"),
            "--capacity-node-selector=a in (x) b",
        ),
        (
            "capacityNodeSelector",
            json!("!"),
            "--capacity-node-selector=!",
        ),
        ("log.level", json!("verbose"), "--log-level=verbose"),
        (
            "log.level",
            json!("zonewise=loud"),
            "--log-level=zonewise=loud",
        ),
        ("mode", json!("Enforce"), "--mode=Enforce"),
        ("freezeNotReady", json!(1.1), "--freeze-not-ready=1.1"),
    ] {
        let said = said_without_a_certificate(&[flag]);
        assert!(!said.contains(ASKS_FOR_A_CERTIFICATE), "{flag}: {said}");
        // Of choices the schema says which there are.
        let words = match path {
            "mode" | "listenAddress" => format!("at '/{path}': value must be one of"),
            _ if value.is_array() => format!("{path} has \""),
            _ => format!("{path} is \""),
        };
        refused(helm, &at(path, value), &words);
    }
    let said = said_without_a_certificate(&[]);
    assert!(said.contains(ASKS_FOR_A_CERTIFICATE), "{said}");
}

#[test]
fn the_chart_knows_every_flag() {
    let help = zonewise().args(["serve", "--help"]).output();
    let help = String::from_utf8(help.expect("zonewise runs").stdout).expect("help is text");
    let flag = |line: &str| {
        let line = line.trim_start();
        let (_, long) = line.starts_with('-').then(|| line.split_once("--"))??;
        let end = long.find(|c: char| c != '-' && !c.is_ascii_alphanumeric());
        Some(format!("--{}", &long[..end.unwrap_or(long.len())]))
    };
    let mut flags: Vec<String> = help.lines().filter_map(flag).collect();
    flags.retain(|flag| flag != "--help");
    flags.sort();
    let known = std::fs::read_to_string(root().join("charts/zonewise/files/flags.yaml"));
    let known: Vec<String> = known
        .expect("the file can be read")
        .lines()
        .filter_map(|line| line.strip_prefix("- ").map(str::to_owned))
        .collect();
    assert_eq!(known, flags);
}

#[test]
fn no_excluded_label_at_all_lets_nodes_of_the_control_plane_count() {
    let counted = |values: &Value| {
        let objects = Helm::four().objects(&Release::usual(), values);
        let label = objects.flag("--excluded-node-labels");
        let label = label.expect("the flag is always given");
        let flag = format!("--excluded-node-labels={label}");
        let output = zonewise()
            .args(["explain", "-o", "json", &flag, "-f"])
            .arg(root().join("tests/chart/control_plane_node.yaml"))
            .output()
            .expect("zonewise runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report is JSON");
        report["capacity"]["zones"][0]["nodes"].clone()
    };
    assert_eq!(counted(&json!({})), Value::Null);
    assert_eq!(counted(&json!({"excludedNodeLabels": []})), 1);
}
