//! The replica table of docs/heuristics.md: what hints give Services whose pods are spread evenly over zones of equal CPU.
//!
//! Kubernetes' hints are those of its own code (`tests/vectors/README.md`); zonewise's are decided here.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::slice::SliceRecord;
use zonewise::cluster::store::StoreRules;
use zonewise::decide::{Snapshot, decide};
use zonewise::planner::allocation::Threshold;
use zonewise::planner::kube_proxy::{Endpoint, Traffic};
use zonewise::planner::zone_set::ZoneSet;
use zonewise::settings::Settings;

use crate::now;

const DOCUMENT: &str = "docs/heuristics.md";
const BEGIN: &str = "<!-- `make replica-table` writes what follows. -->\n";
const END: &str = "<!-- The end of what `make replica-table` writes. -->\n";

/// `1` where the document is to be written, as in the golden tests.
const WRITE: &str = "GOLDEN_WRITE";

/// Kubernetes' hints. Endpoint `i` is in zone `i % zones`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replicas {
    zones: usize,
    pods: usize,
    auto: Option<Vec<usize>>,
    prefer_same_zone: Option<Vec<usize>>,
}

impl Replicas {
    fn all() -> Vec<Self> {
        let lines = include_str!("../vectors/replicas.jsonl").lines();
        let read = |line| serde_json::from_str(line).expect("a line is a vector");
        lines.map(read).collect()
    }

    /// The hints that heuristic Overlap gives at a threshold in percent.
    fn overlap(&self, percent: u32) -> Option<Vec<Vec<usize>>> {
        let mut objects = Objects::default();
        let mut add = |object: serde_json::Value| {
            let added = objects.add_text(Path::new("table"), &object.to_string());
            added.expect("the object can be read");
        };
        for zone in 0..self.zones {
            add(json!({
                "kind": "Node",
                "metadata": {"name": name(zone), "labels": {"topology.kubernetes.io/zone": name(zone)}},
                "status": {"allocatable": {"cpu": 4}, "conditions": [{"type": "Ready", "status": "True"}]},
            }));
        }
        add(json!({
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "annotations": {
                "service.kubernetes.io/topology-mode": "zonewise.dev/Overlap",
            }},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
        }));
        let endpoint = |pod: usize| json!({"addresses": [format!("10.0.0.{pod}")], "zone": name(pod % self.zones)});
        let slice = json!({
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
            "endpoints": (0..self.pods).map(endpoint).collect::<Vec<_>>(),
        });
        let cluster = objects.load(StoreRules::default(), now()).cluster();
        let settings = Settings {
            threshold: Threshold::from_millionths(percent * 10_000),
            ..Settings::default()
        };
        let service = Some("shop/web");
        let slice = SliceRecord::read(&typed_slice(&slice).expect("it is a slice"));
        let decision = decide(
            &Snapshot::take(&cluster, service),
            service,
            &slice,
            &settings,
        );
        let zones = decision.hints.iter().map(ZoneSet::zones);
        let hints = zones.map(|zones| zones.iter().map(|zone| usize::from(*zone)).collect());
        (decision.hinted() > 0).then(|| hints.collect())
    }

    /// The traffic that stays in its zone and the load of the busiest endpoint above the average, or `-` without hints.
    fn cell(&self, hints: Option<Vec<Vec<usize>>>) -> String {
        let Some(hints) = hints else {
            return "-".to_owned();
        };
        assert_eq!(hints.len(), self.pods);
        let endpoint = |(pod, hints): (usize, Vec<usize>)| Endpoint {
            zone: Some(pod % self.zones),
            hinted: !hints.is_empty(),
            hints,
            ..Endpoint::default()
        };
        let endpoints: Vec<Endpoint> = hints.into_iter().enumerate().map(endpoint).collect();
        let traffic = Traffic::follow(&vec![1; self.zones], &endpoints);
        let percent = |part: Option<f64>| (100.0 * part.expect("there is traffic")).round().abs();
        let in_zone = percent(traffic.in_zone_share);
        format!("{in_zone}% +{}%", percent(traffic.worst_overload))
    }

    fn row(&self) -> String {
        let single = |hints: &Option<Vec<usize>>| {
            let hints = hints.as_ref()?.iter();
            Some(hints.map(|zone| vec![*zone]).collect())
        };
        let cells = [
            self.pods.to_string(),
            self.cell(self.overlap(20)),
            self.cell(self.overlap(34)),
            self.cell(single(&self.auto)),
            self.cell(single(&self.prefer_same_zone)),
        ];
        format!("| {} |\n", cells.join(" | "))
    }
}

fn name(zone: usize) -> String {
    format!("zone-{zone}")
}

fn block() -> String {
    let mut block = String::new();
    let mut zones = 0;
    for replicas in Replicas::all() {
        if replicas.zones != zones {
            zones = replicas.zones;
            write!(
                block,
                "\n**{zones} zones.** Without hints {}% of the traffic stays in its zone.\n\n\
                 | pods | Overlap, threshold 0.2 | Overlap, threshold 0.34 | Kubernetes `Auto` | Kubernetes `PreferSameZone` |\n\
                 |--:|--:|--:|--:|--:|\n",
                (100 + zones / 2) / zones
            )
            .expect("a text takes any");
        }
        block += &replicas.row();
    }
    block + "\n"
}

#[test]
fn the_replica_table_of_the_documentation_is_what_the_library_computes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let document = std::fs::read_to_string(&path).expect("the document can be read");
    let (before, rest) = document.split_once(BEGIN).expect("the block begins");
    let (written, after) = rest.split_once(END).expect("the block ends");
    let block = block();
    if std::env::var_os(WRITE).is_some_and(|value| value == "1") {
        let document = [before, BEGIN, &block, END, after].concat();
        std::fs::write(path, document).expect("the document can be written");
        return;
    }
    for (ours, written) in block.lines().zip(written.lines()) {
        assert_eq!(ours, written, "`make replica-table` writes {DOCUMENT}");
    }
    assert_eq!(block, written, "`make replica-table` writes {DOCUMENT}");
}
