//! The arguments of the rendered container, given to the real program.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::helm::{Helm, Release};
use super::program::zonewise;
use super::switches::switches;
use super::values::{certificates, merged, ways};

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

/// Asserts that the program goes to work with the arguments that these values give.
fn works(pod: &Pod, values: &Value) {
    let values = merged(values, &json!({"log": {"format": "json"}}));
    let objects = Helm::four().objects(&Release::usual(), &values);
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
    let values = merged(
        &certificates("provided"),
        &json!({"extraArgs": ["--no-such-flag=1"]}),
    );
    let objects = Helm::four().objects(&Release::usual(), &values);
    let line = pod.first_words(&objects.arguments());
    assert!(line.contains("error: unexpected argument '--"), "{line}");
}
