//! Kubernetes' own kube-proxy code, which says what it does with slices: the `kube-proxy` command of the program of
//! `tests/controlplane`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::control_plane;

/// A node that kube-proxy runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its zone, where it has one.
    pub zone: Option<String>,
}

impl Node {
    /// A node in a zone.
    #[must_use]
    pub fn new(name: &str, zone: &str) -> Self {
        Self {
            name: name.to_owned(),
            zone: Some(zone.to_owned()),
        }
    }
}

/// An endpoint that kube-proxy uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Used {
    /// Its IP address.
    pub address: String,
    /// The number of its port.
    pub port: i64,
    /// Where none is ready, kube-proxy uses those that still serve while they end.
    pub ready: bool,
}

/// What kube-proxy on one node uses for one port of a Service.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// The node.
    pub node: String,
    /// The node's zone, `""` where it has none.
    pub zone: String,
    /// The name of the port.
    pub port: String,
    /// Its protocol.
    pub protocol: String,
    /// For traffic policy Cluster; nothing where the Service does not have it or no endpoint has the port.
    pub cluster: Option<Vec<Used>>,
}

/// The program that answers.
#[derive(Debug)]
pub struct KubeProxy {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl KubeProxy {
    const ANSWERS_WITHIN: Duration = Duration::from_mins(1);

    /// Starts it.
    ///
    /// # Panics
    /// When there is no program to start.
    #[must_use]
    pub fn start() -> Self {
        let mut child = command()
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", command()));
        let questions = child.stdin.take().expect("standard input is piped");
        let answers = lines(child.stdout.take().expect("standard output is piped"));
        Self {
            child,
            questions,
            answers,
        }
    }

    /// What it does on each node with slices of one Service that are as an API server stores them, for each port.
    ///
    /// # Panics
    /// When it finds fault with them.
    pub fn uses(&mut self, nodes: &[Node], slices: &[Value]) -> Vec<Use> {
        let question = json!({"nodes": nodes, "slices": slices}).to_string();
        let asked = writeln!(self.questions, "{question}");
        let answer = self.answers.recv_timeout(Self::ANSWERS_WITHIN);
        let Ok(answer) = asked.map_err(drop).and(answer.map_err(drop)) else {
            panic!("no answer, and standard error tells why, to {question}");
        };
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{answer}: {error}"))
    }

    /// The addresses that each zone uses.
    ///
    /// # Panics
    /// When nodes of a zone, or ports, differ in that: [`Self::uses`] tells them apart.
    pub fn used_by_zone(
        &mut self,
        nodes: &[Node],
        slices: &[Value],
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut by_zone: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for used in self.uses(nodes, slices) {
            let addresses = used.cluster.unwrap_or_default().into_iter();
            let addresses: BTreeSet<String> = addresses.map(|used| used.address).collect();
            let known = by_zone
                .entry(used.zone.clone())
                .or_insert_with(|| addresses.clone());
            assert_eq!(
                *known, addresses,
                "node {} uses others for port {:?} than another node, or for another port, in zone {:?}",
                used.node, used.port, used.zone
            );
        }
        by_zone
    }
}

impl Drop for KubeProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that answers on standard output what it is asked on standard input.
#[must_use]
pub fn command() -> Command {
    let mut command = Command::new(control_plane::program());
    command
        .arg("kube-proxy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        for line in lines {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
