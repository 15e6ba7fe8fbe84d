//! What the controller counts.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use std::sync::Arc;

use super::agenda::Outcome;
use super::events::{self, Events};
use crate::cluster::slice::AddressType;

/// Labels of `zonewise_drift_patches_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PatchLabels {
    /// What came of it.
    pub result: &'static str,
}

/// Labels of `zonewise_services`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ServiceLabels {
    /// The word of the verdict.
    pub decision: &'static str,
    /// The word of the reason.
    pub reason: &'static str,
}

/// The controller's metrics.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    /// Whether this replica leads.
    pub leader: Gauge,
    /// Patches of slices, empty or to remove hints, by what came of them.
    pub patches: Family<PatchLabels, Counter>,
    /// Slices that differ from a fresh decision and wait to be written.
    pub drifted: Gauge,
    /// Slices that differ and are no longer tried until something changes.
    pub parked: Gauge,
    /// Services by what was decided, each address type for itself.
    pub services: Family<ServiceLabels, Gauge>,
    /// Slices that were written without the hints that the webhook would have given.
    pub bypassed: Counter,
    /// Looks at a Service that came to nothing because deciding panicked.
    pub panicked: Counter,
    /// How long it took to decide anew, in seconds for all Services that were due together.
    pub replanning: Histogram,
}

impl ControllerMetrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry, events: Arc<Events>) -> Self {
        // A millisecond to about 4 seconds.
        let buckets = prometheus_client::metrics::histogram::exponential_buckets(1e-3, 2.0, 13);
        let metrics = Self {
            leader: Gauge::default(),
            patches: Family::default(),
            drifted: Gauge::default(),
            parked: Gauge::default(),
            services: Family::default(),
            bypassed: Counter::default(),
            panicked: Counter::default(),
            replanning: Histogram::new(buckets),
        };
        let m = &metrics;
        registry.register(
            "zonewise_leader",
            "Whether this replica leads",
            m.leader.clone(),
        );
        registry.register(
            "zonewise_drift_patches",
            "Patches that resubmit a slice or remove its hints",
            m.patches.clone(),
        );
        registry.register(
            "zonewise_slices_drifted",
            "Slices that differ from a fresh decision and wait to be written",
            m.drifted.clone(),
        );
        registry.register(
            "zonewise_slices_parked",
            "Slices that differ and are left alone until something changes",
            m.parked.clone(),
        );
        registry.register(
            "zonewise_services",
            "Services by decision, each address type for itself",
            m.services.clone(),
        );
        registry.register(
            "zonewise_bypassed_writes",
            "Slices that were written without the webhook being asked",
            m.bypassed.clone(),
        );
        registry.register(
            "zonewise_panicked_looks",
            "Looks at a Service that came to nothing because deciding panicked",
            m.panicked.clone(),
        );
        registry.register(
            "zonewise_replanning_duration_seconds",
            "Time to decide anew on the Services that were due together",
            m.replanning.clone(),
        );
        registry.register_collector(Box::new(EventCollector(events)));
        for result in ["stored", "unchanged", "gone", "conflict", "failed"] {
            drop(m.patches.get_or_create(&PatchLabels { result }));
        }
        metrics
    }

    /// Counts a patch.
    pub fn count_patch(&self, outcome: Outcome) {
        self.patches.get_or_create(&labels(outcome)).inc();
    }

    /// A Service was decided on otherwise than before.
    pub fn move_services(
        &self,
        before: Vec<(AddressType, &'static str, &'static str)>,
        now: Vec<(AddressType, &'static str, &'static str)>,
    ) {
        if before == now {
            return;
        }
        for (_, decision, reason) in before {
            self.services
                .get_or_create(&ServiceLabels { decision, reason })
                .dec();
        }
        for (_, decision, reason) in now {
            self.services
                .get_or_create(&ServiceLabels { decision, reason })
                .inc();
        }
    }
}

/// Reads off what the posting of events counts.
struct EventCollector(Arc<Events>);

impl std::fmt::Debug for EventCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventCollector")
    }
}

impl Collector for EventCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (name, help) = ("zonewise_events", "Events written, by what came of it");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for outcome in events::Outcome::ALL {
            let labels = [("result", outcome.word())];
            let count = ConstCounter::new(self.0.counts().of(outcome));
            count.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn labels(outcome: Outcome) -> PatchLabels {
    PatchLabels {
        result: match outcome {
            Outcome::Stored(_) => "stored",
            Outcome::Unchanged => "unchanged",
            Outcome::Gone => "gone",
            Outcome::Conflict => "conflict",
            Outcome::Failed => "failed",
        },
    }
}
