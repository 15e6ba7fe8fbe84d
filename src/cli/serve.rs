//! `zonewise serve`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{Id, JoinSet};

use super::certificates::{Certificate, CertificateArgs};
use super::connect::Connected;
use super::control::ControllerArgs;
use super::decisions::DecisionArgs;
use super::{Failure, connect, values};
use crate::admin;
use crate::certs::serving::CurrentCertificate;
use crate::cluster::files::{self, LeanObjects};
use crate::cluster::store::{StoreRules, Writer};
use crate::cluster::watch::{self, WatchStatus};
use crate::controller::lease::Candidate;
use crate::server::clients::ClientCa;
use crate::server::connection::Times;
use crate::server::drain::{self, Drain, DrainControl, Phase};
use crate::server::routes::{self, App, Bodies};
use crate::server::tls;
use crate::server::{Limits, Server, bind, descriptors};
use crate::settings::{Mode, Settings, Validation};
use crate::telemetry::{self, Human, LogFormat, Metrics, Readiness, VERSION};

/// Serve the webhook
///
/// Watches Nodes, Services and EndpointSlices of a cluster, or reads them from files, and answers the API server's
/// reviews on /mutate and /validate. Needs permission to list and watch nodes, namespaces, services and
/// endpointslices.discovery.k8s.io.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    certificates: CertificateArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    decisions: DecisionArgs,
    /// How /validate handles invalid annotations or hints that a person writes
    #[arg(
        long,
        env = "ZONEWISE_VALIDATION",
        value_enum,
        default_value_t,
        ignore_case = true,
        help_heading = "Decisions",
        value_name = "VALIDATION"
    )]
    validation: Validation,
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    shutdown: ShutdownArgs,
    /// Panic when deciding for this Service: shows that a panic costs nothing but its own answer
    #[arg(long, hide = true, value_parser = values::service_name)]
    panic_on_service: Option<String>,
}

/// Where it is reached, and what it shows there.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Addresses")]
struct ListenArgs {
    /// Address of the webhook (HTTPS); [::] takes IPv4 too
    #[arg(
        long,
        env = "ZONEWISE_WEBHOOK_BIND_ADDRESS",
        default_value = "[::]:8443",
        value_name = "ADDRESS"
    )]
    webhook_bind_address: SocketAddr,
    /// Address of /metrics, /healthz and /readyz (plain HTTP)
    #[arg(
        long,
        env = "ZONEWISE_METRICS_BIND_ADDRESS",
        default_value = "[::]:8080",
        value_name = "ADDRESS"
    )]
    metrics_bind_address: SocketAddr,
}

/// What it tells of itself.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
struct LogArgs {
    /// error, warn, info, debug, trace, or a filter such as zonewise=debug,kube=warn
    #[arg(
        long,
        env = "ZONEWISE_LOG_LEVEL",
        default_value = "info",
        value_name = "LEVEL"
    )]
    log_level: String,
    /// How log lines look
    #[arg(
        long,
        env = "ZONEWISE_LOG_FORMAT",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    log_format: LogFormat,
}

/// How it ends.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Shutdown")]
struct ShutdownArgs {
    /// How long to go on serving after SIGTERM, so that the API server hears of the end first
    #[arg(long, env = "ZONEWISE_SHUTDOWN_DELAY_DURATION", default_value = "15s", value_parser = values::duration, value_name = "DURATION")]
    shutdown_delay_duration: Duration,
}

/// Where the cluster is known from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
struct SourceArgs {
    /// Kubeconfig of the cluster; without it, the pod's service account or the usual kubeconfig
    #[arg(
        long,
        env = "ZONEWISE_KUBECONFIG",
        value_name = "FILE",
        conflicts_with = "from_files"
    )]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(
        long,
        env = "ZONEWISE_CONTEXT",
        value_name = "NAME",
        conflicts_with = "from_files"
    )]
    context: Option<String>,
    /// Files or folders with Nodes, Services and EndpointSlices in place of any cluster, separated by commas; read again
    /// when they change
    #[arg(
        long,
        env = "ZONEWISE_FROM_FILES",
        value_name = "PATH,...",
        value_delimiter = ','
    )]
    from_files: Vec<PathBuf>,
    /// How long each watch lives, in seconds; shorter than by default only so that tests need not wait
    #[arg(long, hide = true, default_value_t = watch::WATCH_LIFE_SECONDS, value_parser = clap::value_parser!(u32).range(1..=i64::from(watch::WATCH_LIFE_SECONDS)))]
    watch_life_seconds: u32,
}

/// What a server takes on.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Largest body of a request
    #[arg(long, env = "ZONEWISE_MAX_BODY_BYTES", default_value = "16Mi", value_parser = values::bytes, value_name = "BYTES")]
    max_body_bytes: usize,
    /// Bytes of all bodies and answers at once; bodies over 256Ki leave a quarter to smaller ones
    #[arg(long, env = "ZONEWISE_MAX_IN_FLIGHT_BYTES", default_value = "64Mi", value_parser = values::bytes, value_name = "BYTES")]
    max_in_flight_bytes: usize,
    /// Open connections at once, of the webhook and of metrics each
    #[arg(
        long,
        env = "ZONEWISE_MAX_CONNECTIONS",
        default_value = "1000",
        value_name = "NUMBER"
    )]
    max_connections: usize,
    /// Age after which a connection's next answer is its last, so that API servers spread over new replicas
    #[arg(long, env = "ZONEWISE_MAX_CONNECTION_AGE", default_value = "5m", value_parser = values::duration, value_name = "DURATION")]
    max_connection_age: Duration,
    /// Time for the TLS handshake, and again for a connection's first request
    #[arg(long, env = "ZONEWISE_FIRST_REQUEST_TIMEOUT", default_value = "10s", value_parser = values::duration, value_name = "DURATION")]
    first_request_timeout: Duration,
    /// Time for a request once it has begun; less if its client says that it waits for less
    #[arg(long, env = "ZONEWISE_REQUEST_TIMEOUT", default_value = "10s", value_parser = values::duration, value_name = "DURATION")]
    request_timeout: Duration,
    /// How long an idle connection is kept; at least 120s, since API servers keep theirs for 90s
    #[arg(long, env = "ZONEWISE_IDLE_TIMEOUT", default_value = "150s", value_parser = values::idle_duration, value_name = "DURATION")]
    idle_timeout: Duration,
}

impl LimitArgs {
    fn check(&self) -> Result<(), Failure> {
        if self.max_in_flight_bytes < self.max_body_bytes {
            return Err(Failure::usage(
                "--max-in-flight-bytes is less than --max-body-bytes, so the largest bodies could never be taken",
            ));
        }
        Ok(())
    }

    fn make_room_for_connections(&self) {
        /// What is open beside connections: listeners, watches, files, the log.
        const OTHERS: usize = 64;
        let Some(limit) = descriptors::raise_limit() else {
            return;
        };
        let needed = self
            .max_connections
            .saturating_mul(2)
            .saturating_add(OTHERS);
        if limit < needed {
            tracing::warn!(
                limit,
                needed,
                "--max-connections {} on two servers takes more open files than the hard limit (ulimit -Hn) allows: \
                 raise that or lower the flag, else the last connections wait until others end",
                self.max_connections
            );
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            times: Times {
                first_request: self.first_request_timeout,
                request: self.request_timeout,
                idle: self.idle_timeout,
                age: self.max_connection_age,
            },
            connections: self.max_connections,
        }
    }

    fn bodies(&self) -> Bodies {
        Bodies::new(
            self.max_body_bytes,
            self.max_in_flight_bytes,
            self.request_timeout,
        )
    }
}

pub fn run(args: Args) -> Result<(), Failure> {
    telemetry::init_logs(&args.logs.log_level, args.logs.log_format).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed)?;
    let result = runtime.block_on(serve(args));
    // Whatever still runs has had its time.
    runtime.shutdown_background();
    result
}

async fn serve(args: Args) -> Result<(), Failure> {
    args.limits.check()?;
    // First of all: as process 1 of a container, a signal without a handler is lost.
    let mut signals = Signals::new().map_err(Failure::failed)?;
    args.limits.make_room_for_connections();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let certificate = args
        .certificates
        .read(args.decisions.own_service(), &metrics)?;
    certificate.check(&args.controller, args.source.from_files.is_empty())?;
    let clients = args.certificates.clients()?;
    let mut tasks = Tasks::default();

    let watch_status = Arc::new(WatchStatus::default());
    let writer = Writer::new(args.store_rules());
    let app = args.app(&writer, metrics);
    let connected = start_source(&args.source, writer, watch_status.clone(), &mut tasks).await?;
    admin::register(&mut registry, app.cluster.clone(), watch_status);
    let current = certificate.current.clone();
    let candidate = start_controller(
        &args,
        connected,
        certificate,
        &app,
        &mut registry,
        &mut tasks,
    )?;

    let (control, drain) = drain::channel();
    let readiness = app.readiness.clone();
    let servers = Servers::bind(&args, app, current, clients.clone(), registry, &drain)?;
    servers.announce(args.decisions.settings().mode)?;
    servers.start(&mut tasks);
    if let Some(clients) = clients {
        tasks.spawn("the reloading of the CA of clients", clients.reload());
    }
    until_the_end(
        tasks,
        &mut signals,
        &control,
        &readiness,
        args.shutdown.shutdown_delay_duration,
        candidate,
    )
    .await
}

impl Args {
    fn store_rules(&self) -> StoreRules {
        let mut rules = self.decisions.store_rules();
        if !self.source.from_files.is_empty() {
            // Whoever edits a file means what it says.
            rules.nodes.grace_of_loss = Duration::ZERO;
        }
        rules
    }

    fn app(&self, writer: &Writer, metrics: Metrics) -> App {
        App {
            cluster: writer.cluster(),
            settings: Arc::new(Settings {
                panic_on_service: self.panic_on_service.clone(),
                replica: self.controller.replica_name(),
                validation: self.validation,
                ..self.decisions.settings()
            }),
            metrics,
            readiness: Readiness::default(),
            bodies: self.limits.bodies(),
        }
    }
}

/// Starts the controller where there is a cluster and a wish for it, and what keeps the certificate up to date.
fn start_controller(
    args: &Args,
    connected: Option<Connected>,
    certificate: Certificate,
    app: &App,
    registry: &mut Registry,
    tasks: &mut Tasks,
) -> Result<Option<Candidate>, Failure> {
    let connected = connected.filter(|_| args.controller.is_wanted());
    let prepare = |connected: &Connected, registry: &mut Registry| {
        let (cluster, settings) = (app.cluster.clone(), app.settings.clone());
        args.controller
            .prepare(connected, cluster, settings, registry)
    };
    let controller = connected.as_ref();
    let controller = controller.map(|connected| prepare(connected, registry));
    let controller = controller.transpose()?;
    let keeping = certificate.tasks(
        connected.as_ref().zip(controller.as_ref()),
        &args.controller,
        app.readiness.clone(),
        app.metrics.clone(),
        registry,
    );
    for (name, task) in keeping {
        tasks.spawn(name, task);
    }
    Ok(controller.map(|controller| {
        let candidate = controller.candidate().clone();
        tasks.spawn("the controller", controller.run());
        candidate
    }))
}

struct Servers {
    webhook: Server,
    metrics: Server,
}

impl Servers {
    fn bind(
        args: &Args,
        app: App,
        certificate: Arc<CurrentCertificate>,
        clients: Option<Arc<ClientCa>>,
        registry: Registry,
        drain: &Drain,
    ) -> Result<Self, Failure> {
        let metrics = app.metrics.clone();
        let tls = tls::server_config(certificate, clients.clone()).map_err(Failure::failed)?;
        let server = |name, address, router| -> Result<Server, Failure> {
            Ok(Server {
                name,
                listener: bind(address).map_err(Failure::failed)?,
                tls: None,
                clients: None,
                router,
                limits: args.limits.limits(),
                drain: drain.clone(),
                metrics: metrics.clone(),
            })
        };
        let webhook = server(
            "webhook",
            args.listen.webhook_bind_address,
            routes::webhook(app.clone()),
        )?;
        Ok(Self {
            webhook: Server {
                tls: Some(Arc::new(tls)),
                clients,
                ..webhook
            },
            metrics: server(
                "metrics",
                args.listen.metrics_bind_address,
                admin::routes(app, Arc::new(registry)),
            )?,
        })
    }

    fn announce(&self, mode: Mode) -> Result<(), Failure> {
        tracing::info!(
            version = VERSION,
            webhook = %local_address(&self.webhook)?,
            metrics = %local_address(&self.metrics)?,
            ?mode,
            "serving"
        );
        Ok(())
    }

    fn start(self, tasks: &mut Tasks) {
        tasks.spawn(METRICS_SERVER, self.metrics.run());
        tasks.spawn(WEBHOOK_SERVER, self.webhook.run());
    }
}

fn local_address(server: &Server) -> Result<SocketAddr, Failure> {
    server.listener.local_addr().map_err(Failure::failed)
}

const WEBHOOK_SERVER: &str = "the webhook server";
const METRICS_SERVER: &str = "the metrics server";

async fn start_source(
    source: &SourceArgs,
    mut writer: Writer,
    status: Arc<WatchStatus>,
    tasks: &mut Tasks,
) -> Result<Option<Connected>, Failure> {
    if source.from_files.is_empty() {
        let connected =
            connect::client(source.kubeconfig.as_deref(), source.context.as_deref()).await?;
        let client = connected.client.clone();
        tasks.spawn(
            "the watch of the cluster",
            watch::run(client, writer, status, source.watch_life_seconds),
        );
        return Ok(Some(connected));
    }
    if source
        .from_files
        .iter()
        .any(|path| path.as_os_str() == files::STANDARD_INPUT)
    {
        return Err(Failure::usage(
            "--from-files can't be standard input, which can't be read again",
        ));
    }
    let (paths, signature) = (
        source.from_files.clone(),
        files::Signature::of(&source.from_files),
    );
    let objects = LeanObjects::read(&paths).map_err(Failure::usage)?;
    objects.apply(&mut writer, Timestamp::now());
    tasks.spawn(
        "the reading of files",
        files::follow(paths, signature, writer),
    );
    Ok(None)
}

/// What runs for as long as the process does. One that ends or panics ends the process: a pod that is Ready and does
/// nothing would be worse.
#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Waits for one to end; its name, and whether it panicked.
    async fn next_ended(&mut self) -> (&'static str, bool) {
        match self.set.join_next_with_id().await {
            Some(Ok((id, ()))) => (self.names.get(&id).copied().unwrap_or_default(), false),
            Some(Err(error)) => (
                self.names.get(&error.id()).copied().unwrap_or_default(),
                true,
            ),
            None => std::future::pending().await,
        }
    }
}

async fn until_the_end(
    mut tasks: Tasks,
    signals: &mut Signals,
    control: &DrainControl,
    readiness: &Readiness,
    delay: Duration,
    candidate: Option<Candidate>,
) -> Result<(), Failure> {
    tokio::select! {
        () = signals.next() => {}
        ended = tasks.next_ended() => return Err(ended_early(ended)),
    }
    tracing::info!(delay = %Human(delay), "ending: not ready from now on, and serving for a while yet; a second signal ends it at once");
    readiness.shut_down();
    control.enter(Phase::Draining);
    // Another replica leads from now on, while this one still answers.
    let release = candidate.map(|candidate| tokio::spawn(async move { candidate.release().await }));
    tokio::select! {
        () = tokio::time::sleep(delay) => {}
        ended = tasks.next_ended() => return Err(ended_early(ended)),
        () = signals.next() => return Err(cut_off()),
    }
    control.enter(Phase::Closing);
    loop {
        let ended = tokio::select! {
            ended = tasks.next_ended() => ended,
            () = signals.next() => return Err(cut_off()),
        };
        match ended {
            (WEBHOOK_SERVER, false) => {
                if let Some(release) = release {
                    let _ = release.await;
                }
                tracing::info!("ended");
                return Ok(());
            }
            // It ends like the webhook's, and may be first.
            (METRICS_SERVER, false) => {}
            ended => return Err(ended_early(ended)),
        }
    }
}

fn cut_off() -> Failure {
    Failure::failed("a second signal came, so requests in flight, if any, were cut off")
}

fn ended_early((name, panicked): (&str, bool)) -> Failure {
    let how = if panicked { "panicked" } else { "ended" };
    Failure::failed(format!(
        "{name} {how}, which it never should; zonewise ends so that it is started anew"
    ))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_is_told_by_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("the watch of the cluster", std::future::pending());
        tasks.spawn("the metrics server", async {});
        let ended = tasks.next_ended().await;
        assert_eq!(ended, ("the metrics server", false));
        tasks.spawn("the webhook server", async { panic!("on purpose") });
        let failure = ended_early(tasks.next_ended().await).to_string();
        assert_eq!(
            failure,
            "the webhook server panicked, which it never should; zonewise ends so that it is started anew"
        );
    }
}
