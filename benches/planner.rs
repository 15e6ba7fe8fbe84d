//! Times the planner on the endpoints that `peers addhints` (benches/peers) gives to Kubernetes' topology cache.
//!
//! - `auto`: heuristic Auto alone, from the zones of endpoints to the zones of hints.
//! - `overlap`: heuristic Overlap alone, by zones and endpoints, in zones that have more or fewer endpoints than they need:
//!   `fresh` without hints, and `kept` where one endpoint in eight is new, beside `auto` for the same endpoints, which
//!   refuses where they are too few for it.
//! - `decide`: what one request asks: a snapshot of the store, and the hints of one slice among its siblings.
//! - `decide_whole`: the same with all endpoints in one slice, which gives what one call of `AddHints` gives.
//! - `look_at_all`: a look at each of 10,000 Services of 10 endpoints on 5,000 nodes, which a change of capacity asks.
//! - `look_at_large`: a look at one Service of many endpoints in slices of 100, which takes time with their square.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use jiff::Timestamp;
use serde_json::{Value, json};
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::slice::SliceRecord;
use zonewise::cluster::store::{Cluster, StoreRules};
use zonewise::controller::look::look;
use zonewise::decide::{Decision, Snapshot, Verdict, decide};
use zonewise::planner::allocation::Threshold;
use zonewise::planner::auto::Origin;
use zonewise::planner::keep::KeepRules;
use zonewise::planner::zone_set::ZoneSet;
use zonewise::planner::{overlap, plan};
use zonewise::settings::Settings;

const SIZES: [usize; 3] = [12, 100, 1000];

/// Zones and endpoints: those that its bounds are given for, a small Service, and a large one.
const OVERLAP_SIZES: [(u64, usize); 5] = [(3, 5), (3, 11), (3, 18), (8, 48), (3, 1000)];

/// Zones of endpoints in a row, some with twice as many as others.
const UNEVEN: [u16; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 3];

/// How many endpoints the EndpointSlice controller puts in one slice unless it is told otherwise.
const SLICES_HOLD: usize = 100;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// Millicores of each zone, as in peers/cluster.yaml.
const WEIGHTS: [u64; 3] = [8000, 4000, 4000];

/// The zones of each ten endpoints in a row, as in the peer.
const PLACEMENT: [u16; 10] = [1, 2, 1, 0, 1, 2, 1, 0, 1, 2];

/// The Service of peers/cluster.yaml.
const SERVICE: &str = "shop/web";

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    time_auto(&mut criterion);
    time_overlap(&mut criterion);
    time_decisions(&mut criterion);
    time_looks(&mut criterion);
    time_large_looks(&mut criterion);
    criterion.final_summary();
}

fn zone_of(endpoint: usize) -> u16 {
    PLACEMENT[endpoint % PLACEMENT.len()]
}

fn throughput(endpoints: usize) -> Throughput {
    Throughput::Elements(endpoints as u64)
}

fn time_auto(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("auto");
    for endpoints in SIZES {
        let origins: Vec<Origin> = (0..endpoints).map(|i| Origin::Zone(zone_of(i))).collect();
        group.throughput(throughput(endpoints));
        group.bench_function(BenchmarkId::from_parameter(endpoints), |bencher| {
            bencher.iter(|| {
                plan::auto(
                    black_box(&WEIGHTS),
                    Threshold::KUBERNETES,
                    black_box(&origins),
                )
            });
        });
    }
}

fn time_overlap(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("overlap");
    for (zones, endpoints) in OVERLAP_SIZES {
        let weights: Vec<u64> = (0..zones).map(|zone| 4000 + 1000 * (zone % 3)).collect();
        let zone_of =
            |i: usize| Origin::Zone(UNEVEN[i % UNEVEN.len()] % u16::try_from(zones).unwrap_or(1));
        let origins: Vec<Origin> = (0..endpoints).map(zone_of).collect();
        let fresh: Vec<overlap::Endpoint> = origins.iter().map(|&origin| bare(origin)).collect();
        let kept = mostly_hinted(&weights, &fresh);
        let size = format!("{zones}x{endpoints}");
        group.throughput(throughput(endpoints));
        for (name, endpoints) in [("fresh", &fresh), ("kept", &kept)] {
            group.bench_function(BenchmarkId::new(name, &size), |bencher| {
                bencher.iter(|| plan_overlap(black_box(&weights), black_box(endpoints)));
            });
        }
        group.bench_function(BenchmarkId::new("auto", &size), |bencher| {
            bencher.iter(|| {
                plan::auto(
                    black_box(&weights),
                    Threshold::KUBERNETES,
                    black_box(&origins),
                )
            });
        });
    }
}

fn bare(origin: Origin) -> overlap::Endpoint {
    overlap::Endpoint {
        origin,
        hints: ZoneSet::EMPTY,
        fixed: false,
        slice: 0,
    }
}

/// The same endpoints with the hints that they are given, but every eighth.
fn mostly_hinted(weights: &[u64], endpoints: &[overlap::Endpoint]) -> Vec<overlap::Endpoint> {
    let plan = plan_overlap(weights, endpoints).expect("there is a plan");
    let mut hinted = endpoints.to_vec();
    for (i, (endpoint, hints)) in hinted.iter_mut().zip(plan.hints).enumerate() {
        if i % 8 > 0 {
            endpoint.hints = hints;
        }
    }
    hinted
}

fn plan_overlap(
    weights: &[u64],
    endpoints: &[overlap::Endpoint],
) -> Result<overlap::Plan, overlap::Refusal> {
    overlap::plan(
        weights,
        Threshold::KUBERNETES,
        KeepRules::default(),
        endpoints,
    )
}

fn time_decisions(criterion: &mut Criterion) {
    for (name, slices_hold) in [("decide", SLICES_HOLD), ("decide_whole", usize::MAX)] {
        let mut group = criterion.benchmark_group(name);
        for endpoints in SIZES {
            let scene = Scene::new(endpoints, slices_hold);
            let slice = &scene.slices[0];
            group.throughput(throughput(slice.endpoints.len()));
            group.bench_function(BenchmarkId::from_parameter(endpoints), |bencher| {
                bencher.iter(|| scene.decide(black_box(slice)));
            });
        }
        group.finish();
    }
}

fn time_looks(criterion: &mut Criterion) {
    const SERVICES: usize = 10_000;
    let cluster = large_cluster(5000, SERVICES);
    let settings = Settings::default();
    let names = cluster.service_names();
    assert_eq!(names.len(), SERVICES);
    let mut group = criterion.benchmark_group("look_at_all");
    group.throughput(throughput(SERVICES)).sample_size(10);
    group.bench_function(BenchmarkId::from_parameter(SERVICES), |bencher| {
        bencher.iter(|| {
            let looks = names.iter().map(|name| look(&cluster, &settings, name));
            looks
                .map(|look| look.expect("nothing panics").drifted.len())
                .sum::<usize>()
        });
    });
    group.finish();
}

fn time_large_looks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("look_at_large");
    group.sample_size(10);
    for endpoints in [1000, 20_000] {
        let scene = Scene::new(endpoints, SLICES_HOLD);
        group.throughput(throughput(endpoints));
        group.bench_function(BenchmarkId::from_parameter(endpoints), |bencher| {
            bencher.iter(|| {
                let look = look(&scene.cluster, &scene.settings, SERVICE);
                assert_eq!(look.expect("nothing panics").drifted.len(), 0);
            });
        });
    }
    group.finish();
}

fn large_cluster(nodes: usize, services: usize) -> Arc<Cluster> {
    let node = |i: usize| {
        json!({
            "metadata": {"name": format!("node-{i}"), "labels": {"topology.kubernetes.io/zone": ZONES[i % 3]}},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    };
    let service = |i: usize| {
        json!({
            "metadata": {
                "name": format!("web-{i}"),
                "namespace": "shop",
                "annotations": {"service.kubernetes.io/topology-mode": "Auto"},
            },
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
        })
    };
    let slice = |i: usize| {
        let mut slice = slices(10, 10, |_| None).remove(0);
        slice["metadata"]["name"] = format!("web-{i}-x").into();
        slice["metadata"]["labels"]["kubernetes.io/service-name"] = format!("web-{i}").into();
        slice
    };
    let objects = Objects {
        namespaces: Vec::new(),
        nodes: (0..nodes).map(node).collect(),
        services: (0..services).map(service).collect(),
        slices: (0..services).map(slice).collect(),
    };
    objects
        .load(StoreRules::default(), Timestamp::now())
        .cluster()
}

/// A Service in a cluster.
///
/// Stored slices have the hints that they were given, as they mostly do when one of them is written. Those that are
/// decided on have none, as in the peer.
struct Scene {
    slices: Vec<SliceRecord>,
    cluster: Arc<Cluster>,
    settings: Settings,
}

impl Scene {
    fn new(endpoints: usize, slices_hold: usize) -> Self {
        let bare = slices(endpoints, slices_hold, |_| None);
        let mut scene = Self {
            slices: bare
                .iter()
                .map(|json| SliceRecord::read(&typed_slice(json).expect("it is an object")))
                .collect(),
            cluster: cluster_with(bare),
            settings: Settings::default(),
        };
        let hints = scene.decide_all();
        scene.cluster = cluster_with(slices(endpoints, slices_hold, |i| Some(ZONES[hints[i]])));
        assert_eq!(scene.decide_all(), hints, "what was planned stays planned");
        scene
    }

    fn decide(&self, slice: &SliceRecord) -> Decision {
        let snapshot = Snapshot::take(&self.cluster, Some(SERVICE));
        decide(&snapshot, Some(SERVICE), slice, &self.settings)
    }

    /// The zone that each endpoint is hinted for; as many in proportion to CPU as there can be.
    fn decide_all(&self) -> Vec<usize> {
        let hints: Vec<usize> = self
            .slices
            .iter()
            .map(|slice| self.decide(slice))
            .inspect(|decision| assert_eq!(decision.verdict, Verdict::Hints, "{decision:?}"))
            .flat_map(|decision| decision.hints)
            .map(|hint| {
                usize::from(
                    hint.only()
                        .expect("Auto hints every ready endpoint for one zone"),
                )
            })
            .collect();
        let hinted = |zone| hints.iter().filter(|&&hint| hint == zone).count();
        let quarter = hints.len() / 4;
        assert_eq!([0, 1, 2].map(hinted), [2 * quarter, quarter, quarter]);
        hints
    }
}

/// The nodes and the Service of the peer's cluster, with these slices.
fn cluster_with(slices: Vec<Value>) -> Arc<Cluster> {
    let mut objects = Objects::default();
    objects
        .add_text(
            Path::new("peers/cluster.yaml"),
            include_str!("peers/cluster.yaml"),
        )
        .expect("the peer's cluster can be read");
    objects.slices = slices;
    objects
        .load(StoreRules::default(), Timestamp::now())
        .cluster()
}

fn slices(
    endpoints: usize,
    slices_hold: usize,
    hint: impl Fn(usize) -> Option<&'static str>,
) -> Vec<Value> {
    let all: Vec<Value> = (0..endpoints).map(|i| endpoint(i, hint(i))).collect();
    let slice = |(number, endpoints): (usize, &[Value])| {
        json!({
            "metadata": {
                "name": format!("web-{number}"),
                "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        })
    };
    all.chunks(slices_hold).enumerate().map(slice).collect()
}

fn endpoint(number: usize, hint: Option<&str>) -> Value {
    let mut endpoint = json!({
        "addresses": [format!("10.244.{}.{}", number / 250, number % 250 + 2)],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "targetRef": {"kind": "Pod", "uid": format!("uid-{number}")},
        "zone": ZONES[usize::from(zone_of(number))],
    });
    if let Some(zone) = hint {
        endpoint["hints"] = json!({"forZones": [{"name": zone}]});
    }
    endpoint
}
