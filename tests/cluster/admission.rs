//! zonewise in the way of a real API server that the real controllers write slices to. Each scene has a namespace of its own
//! and asserts on what the API server stored.

mod capacity;
mod endpoints;
mod heuristics;
mod opt_in;
mod writes;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use crate::support::scene::Scene;
use crate::support::world::{World, say};

/// The CPUs of the zones while no scene has added a node.
const EQUAL: [u32; 3] = [4, 4, 4];

/// Nine pods, 4, 4 and 1 in the zones: of three equal zones each must get 3.
const UNEVEN_PODS: [(&str, usize); 3] = [("node-a", 4), ("node-b", 4), ("node-c", 1)];

type Play = for<'a> fn(&'a Scene<'a>) -> LocalBoxFuture<'a, ()>;

scenes![beside_others:
    capacity::equal_zones,
    capacity::fewer_endpoints_than_zones,
    endpoints::three_slices,
    endpoints::dual_stack,
    endpoints::ready_absent,
    endpoints::unready_endpoints,
    endpoints::different_ports,
    endpoints::one_ip_twice,
    endpoints::odd_zone,
    endpoints::mirrored,
    endpoints::being_deleted,
    heuristics::overlap,
    heuristics::more_zones_than_endpoints,
    heuristics::rolling_update,
    heuristics::own_zones,
    heuristics::namespace_asks,
    opt_in::prefer_same_zone,
    opt_in::disabled,
    opt_in::other_vendor,
    opt_in::internal_traffic_local,
    opt_in::annotation_removed,
    opt_in::node_hints_beside_zone_hints,
    writes::dry_runs,
];

scenes![alone:
    capacity::uneven_zones,
    capacity::node_without_zone,
    capacity::nodes_left_out,
    writes::restarts,
    writes::idle_syncs,
];

/// Plays a scene in the world that scenes share.
fn beside_others(name: &str, play: Play) {
    crate::run(async {
        let world = World::shared().await;
        play_scene(&world, name, play).await;
    });
}

/// Plays a scene that changes nodes or replicas.
fn alone(name: &str, play: Play) {
    crate::run(async {
        let world = World::start().await;
        play_scene(&world, name, play).await;
        let status = world.replica.stop().await;
        assert!(
            status.success(),
            "after SIGTERM zonewise ended with {status}"
        );
    });
}

/// Plays a scene. It must go well in the eyes of the API server too.
async fn play_scene(world: &World, name: &str, play: Play) {
    let scene = Scene::begin(world, &crate::namespace_of(name)).await;
    let played = AssertUnwindSafe(play(&scene)).catch_unwind().await;
    let faults = world.audit().faults(Some(&scene.namespace));
    if played.is_err() || !faults.is_empty() {
        say(&format!("{name}: {}", scene.report().await));
    }
    if let Err(panic) = played {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(faults, Vec::<String>::new());
}
