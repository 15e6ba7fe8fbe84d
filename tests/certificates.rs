//! Certificates that look after themselves: replicas of the binary with the permissions that are stated and no other, on a
//! real control plane.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=1,3` plays these scenes alone, and
//! `ZONEWISE_FULL_SIZE=1` plays the rotations for three minutes.

#[path = "certificates/beginning.rs"]
mod beginning;
#[path = "certificates/bundles.rs"]
mod bundles;
#[path = "certificates/clients.rs"]
mod clients;
#[path = "certificates/healing.rs"]
mod healing;
#[path = "certificates/load.rs"]
mod load;
#[path = "certificates/rotation.rs"]
mod rotation;
#[path = "certificates/stage.rs"]
mod stage;
mod support;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use stage::Stage;
use support::play::{are_all_chosen, chosen, failure};

type Play = for<'s> fn(&'s Stage) -> LocalBoxFuture<'s, ()>;

macro_rules! scenes {
    ($($number:literal $title:literal $play:path,)*) => {
        [$(($number, $title, |stage| $play(stage).boxed_local())),*]
    };
}

const SCENES: [(usize, &str, Play); 11] = scenes![
    1 "five replicas at once" beginning::five_replicas_make_one_secret,
    2 "nothing to call yet" beginning::a_replica_waits_until_it_is_trusted,
    3 "other names" beginning::other_names_get_another_certificate_of_the_same_ca,
    4 "a spoilt Secret" healing::whatever_becomes_of_the_secret,
    5 "all expired" healing::everything_has_expired,
    6 "CA bundles" bundles::are_put_back,
    7 "rotations under load" rotation::under_load,
    8 "files swapped under load" rotation::of_files_under_load,
    9 "files, and whose CA is trusted" bundles::of_files_are_only_looked_at,
    10 "another Secret in place of it" healing::another_secret_takes_over_without_a_gap,
    11 "a tool that wipes CA bundles all the time" bundles::are_put_back_less_and_less_often,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_look_after_themselves() {
    let stage = Stage::start().await;
    let mut failed = Vec::new();
    for (number, title, play) in chosen(SCENES) {
        stage.clear().await;
        failed.extend(failure(number, title, play(&stage)).await);
    }
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
    assert_eq!(stage.refused(), Vec::<String>::new());
    if are_all_chosen() {
        assert_eq!(stage.unused(), Vec::<String>::new());
    }
}
