//! People who write wrong annotations and hints, before a real API server that asks zonewise: what they are told, what is
//! refused, and that programs never hear of it.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=3,6` plays these scenes alone.

#[path = "validation/breaker.rs"]
mod breaker;
#[path = "validation/services.rs"]
mod services;
#[path = "validation/slices.rs"]
mod slices;
#[path = "validation/stage.rs"]
mod stage;
mod support;

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use stage::Stage;
use support::play::{chosen, failure};
use support::scene::Scene;

type Play = for<'a> fn(&'a Stage, &'a Scene<'a>) -> LocalBoxFuture<'a, ()>;

macro_rules! scenes {
    ($($number:literal $title:literal $play:path,)*) => {
        [$(($number, $title, |stage, scene| $play(stage, scene).boxed_local())),*]
    };
}

const SCENES: [(usize, &str, Play); 9] = scenes![
    1 "a misspelt annotation" services::misspelt,
    2 "a Service that gets hints" services::in_order,
    3 "hints by hand where zonewise decides" slices::replaced,
    4 "a partial hint where zonewise observes" slices::partial,
    5 "another webhook that breaks a hint" slices::broken_on_the_way,
    6 "a misspelt annotation, enforced" services::refused,
    7 "hints by hand that overload, enforced" slices::refused,
    8 "the EndpointSlice controller, enforced" slices::controller,
    9 "a replica that knows nothing yet" slices::not_synced,
];

/// More than any scene takes on a slow machine.
const SCENE_ENDS_WITHIN: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_told_and_programs_are_not() {
    let stage = Stage::set().await;
    let mut failed = Vec::new();
    for (number, title, play) in chosen(SCENES) {
        let scene = Scene::begin(&stage.world, &format!("scene-{number}")).await;
        let playing = async {
            let played = tokio::time::timeout(SCENE_ENDS_WITHIN, play(&stage, &scene)).await;
            played.expect("the scene ends in time");
        };
        failed.extend(failure(number, title, playing).await);
    }
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
    let failed_open = stage.failed_open().await;
    assert!(failed_open.is_empty(), "{failed_open:#?}");
}
