//! Commands that end by themselves.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::binary::{
    generate_certificates, replace, run, run_with_input, stderr, stdout, zonewise,
};
use super::cluster::{self, ZONES, balanced, endpoints, hinted, slice_of};

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
        1,
        &["there is no Service nothing in any namespace"],
    );
    let output = run(&["explain", "web", "-n", "elsewhere", "-f", &file]);
    assert_failure(
        &output,
        1,
        &["there is no Service web in namespace elsewhere"],
    );
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
    let told = format!("error: {path}: document 2: a Node without metadata.name");
    assert_failure(&run(&["explain", "-f", &path]), 2, &[&told]);
    assert_failure(
        &run_with_input(&["explain", "-f", "-"], "a: [\n"),
        2,
        &["error: -:"],
    );
    assert_failure(
        &run(&["explain", "-o", "xml"]),
        2,
        &["[possible values: table, json, yaml]"],
    );
}

#[test]
fn the_example_is_explained_and_played() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cluster.yaml");
    let explained = run(&["explain", "-f", &example.display().to_string()]);
    let explained = assert_success(&explained);
    let played = run(&["demo", "--once"]);
    let played = assert_success(&played);
    assert!(
        played.starts_with(explained),
        "the demo shows the report of its example"
    );
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
fn the_demo_plays_other_files_and_names_one_that_is_missing() {
    let folder = Folder::with("cluster.yaml", &cluster_with_slices());
    let output = run(&["demo", "--once", "-f", &folder.path("cluster.yaml")]);
    let text = assert_success(&output);
    assert!(
        text.contains("2 slices were sent to https://localhost:"),
        "{text}"
    );
    assert_failure(
        &run(&["demo", "--once", "-f", "no/such.yaml"]),
        2,
        &["error: no/such.yaml: No such file"],
    );
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
