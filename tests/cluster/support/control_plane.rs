//! The program of `tests/controlplane`, for as long as a test runs.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;

use crate::chart::tools::tool;

/// How many requests the controllers may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientLimits {
    /// As Kubernetes has it unless told otherwise.
    Usual,
    /// As those set it who run large clusters.
    Raised,
}

impl ClientLimits {
    fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Usual => ["--kube-api-qps", "20", "--kube-api-burst", "30"],
            Self::Raised => ["--kube-api-qps", "500", "--kube-api-burst", "1000"],
        }
    }
}

/// Where everything is: the line that the program prints when it is ready.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// The kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// The API server's audit log.
    pub audit_log: PathBuf,
}

/// A running control plane. It ends with its standard input, and so with this process however that ends.
#[derive(Debug)]
pub struct ControlPlane {
    child: Child,
    /// Where everything is.
    pub ready: Ready,
}

impl ControlPlane {
    const READY_WITHIN: Duration = Duration::from_mins(3);
    const GONE_WITHIN: Duration = Duration::from_secs(10);

    /// Starts it with these limits of the controllers and further arguments of the API server, and waits until it is ready.
    ///
    /// # Panics
    /// When there is no program to start or it is not ready in time.
    #[must_use]
    pub fn start(limits: ClientLimits, api_server: &[String]) -> Self {
        let program = program();
        let further = api_server
            .iter()
            .map(|argument| format!("--apiserver-arg={argument}"));
        let mut child = Command::new(&program)
            .arg("up")
            .args(limits.arguments())
            .args(further)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; run `make controlplane`, or set ZONEWISE_CONTROLPLANE to its program",
                    program.display()
                )
            });
        let stdout = child.stdout.take().expect("standard output is piped");
        let Some(line) = first_line(stdout, Self::READY_WITHIN) else {
            let _ = child.kill();
            panic!(
                "{} did not say that it is ready; standard error tells why",
                program.display()
            );
        };
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        Self { child, ready }
    }
}

impl ControlPlane {
    /// A client of an administrator.
    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.ready.kubeconfig);
        let kubeconfig = kubeconfig.expect("the kubeconfig can be read");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.expect("the kubeconfig is complete");
        Client::try_from(config).expect("the kubeconfig makes a client")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let asked = Instant::now();
        while asked.elapsed() < Self::GONE_WITHIN {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_line(stdout: ChildStdout, limit: Duration) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if BufReader::new(stdout)
            .read_line(&mut line)
            .is_ok_and(|bytes| bytes > 0)
        {
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(limit).ok()
}

/// The program named by `ZONEWISE_CONTROLPLANE`, or else the newest that `make controlplane` left.
pub(super) fn program() -> PathBuf {
    tool("ZONEWISE_CONTROLPLANE", "controlplane", "v", "controlplane")
}
