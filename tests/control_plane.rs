//! zonewise in the way of a real API server that the real controllers write slices to. What is asserted is what the API
//! server stored.
//!
//! Needs the test control plane (`make controlplane`). `ZONEWISE_SCENES=3,16` plays these scenes alone.

mod support;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use support::endpoint::{self, With as _, spread};
use support::objects::{
    TOPOLOGY_MODE, UNMANAGED, deployment, from_json, mode, no_selector, node, service, slice,
    traffic,
};
use support::scene::Scene;
use support::slices::{
    assert_guaranteed, assert_hinted, assert_unhinted, describe, endpoints, guaranteed, hinted,
    is_ready, node_hints, ready_count, unhinted,
};
use support::wait::eventually;
use support::world::{World, say};

type Play = for<'a> fn(&'a Scene<'a>) -> LocalBoxFuture<'a, ()>;

const SCENES: [(usize, &str, Play); 23] = [
    (1, "three zones with 4, 4 and 1 endpoints", |s| {
        equal_zones(s).boxed_local()
    }),
    (2, "zones of uneven CPU", |s| uneven_zones(s).boxed_local()),
    (3, "scaled to fewer endpoints than zones", |s| {
        fewer_endpoints_than_zones(s).boxed_local()
    }),
    (4, "a node without a zone", |s| {
        node_without_zone(s).boxed_local()
    }),
    (5, "250 endpoints in three slices", |s| {
        three_slices(s).boxed_local()
    }),
    (6, "dual stack", |s| dual_stack(s).boxed_local()),
    (7, "a slice of another manager, ready absent", |s| {
        ready_absent(s).boxed_local()
    }),
    (8, "endpoints that are not ready", |s| {
        unready_endpoints(s).boxed_local()
    }),
    (9, "PreferSameZone", |s| prefer_same_zone(s).boxed_local()),
    (10, "Disabled", |s| disabled(s).boxed_local()),
    (11, "the heuristic of another vendor", |s| {
        other_vendor(s).boxed_local()
    }),
    (12, "internalTrafficPolicy Local", |s| {
        internal_traffic_local(s).boxed_local()
    }),
    (13, "dry runs", |s| dry_runs(s).boxed_local()),
    (14, "control-plane and NotReady nodes", |s| {
        nodes_left_out(s).boxed_local()
    }),
    (15, "the annotation is taken away", |s| {
        annotation_removed(s).boxed_local()
    }),
    (16, "two replicas, restarted in turn under writes", |s| {
        restarts(s).boxed_local()
    }),
    (17, "slices with different ports, and without", |s| {
        different_ports(s).boxed_local()
    }),
    (18, "one IP twice", |s| one_ip_twice(s).boxed_local()),
    (19, "node hints", |s| {
        node_hints_beside_zone_hints(s).boxed_local()
    }),
    (20, "a zone that is no label value", |s| {
        odd_zone(s).boxed_local()
    }),
    (21, "mirrored slices", |s| mirrored(s).boxed_local()),
    (22, "a slice being deleted", |s| {
        being_deleted(s).boxed_local()
    }),
    (23, "syncs that change nothing", |s| {
        idle_syncs(s).boxed_local()
    }),
];

/// More than any scene takes on a slow machine.
const SCENE_ENDS_WITHIN: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_stores_right_hints() {
    let started = Instant::now();
    let world = World::start().await;
    say(&format!(
        "         control plane and zonewise are up ({:.1?})",
        started.elapsed()
    ));
    let mut failed = Vec::new();
    for (number, title, play) in chosen_scenes() {
        if !play_scene(&world, number, title, play).await {
            failed.push(number);
        }
    }
    let (writes, took) = (world.audit.writes(), started.elapsed());
    say(&format!(
        "         {writes} writes of EndpointSlices in {took:.1?}"
    ));
    assert!(failed.is_empty(), "scenes that failed: {failed:?}");
    let status = world.replica.stop().await;
    assert!(
        status.success(),
        "after SIGTERM zonewise ended with {status}"
    );
}

fn chosen_scenes() -> impl Iterator<Item = (usize, &'static str, Play)> {
    let only = std::env::var("ZONEWISE_SCENES").ok();
    let numbers = only.map(|text| {
        text.split(',')
            .filter_map(|n| n.trim().parse().ok())
            .collect::<Vec<usize>>()
    });
    SCENES.into_iter().filter(move |(number, ..)| {
        numbers
            .as_ref()
            .is_none_or(|numbers| numbers.contains(number))
    })
}

/// Plays a scene and tidies up after it. Whether it went well, in the eyes of the API server too.
async fn play_scene(world: &World, number: usize, title: &str, play: Play) -> bool {
    let started = Instant::now();
    let complaints_before = world.complaints().await;
    let scene = Scene::begin(world, &format!("scene-{number}")).await;
    let played = AssertUnwindSafe(tokio::time::timeout(SCENE_ENDS_WITHIN, play(&scene)))
        .catch_unwind()
        .await;
    let mut faults: Vec<String> = world.complaints().await;
    faults.retain(|fault| !complaints_before.contains(fault));
    match played {
        Ok(Ok(())) => {}
        Ok(Err(_)) => faults.push(format!("it did not end within {SCENE_ENDS_WITHIN:?}")),
        Err(panic) => faults.push(message_of(&*panic)),
    }
    let verdict = if faults.is_empty() { "ok" } else { "FAILED" };
    say(&format!(
        "scene {number:2} {title}: {verdict} ({:.1?})",
        started.elapsed()
    ));
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
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
        .to_owned()
}

/// For [`Scene::touch_until`]: hinted as Auto must, so many for each zone.
fn exactly(counts: [usize; 3]) -> impl Fn(&[EndpointSlice]) -> Result<(), String> {
    move |slices| match hinted(slices)? {
        found if found == counts => Ok(()),
        found => Err(format!("hinted {found:?} instead of {counts:?}")),
    }
}

fn name_of(slice: &EndpointSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

fn version_of(slice: &EndpointSlice) -> &str {
    slice
        .metadata
        .resource_version
        .as_deref()
        .unwrap_or_default()
}

async fn equal_zones(scene: &Scene<'_>) {
    let before = scene.answers("Hints", "");
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 1)])
        .await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    assert!(
        scene.answers("Hints", "") > before,
        "zonewise was not asked"
    );
    scene.logged("web", "Hints", "").await;
}

async fn uneven_zones(scene: &Scene<'_>) {
    scene
        .world
        .add_node(&node("big-a", "zone-a", 8, &["10.200.0.0/16"], &[]))
        .await;
    scene.world.capacity_is([12, 4, 4]).await;
    scene.service(&service("web", &[mode("Auto")])).await;
    scene.create(&deployment("web", 10)).await;
    let slices = scene.slices_with_ready("web", 10).await;
    guaranteed(&slices, [12, 4, 4])
        .unwrap_or_else(|fault| panic!("{fault}\n{}", describe(&slices)));
    scene
        .touch_until("web", "as the CPUs", exactly([6, 2, 2]))
        .await;
}

async fn fewer_endpoints_than_zones(scene: &Scene<'_>) {
    scene.service(&service("web", &[mode("Auto")])).await;
    scene.create(&deployment("web", 6)).await;
    assert_hinted(&scene.slices_with_ready("web", 6).await, [2, 2, 2]);
    scene
        .patch::<Deployment>("web", &json!({"spec": {"replicas": 2}}))
        .await;
    let two = |slices: &[EndpointSlice]| endpoints(slices).count() == 2 && ready_count(slices) == 2;
    assert_unhinted(&scene.slices_once("web", "two endpoints", two).await);
    let told = scene
        .logged("web", "Strip", "InsufficientNumberOfEndpoints")
        .await;
    assert!(
        told.message.contains("2 ready endpoints for 3 zones"),
        "{}",
        told.message
    );
}

async fn node_without_zone(scene: &Scene<'_>) {
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    assert_hinted(&scene.slices_with_ready("web", 6).await, [2, 2, 2]);
    let no_zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
    scene
        .world
        .add_node(&node("stray", "", 4, &["10.200.0.0/16"], &[no_zone]))
        .await;
    scene.world.knows_nodes(7).await;
    let slice = scene.slices("web").await.remove(0);
    assert_unhinted(&[scene.touch(&slice).await]);
    let told = scene.logged("web", "Strip", "InsufficientNodeInfo").await;
    assert!(
        told.message
            .contains("ode stray has no label topology.kubernetes.io/zone"),
        "{}",
        told.message
    );
    scene.world.remove_added_nodes().await;
    assert_hinted(&[scene.touch(&slice).await], [2, 2, 2]);
}

async fn three_slices(scene: &Scene<'_>) {
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 100), ("node-b", 100), ("node-c", 50)])
        .await;
    let slices = scene.slices_with_ready("web", 250).await;
    assert_eq!(slices.len(), 3, "{}", describe(&slices));
    assert_guaranteed(&slices);
    let even = |slices: &[EndpointSlice]| {
        let mut counts = hinted(slices)?;
        counts.sort_unstable();
        if counts == [83, 83, 84] {
            Ok(())
        } else {
            Err(format!("hinted {counts:?}"))
        }
    };
    scene
        .touch_until("web", "250 endpoints over three equal zones", even)
        .await;
}

async fn dual_stack(scene: &Scene<'_>) {
    let both = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    scene.service(&service("web", &[mode("Auto"), both])).await;
    scene
        .pods(
            "web",
            &[
                ("dual-a", 3),
                ("dual-b", 1),
                ("dual-c", 1),
                ("node-a", 1),
                ("node-b", 3),
            ],
        )
        .await;
    let of_type = async |address_type: &'static str, count| {
        eventually(
            &format!("{count} ready endpoints of {address_type}"),
            async || {
                let slices = scene.slices_of_type("web", address_type).await;
                let ready = ready_count(&slices);
                if ready == count {
                    Ok(slices)
                } else {
                    Err(format!("{ready} are ready"))
                }
            },
        )
        .await
    };
    assert_hinted(&of_type("IPv4", 9).await, [3, 3, 3]);
    assert_unhinted(&of_type("IPv6", 5).await);
    scene
        .logged_of_type(
            "web",
            "IPv6",
            "Strip",
            "MinAllocationExceedsOverloadThreshold",
        )
        .await;
    scene.pods("web", &[("dual-c", 1)]).await;
    assert_hinted(&of_type("IPv6", 6).await, [2, 2, 2]);
    assert_guaranteed(&of_type("IPv4", 10).await);
}

async fn ready_absent(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    let says_nothing = |e| Endpoint {
        conditions: Some(EndpointConditions::default()),
        ..e
    };
    let sent: Vec<Endpoint> = spread("10.9.0", [4, 4, 1])
        .into_iter()
        .map(says_nothing)
        .collect();
    let stored = scene.create(&slice("by-hand", "web", &sent, &[])).await;
    assert_hinted(std::slice::from_ref(&stored), [3, 3, 3]);
    assert!(
        stored
            .endpoints
            .iter()
            .all(|e| e.conditions.as_ref().is_none_or(|c| c.ready.is_none())),
        "{stored:?}"
    );
}

async fn unready_endpoints(scene: &Scene<'_>) {
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 2)])
        .await;
    assert_guaranteed(&scene.slices_with_ready("web", 10).await);
    let pods = scene.api::<Pod>();
    let on_node_b = ListParams::default().fields("spec.nodeName=node-b");
    let pod = pods
        .list(&on_node_b)
        .await
        .unwrap()
        .items
        .remove(0)
        .metadata
        .name
        .unwrap();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    pods.patch_status(&pod, &PatchParams::default(), &Patch::Strategic(&not_ready))
        .await
        .unwrap();
    let slices = scene.slices_with_ready("web", 9).await;
    assert_eq!(
        endpoints(&slices)
            .filter(|endpoint| !is_ready(endpoint))
            .count(),
        1,
        "{}",
        describe(&slices)
    );
    assert_hinted(&slices, [3, 3, 3]);

    scene
        .service(&service("hand", &[mode("Auto"), no_selector()]))
        .await;
    let mut sent = spread("10.9.0", [4, 4, 1]);
    sent.push(
        endpoint::ready("10.9.1.1", "zone-a")
            .unready()
            .hinted("zone-a"),
    );
    assert_hinted(
        &[scene.create(&slice("by-hand", "hand", &sent, &[])).await],
        [3, 3, 3],
    );
}

async fn prefer_same_zone(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[traffic("PreferSameZone")]))
        .await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 1)])
        .await;
    // The controller writes every endpoint's own zone, which is 4, 4 and 1.
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    scene.logged("web", "Hints", "").await;
}

async fn disabled(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Disabled"), no_selector()]))
        .await;
    let sent: Vec<Endpoint> = spread("10.9.0", [3, 3, 3])
        .into_iter()
        .map(|e| e.hinted("zone-a"))
        .collect();
    assert_unhinted(&[scene.create(&slice("by-hand", "web", &sent, &[])).await]);
    scene.logged("web", "Strip", "OptedOut").await;

    let before = scene.answers("Untouched", "OptedOut");
    scene
        .service(&service(
            "kubernetes-own",
            &[mode("disabled"), traffic("PreferSameZone")],
        ))
        .await;
    scene
        .pods(
            "kubernetes-own",
            &[("node-a", 4), ("node-b", 4), ("node-c", 1)],
        )
        .await;
    assert_hinted(
        &scene.slices_with_ready("kubernetes-own", 9).await,
        [4, 4, 1],
    );
    assert!(
        scene.answers("Untouched", "OptedOut") > before,
        "zonewise was not asked"
    );
}

async fn other_vendor(scene: &Scene<'_>) {
    scene
        .service(&service(
            "web",
            &[mode("vendor.example/nearest"), no_selector()],
        ))
        .await;
    let before = scene.answers("Untouched", "OtherHeuristic");
    let mut sent: Vec<Endpoint> = spread("10.9.0", [3, 3, 3])
        .into_iter()
        .map(|e| e.hinted("zone-c"))
        .collect();
    sent[8].hints = None;
    let stored = scene.create(&slice("theirs", "web", &sent, &[])).await;
    assert_eq!(stored.endpoints, sent);
    assert!(
        scene.answers("Untouched", "OtherHeuristic") > before,
        "zonewise was not asked"
    );
}

async fn internal_traffic_local(scene: &Scene<'_>) {
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    let node_port = json!({"spec": {"type": "NodePort"}});
    let bare = spread("10.9.0", [4, 4, 1]);
    let theirs: Vec<Endpoint> = bare.iter().cloned().map(|e| e.hinted("zone-a")).collect();

    scene
        .service(&service(
            "inside",
            &[mode("Auto"), no_selector(), local.clone()],
        ))
        .await;
    assert_eq!(
        scene
            .create(&slice("inside-1", "inside", &bare, &[]))
            .await
            .endpoints,
        bare
    );
    assert_eq!(
        scene
            .create(&slice("inside-2", "inside", &theirs, &[]))
            .await
            .endpoints,
        theirs
    );
    assert!(
        scene.answers("Untouched", "InternalTrafficPolicyLocal") >= 2.0,
        "zonewise was not asked"
    );

    scene
        .service(&service(
            "outside",
            &[mode("Auto"), no_selector(), local, node_port],
        ))
        .await;
    assert_hinted(
        &[scene
            .create(&slice("outside-1", "outside", &bare, &[]))
            .await],
        [3, 3, 3],
    );
}

async fn dry_runs(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    let stored = scene
        .create(&slice("real", "web", &spread("10.9.0", [4, 4, 1]), &[]))
        .await;
    assert_hinted(std::slice::from_ref(&stored), [3, 3, 3]);

    let ghost = scene
        .dry_run(&slice("ghost", "web", &spread("10.9.1", [30, 0, 0]), &[]))
        .await;
    assert!(
        hinted(std::slice::from_ref(&ghost)).is_ok(),
        "{}",
        describe(&[ghost])
    );
    let too_few = json!({"endpoints": spread("10.9.0", [1, 1, 0])});
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let slices = scene.api::<EndpointSlice>();
    assert_unhinted(&[slices
        .patch("real", &dry, &Patch::Merge(&too_few))
        .await
        .unwrap()]);

    assert_eq!(scene.slices("web").await, [stored.clone()]);
    // Had a dry run been remembered, this would be decided beside a ghost.
    assert_eq!(scene.touch(&stored).await, stored);
}

async fn nodes_left_out(scene: &Scene<'_>) {
    let role = |name: &str| json!({"metadata": {"labels": {format!("node-role.kubernetes.io/{name}"): ""}}});
    let no_zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
    let not_ready = json!({
        "metadata": {"labels": {UNMANAGED: ""}},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    let world = scene.world;
    world
        .add_node(&node(
            "control-plane",
            "zone-a",
            64,
            &["10.200.0.0/16"],
            &[role("control-plane"), no_zone],
        ))
        .await;
    world
        .add_node(&node(
            "master",
            "zone-b",
            64,
            &["10.201.0.0/16"],
            &[role("master")],
        ))
        .await;
    world
        .add_node(&node(
            "lost",
            "zone-c",
            64,
            &["10.202.0.0/16"],
            &[not_ready],
        ))
        .await;
    world.knows_nodes(9).await;
    world.capacity_is([4, 4, 4]).await;
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 1)])
        .await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
}

async fn annotation_removed(scene: &Scene<'_>) {
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods("web", &[("node-a", 4), ("node-b", 4), ("node-c", 1)])
        .await;
    assert_hinted(&scene.slices_with_ready("web", 9).await, [3, 3, 3]);
    let nothing_asked = json!({"metadata": {"annotations": {TOPOLOGY_MODE: null}}});
    scene.patch::<Service>("web", &nothing_asked).await;
    // The controller may strip before zonewise's watch has told it of the change; then the hints stay until the next
    // sync.
    let mut nudges = 0;
    let slices = eventually("the controller strips", async || {
        let bare = |slices: &[EndpointSlice]| unhinted(slices).is_ok();
        let slices = scene
            .slices_once_within(Duration::from_secs(1), "web", bare)
            .await;
        if slices.is_err() {
            nudges += 1;
            scene.nudge_service("web", nudges).await;
        }
        slices.map_err(|slices| describe(&slices))
    })
    .await;
    if nudges > 0 {
        say(&format!(
            "         the controller stripped before zonewise knew; {nudges} more syncs were needed"
        ));
    }
    assert_unhinted(&[scene.touch(&slices[0]).await]);
    scene.logged("web", "Untouched", "NotOptedIn").await;
    scene.pods("web", &[("node-c", 1)]).await;
    assert_unhinted(&scene.slices_with_ready("web", 10).await);
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
        let started = Instant::now();
        match slices
            .patch(&name, &PatchParams::default(), &Patch::Merge(&unhinted))
            .await
        {
            Ok(stored) => written.faults.extend(exactly([3, 3, 3])(&[stored]).err()),
            Err(error) => written.faults.push(error.to_string()),
        }
        written.slowest = written.slowest.max(started.elapsed());
        written.count += 1;
        tokio::time::sleep(PAUSE).await;
    }
    written
}

async fn restarts(scene: &Scene<'_>) {
    const WRITERS: usize = 4;
    let (world, first) = (scene.world, &scene.world.replica);
    let second = world.another_replica("zonewise-2");
    second.start().await;
    world.proxy.add(&second);
    let end = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for i in 0..WRITERS {
        let name = format!("web-{i}");
        scene
            .service(&service(&name, &[mode("Auto"), no_selector()]))
            .await;
        scene
            .create(&slice(&name, &name, &spread("10.9.0", [4, 4, 1]), &[]))
            .await;
        writers.push(tokio::spawn(write_on(scene.api(), name, end.clone())));
    }
    for replica in [first, &second] {
        let asked = replica.admissions(&[("decision", "Hints")]);
        assert!(
            asked > 0.0,
            "a replica was not asked while the other was away"
        );
        let status = replica.stop().await;
        assert!(
            status.success(),
            "after SIGTERM zonewise ended with {status}"
        );
        replica.start().await;
        let both = async || {
            if world.proxy.ready_backends() == 2 {
                Ok(())
            } else {
                Err("one is ready".into())
            }
        };
        eventually("both replicas are ready", both).await;
    }
    end.store(true, Ordering::Relaxed);
    let written: Vec<Written> = futures::future::try_join_all(writers)
        .await
        .expect("writers do not panic");
    let count: usize = written.iter().map(|w| w.count).sum();
    let slowest = written.iter().map(|w| w.slowest).max().unwrap_or_default();
    say(&format!(
        "         {count} writes, the slowest in {slowest:.1?}"
    ));
    let faults: Vec<&String> = written.iter().flat_map(|w| &w.faults).collect();
    assert!(
        faults.is_empty(),
        "{} of {count} writes: {:?}",
        faults.len(),
        &faults[..faults.len().min(5)]
    );
    assert!(count > 200, "{count} writes are too few to tell");
    assert!(second.stop().await.success());
}

async fn different_ports(scene: &Scene<'_>) {
    // One port name with two numbers is one set of endpoints.
    scene.service(&service("web", &[mode("Auto")])).await;
    scene
        .pods_listening_on(8080, "web", &[("node-a", 4), ("node-b", 1)])
        .await;
    scene
        .pods_listening_on(8081, "web", &[("node-b", 3), ("node-c", 1)])
        .await;
    let slices = scene.slices_with_ready("web", 9).await;
    assert_eq!(slices.len(), 2, "{}", describe(&slices));
    scene
        .touch_until("web", "one port name with two numbers", exactly([3, 3, 3]))
        .await;

    // Ports of different names are planned together and hold each for itself; without ports nothing counts.
    let port = |name: &str| json!({"ports": [{"name": name, "port": 9090, "protocol": "TCP"}]});
    scene
        .service(&service("two", &[mode("Auto"), no_selector()]))
        .await;
    scene
        .create(&slice(
            "two-http",
            "two",
            &spread("10.9.2", [4, 4, 1]),
            &[port("http")],
        ))
        .await;
    scene
        .create(&slice(
            "two-metrics",
            "two",
            &spread("10.9.1", [2, 2, 2]),
            &[port("metrics")],
        ))
        .await;
    scene
        .create(&slice(
            "two-none",
            "two",
            &spread("10.9.3", [5, 0, 0]),
            &[json!({"ports": null})],
        ))
        .await;
    let each_for_itself = |slices: &[EndpointSlice]| {
        let of = |name: &str| {
            slices
                .iter()
                .filter(|s| name_of(s) == name)
                .cloned()
                .collect::<Vec<_>>()
        };
        exactly([3, 3, 3])(&of("two-http"))?;
        exactly([2, 2, 2])(&of("two-metrics"))?;
        unhinted(&of("two-none"))
    };
    scene
        .touch_until("two", "two ports and none", each_for_itself)
        .await;

    // 14 endpoints would do, but the two of one port can't serve three zones.
    scene
        .service(&service("short", &[mode("Auto"), no_selector()]))
        .await;
    scene
        .create(&slice(
            "short-http",
            "short",
            &spread("10.9.2", [5, 5, 2]),
            &[port("http")],
        ))
        .await;
    scene
        .create(&slice(
            "short-admin",
            "short",
            &spread("10.9.1", [1, 1, 0]),
            &[port("admin")],
        ))
        .await;
    scene
        .touch_until("short", "a port with too few endpoints", unhinted)
        .await;
    scene.logged("short", "Strip", "PortBelowMinimum").await;
}

async fn one_ip_twice(scene: &Scene<'_>) {
    scene
        .service(&service("moving", &[mode("Auto"), no_selector()]))
        .await;
    scene
        .create(&slice(
            "before",
            "moving",
            &spread("10.9.0", [4, 4, 1]),
            &[],
        ))
        .await;
    let ready_copy = endpoint::ready("10.9.0.9", "zone-c");
    let unready_copy = endpoint::ready("10.9.0.1", "zone-a").unready();
    scene
        .create(&slice("after", "moving", &[ready_copy, unready_copy], &[]))
        .await;
    scene
        .touch_until("moving", "one IP in two slices", exactly([3, 3, 3]))
        .await;

    scene
        .service(&service("doubled", &[mode("Auto"), no_selector()]))
        .await;
    let mut sent = spread("10.9.0", [4, 4, 1]);
    sent.push(endpoint::ready("10.9.0.9", "zone-c"));
    assert_hinted(
        &[scene.create(&slice("by-hand", "doubled", &sent, &[])).await],
        [3, 3, 3],
    );
}

async fn node_hints_beside_zone_hints(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    let both = |e: Endpoint| e.hinted("zone-a").hinted_for_node("node-a");
    let sent: Vec<Endpoint> = spread("10.9.0", [4, 4, 1]).into_iter().map(both).collect();
    assert_hinted(
        &[scene.create(&slice("by-hand", "web", &sent, &[])).await],
        [3, 3, 3],
    );

    // Node hints that Kubernetes was asked for are Kubernetes'.
    scene
        .service(&service("near", &[traffic("PreferSameNode")]))
        .await;
    scene
        .pods("near", &[("node-a", 4), ("node-b", 4), ("node-c", 1)])
        .await;
    let slices = scene.slices_with_ready("near", 9).await;
    let on_its_node =
        |e: &Endpoint| node_hints(e) == e.node_name.as_deref().into_iter().collect::<Vec<_>>();
    assert!(endpoints(&slices).all(on_its_node), "{}", describe(&slices));
    assert!(
        scene.answers("Untouched", "PreferSameNode") > 0.0,
        "zonewise was not asked"
    );
}

async fn odd_zone(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    let mut sent = spread("10.9.0", [4, 4, 1]);
    sent.push(endpoint::ready("10.9.1.1", "Hall 3, row B (left)"));
    let stored = scene.create(&slice("by-hand", "web", &sent, &[])).await;
    assert_eq!(
        stored.endpoints[9].zone.as_deref(),
        Some("Hall 3, row B (left)")
    );
    assert_guaranteed(&[stored]);
}

async fn mirrored(scene: &Scene<'_>) {
    let written = |name: &str, counts: [usize; 3], on_nodes: bool| -> Endpoints {
        let address = |e: Endpoint| {
            let node = e
                .zone
                .filter(|_| on_nodes)
                .map(|zone| zone.replace("zone", "node"));
            json!({"ip": e.addresses[0], "nodeName": node})
        };
        let addresses: Vec<_> = spread("10.9.0", counts).into_iter().map(address).collect();
        let subsets = json!([{"addresses": addresses, "ports": [{"name": "http", "port": 8080}]}]);
        from_json(json!({"metadata": {"name": name}, "subsets": subsets}))
    };
    scene
        .service(&service("on-nodes", &[mode("Auto"), no_selector()]))
        .await;
    scene.create(&written("on-nodes", [4, 4, 1], true)).await;
    let slices = scene.slices_with_ready("on-nodes", 9).await;
    assert!(
        endpoints(&slices).all(|e| e.zone.is_none()),
        "{}",
        describe(&slices)
    );
    assert_hinted(&slices, [3, 3, 3]);
    let more = json!({"subsets": written("on-nodes", [4, 4, 4], true).subsets});
    scene.patch::<Endpoints>("on-nodes", &more).await;
    assert_hinted(&scene.slices_with_ready("on-nodes", 12).await, [4, 4, 4]);

    scene
        .service(&service("nowhere", &[mode("Auto"), no_selector()]))
        .await;
    scene.create(&written("nowhere", [4, 4, 1], false)).await;
    assert_unhinted(&scene.slices_with_ready("nowhere", 9).await);
    scene.logged("nowhere", "Strip", "NoZoneSpecified").await;
}

async fn being_deleted(scene: &Scene<'_>) {
    scene
        .service(&service("web", &[mode("Auto"), no_selector()]))
        .await;
    let held = json!({"metadata": {"finalizers": ["zonewise.test/held"]}});
    scene
        .create(&slice(
            "going",
            "web",
            &spread("10.9.0", [4, 4, 1]),
            &[held],
        ))
        .await;
    scene
        .api::<EndpointSlice>()
        .delete("going", &DeleteParams::default())
        .await
        .unwrap();
    let others = json!({"endpoints": spread("10.9.0", [1, 4, 3])});
    let stored: EndpointSlice = scene.patch("going", &others).await;
    assert!(stored.metadata.deletion_timestamp.is_some(), "{stored:?}");
    // One more endpoint is nothing by itself, and the ninth beside those that are going.
    scene
        .create(&slice(
            "coming",
            "web",
            &[endpoint::ready("10.9.1.1", "zone-a")],
            &[],
        ))
        .await;
    scene
        .touch_until(
            "web",
            "a slice being deleted and its sibling",
            exactly([3, 3, 3]),
        )
        .await;
    scene
        .patch::<EndpointSlice>("going", &json!({"metadata": {"finalizers": null}}))
        .await;
    let only_one = |slices: &[EndpointSlice]| slices.len() == 1;
    scene
        .slices_once("web", "the slice is gone", only_one)
        .await;
}

/// Nudges the controller and fails if any of its syncs stores anything. `rewrites` tells whether it sends an update
/// with each sync.
async fn assert_syncs_store_nothing(scene: &Scene<'_>, name: &str, rewrites: bool) {
    const NUDGES: usize = 3;
    let before = scene.slices(name).await;
    for nudge in 0..NUDGES {
        let updates = scene
            .world
            .audit
            .updates_by_controller(&scene.namespace, name_of(&before[0]));
        scene.nudge_service(name, nudge).await;
        if rewrites {
            eventually("the controller writes", async || {
                let now = scene
                    .world
                    .audit
                    .updates_by_controller(&scene.namespace, name_of(&before[0]));
                if now > updates {
                    Ok(())
                } else {
                    Err(format!("{now} updates so far"))
                }
            })
            .await;
        }
    }
    // What was asked of the controller before this Service has been done when this is done.
    let witness = format!("{name}-witness");
    scene
        .service(&service(
            &witness,
            &[json!({"spec": {"selector": {"app": name}}})],
        ))
        .await;
    scene
        .slices_with_ready(&witness, ready_count(&before))
        .await;
    let after = scene.slices(name).await;
    let versions = |slices: &[EndpointSlice]| {
        slices
            .iter()
            .map(|s| version_of(s).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        versions(&after),
        versions(&before),
        "\nbefore:\n{}after:\n{}",
        describe(&before),
        describe(&after)
    );
}

async fn idle_syncs(scene: &Scene<'_>) {
    let pods = [("node-a", 4), ("node-b", 4), ("node-c", 1)];
    scene.service(&service("auto", &[mode("Auto")])).await;
    scene.pods("auto", &pods).await;
    assert_hinted(&scene.slices_with_ready("auto", 9).await, [3, 3, 3]);
    assert_syncs_store_nothing(scene, "auto", false).await;

    scene
        .service(&service("same-zone", &[traffic("PreferSameZone")]))
        .await;
    scene.pods("same-zone", &pods).await;
    assert_hinted(&scene.slices_with_ready("same-zone", 9).await, [3, 3, 3]);
    assert_syncs_store_nothing(scene, "same-zone", true).await;

    // 8, 8 and 4 CPUs need 2, 2 and 1 of six endpoints; in Kubernetes' floats 3, 3 and 2, so it strips at every sync.
    scene
        .world
        .add_node(&node("more-a", "zone-a", 4, &["10.200.0.0/16"], &[]))
        .await;
    scene
        .world
        .add_node(&node("more-b", "zone-b", 4, &["10.201.0.0/16"], &[]))
        .await;
    scene.world.capacity_is([8, 8, 4]).await;
    scene.service(&service("exact", &[mode("Auto")])).await;
    scene
        .pods("exact", &[("node-a", 2), ("node-b", 2), ("node-c", 2)])
        .await;
    let slices = scene.slices_with_ready("exact", 6).await;
    guaranteed(&slices, [8, 8, 4]).unwrap_or_else(|fault| panic!("{fault}\n{}", describe(&slices)));
    assert_syncs_store_nothing(scene, "exact", true).await;
}
