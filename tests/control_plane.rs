//! zonewise in the way of a real API server that the real controllers write slices to. What is asserted is what the API
//! server stored.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=3,16` plays these scenes alone.

#[path = "support/scenes/mod.rs"]
mod scenes;
mod support;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use scenes::{capacity, endpoints, heuristics, opt_in, writes};
use support::play::{chosen, say_verdict};
use support::scene::Scene;
use support::world::{World, say};

type Play = for<'a> fn(&'a Scene<'a>) -> LocalBoxFuture<'a, ()>;

macro_rules! scenes {
    ($($number:literal $title:literal $play:path,)*) => {
        [$(($number, $title, |scene| $play(scene).boxed_local())),*]
    };
}

const SCENES: [(usize, &str, Play); 28] = scenes![
    1 "three zones with 4, 4 and 1 endpoints" capacity::equal_zones,
    2 "zones of uneven CPU" capacity::uneven_zones,
    3 "scaled to fewer endpoints than zones" capacity::fewer_endpoints_than_zones,
    4 "a node without a zone" capacity::node_without_zone,
    5 "250 endpoints in three slices" endpoints::three_slices,
    6 "dual stack" endpoints::dual_stack,
    7 "a slice of another manager, ready absent" endpoints::ready_absent,
    8 "endpoints that are not ready" endpoints::unready_endpoints,
    9 "PreferSameZone" opt_in::prefer_same_zone,
    10 "Disabled" opt_in::disabled,
    11 "the heuristic of another vendor" opt_in::other_vendor,
    12 "internalTrafficPolicy Local" opt_in::internal_traffic_local,
    13 "dry runs" writes::dry_runs,
    14 "control-plane and NotReady nodes" capacity::nodes_left_out,
    15 "the annotation is taken away" opt_in::annotation_removed,
    16 "two replicas, restarted in turn under writes" writes::restarts,
    17 "slices with different ports, and without" endpoints::different_ports,
    18 "one IP twice" endpoints::one_ip_twice,
    19 "node hints" opt_in::node_hints_beside_zone_hints,
    20 "a zone that is no label value" endpoints::odd_zone,
    21 "mirrored slices" endpoints::mirrored,
    22 "a slice being deleted" endpoints::being_deleted,
    23 "syncs that change nothing" writes::idle_syncs,
    24 "Overlap of 4, 4 and 3 endpoints" heuristics::overlap,
    25 "more zones than endpoints" heuristics::more_zones_than_endpoints,
    26 "Overlap through a rolling update" heuristics::rolling_update,
    27 "PreferZone" heuristics::own_zones,
    28 "a Namespace that asks for its Services" heuristics::namespace_asks,
];

/// More than any scene takes on a slow machine.
const SCENE_ENDS_WITHIN: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_stores_right_hints() {
    let started = Instant::now();
    let world = World::start().await;
    say(&format!(
        "         control plane and zonewise are up ({:.1?})",
        started.elapsed()
    ));
    let mut failed = Vec::new();
    for (number, title, play) in chosen(SCENES) {
        if !play_scene(&world, number, title, play).await {
            failed.push(number);
        }
    }
    let (writes, took) = (world.audit.writes(), started.elapsed());
    say(&format!(
        "         {writes} writes of EndpointSlices in {took:.1?}"
    ));
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
    let complaints = world.complaints().await;
    assert!(complaints.is_empty(), "{complaints:#?}");
    let status = world.replica.stop().await;
    assert!(
        status.success(),
        "after SIGTERM zonewise ended with {status}"
    );
}

/// Plays a scene and tidies up after it. Whether it went well, in the eyes of the API server too.
async fn play_scene(world: &World, number: usize, title: &str, play: Play) -> bool {
    let started = Instant::now();
    let before = world.complaints().await;
    let scene = Scene::begin(world, &format!("scene-{number}")).await;
    let playing = tokio::time::timeout(SCENE_ENDS_WITHIN, play(&scene));
    let played = AssertUnwindSafe(playing).catch_unwind().await;
    let mut faults = world.complaints().await;
    faults.retain(|fault| !before.contains(fault));
    match played {
        Ok(Ok(())) => {}
        Ok(Err(_)) => faults.push(format!("it did not end within {SCENE_ENDS_WITHIN:?}")),
        Err(panic) => faults.push(message_of(&*panic)),
    }
    say_verdict(number, title, faults.is_empty(), started);
    if !faults.is_empty() {
        say(&format!("{}\n{}", faults.join("\n"), scene.report().await));
    }
    if !world.added_nodes().await.is_empty() {
        scene.no_pods().await;
        world.remove_added_nodes().await;
    }
    faults.is_empty()
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}
