//! Metrics and health over plain HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::cluster::store::{Cluster, Resource};
use crate::cluster::watch::WatchStatus;
use crate::planner::capacity::{Capacity, Ignored};
use crate::server::routes::{App, healthz, readyz};
use crate::telemetry::VERSION;

/// The paths of the plain server.
pub fn routes(app: App, registry: Arc<Registry>) -> Router {
    let metrics = Router::new()
        .route("/metrics", get(serve_metrics))
        .with_state(registry);
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(app)
        .merge(metrics)
}

async fn serve_metrics(State(registry): State<Arc<Registry>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            format!("{error}\n"),
        )
            .into_response(),
    }
}

/// Registers what is read off the store and the process when somebody asks.
pub fn register(registry: &mut Registry, cluster: Arc<Cluster>, watch: Arc<WatchStatus>) {
    registry.register_collector(Box::new(ClusterCollector { cluster, watch }));
    registry.register_collector(Box::new(ProcessCollector));
}

#[derive(Debug)]
struct ClusterCollector {
    cluster: Arc<Cluster>,
    watch: Arc<WatchStatus>,
}

type Encoded = Result<(), std::fmt::Error>;

/// A gauge with one label whose values are known at the time of asking.
fn gauges<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: &str,
    values: impl IntoIterator<Item = (&'a str, f64)>,
) -> Encoded {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, number) in values {
        ConstGauge::new(number).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

/// A counter with the label `resource`.
fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    values: impl IntoIterator<Item = (Resource, u64)>,
) -> Encoded {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (resource, number) in values {
        ConstCounter::new(number)
            .encode(family.encode_family(&[("resource", resource.word())])?)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss)]
fn number(count: u64) -> f64 {
    count as f64
}

/// A gauge without labels.
fn gauge(encoder: &mut DescriptorEncoder<'_>, (name, help): (&str, &str), value: f64) -> Encoded {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

impl Collector for ClusterCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let measured = self.cluster.capacity();
        encode_zones(&mut encoder, &measured.capacity)?;
        encode_nodes(&mut encoder, &measured.capacity)?;
        let frozen = ("zonewise_frozen", "Capacity is held as it was");
        gauge(&mut encoder, frozen, one_if(measured.frozen))?;
        self.encode_watches(&mut encoder)?;
        let build = ("zonewise_build_info", "The version that runs");
        gauges(&mut encoder, build, "version", [(VERSION, 1.0)])
    }
}

impl ClusterCollector {
    fn encode_watches(&self, encoder: &mut DescriptorEncoder<'_>) -> Encoded {
        let synced = ("zonewise_cache_synced", "The first list has been taken in");
        let last = (
            "zonewise_watch_last_event_timestamp_seconds",
            "When something was last heard of a resource",
        );
        let errors = ("zonewise_watch_errors", "Failed lists and watches");
        let unreadable = (
            "zonewise_unreadable_objects",
            "Objects with a field of an unexpected type",
        );
        let has_synced = Resource::ALL.map(|r| (r.word(), one_if(self.cluster.has_synced(r))));
        gauges(encoder, synced, "resource", has_synced)?;
        let last_event = Resource::ALL.map(|r| (r.word(), number(self.watch.last_event(r))));
        gauges(encoder, last, "resource", last_event)?;
        let failed = Resource::ALL.map(|r| (r, self.watch.errors(r)));
        counters(encoder, errors, failed)?;
        let odd = Resource::ALL.map(|r| (r, self.cluster.unreadable_objects(r)));
        counters(encoder, unreadable, odd)
    }
}

fn encode_zones(encoder: &mut DescriptorEncoder<'_>, capacity: &Capacity) -> Encoded {
    let ratios = ("zonewise_zone_capacity_ratio", "Share of CPU of each zone");
    let zones = capacity.zones.iter().enumerate();
    let shares = zones.map(|(i, zone)| (&*zone.name, capacity.share(i)));
    gauges(encoder, ratios, "zone", shares)
}

fn encode_nodes(encoder: &mut DescriptorEncoder<'_>, capacity: &Capacity) -> Encoded {
    let nodes = ("zonewise_nodes", "Nodes by what they count for");
    let ignored = |because: Ignored| {
        let nodes = capacity.ignored.iter().filter(|(_, b)| *b == because);
        (because.word(), number(nodes.count() as u64))
    };
    let counted = [
        ("Counted", number(capacity.sufficient_nodes())),
        ("Insufficient", number(capacity.insufficient.len() as u64)),
    ];
    let states = counted.into_iter().chain(Ignored::ALL.map(ignored));
    gauges(encoder, nodes, "state", states)
}

fn one_if(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// `process_*`, as other Prometheus clients give them.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let process = metrics_process::collector::collect();
        if let Some(seconds) = process.cpu_seconds_total {
            let help = "CPU time used";
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        let gauges = [
            (
                "process_open_fds",
                "Open file descriptors",
                process.open_fds.map(number),
            ),
            (
                "process_max_fds",
                "Most open file descriptors",
                process.max_fds.map(number),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory",
                process.virtual_memory_bytes.map(number),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory",
                process.resident_memory_bytes.map(number),
            ),
            ("process_threads", "Threads", process.threads.map(number)),
            (
                "process_start_time_seconds",
                "Start, in seconds since 1970",
                process.start_time_seconds.map(number),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                gauge(&mut encoder, (name, help), value)?;
            }
        }
        Ok(())
    }
}
