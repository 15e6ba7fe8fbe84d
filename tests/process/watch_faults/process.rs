//! A zonewise process, and what can be seen of it from outside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::api_server::{ApiServer, Resource};
use crate::port::Port;
use crate::program::zonewise;
use crate::wait::eventually;

/// The zone that each endpoint is hinted for as stored: what comes back when hints are kept.
pub const STORED: &str = "stored";

/// `zonewise serve` on a kubeconfig that names the scripted API server.
pub struct Zonewise {
    child: Child,
    webhook: Port,
    plain: Port,
    tls: TlsConnector,
    dir: TempDir,
}

impl Zonewise {
    /// Starts it.
    pub async fn start(api: &ApiServer) -> Self {
        Self::start_with(api, &[]).await
    }

    /// Starts it with more arguments.
    pub async fn start_with(api: &ApiServer, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (webhook, plain) = (Port::reserve(), Port::reserve());
        let tls = make_certificates(dir.path());
        let kubeconfig = write_kubeconfig(dir.path(), api.port());
        let file = |name: &str| dir.path().join(name);
        let log = std::fs::File::create(file("log")).expect("a log file");
        let child = zonewise()
            .arg("serve")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--tls-cert-file")
            .arg(file("tls.crt"))
            .arg("--tls-private-key-file")
            .arg(file("tls.key"))
            // The scripted API server has no Lease, and the log is looked at.
            .args(["--controller", "false"])
            .args(["--webhook-bind-address", &loopback(&webhook)])
            .args(["--metrics-bind-address", &loopback(&plain)])
            .args(["--log-format", "json"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("zonewise starts");
        let mut zonewise = Self {
            child,
            webhook,
            plain,
            tls,
            dir,
        };
        eventually("zonewise answers", async || {
            zonewise.assert_runs();
            zonewise.get("/healthz").await
        })
        .await;
        zonewise
    }

    /// Starts it and waits until it is ready and watches.
    pub async fn start_ready(api: &ApiServer) -> Self {
        let mut zonewise = Self::start(api).await;
        zonewise.is_ready().await;
        for resource in Resource::ALL {
            eventually("the watch is open", async || {
                let open = api.open_watches(resource);
                (open == 1)
                    .then_some(())
                    .ok_or_else(|| format!("{open} of {}", resource.word()))
            })
            .await;
        }
        zonewise
    }

    // === What it says of itself ===

    /// Status and text of `/readyz`.
    pub async fn readyz(&self) -> Result<(u16, String), String> {
        self.get("/readyz").await
    }

    /// Waits until `/readyz` says 200.
    pub async fn is_ready(&mut self) {
        self.comes_to_readyz(200, "ok\n").await;
    }

    /// Waits until `/readyz` says this.
    pub async fn comes_to_readyz(&mut self, status: u16, text: &str) {
        let wanted = (status, text.to_owned());
        eventually("readiness", async || {
            self.assert_runs();
            let is = self.readyz().await?;
            (is == wanted)
                .then_some(())
                .ok_or_else(|| format!("{is:?} is not {wanted:?}"))
        })
        .await;
    }

    /// Asserts that the process has not ended.
    pub fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().expect("its status") {
            panic!("zonewise ended with {status}; its log:\n{}", self.raw_log());
        }
    }

    /// All metrics: name with labels, and value, whole numbers without a fraction.
    pub async fn metrics(&self) -> Result<BTreeMap<String, String>, String> {
        let (status, text) = self.get("/metrics").await?;
        if status != 200 {
            return Err(format!("/metrics says {status}: {text}"));
        }
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            let whole = value.strip_suffix(".0").unwrap_or(value);
            Some((name.to_owned(), whole.to_owned()))
        };
        Ok(samples.filter_map(sample).collect())
    }

    /// A metric by its name with labels; empty where there is none.
    pub async fn metric(&self, name: &str) -> String {
        let mut metrics = self.metrics().await.expect("metrics");
        metrics.remove(name).unwrap_or_default()
    }

    /// A metric of a resource, a whole number.
    async fn count(&self, name: &str, resource: Resource) -> u64 {
        let name = format!("{name}{{resource=\"{}\"}}", resource.word());
        let text = self.metric(&name).await;
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}"))
    }

    /// How many lists and watches of a resource failed.
    pub async fn errors(&self, resource: Resource) -> u64 {
        self.count("zonewise_watch_errors_total", resource).await
    }

    /// How many objects of a resource had fields of unexpected types.
    pub async fn unreadable(&self, resource: Resource) -> u64 {
        self.count("zonewise_unreadable_objects_total", resource)
            .await
    }

    /// Whether the first list of a resource has been taken in.
    pub async fn synced(&self, resource: Resource) -> bool {
        self.count("zonewise_cache_synced", resource).await == 1
    }

    /// When something was last heard of a resource, in seconds since 1970; 0 for never.
    pub async fn last_event(&self, resource: Resource) -> u64 {
        self.count("zonewise_watch_last_event_timestamp_seconds", resource)
            .await
    }

    /// Waits until something of a resource was heard later than `before`.
    pub async fn comes_to_hear(&self, resource: Resource, before: u64) {
        eventually("something is heard", async || {
            let last = self.last_event(resource).await;
            (last > before)
                .then_some(())
                .ok_or_else(|| format!("last at {last}"))
        })
        .await;
    }

    /// The share of each zone in hundredths, such as `a 50, b 50`.
    pub async fn shares(&self) -> String {
        let metrics = self.metrics().await.expect("metrics");
        let share = |(name, value): (&String, &String)| {
            let zone = name.strip_prefix("zonewise_zone_capacity_ratio{zone=\"")?;
            let value: f64 = value.parse().expect("a ratio");
            let hundredths = value * 100.0;
            Some(format!("{} {hundredths:.0}", zone.trim_end_matches("\"}")))
        };
        let shares: Vec<String> = metrics.iter().filter_map(share).collect();
        shares.join(", ")
    }

    /// Waits until the shares are these.
    pub async fn comes_to_shares(&self, wanted: &str) {
        eventually("shares", async || {
            let is = self.shares().await;
            (is == wanted)
                .then_some(())
                .ok_or_else(|| format!("{is:?} is not {wanted:?}"))
        })
        .await;
    }

    /// Waits until a metric, by its name with labels, has this value.
    pub async fn comes_to_metric(&self, name: &str, wanted: &str) {
        eventually(name, async || {
            let is = self.metric(name).await;
            (is == wanted)
                .then_some(())
                .ok_or_else(|| format!("{is} is not {wanted}"))
        })
        .await;
    }

    /// Waits until so many nodes are in a state.
    pub async fn comes_to_nodes(&self, state: &str, count: u32) {
        let name = format!("zonewise_nodes{{state=\"{state}\"}}");
        self.comes_to_metric(&name, &count.to_string()).await;
    }

    /// Waits until at least so many lists and watches of a resource failed.
    pub async fn comes_to_errors(&self, resource: Resource, least: u64) {
        eventually("errors are counted", async || {
            let is = self.errors(resource).await;
            (is >= least)
                .then_some(())
                .ok_or_else(|| format!("{is} {} of {least}", resource.word()))
        })
        .await;
    }

    /// Its log as it stands.
    pub fn raw_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Its log by lines.
    pub fn log(&self) -> Vec<Value> {
        let line = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
        };
        self.raw_log().lines().map(line).collect()
    }

    /// The lines of the log with these fields.
    pub fn log_with(&self, fields: &[(&str, &str)]) -> Vec<Value> {
        let mut lines = self.log();
        lines.retain(|line| fields.iter().all(|(field, text)| line[*field] == **text));
        lines
    }

    /// The errors of a resource that its log tells of.
    pub fn told_errors(&self, resource: Resource) -> Vec<String> {
        let message = "watch failed; trying again, with what is known so far";
        let fields = [("message", message), ("resource", resource.word())];
        let mut lines = self.log_with(&fields);
        lines.retain(|line| line["level"] == "WARN");
        let error = |line: &Value| line["error"].as_str().unwrap_or_default().to_owned();
        lines.iter().map(error).collect()
    }

    // === What it answers ===

    /// What is decided on a slice that is sent without hints and is stored with `STORED` on each endpoint: decision,
    /// reason, and the hint of each endpoint after the patch, such as `Hints: a b c` or `Kept NotSynced: stored stored`.
    pub async fn ask(&self, slice: &Value) -> String {
        let before = self.admissions().await;
        let answer = self.mutate(slice).await;
        let after = self.admissions().await;
        let risen = after
            .iter()
            .find(|(labels, count)| before.get(*labels) != Some(count));
        let (labels, _) = risen.unwrap_or_else(|| panic!("nothing was counted: {answer}"));
        let label = |name: &str| {
            let rest = labels.split_once(&format!("{name}=\"")).expect(name).1;
            rest.split_once('"').expect(name).0.to_owned()
        };
        let decided = format!("{} {}", label("decision"), label("reason"));
        let hints = hints_after(slice, &answer["response"]);
        format!("{}: {hints}", decided.trim_end())
            .trim_end()
            .to_owned()
    }

    /// Waits until [`Self::ask`] says this.
    pub async fn comes_to_answer(&self, slice: &Value, wanted: &str) {
        eventually("an answer", async || {
            let is = self.ask(slice).await;
            (is == wanted)
                .then_some(())
                .ok_or_else(|| format!("{is:?} is not {wanted:?}"))
        })
        .await;
    }

    async fn admissions(&self) -> BTreeMap<String, String> {
        let mut metrics = self.metrics().await.expect("metrics");
        metrics.retain(|name, _| name.starts_with("zonewise_admission_requests_total{"));
        metrics
    }

    async fn mutate(&self, slice: &Value) -> Value {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u1",
                "kind": {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"},
                "operation": "UPDATE",
                "namespace": slice["metadata"]["namespace"],
                "object": slice,
                "oldObject": stored(slice),
            },
        });
        let stream = connect(&self.webhook).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = self.tls.connect(name, stream).await.expect("TLS");
        let request = hyper::Request::post("/mutate?timeout=1s")
            .header("host", "localhost")
            .body(Full::new(Bytes::from(review.to_string())))
            .expect("a request");
        let (status, text) = exchange(stream, request).await.expect("an answer");
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        answer
    }

    async fn get(&self, path: &str) -> Result<(u16, String), String> {
        let stream = connect(&self.plain).await?;
        let request = hyper::Request::get(path)
            .header("host", "localhost")
            .body(Full::default())
            .expect("a request");
        exchange(stream, request).await
    }
}

impl Drop for Zonewise {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the log of zonewise ---\n{}", self.raw_log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The slice with the zone `STORED` as hint of each endpoint.
fn stored(slice: &Value) -> Value {
    let mut stored = slice.clone();
    for endpoint in stored["endpoints"].as_array_mut().into_iter().flatten() {
        endpoint["hints"] = json!({"forZones": [{"name": STORED}]});
    }
    stored
}

/// The zones that endpoints are hinted for once the patch is applied; `-` for none.
fn hints_after(slice: &Value, response: &Value) -> String {
    let mut slice = slice.clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch = base64::engine::general_purpose::STANDARD
            .decode(patch)
            .expect("base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a JSON patch");
        json_patch::patch(&mut slice, &patch).expect("a patch that fits");
    }
    let hint = |endpoint: &Value| {
        let zone = endpoint["hints"]["forZones"][0]["name"].as_str();
        zone.unwrap_or("-").to_owned()
    };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.map(hint).collect::<Vec<_>>().join(" ")
}

fn loopback(port: &Port) -> String {
    format!("127.0.0.1:{}", port.number())
}

fn make_certificates(dir: &Path) -> TlsConnector {
    let made = zonewise()
        .args(["certs", "generate", "--dns", "localhost", "--dir"])
        .arg(dir)
        .output()
        .expect("zonewise runs");
    assert!(
        made.status.success(),
        "certs generate: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut roots = rustls::RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(dir.join("ca.crt")).expect("ca.crt");
    roots.add(ca).expect("a CA");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's own versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config).into()
}

fn write_kubeconfig(dir: &Path, port: u16) -> PathBuf {
    let path = dir.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&path, config.to_string()).expect("a kubeconfig");
    path
}

async fn connect(port: &Port) -> Result<TcpStream, String> {
    let connected = TcpStream::connect(("127.0.0.1", port.number())).await;
    connected.map_err(|error| error.to_string())
}

async fn exchange<S>(
    stream: S,
    request: hyper::Request<Full<Bytes>>,
) -> Result<(u16, String), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let exchange = async {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    exchange
        .await
        .map_err(|error: hyper::Error| error.to_string())
}
