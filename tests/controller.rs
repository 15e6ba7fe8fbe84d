//! The controller of the binary on a real control plane: slices that nobody writes are mended, people are told why, and at
//! rest nothing is written.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=1,3` plays these scenes alone, and
//! `ZONEWISE_FULL_SIZE=1` plays the first with 300 nodes and 2,000 pods.

#[path = "controller/ledger.rs"]
mod ledger;
#[path = "controller/nodes.rs"]
mod nodes;
#[path = "controller/opt_out.rs"]
mod opt_out;
#[path = "controller/replicas.rs"]
mod replicas;
#[path = "controller/rollout.rs"]
mod rollout;
#[path = "controller/scale.rs"]
mod scale;
#[path = "controller/stage.rs"]
mod stage;
mod support;
#[path = "controller/way.rs"]
mod way;
#[path = "controller/webhook_gone.rs"]
mod webhook_gone;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use support::play::{chosen, failure};

type Play = fn() -> LocalBoxFuture<'static, ()>;

macro_rules! scenes {
    ($($number:literal $title:literal $play:path,)*) => {
        [$(($number, $title, || $play().boxed_local())),*]
    };
}

const SCENES: [(usize, &str, Play); 7] = scenes![
    1 "nodes join one zone" scale::nodes_join_one_zone,
    2 "a node without a zone" nodes::a_node_loses_its_zone,
    3 "new nodes, and a storm" nodes::new_nodes_and_a_storm,
    4 "two replicas" replicas::leaders_come_and_go,
    5 "no webhook for a while" webhook_gone::comes_back,
    6 "an opt-out" opt_out::strips_all,
    7 "a rolling update" rollout::is_left_alone,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_that_nobody_writes_are_mended() {
    let mut failed = Vec::new();
    for (number, title, play) in chosen(SCENES) {
        failed.extend(failure(number, title, play()).await);
    }
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
}
