//! Scenes about writes: those that are none, those while replicas come and go, and those that should not be stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::UNEVEN_PODS;
use crate::support::endpoint::{spread, uneven};
use crate::support::objects::{node, service, slice, traffic};
use crate::support::scene::Scene;
use crate::support::slices::{
    assert_guaranteed, assert_hinted, assert_unhinted, describe, exactly, hinted, name_of,
    ready_count,
};
use crate::support::wait::eventually;
use crate::support::world::say;

pub async fn dry_runs(scene: &Scene<'_>) {
    scene.auto_by_hand("web").await;
    let stored = scene.write("real", "web", &uneven()).await;
    assert_hinted(std::slice::from_ref(&stored), [3, 3, 3]);

    let ghost = slice("ghost", "web", &spread("10.9.1", [30, 0, 0]), &[]);
    let ghost = [scene.dry_run(&ghost).await];
    assert!(hinted(&ghost).is_ok(), "{}", describe(&ghost));
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let too_few = json!({"endpoints": spread("10.9.0", [1, 1, 0])});
    let slices = scene.api::<EndpointSlice>();
    let fewer = slices.patch("real", &dry, &Patch::Merge(&too_few)).await;
    assert_unhinted(&[fewer.unwrap()]);

    assert_eq!(scene.slices("web").await, std::slice::from_ref(&stored));
    // Had a dry run been remembered, this would be decided beside a ghost.
    assert_eq!(scene.touch(&stored).await, stored);
}

/// What a writer saw.
#[derive(Debug, Default)]
struct Written {
    count: usize,
    slowest: Duration,
    faults: Vec<String>,
}

/// Writes a slice without hints again and again; what the API server answers is what it stored.
async fn write_on(slices: Api<EndpointSlice>, name: String, end: Arc<AtomicBool>) -> Written {
    const PAUSE: Duration = Duration::from_millis(10);
    let mut written = Written::default();
    for counts in [[4, 4, 1], [1, 4, 4], [4, 1, 4]].into_iter().cycle() {
        if end.load(Ordering::Relaxed) {
            break;
        }
        let unhinted = json!({"endpoints": spread("10.9.0", counts)});
        let patch = Patch::Merge(&unhinted);
        let started = Instant::now();
        match slices.patch(&name, &PatchParams::default(), &patch).await {
            Ok(stored) => written.faults.extend(exactly([3, 3, 3])(&[stored]).err()),
            Err(error) => written.faults.push(error.to_string()),
        }
        written.slowest = written.slowest.max(started.elapsed());
        written.count += 1;
        tokio::time::sleep(PAUSE).await;
    }
    written
}

pub async fn restarts(scene: &Scene<'_>) {
    const WRITERS: usize = 4;
    let (world, first) = (scene.world, &scene.world.replica);
    let second = world.another_replica("zonewise-2");
    second.start().await;
    world.proxy.add(&second);
    let end = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for name in (0..WRITERS).map(|i| format!("web-{i}")) {
        scene.auto_by_hand(&name).await;
        scene.write(&name, &name, &uneven()).await;
        writers.push(tokio::spawn(write_on(scene.api(), name, end.clone())));
    }
    for replica in [first, &second] {
        let asked = replica.admissions(&[("decision", "Hints")]);
        assert!(
            asked > 0.0,
            "nothing was asked of a replica while the other was away"
        );
        let status = replica.stop().await;
        assert!(
            status.success(),
            "after SIGTERM zonewise ended with {status}"
        );
        replica.start().await;
        eventually("both replicas are ready", async || {
            match world.proxy.ready_backends() {
                2 => Ok(()),
                ready => Err(format!("{ready} is")),
            }
        })
        .await;
    }
    end.store(true, Ordering::Relaxed);
    check(
        &futures::future::try_join_all(writers)
            .await
            .expect("writers do not panic"),
    );
    assert!(second.stop().await.success());
}

fn check(written: &[Written]) {
    let count: usize = written.iter().map(|writer| writer.count).sum();
    let slowest = written.iter().map(|writer| writer.slowest).max();
    let faults: Vec<&String> = written.iter().flat_map(|writer| &writer.faults).collect();
    say(&format!(
        "         {count} writes, the slowest in {:.1?}",
        slowest.unwrap_or_default()
    ));
    let first = &faults[..faults.len().min(5)];
    assert!(
        faults.is_empty(),
        "{} of {count} writes: {first:?}",
        faults.len()
    );
    assert!(count > 50, "{count} writes are too few to tell");
}

/// Whether the controller sends an update with each of its syncs, even when nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    IsContent,
    Rewrites,
}

/// Has the controller look at a Service again and again. Whatever it sends, nothing may be stored.
pub async fn assert_syncs_store_nothing(scene: &Scene<'_>, name: &str, controller: Controller) {
    const NUDGES: usize = 3;
    let before = scene.slices(name).await;
    let updates = || {
        scene
            .world
            .audit()
            .updates_by_controller(&scene.namespace, name_of(&before[0]))
    };
    for nudge in 0..NUDGES {
        let so_far = updates();
        scene.nudge_service(name, nudge).await;
        if controller == Controller::Rewrites {
            eventually("the controller writes", async || match updates() {
                now if now > so_far => Ok(()),
                now => Err(format!("{now} updates so far")),
            })
            .await;
        }
    }
    // The controller takes its work in turn: when this is done, so is what came before.
    let witness = format!("{name}-witness");
    let of_the_same_pods = json!({"spec": {"selector": {"app": name}}});
    scene.service(&service(&witness, &[of_the_same_pods])).await;
    scene
        .slices_with_ready(&witness, ready_count(&before))
        .await;
    let after = scene.slices(name).await;
    let told = format!("before:\n{}after:\n{}", tell(&before), tell(&after));
    assert!(after == before, "something was stored\n{told}");
}

/// Slices for people, with all that a write may change of them.
fn tell(slices: &[EndpointSlice]) -> String {
    let metadata = slices.iter().map(|slice| &slice.metadata);
    let metadata = serde_json::to_string_pretty(&metadata.collect::<Vec<_>>());
    format!("{}{}\n", describe(slices), metadata.unwrap_or_default())
}

pub async fn idle_syncs(scene: &Scene<'_>) {
    scene.auto("auto").await;
    scene.pods("auto", &UNEVEN_PODS).await;
    assert_hinted(&scene.slices_with_ready("auto", 9).await, [3, 3, 3]);
    assert_syncs_store_nothing(scene, "auto", Controller::IsContent).await;

    let same_zone = service("same-zone", &[traffic("PreferSameZone")]);
    scene.service(&same_zone).await;
    scene.pods("same-zone", &UNEVEN_PODS).await;
    assert_hinted(&scene.slices_with_ready("same-zone", 9).await, [3, 3, 3]);
    assert_syncs_store_nothing(scene, "same-zone", Controller::Rewrites).await;

    // 8, 8 and 4 CPUs need 2, 2 and 1 of six endpoints; in Kubernetes' floats 3, 3 and 2, so it strips at every sync.
    for (name, zone, network) in [
        ("more-a", "zone-a", "10.200.0.0/16"),
        ("more-b", "zone-b", "10.201.0.0/16"),
    ] {
        scene
            .world
            .add_node(&node(name, zone, 4, &[network], &[]))
            .await;
    }
    scene.world.capacity_is([8, 8, 4]).await;
    scene.auto("exact").await;
    scene
        .pods("exact", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    assert_guaranteed(&scene.slices_with_ready("exact", 6).await, [8, 8, 4]);
    assert_syncs_store_nothing(scene, "exact", Controller::Rewrites).await;
}
