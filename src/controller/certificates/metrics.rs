//! What is counted about certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Labels of `zonewise_certificate_renewals_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RenewalLabels {
    /// `serving` or `ca`.
    pub usage: &'static str,
    /// `renewed` or `failed`.
    pub result: &'static str,
}

/// Labels of `zonewise_ca_bundle_writes_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BundleLabels {
    /// `stored`, `conflict` or `failed`.
    pub result: &'static str,
}

/// Metrics of certificates that zonewise makes or looks at.
#[derive(Debug, Clone)]
pub struct CertificateMetrics {
    renewals: Family<RenewalLabels, Counter>,
    bundles: Family<BundleLabels, Counter>,
    undone: Counter,
    trusted: Arc<Trusted>,
}

/// 0, 1, or what is not known yet.
#[derive(Debug)]
struct Trusted(AtomicU8);

const NOT_KNOWN: u8 = u8::MAX;

impl CertificateMetrics {
    /// Makes and registers those of whoever only looks.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            renewals: Family::default(),
            bundles: Family::default(),
            undone: Counter::default(),
            trusted: Arc::new(Trusted(AtomicU8::new(NOT_KNOWN))),
        };
        registry.register_collector(Box::new(TrustedCollector(metrics.trusted.clone())));
        metrics
    }

    /// The same with those of whoever makes certificates.
    pub fn register_all(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry);
        registry.register(
            "zonewise_certificate_renewals",
            "Certificates made anew, by what came of it",
            metrics.renewals.clone(),
        );
        registry.register(
            "zonewise_ca_bundle_writes",
            "CA bundles put into webhook configurations, by what came of it",
            metrics.bundles.clone(),
        );
        registry.register(
            "zonewise_ca_bundle_undone",
            "CA bundles that were taken out again within two minutes",
            metrics.undone.clone(),
        );
        for usage in ["serving", "ca"] {
            for result in ["renewed", "failed"] {
                let labels = RenewalLabels { usage, result };
                drop(metrics.renewals.get_or_create(&labels));
            }
        }
        for result in ["stored", "conflict", "failed"] {
            drop(metrics.bundles.get_or_create(&BundleLabels { result }));
        }
        metrics
    }

    /// Counts a certificate that was to be made anew.
    pub fn count_renewal(&self, usage: &'static str, result: &'static str) {
        let labels = RenewalLabels { usage, result };
        self.renewals.get_or_create(&labels).inc();
    }

    /// Counts a CA bundle that was to be put in.
    pub fn count_bundle(&self, result: &'static str) {
        self.bundles.get_or_create(&BundleLabels { result }).inc();
    }

    /// Counts a CA bundle that another tool has taken out again.
    pub fn count_undone(&self) {
        self.undone.inc();
    }

    /// Tells whether the webhook configurations trust what is served.
    pub fn set_trusted(&self, trusted: Option<bool>) {
        let value = trusted.map_or(NOT_KNOWN, u8::from);
        self.trusted.0.store(value, Ordering::Relaxed);
    }
}

/// Shows nothing for as long as nothing is known: an alert on 0 must not fire for that.
#[derive(Debug)]
struct TrustedCollector(Arc<Trusted>);

impl Collector for TrustedCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let value = self.0.0.load(Ordering::Relaxed);
        if value == NOT_KNOWN {
            return Ok(());
        }
        let (name, help) = (
            "zonewise_certificate_trusted",
            "Whether the CA bundles of the webhook configurations vouch for what is served",
        );
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(value)).encode(metric)
    }
}
