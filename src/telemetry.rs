//! Logs and metrics.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{self, Writer};

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A log level that can't be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log-level {level:?}: {problem}; say error, warn, info, debug or trace, or a filter such as zonewise=debug,kube=warn"
)]
pub struct BadLogLevel {
    level: String,
    problem: String,
}

impl BadLogLevel {
    fn new(level: &str, problem: impl Into<String>) -> Self {
        Self {
            level: level.to_owned(),
            problem: problem.into(),
        }
    }
}

/// A word alone would be taken for a module, and a level that is misspelt would mute all others.
fn check_words(level: &str) -> Result<(), BadLogLevel> {
    let words = level.split(',').map(str::trim);
    let mut alone = words.filter(|word| !word.contains(['=', '[']));
    match alone.find(|word| word.parse::<tracing::level_filters::LevelFilter>().is_err()) {
        Some(word) => Err(BadLogLevel::new(level, format!("{word:?} is no level"))),
        None => Ok(()),
    }
}

/// Sends logs to standard error, and panics to the logs.
///
/// # Errors
/// [`BadLogLevel`] for a level that is none.
pub fn init_logs(level: &str, format: LogFormat) -> Result<(), BadLogLevel> {
    use std::io::IsTerminal as _;
    check_words(level)?;
    // kube tells each failure too, with the whole body of an answer; what matters of it is told here.
    let filter = tracing_subscriber::EnvFilter::builder()
        .parse(format!("kube_client::client=off,{level}"))
        .map_err(|error| BadLogLevel::new(level, error.to_string()))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .fmt_fields(one_line_fields())
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(place, %backtrace, "panic: {}", panic.payload_as_str().unwrap_or("(no message)"));
    }));
    Ok(())
}

/// Fields as text that stays on its line and in its colour: names from files and requests may hold anything, and
/// tracing's own format lets line ends through. JSON needs none of this.
fn one_line_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    let write_field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        match field.name() {
            "message" => {}
            name if writer.has_ansi_escapes() => {
                write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?;
            }
            name => write!(writer, "{name}=")?,
        }
        write!(OneLine(writer), "{value:?}")
    };
    format::debug_fn(write_field).delimited(" ")
}

/// Escapes what would end a line, turn its direction or steer a terminal.
struct OneLine<W>(W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let steers = |c: char| {
            c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for part in text.split_inclusive(steers) {
            match part.chars().next_back().filter(|&last| steers(last)) {
                None => self.0.write_str(part)?,
                Some(last) => {
                    self.0.write_str(&part[..part.len() - last.len_utf8()])?;
                    write!(self.0, "{}", last.escape_default())?;
                }
            }
        }
        Ok(())
    }
}

/// Labels of `zonewise_admission_requests_total`, all from fixed sets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AdmissionLabels {
    /// `mutate` or `validate`.
    pub webhook: &'static str,
    /// `CREATE`, `UPDATE` or `OTHER`.
    pub operation: &'static str,
    /// The word of the verdict.
    pub decision: &'static str,
    /// The word of the reason, or of the first fault.
    pub reason: &'static str,
}

/// Labels of `zonewise_rejected_requests_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LimitLabels {
    /// The limit that was hit.
    pub limit: &'static str,
}

/// Labels of `zonewise_rejected_connections_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ConnectionLimitLabels {
    /// `webhook` or `metrics`.
    pub server: &'static str,
    /// The limit that was hit.
    pub limit: &'static str,
}

/// Labels of `zonewise_open_connections`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ServerLabels {
    /// `webhook` or `metrics`.
    pub server: &'static str,
}

/// Labels of certificate metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct UsageLabels {
    /// `serving` or `ca`.
    pub usage: &'static str,
}

/// What requests and certificates count.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Reviews answered.
    pub admission_requests: Family<AdmissionLabels, Counter>,
    /// How long they took, in seconds, from the whole body to the answer.
    pub admission_duration: Histogram,
    /// Connections closed before TLS or for being too slow.
    pub rejected_connections: Family<ConnectionLimitLabels, Counter>,
    /// Requests answered with a status for being too large or too many.
    pub rejected_requests: Family<LimitLabels, Counter>,
    /// Failed TLS handshakes.
    pub handshake_errors: Counter,
    /// Open connections.
    pub open_connections: Family<ServerLabels, Gauge>,
    /// Ends of the serving certificate and of the CA that signs, in seconds since 1970.
    pub certificate_expiration: Family<UsageLabels, Gauge<f64, AtomicU64>>,
    /// Certificate files that were refused or could not be read.
    pub certificate_reload_errors: Counter,
}

impl Metrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        // 50 microseconds to about 1.6 seconds: the webhook's timeout is one.
        let buckets = prometheus_client::metrics::histogram::exponential_buckets(50e-6, 2.0, 16);
        let metrics = Self {
            admission_requests: Family::default(),
            admission_duration: Histogram::new(buckets),
            rejected_connections: Family::default(),
            rejected_requests: Family::default(),
            handshake_errors: Counter::default(),
            open_connections: Family::default(),
            certificate_expiration: Family::default(),
            certificate_reload_errors: Counter::default(),
        };
        metrics.register_requests(registry);
        metrics.register_connections(registry);
        metrics.register_certificates(registry);
        metrics
    }

    fn register_requests(&self, registry: &mut Registry) {
        registry.register(
            "zonewise_admission_requests",
            "Reviews answered",
            self.admission_requests.clone(),
        );
        registry.register(
            "zonewise_admission_duration_seconds",
            "Time to answer a review",
            self.admission_duration.clone(),
        );
        registry.register(
            "zonewise_rejected_requests",
            "Requests refused by a limit",
            self.rejected_requests.clone(),
        );
    }

    fn register_connections(&self, registry: &mut Registry) {
        registry.register(
            "zonewise_rejected_connections",
            "Connections closed by a limit",
            self.rejected_connections.clone(),
        );
        registry.register(
            "zonewise_tls_handshake_errors",
            "Failed TLS handshakes",
            self.handshake_errors.clone(),
        );
        registry.register(
            "zonewise_open_connections",
            "Open connections",
            self.open_connections.clone(),
        );
    }

    fn register_certificates(&self, registry: &mut Registry) {
        registry.register(
            "zonewise_certificate_expiration_timestamp_seconds",
            "When the certificate that is served and the CA that signs end",
            self.certificate_expiration.clone(),
        );
        registry.register(
            "zonewise_certificate_reload_errors",
            "Certificate files that were refused or unreadable",
            self.certificate_reload_errors.clone(),
        );
    }

    /// Tells when the certificate of a usage ends, in seconds since 1970.
    pub fn set_certificate_expiration(&self, usage: &'static str, not_after: i64) {
        #[expect(clippy::cast_precision_loss)]
        let not_after = not_after as f64;
        self.certificate_expiration
            .get_or_create(&UsageLabels { usage })
            .set(not_after);
    }

    /// Counts a review.
    pub fn count_admission(&self, labels: &AdmissionLabels, took: Duration) {
        self.admission_requests.get_or_create(labels).inc();
        self.admission_duration.observe(took.as_secs_f64());
    }

    /// Counts a connection that a limit closed.
    pub fn count_rejected_connection(&self, server: &'static str, limit: &'static str) {
        self.rejected_connections
            .get_or_create(&ConnectionLimitLabels { server, limit })
            .inc();
    }

    /// Counts a request that a limit refused.
    pub fn count_rejected_request(&self, limit: &'static str) {
        self.rejected_requests
            .get_or_create(&LimitLabels { limit })
            .inc();
    }
}

/// Whether the process is ready as far as that is not read off what is known of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    shutting_down: Arc<AtomicBool>,
    waits_for: Arc<ArcSwapOption<String>>,
}

impl Readiness {
    /// It is not ready, and this is why, as behind "waiting: ".
    pub fn wait_for(&self, what: String) {
        self.waits_for.store(Some(Arc::new(what)));
    }

    /// It waits for nothing any more.
    pub fn has_all(&self) {
        self.waits_for.store(None);
    }

    /// What it waits for, if anything.
    #[must_use]
    pub fn waits_for(&self) -> Option<Arc<String>> {
        self.waits_for.load_full()
    }

    /// From now on it is not ready.
    pub fn shut_down(&self) {
        self.shutting_down
            .store(true, std::sync::atomic::Ordering::Release);
    }

    /// Whether the end has begun.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
            .load(std::sync::atomic::Ordering::Acquire)
    }
}

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A duration for messages and `--help`, such as `15s`.
#[derive(Debug, Clone, Copy)]
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(duration) => write!(f, "{duration:#}"),
            Err(_) => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What a line of the text format says behind its target.
    fn told(log: impl FnOnce()) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = lines.clone();
        let writer = move || Lines(written.clone());
        let subscriber = tracing_subscriber::fmt()
            .with_writer(writer)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .fmt_fields(one_line_fields())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = lines.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_gets_out_of_its_line() {
        let name = "a\nERROR forged\r\u{1b}[2J\u{9b}2J\u{202e}\u{2028}é";
        let escaped = "a\\nERROR forged\\r\\u{1b}[2J\\u{9b}2J\\u{202e}\\u{2028}é";
        assert_eq!(
            told(|| tracing::warn!(shown = %name, "read {name}")),
            format!(" WARN read {escaped} shown={escaped}\n")
        );
        assert_eq!(
            told(|| tracing::warn!(name, number = 1, "read"))
                .lines()
                .count(),
            1
        );
        assert_eq!(
            told(|| tracing::info!(name = "web", "read")),
            " INFO read name=\"web\"\n"
        );
    }
}
