//! The binary: commands that exit by themselves, and `serve`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, Connection, Tls};
use crate::cluster::{self, UID};
use crate::exposition::Exposition;
use crate::port::Port;
use crate::program::{binary, unconfigured, zonewise};
use crate::wait::blocking::eventually;

/// Runs a command to its end.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    zonewise().args(arguments).output().expect("zonewise runs")
}

/// The same with a text on standard input.
pub fn run_with_input<S: AsRef<OsStr>>(arguments: &[S], input: &str) -> Output {
    let mut command = zonewise();
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("zonewise starts");
    let mut standard_input = child.stdin.take().expect("it is piped");
    standard_input
        .write_all(input.as_bytes())
        .expect("zonewise reads");
    drop(standard_input);
    child.wait_with_output().expect("zonewise runs")
}

/// What a command wrote to standard output.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// What a command wrote to standard error.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// Makes a CA and a pair for loopback in `dir`: `ca.crt`, `tls.crt` and `tls.key`.
pub fn generate_certificates(dir: &Path, lifetime: &str) {
    let arguments = [
        "certs",
        "generate",
        "--dns",
        "localhost",
        "127.0.0.1",
        "::1",
        "--lifetime",
        lifetime,
        "--dir",
    ];
    let output = run(&[arguments.map(OsStr::new).as_slice(), &[dir.as_os_str()]].concat());
    assert!(
        output.status.success(),
        "certs generate: {}",
        stderr(&output)
    );
}

/// Writes a file beside its place and renames it there, so that nobody reads half of it.
pub fn replace(file: &Path, text: impl AsRef<[u8]>) {
    let beside = file.with_extension("beside");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

/// A kubeconfig for an API server at a port of loopback.
pub fn kubeconfig(port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
}

/// What `serve` starts with.
pub struct Setup {
    dir: TempDir,
    /// For the webhook and for metrics. Reserved until the process is gone.
    ports: [Port; 2],
    flags: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    open_files: Option<(u32, u32)>,
}

impl Setup {
    /// The sample cluster, fresh certificates and free ports.
    pub fn new() -> Self {
        let setup = Self::bare();
        let cluster = setup.path("cluster.yaml").display().to_string();
        setup
            .cluster(&cluster::sample())
            .flag("--from-files", cluster)
    }

    /// The same on an API server at a port of loopback. It has no Lease, and tests read the whole log.
    pub fn on_api_server(port: u16) -> Self {
        let setup = Self::bare();
        let file = setup.path("kubeconfig");
        replace(&file, kubeconfig(port).to_string());
        setup
            .flag("--kubeconfig", file.display().to_string())
            .flag("--controller", "false")
    }

    fn bare() -> Self {
        let dir = TempDir::new().unwrap();
        generate_certificates(&dir.path().join("certs"), "24h");
        let setup = Self {
            dir,
            ports: [Port::reserve(), Port::reserve()],
            flags: Vec::new(),
            environment: Vec::new(),
            open_files: None,
        };
        let file = |name: &str| setup.path(name).display().to_string();
        let (certificate, key) = (file("certs/tls.crt"), file("certs/tls.key"));
        let [webhook, metrics] = setup.ports().map(|port| format!("127.0.0.1:{port}"));
        setup
            .flag("--tls-cert-file", certificate)
            .flag("--tls-private-key-file", key)
            .flag("--webhook-bind-address", webhook)
            .flag("--metrics-bind-address", metrics)
            .flag("--log-format", "json")
            .flag("--shutdown-delay-duration", "0s")
    }

    /// Its ports: for the webhook and for metrics.
    pub fn ports(&self) -> [u16; 2] {
        self.ports.each_ref().map(Port::number)
    }

    /// A path in its folder, which is gone with it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Another cluster.
    pub fn cluster(self, text: &str) -> Self {
        replace(&self.path("cluster.yaml"), text);
        self
    }

    /// A flag, in place of one of the same name.
    pub fn flag(mut self, name: &str, value: impl Into<String>) -> Self {
        self.flags.retain(|(other, _)| other != name);
        self.flags.push((name.into(), value.into()));
        self
    }

    /// A variable of the environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A soft and a hard limit of open files.
    pub fn open_files(mut self, soft: u32, hard: u32) -> Self {
        self.open_files = Some((soft, hard));
        self
    }

    fn program(&self) -> Command {
        let Some((soft, hard)) = self.open_files else {
            return zonewise();
        };
        let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
        let mut command = unconfigured(Command::new("sh"));
        command.arg("-c").arg(script).arg(binary());
        command
    }

    fn command(&self) -> Command {
        let mut command = self.program();
        command.arg("serve").stdout(Stdio::null());
        command.args(self.flags.iter().flat_map(|(name, value)| [name, value]));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it and expects it to end by itself; its exit status and what it said.
    pub fn fail(self) -> (Option<i32>, String) {
        let mut serve = self.spawn();
        let status = serve.wait();
        (status.code(), serve.log_text())
    }

    /// Starts it without waiting for anything.
    pub fn spawn(self) -> Serve {
        let log = self.path("log");
        let child = self
            .command()
            .stderr(File::create(&log).unwrap())
            .spawn()
            .expect("zonewise starts");
        let port = |name: &str| {
            let flag = self.flags.iter().find(|(flag, _)| flag == name);
            // Nothing is asked of one whose address is no address.
            flag.and_then(|(_, address)| address.rsplit_once(':')?.1.parse().ok())
                .unwrap_or(0u16)
        };
        Serve {
            webhook: (Ipv4Addr::LOCALHOST, port("--webhook-bind-address")).into(),
            metrics: (Ipv4Addr::LOCALHOST, port("--metrics-bind-address")).into(),
            setup: self,
            log,
            child,
        }
    }

    /// Starts it and waits until it is ready.
    pub fn start(self) -> Serve {
        let mut serve = self.spawn();
        eventually("zonewise is ready", || {
            serve.assert_runs();
            let answer = serve.try_get("/readyz")?;
            if answer.status == 200 {
                Ok(())
            } else {
                Err(answer.text().to_owned())
            }
        });
        serve
    }
}

/// What came of a slice that was written.
#[derive(Debug)]
pub struct Written {
    /// The operations of the patch, where there is one.
    pub patch: Option<Vec<Value>>,
    /// The slice with the patch applied.
    pub stored: Value,
}

/// A running `zonewise serve`; it ends with this value.
pub struct Serve {
    /// Where `/mutate` is.
    pub webhook: SocketAddr,
    /// Where `/metrics` is.
    pub metrics: SocketAddr,
    setup: Setup,
    log: PathBuf,
    child: Child,
}

impl Serve {
    /// One with the sample cluster and these flags.
    pub fn with(flags: &[(&str, &str)]) -> Self {
        flags
            .iter()
            .fold(Setup::new(), |setup, (name, value)| {
                setup.flag(name, *value)
            })
            .start()
    }

    /// One with the sample cluster.
    pub fn sample() -> Self {
        Self::with(&[])
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.setup.path(name)
    }

    /// A way to speak to it that trusts its first CA.
    pub fn tls(&self) -> Tls {
        Tls::trusting(&self.path("certs/ca.crt"))
    }

    /// A connection to the webhook.
    pub fn connect(&self) -> Connection {
        self.tls()
            .connect(self.webhook)
            .expect("the webhook takes a connection")
    }

    /// Sends a review over a new connection.
    pub fn ask(&self, review: &Value) -> Answer {
        self.connect()
            .post("/mutate?timeout=1s", review.to_string().as_bytes())
    }

    /// Creates a slice.
    pub fn create(&self, slice: &Value) -> Written {
        write(&mut self.connect(), "CREATE", slice, None)
    }

    /// Updates a slice.
    pub fn update(&self, slice: &Value, old: &Value) -> Written {
        write(&mut self.connect(), "UPDATE", slice, Some(old))
    }

    /// Gets a path of the plain server.
    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path)
            .expect("the plain server takes a connection")
    }

    /// The same where it may not listen yet.
    pub fn try_get(&self, path: &str) -> Result<Answer, String> {
        let connection = Connection::plain(self.metrics).map_err(|error| error.to_string());
        Ok(connection?.get(path))
    }

    /// Its metrics.
    pub fn metrics(&self) -> Exposition {
        Exposition::parse(self.get("/metrics").text())
    }

    /// The sum of the samples of a metric whose labels include these.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.metrics().count(name, labels)
    }

    /// The reviews answered with these labels.
    pub fn admitted(&self, labels: &[(&str, &str)]) -> u64 {
        self.count("zonewise_admission_requests_total", labels)
    }

    /// Waits until a metric has a value.
    pub fn wait_for_count(&self, name: &str, labels: &[(&str, &str)], value: u64) {
        eventually(&format!("{name} with {labels:?} is {value}"), || {
            let now = self.count(name, labels);
            if now == value {
                Ok(())
            } else {
                Err(format!("it is {now}"))
            }
        });
    }

    /// Its log lines, each of which must be JSON.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        // What is still being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        whole.lines().map(parse).collect()
    }

    /// The log lines that tell of a decision.
    pub fn logged_decisions(&self) -> Vec<Value> {
        self.log()
            .into_iter()
            .filter(|line| line.get("decision").is_some())
            .collect()
    }

    /// Waits for a log line.
    pub fn wait_for_log(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the log tells {what}"), || {
            self.log()
                .into_iter()
                .find(|line| is_it(line))
                .ok_or_else(|| "no such line".into())
        })
    }

    /// The log as it stands, for what is not JSON.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends it a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let told = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(
            told.is_ok_and(|status| status.success()),
            "kill -{name} fails"
        );
    }

    /// Makes it stand still until it gets the signal `CONT`.
    pub fn stop(&self) {
        use rustix::process::{Pid, WaitOptions, waitpid};
        self.signal("STOP");
        // A signal is on its way for a while.
        let status = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
        assert!(status.is_some_and(|(_, status)| status.stopped()));
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Asserts that it has not exited.
    pub fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("zonewise exited with {status}");
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("zonewise ends", || {
            self.child
                .try_wait()
                .unwrap()
                .ok_or_else(|| "it runs".into())
        })
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "the log of zonewise:\n{}",
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

/// Writes a slice as an API server does: asks over a connection, and applies the patch.
pub fn write(
    connection: &mut Connection,
    operation: &str,
    slice: &Value,
    old: Option<&Value>,
) -> Written {
    let review = cluster::review(operation, slice, old).to_string();
    let answer = connection.post("/mutate?timeout=1s", review.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    apply(&answer, slice)
}

/// Checks that an answer allows what was asked, and applies its patch.
pub fn apply(answer: &Answer, slice: &Value) -> Written {
    use base64::Engine as _;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let review = answer.json();
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(review["kind"], "AdmissionReview");
    let response = review["response"].as_object().expect("a response");
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&UID.into(), &true.into())
    );
    let Some(encoded) = response.get("patch") else {
        assert_eq!(response.len(), 2, "no patch, so no patchType: {response:?}");
        return Written {
            patch: None,
            stored: slice.clone(),
        };
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded.as_str().unwrap())
        .unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&bytes).unwrap();
    let mut stored = slice.clone();
    json_patch::patch(&mut stored, &patch).expect("the patch fits the slice");
    Written {
        patch: Some(serde_json::from_slice(&bytes).unwrap()),
        stored,
    }
}
