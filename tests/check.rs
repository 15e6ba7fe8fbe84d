//! `zonewise check` and `zonewise strip` on a real control plane: what they tell of a zonewise that works and of one that does
//! not, and what is stored afterwards.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=1,3` plays these scenes alone.

#[path = "check/checks.rs"]
mod checks;
#[path = "check/command.rs"]
mod command;
#[path = "check/strips.rs"]
mod strips;
mod support;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use support::play::{chosen, failure};
use support::world::World;

type Play = for<'a> fn(&'a World) -> LocalBoxFuture<'a, ()>;

macro_rules! scenes {
    ($($number:literal $title:literal $play:path,)*) => {
        [$(($number, $title, |world| $play(world).boxed_local())),*]
    };
}

const SCENES: [(usize, &str, Play); 15] = scenes![
    1 "all is well" checks::all_is_well,
    2 "a node without a zone" checks::a_node_without_a_zone,
    3 "the permissions of the documentation, and none" checks::permissions,
    4 "selectors" checks::selectors,
    5 "failurePolicy Fail" checks::failure_policy,
    6 "a Service without endpoints" checks::no_endpoints,
    7 "another CA" checks::another_ca,
    8 "nobody listens" checks::nobody_listens,
    9 "no webhook configuration" checks::no_configuration,
    10 "no cluster" checks::no_cluster,
    11 "strip while zonewise is Active" strips::while_active,
    12 "strip once it is Off" strips::once_off,
    13 "strip beside other writers, and stopped" strips::beside_others,
    14 "strip of Services that change their minds" strips::of_services_that_change,
    15 "strip where a slice can't be written" strips::of_what_can_not_be_written,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_told_and_hints_are_taken_away() {
    let world = World::start().await;
    let mut failed = Vec::new();
    for (number, title, play) in chosen(SCENES) {
        checks::register_afresh(&world).await;
        failed.extend(failure(number, title, play(&world)).await);
    }
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
}
