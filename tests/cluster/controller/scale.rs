//! Many nodes and Services.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ledger::Ledger;
use super::stage::{Stage, assert_in_time, metric_is, names, number};
use crate::is_full_size;
use crate::support::world::say;

struct Size {
    nodes: usize,
    joining: usize,
    small_services: usize,
    large_services: usize,
}

impl Size {
    fn chosen() -> Self {
        if is_full_size() {
            Self {
                nodes: 80,
                joining: 60,
                small_services: 56,
                large_services: 4,
            }
        } else {
            Self {
                nodes: 16,
                joining: 12,
                small_services: 18,
                large_services: 2,
            }
        }
    }
}

/// How soon after the last node all slices are fresh.
const SOON: Duration = Duration::from_secs(10);

/// How long nothing may be written at rest: longer than Services are left alone.
fn at_rest() -> Duration {
    Duration::from_secs(if is_full_size() { 60 } else { 10 })
}

pub async fn nodes_join_one_zone() {
    let size = Size::chosen();
    let mut stage = Stage::start([size.nodes; 3]).await;
    let replica = stage.replica("z-1");
    stage.enter(&replica).await;
    let small = names(size.small_services);
    let large: Vec<String> = (0..size.large_services)
        .map(|number| format!("large-{number}"))
        .collect();
    stage.services(&small, [8, 7, 6], size.nodes).await;
    stage.services(&large, [80, 75, 65], size.nodes).await;
    let services = [small, large].concat();
    let cpus = |nodes: [usize; 3]| nodes.map(|nodes| u32::try_from(4 * nodes).unwrap());
    stage.leader(&[&replica]).await;
    stage.is_fresh(&services, cpus([size.nodes; 3])).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    let ledger = Ledger::open(&stage.client).await;
    let mark = stage.audit().writes();
    let retried = told_to_retry(&replica);
    stage.add_nodes([size.joining, 0, 0], size.nodes).await;
    let more = [size.nodes + size.joining, size.nodes, size.nodes];
    let took = stage.is_fresh(&services, cpus(more)).await;
    metric_is(&replica, "zonewise_slices_drifted", &[], 0.0).await;

    let patches = stage.patches_from(mark).len();
    let versions = ledger.since(0);
    let changing = versions.iter().filter(|v| v.hints_changed).count();
    let changed = ledger.hints_changed_since(0);
    let retried = told_to_retry(&replica) - retried;
    say(&format!(
        "         {} nodes joined: fresh after {took:.1?}; {patches} drift patches, {} slices with other hints in \
         {changing} of {} versions, {retried} told to retry",
        size.joining,
        changed.len(),
        versions.len()
    ));
    assert!(!changed.is_empty(), "nothing had to be mended");
    assert_in_time("mending", took, SOON);
    // Where nodes come slowly, a slice may change with more than one of them.
    let may_be_patched = if is_full_size() {
        changed.len()
    } else {
        changing
    };
    assert!(
        patches <= may_be_patched + retried,
        "patches that changed nothing"
    );
    // What a slice should have beside its siblings is known for sure once these are written.
    let allowed = |slice: &str| if slice.contains("large") { 2 } else { 1 };
    let by_slice = patches_of_each(&stage, mark);
    let more = by_slice
        .iter()
        .map(|(slice, count)| count.saturating_sub(allowed(slice)));
    assert!(more.sum::<usize>() <= retried, "{by_slice:?}");
    let (mark, stored) = (stage.audit().writes(), ledger.mark());
    tokio::time::sleep(at_rest()).await;
    assert_eq!(stage.patches_from(mark), []);
    assert_eq!(ledger.since(stored).len(), 0, "{:?}", ledger.since(stored));
    let hinted = [("decision", "Hints")];
    #[expect(clippy::cast_precision_loss)]
    let expected = services.len() as f64;
    metric_is(&replica, "zonewise_services", &hinted, expected).await;
    metric_is(&replica, "zonewise_bypassed_writes_total", &[], 0.0).await;
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

fn patches_of_each(stage: &Stage, mark: usize) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, slice) in stage.patches_from(mark) {
        *counts.entry(slice).or_default() += 1;
    }
    counts
}

/// Patches that changed nothing: their slices were told to wait for others.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn told_to_retry(replica: &crate::support::replica::Replica) -> usize {
    number(
        replica,
        "zonewise_drift_patches_total",
        &[("result", "unchanged")],
    ) as usize
}
