//! A zonewise process, as it would run in a pod.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::Deserialize;

use super::port::Port;
use super::program::zonewise;
use super::wait::{eventually, within};
use super::{http, metrics};

/// Certificates as `zonewise certs generate` makes them.
#[derive(Debug, Clone)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Makes a pair for loopback in `dir`.
    #[must_use]
    pub fn generate(dir: &Path) -> Self {
        let made = zonewise()
            .args([
                "certs",
                "generate",
                "--dns",
                "localhost",
                "--dns",
                "127.0.0.1",
                "--dir",
            ])
            .arg(dir)
            .output()
            .expect("zonewise runs");
        assert!(
            made.status.success(),
            "certs generate: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        Self {
            dir: dir.to_owned(),
        }
    }

    /// Those that lie in `dir`: `tls.crt` and `tls.key`.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// The CA certificate, PEM.
    #[must_use]
    pub fn ca(&self) -> Vec<u8> {
        std::fs::read(self.dir.join("ca.crt")).expect("certs generate wrote ca.crt")
    }
}

/// A line of the log that tells of a changed decision.
#[derive(Debug, Clone, Deserialize)]
pub struct LoggedDecision {
    /// `namespace/name` of the Service.
    pub service: String,
    /// `IPv4` or `IPv6`.
    pub address_type: String,
    /// The word of the decision.
    pub decision: String,
    /// The word of the reason, empty for hints.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
}

/// One replica, which keeps its ports and its log when it is started again.
#[derive(Debug)]
pub struct Replica {
    /// Serves `/mutate`.
    pub webhook_port: u16,
    /// Serves `/metrics` and `/readyz`.
    pub metrics_port: u16,
    /// So that nobody else is given them while it does not run.
    _ports: [Port; 2],
    log: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    child: Mutex<Option<Child>>,
}

impl Replica {
    /// The grace period of the chart's pods.
    const ENDS_WITHIN: Duration = Duration::from_secs(30);

    /// Describes a replica whose log will be in `dir`; nothing runs yet.
    #[must_use]
    pub fn new(name: &str, dir: &Path, kubeconfig: &Path, certificates: &Certificates) -> Self {
        Self::by(name, dir, Vec::new(), |ports| {
            Self::usual(ports, kubeconfig, certificates)
        })
    }

    /// The same with arguments of `zonewise serve` that are made of the two ports, for the webhook and for metrics, and
    /// with these variables.
    #[must_use]
    pub fn by(
        name: &str,
        dir: &Path,
        variables: Vec<(String, String)>,
        arguments: impl FnOnce([u16; 2]) -> Vec<String>,
    ) -> Self {
        let ports = [Port::reserve(), Port::reserve()];
        let [webhook_port, metrics_port] = [&ports[0], &ports[1]].map(Port::number);
        Self {
            webhook_port,
            metrics_port,
            _ports: ports,
            log: dir.join(format!("{name}.log")),
            arguments: arguments([webhook_port, metrics_port]),
            variables,
            child: Mutex::new(None),
        }
    }

    fn usual(
        [webhook_port, metrics_port]: [u16; 2],
        kubeconfig: &Path,
        certificates: &Certificates,
    ) -> Vec<String> {
        let file = |name: &str| certificates.dir.join(name).display().to_string();
        let arguments = [
            ("--kubeconfig", kubeconfig.display().to_string()),
            ("--tls-cert-file", file("tls.crt")),
            ("--tls-private-key-file", file("tls.key")),
            (
                "--webhook-bind-address",
                format!("127.0.0.1:{webhook_port}"),
            ),
            (
                "--metrics-bind-address",
                format!("127.0.0.1:{metrics_port}"),
            ),
            ("--log-format", "json".to_owned()),
            ("--mode", "Active".to_owned()),
            ("--traffic-distribution", "Overlap".to_owned()),
            ("--shutdown-delay-duration", "2s".to_owned()),
            // Scenes make nodes and count on them at once.
            ("--node-grace", "0s".to_owned()),
        ];
        arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect()
    }

    /// The same with another flag, in place of one of that name.
    #[must_use]
    pub fn with(mut self, flag: &str, value: &str) -> Self {
        match self.arguments.iter().position(|known| known == flag) {
            Some(place) => value.clone_into(&mut self.arguments[place + 1]),
            None => self.arguments.extend([flag, value].map(ToOwned::to_owned)),
        }
        self
    }

    /// The same without a flag.
    #[must_use]
    pub fn without(mut self, flag: &str) -> Self {
        if let Some(place) = self.arguments.iter().position(|known| known == flag) {
            self.arguments.drain(place..place + 2);
        }
        self
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self) {
        self.begin();
        self.until_ready().await;
    }

    /// Starts it.
    pub fn begin(&self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("the log can be written");
        let child = spawn(&self.arguments, &self.variables, log);
        *self.child() = Some(child);
    }

    /// Waits until it is ready.
    pub async fn until_ready(&self) {
        eventually("zonewise is ready", async || {
            if let Some(Ok(Some(status))) = self.child().as_mut().map(Child::try_wait) {
                panic!(
                    "zonewise ended with {status}; the end of its log:\n{}",
                    self.end_of_log()
                );
            }
            if self.is_ready() {
                Ok(())
            } else {
                Err("/readyz does not say 200".into())
            }
        })
        .await;
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, signal: &str) {
        let process = self.child().as_ref().expect("it runs").id().to_string();
        let told = Command::new("kill").args(["-s", signal, &process]).status();
        assert!(
            told.is_ok_and(|status| status.success()),
            "kill -s {signal} failed"
        );
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn stop(&self) -> ExitStatus {
        self.signal("TERM");
        let mut child = self.child().take().expect("it runs");
        let status = within(
            Self::ENDS_WITHIN,
            "zonewise ends after SIGTERM",
            async || {
                child
                    .try_wait()
                    .map_err(|error| error.to_string())?
                    .ok_or_else(|| "it runs on".to_owned())
            },
        );
        status.await
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        let mut child = self.child().take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Whether it runs and says that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        is_ready(self.metrics_port)
    }

    /// Its metrics, Prometheus text.
    pub fn metrics(&self) -> Result<String, String> {
        match http::get(self.metrics_port, "/metrics")? {
            (200, text) => Ok(text),
            (status, text) => Err(format!("/metrics says {status}: {text}")),
        }
    }

    /// How many reviews it answered with these labels.
    #[must_use]
    pub fn admissions(&self, labels: &[(&str, &str)]) -> f64 {
        let text = self.metrics().unwrap_or_else(|error| panic!("{error}"));
        metrics::sum(&text, "zonewise_admission_requests_total", labels)
    }

    /// The changed decisions in its log from the line `mark` on.
    #[must_use]
    pub fn logged_decisions(&self, mark: usize) -> Vec<LoggedDecision> {
        let lines = self.log_lines();
        lines
            .iter()
            .skip(mark)
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// How many lines its log has.
    #[must_use]
    pub fn log_mark(&self) -> usize {
        self.log_lines().len()
    }

    /// The last lines of its log.
    #[must_use]
    pub fn end_of_log(&self) -> String {
        const LINES: usize = 30;
        let lines = self.log_lines();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Its log, line by line.
    #[must_use]
    pub fn log_lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log)
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether `/readyz` on a metrics port says 200.
#[must_use]
pub fn is_ready(metrics_port: u16) -> bool {
    http::get(metrics_port, "/readyz").is_ok_and(|(status, _)| status == 200)
}

fn spawn(arguments: &[String], variables: &[(String, String)], log: File) -> Child {
    let mut command = zonewise();
    command
        .arg("serve")
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().expect("zonewise starts")
}
