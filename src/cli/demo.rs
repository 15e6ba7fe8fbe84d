//! `zonewise demo`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Method, Request, StatusCode, header};
use clap::builder::BoolishValueParser;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, render};
use crate::certs::serving::{CurrentCertificate, ServingCertificate};
use crate::cluster::files::{Objects, typed_slice};
use crate::cluster::store::{StoreRules, Writer};
use crate::cluster::watch::WatchStatus;
use crate::report::{Filter, Report, slice_name};
use crate::server::connection::Times;
use crate::server::drain::{self, Drain, DrainControl, Phase};
use crate::server::routes::{self, App, Bodies};
use crate::server::tls;
use crate::server::{Limits, Server, bind};
use crate::settings::Settings;
use crate::telemetry::{Metrics, Readiness};
use crate::{admin, certs, words};

/// Show it at work, with no cluster
///
/// Starts the same server as `serve` on loopback, with a certificate made in memory, over a sample cluster; sends it
/// each EndpointSlice as an API server would, applies the patches that come back, and shows what was decided and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise demo
  zonewise demo --once -f cluster.yaml

Exit status:
  0  every answer is what its plan says
  1  one is not
  2  a file can't be read, or the arguments are wrong")]
pub struct Args {
    /// End after that; exit status 1 if an answer is not what its plan says
    #[arg(long, env = "ZONEWISE_ONCE", value_parser = BoolishValueParser::new())]
    once: bool,
    /// Files or folders with another cluster; - is standard input. The variable counts for explain too
    #[arg(short, long = "file", env = "ZONEWISE_FILE", num_args = 1.., value_delimiter = ',', value_name = "FILE")]
    files: Vec<PathBuf>,
}

const SAMPLE: &str = include_str!("../../examples/cluster.yaml");

pub fn run(args: &Args) -> Result<(), Failure> {
    let objects = read(&args.files)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed)?;
    runtime.block_on(demo(args.once, &objects))
}

fn read(files: &[PathBuf]) -> Result<Objects, Failure> {
    if !files.is_empty() {
        return Objects::read(files).map_err(Failure::usage);
    }
    let mut objects = Objects::default();
    objects
        .add_text(Path::new("examples/cluster.yaml"), SAMPLE)
        .map_err(Failure::failed)?;
    Ok(objects)
}

async fn demo(once: bool, objects: &Objects) -> Result<(), Failure> {
    let mut writer = objects.load(StoreRules::default(), Timestamp::now());
    let settings = Settings::default();
    let slices = &objects.slices;
    let report = Report::new(&writer.cluster(), &settings, objects, &Filter::default());
    let running = Running::start(&writer, settings)?;
    let patched = play(&report, slices, &running, &mut writer).await?;
    show(&report, slices.len(), &running).or_else(super::ignore_closed_pipe)?;
    if !once {
        running.stay(patched.or(slices.first())).await?;
    }
    running.control.enter(Phase::Closing);
    Ok(())
}

/// Writes each slice as it is, in the order in which the report decides on them: what is stored of one depends on those
/// before it. The first that was patched.
async fn play<'a>(
    report: &Report,
    slices: &'a [Value],
    running: &Running,
    writer: &mut Writer,
) -> Result<Option<&'a Value>, Failure> {
    let (mut patched, mut wrong) = (None, Vec::new());
    let services = report.services.iter();
    let planned = services.flat_map(|service| service.places.iter().zip(&service.stored));
    for (&place, planned) in planned {
        let slice = &slices[place];
        let stored = running.write(slice).await?;
        if stored != *planned {
            wrong.push(slice_name(slice));
        }
        if stored != *slice {
            patched.get_or_insert(slice);
        }
        // As the watch would tell it.
        if let Some(typed) = typed_slice(&stored) {
            writer.apply_slice(&typed);
        }
    }
    if wrong.is_empty() {
        return Ok(patched);
    }
    Err(Failure::failed(format!(
        "the answers for these slices are not what was planned: {}",
        wrong.join(", ")
    )))
}

fn show(report: &Report, slices: usize, running: &Running) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    render::report(&mut out, report)?;
    let sent = if slices == 1 { "was" } else { "were" };
    writeln!(out)?;
    let text = format!(
        "{} {sent} sent to https://localhost:{}/mutate, certificate verified, and patched as planned.",
        words::count(slices, "slice"),
        running.webhook.port()
    );
    render::paragraph(&mut out, anstyle::Style::new(), ("", ""), &text)
}

/// The server and how to reach it.
struct Running {
    webhook: SocketAddr,
    metrics: SocketAddr,
    ca: String,
    client: tokio_rustls::TlsConnector,
    control: DrainControl,
}

impl Running {
    fn start(writer: &Writer, settings: Settings) -> Result<Self, Failure> {
        let names = ["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        let bundle = certs::generate(&names, time::Duration::DAY).map_err(Failure::failed)?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        admin::register(
            &mut registry,
            writer.cluster(),
            Arc::new(WatchStatus::default()),
        );
        let tls = tls_config(&bundle, &metrics)?;
        let app = App {
            cluster: writer.cluster(),
            settings: Arc::new(settings),
            metrics: metrics.clone(),
            readiness: Readiness::default(),
            bodies: Bodies::new(16 << 20, 64 << 20, Duration::from_secs(10)),
        };
        let (control, drain) = drain::channel();
        let start = |name, tls, router| start_server(name, tls, router, &drain, &metrics);
        Ok(Self {
            webhook: start("webhook", Some(tls), routes::webhook(app.clone()))?,
            metrics: start("metrics", None, admin::routes(app, Arc::new(registry)))?,
            client: trusting(&bundle.ca)?,
            ca: bundle.ca,
            control,
        })
    }

    /// Writes a slice as the API server would: asks the webhook and applies its patch.
    async fn write(&self, slice: &Value) -> Result<Value, Failure> {
        let answer = self.ask(&review(slice)).await?;
        let response = answer.get("response").unwrap_or(&Value::Null);
        if response.get("allowed") != Some(&Value::Bool(true)) {
            return Err(Failure::failed(format!(
                "{}: not allowed: {answer}",
                slice_name(slice)
            )));
        }
        let mut stored = slice.clone();
        if let Some(patch) = response.get("patch").and_then(Value::as_str) {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(patch)
                .map_err(Failure::failed)?;
            let patch: json_patch::Patch =
                serde_json::from_slice(&bytes).map_err(Failure::failed)?;
            json_patch::patch(&mut stored, &patch).map_err(Failure::failed)?;
        }
        Ok(stored)
    }

    async fn ask(&self, review: &Value) -> Result<Value, Failure> {
        let stream = TcpStream::connect(self.webhook)
            .await
            .map_err(Failure::failed)?;
        let name = ServerName::try_from("localhost").map_err(Failure::failed)?;
        let stream = self
            .client
            .connect(name, stream)
            .await
            .map_err(Failure::failed)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(Failure::failed)?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri("/mutate?timeout=1s")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(review.to_string())))
            .map_err(Failure::failed)?;
        let response = sender
            .send_request(request)
            .await
            .map_err(Failure::failed)?;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(Failure::failed)?
            .to_bytes();
        if status != StatusCode::OK {
            return Err(Failure::failed(format!(
                "the webhook answered {status}: {}",
                String::from_utf8_lossy(&body)
            )));
        }
        serde_json::from_slice(&body).map_err(Failure::failed)
    }

    /// Tells how to try it by hand, with a slice, and waits for Ctrl-C or SIGTERM.
    async fn stay(&self, slice: Option<&Value>) -> Result<(), Failure> {
        // Before the files are there: a signal without a handler would leave them behind.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let folder = Folder::new(&self.ca, slice).map_err(Failure::failed)?;
        let text = self.manual(&folder.0);
        std::io::stdout()
            .write_all(text.as_bytes())
            .or_else(super::ignore_closed_pipe)?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    }

    /// How to try the webhook by hand, with the files of a folder.
    fn manual(&self, folder: &Path) -> String {
        format!(
            "
Try it by hand; a patch travels in base64, and the last line shows it:
  curl --silent --cacert {} \\
    -H 'Content-Type: application/json' --data @{} \\
    'https://localhost:{}/mutate?timeout=1s' |
    jq -r '.response.patch // empty' | base64 -d | jq -c '.[]'
  curl http://{}/metrics

Ctrl-C ends it.
",
            folder.join("ca.crt").display(),
            folder.join("review.json").display(),
            self.webhook.port(),
            self.metrics
        )
    }
}

const LIMITS: Limits = Limits {
    times: Times {
        first_request: Duration::from_secs(10),
        request: Duration::from_secs(10),
        idle: Duration::from_secs(150),
        age: Duration::from_mins(5),
    },
    connections: 100,
};

fn tls_config(bundle: &certs::Bundle, metrics: &Metrics) -> Result<Arc<ServerConfig>, Failure> {
    let chain = CertificateDer::from_pem_slice(bundle.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(bundle.key.as_bytes());
    let certificate =
        ServingCertificate::new(vec![pem(chain)?], pem(key)?).map_err(Failure::failed)?;
    let current = CurrentCertificate::new(&certificate, metrics.clone());
    tls::server_config(current, None)
        .map(Arc::new)
        .map_err(Failure::failed)
}

/// Starts a server on loopback, and says where.
fn start_server(
    name: &'static str,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    drain: &Drain,
    metrics: &Metrics,
) -> Result<SocketAddr, Failure> {
    let listener = bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(Failure::failed)?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    let server = Server {
        name,
        listener,
        tls,
        clients: None,
        router,
        limits: LIMITS,
        drain: drain.clone(),
        metrics: metrics.clone(),
    };
    tokio::spawn(server.run());
    Ok(address)
}

fn pem<T>(parsed: Result<T, rustls_pki_types::pem::Error>) -> Result<T, Failure> {
    parsed.map_err(Failure::failed)
}

fn trusting(ca: &str) -> Result<tokio_rustls::TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(pem(CertificateDer::from_pem_slice(ca.as_bytes()))?)
        .map_err(Failure::failed)?;
    let config = rustls::ClientConfig::builder_with_provider(certs::provider())
        .with_safe_default_protocol_versions()
        .map_err(Failure::failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// The review that an API server sends when a slice is written as it is.
fn review(slice: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("demo-{}", slice_name(slice)),
            "kind": {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"},
            "resource": {"group": "discovery.k8s.io", "version": "v1", "resource": "endpointslices"},
            "name": slice_name(slice),
            "namespace": slice.pointer("/metadata/namespace"),
            "operation": "UPDATE",
            "object": slice,
            "oldObject": slice,
            "dryRun": false,
        },
    })
}

/// Files to try it by hand with, gone when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new(ca: &str, slice: Option<&Value>) -> std::io::Result<Self> {
        let folder =
            Self(std::env::temp_dir().join(format!("zonewise-demo-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0)?;
        std::fs::write(folder.0.join("ca.crt"), ca)?;
        std::fs::write(
            folder.0.join("review.json"),
            review(slice.unwrap_or(&Value::Null)).to_string(),
        )?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
