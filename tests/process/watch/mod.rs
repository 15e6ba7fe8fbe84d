//! What zonewise does when the API server, or the way to it, fails: seen from outside, against a scripted API server.
//!
//! Each test has a server and a process of its own. What zonewise knows shows in `/metrics`, `/readyz`, its log and its
//! answers to `/mutate`; the reviews carry a slice without hints whose stored form is hinted for the zone `stored`, so
//! that an answer tells whether hints were planned, kept or stripped.

mod objects;
mod zonewise;

use std::time::Duration;

use serde_json::{Value, json};

use crate::api_server::watches::Resource::{self, EndpointSlices, Namespaces, Nodes, Services};
use crate::api_server::watches::{ApiServer, Verb};
use crate::api_server::{Fault, Gate};
use crate::wait::eventually;
use objects::{endpoints, node, ready, service, slice, with};
use zonewise::Zonewise;

/// A server with three equal zones, the Service `web` and its one slice, on which zonewise decides `PLANNED`.
fn usual() -> ApiServer {
    let api = ApiServer::new();
    api.put(Nodes, node("n-a", "a", 4));
    api.put(Nodes, node("n-b", "b", 4));
    api.put(Nodes, node("n-c", "c", 4));
    api.put(Services, service("web"));
    api.put(EndpointSlices, web());
    api
}

fn web() -> Value {
    slice(
        "web-1",
        "web",
        &endpoints(1, &["a", "a", "b", "b", "c", "c"]),
    )
}

const PLANNED: &str = "Hints: a a b b c c";
const NOT_SYNCED: &str = "Kept NotSynced: stored stored stored stored stored stored";
const NOT_UNDERSTOOD: &str = "Kept UnreadableObject: stored stored stored stored stored stored";
const THIRDS: &str = "a 33, b 33, c 33";

async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Waits until so many requests have come.
async fn comes_to_requests(api: &ApiServer, resource: Resource, verb: Verb, count: usize) {
    eventually("requests", async || {
        let came = api.requests(resource, verb).len();
        (came >= count)
            .then_some(())
            .ok_or_else(|| format!("{came} of {count}: {verb:?} {resource:?}"))
    })
    .await;
}

// === Lists ===

#[tokio::test]
async fn lists_come_in_pages_and_readiness_waits_for_the_last_page_of_all_three() {
    let api = usual();
    for i in 0..600 {
        api.put(Services, service(&format!("other-{i}")));
        let name = format!("other-{i}");
        api.put(
            EndpointSlices,
            slice(&name, &name, &endpoints(2, &["a", "b", "c"])),
        );
    }
    let gate = Gate::shut();
    api.next(
        EndpointSlices,
        Verb::List,
        [Fault::Nothing, Fault::Hold(gate.clone())],
    );
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise
        .comes_to_readyz(503, "waiting for the first list of endpointslices\n")
        .await;
    let mut synced = Vec::new();
    for resource in Resource::ALL {
        synced.push(zonewise.synced(resource));
    }
    assert_eq!(synced, [true, true, true, false]);
    assert_eq!(zonewise.ask(&web()), NOT_SYNCED);
    gate.open();
    zonewise.is_ready().await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
    for resource in [Services, EndpointSlices] {
        let lists = api.requests(resource, Verb::List);
        let pages: Vec<_> = lists
            .iter()
            .map(|list| {
                (
                    list.parameter("limit"),
                    list.parameter("continue").is_empty(),
                )
            })
            .collect();
        assert_eq!(pages, [("500", true), ("500", false)], "{resource:?}");
        assert!(
            lists[1].parameter("continue").ends_with("-500"),
            "{:?}",
            lists[1]
        );
    }
}

#[tokio::test]
async fn five_thousand_nodes_are_taken_in() {
    let api = usual();
    for i in 0..4_997 {
        api.put(Nodes, node(&format!("node-{i:04}"), "a", 4));
    }
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.is_ready().await;
    zonewise.comes_to_nodes("Counted", 5000).await;
    assert_eq!(zonewise.shares(), "a 100, b 0, c 0");
    assert_eq!(api.requests(Nodes, Verb::List).len(), 10);
    assert_eq!(zonewise.errors(Nodes), 0);
}

#[tokio::test]
async fn a_list_whose_continue_token_expires_is_begun_anew() {
    let api = usual();
    for i in 0..600 {
        api.put(Nodes, node(&format!("z-{i}"), "c", 4));
    }
    let gate = Gate::shut();
    api.next(
        Nodes,
        Verb::List,
        [Fault::Nothing, Fault::Hold(gate.clone())],
    );
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    comes_to_requests(&api, Nodes, Verb::List, 2).await;
    // What the first page named is gone when the list is begun anew.
    api.delete(Nodes, "n-a");
    api.compact();
    gate.open();
    zonewise.is_ready().await;
    assert_eq!(zonewise.shares(), "b 0, c 100");
    assert_eq!(zonewise.errors(Nodes), 1);
}

// === Away ===

#[tokio::test]
async fn an_api_server_that_is_away_at_the_start_is_found_when_it_comes() {
    let api = usual();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise
        .comes_to_readyz(
            503,
            "waiting for the first list of nodes, namespaces, services, endpointslices\n",
        )
        .await;
    assert_eq!(zonewise.ask(&web()), NOT_SYNCED);
    pause(2_500).await;
    for resource in Resource::ALL {
        let errors = zonewise.errors(resource);
        assert!(
            (1..=5).contains(&errors),
            "{errors} attempts in 2.5 s: {resource:?}"
        );
        let error = &zonewise.told_errors(resource)[0];
        assert!(error.contains("list"), "{error}");
    }
    zonewise.assert_runs();
    api.start();
    zonewise.is_ready().await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
}

#[tokio::test]
async fn pauses_grow_while_the_api_server_stays_away() {
    let api = usual();
    let zonewise = Zonewise::start(&api).await;
    pause(7_000).await;
    // Pauses of 0.8 s, 1.6 s, 3.2 s and so on, or longer: the fifth attempt comes after 12 s. Without growth it comes
    // within 6.4 s.
    let attempts = zonewise.errors(Nodes);
    assert!(attempts <= 4, "{attempts} attempts in 7 s");
}

#[tokio::test]
async fn the_log_says_why_the_api_server_cannot_be_reached() {
    let api = usual();
    let zonewise = Zonewise::start(&api).await;
    zonewise.comes_to_errors(Nodes, 1).await;
    let error = &zonewise.told_errors(Nodes)[0];
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn nothing_is_heard_from_an_api_server_that_is_away() {
    let api = usual();
    let zonewise = Zonewise::start(&api).await;
    zonewise.comes_to_errors(Nodes, 2).await;
    assert_eq!(zonewise.last_event(Nodes), 0);
}

#[tokio::test]
async fn while_the_api_server_is_away_decisions_go_on_and_what_was_deleted_goes_when_it_is_back() {
    let api = usual();
    api.put(Nodes, node("n-d", "d", 4));
    api.put(Services, service("old"));
    api.put(
        EndpointSlices,
        slice("web-2", "web", &endpoints(2, &["a", "a", "a"])),
    );
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    assert_eq!(zonewise.shares(), "a 25, b 25, c 25, d 25");
    let before = zonewise.ask(&web());
    let old = slice("old-1", "old", &endpoints(3, &["a", "b", "c", "d"]));
    let before_old = zonewise.ask(&old);
    assert!(before.starts_with("Hints: "), "{before}");
    assert_eq!(before_old, "Hints: a b c d");

    api.stop().await;
    for resource in Resource::ALL {
        zonewise.comes_to_errors(resource, 1).await;
        let error = &zonewise.told_errors(resource)[0];
        assert!(error.contains("watch"), "{error}");
    }
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
    assert_eq!(zonewise.ask(&web()), before);
    assert_eq!(zonewise.ask(&old), before_old);
    assert_eq!(zonewise.shares(), "a 25, b 25, c 25, d 25");

    api.delete(Nodes, "n-d");
    api.delete(Services, "shop/old");
    api.delete(EndpointSlices, "shop/web-2");
    api.put(Services, service("new"));
    api.compact();
    api.start();
    zonewise.comes_to_shares(THIRDS).await;
    zonewise
        .comes_to_answer(&old, "Untouched UnknownService: - - - -")
        .await;
    zonewise.comes_to_answer(&web(), PLANNED).await;
    let new = slice("new-1", "new", &endpoints(3, &["a", "b", "c"]));
    zonewise.comes_to_answer(&new, "Hints: a b c").await;
    zonewise.assert_runs();
}

#[tokio::test]
async fn an_api_server_that_remembers_is_asked_only_for_what_came_since() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    let bookmarked = Resource::ALL.map(|resource| api.bookmark(resource));
    // The bookmarks have arrived once what came after them shows.
    api.put(Services, service("marker"));
    let marker = slice("marker-1", "marker", &endpoints(3, &["a", "b", "c"]));
    zonewise.comes_to_answer(&marker, "Hints: a b c").await;
    pause(100).await;

    api.stop().await;
    api.put(Nodes, node("n-a", "a", 16));
    api.start();
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    for (resource, bookmarked) in Resource::ALL.into_iter().zip(bookmarked) {
        comes_to_requests(&api, resource, Verb::Watch, 2).await;
        let watches = api.requests(resource, Verb::Watch);
        let version: u64 = watches[1].parameter("resourceVersion").parse().unwrap();
        assert!(version >= bookmarked, "{version} < {bookmarked}");
        assert_eq!(api.requests(resource, Verb::List).len(), 1, "{resource:?}");
    }
    zonewise.assert_runs();
}

// === The life of a watch ===

#[tokio::test]
async fn watches_have_a_bounded_life_and_one_that_ends_in_time_is_no_error() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    for resource in Resource::ALL {
        let watches = api.requests(resource, Verb::Watch);
        let life: u32 = watches[0].parameter("timeoutSeconds").parse().unwrap();
        assert!((30..=300).contains(&life), "{life} s");
        assert_eq!(watches[0].parameter("allowWatchBookmarks"), "true");
        api.end_watches(resource);
    }
    api.put(Nodes, node("n-a", "a", 16));
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    for resource in Resource::ALL {
        assert_eq!(zonewise.errors(resource), 0);
        assert_eq!(api.requests(resource, Verb::List).len(), 1);
    }
    zonewise.assert_runs();
}

#[tokio::test]
async fn watches_that_end_at_once_are_not_opened_in_a_tight_loop() {
    let api = usual();
    api.always(Nodes, Verb::Watch, Fault::end_at_once());
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.is_ready().await;
    pause(2_000).await;
    let watches = api.requests(Nodes, Verb::Watch).len();
    assert!(watches <= 20, "{watches} watches in 2 s");
}

#[tokio::test]
async fn the_time_of_the_last_event_moves_with_events() {
    let api = usual();
    api.start();
    let zonewise = Zonewise::start_ready(&api).await;
    let listed = zonewise.last_event(Nodes);
    let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap();
    assert!(now - listed < 10, "{now} - {listed}");
    pause(1_100).await;
    api.put(Nodes, node("n-a", "a", 4));
    zonewise.comes_to_hear(Nodes, listed).await;
}

#[tokio::test]
async fn a_bookmark_is_a_sign_of_life() {
    let api = usual();
    api.start();
    let zonewise = Zonewise::start_ready(&api).await;
    let listed = zonewise.last_event(Services);
    pause(1_100).await;
    api.bookmark(Services);
    zonewise.comes_to_hear(Services, listed).await;
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_ended_and_what_it_missed_is_heard() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_with(&api, &[("--watch-life-seconds", "1")]).await;
    zonewise.is_ready().await;
    comes_to_requests(&api, Nodes, Verb::Watch, 1).await;
    assert_eq!(
        api.requests(Nodes, Verb::Watch)[0].parameter("timeoutSeconds"),
        "1"
    );
    // Neither told of nor ended: as when a connection is cut on its way with nobody told.
    api.put_untold(Nodes, node("n-a", "a", 16));
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    let error = &zonewise.told_errors(Nodes)[0];
    assert!(
        error.contains("can't watch: no event or end of the watch within 1s"),
        "{error}"
    );
    assert!(api.open_watches(Nodes) <= 1, "the silent one is still open");
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
}

// === 410 Gone ===

#[tokio::test]
async fn after_a_410_event_everything_is_listed_anew_and_nothing_is_lost_meanwhile() {
    let api = usual();
    api.put(Nodes, node("n-d", "d", 12));
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    let before = zonewise.shares();
    let gate = Gate::shut();
    for resource in Resource::ALL {
        api.next(resource, Verb::List, [Fault::Hold(gate.clone())]);
        api.error_event(resource, 410, "Expired");
        api.end_watches(resource);
    }
    api.delete(Nodes, "n-d");
    for resource in Resource::ALL {
        comes_to_requests(&api, resource, Verb::List, 2).await;
        assert_eq!(zonewise.errors(resource), 1);
    }
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
    assert_eq!(zonewise.shares(), before);
    let old = slice("web-9", "web", &endpoints(9, &["a"]));
    assert!(
        zonewise.ask(&old).starts_with("Hints: "),
        "the sibling in the cache is forgotten"
    );
    gate.open();
    zonewise.comes_to_shares(THIRDS).await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
    zonewise.assert_runs();
}

#[tokio::test]
async fn after_status_410_to_a_watch_everything_is_listed_anew() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    api.always(Nodes, Verb::Watch, Fault::status(410, "Expired"));
    api.end_watches(Nodes);
    api.put(Nodes, node("n-a", "a", 16));
    zonewise.comes_to_errors(Nodes, 1).await;
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
    assert!(zonewise.ask(&web()).starts_with("Hints: "));
    // A second list is the only way to hear of the change.
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    zonewise.assert_runs();
}

#[tokio::test]
async fn a_second_list_that_breaks_off_loses_nothing() {
    let api = usual();
    for i in 0..600 {
        api.put(Nodes, node(&format!("z-{i:03}"), "c", 4));
    }
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    let before = zonewise.shares();
    let gate = Gate::shut();
    let broken = Fault::Answer(500, "Sorry.\n".into());
    let held = Fault::Hold(gate.clone());
    api.next(Nodes, Verb::List, [Fault::Nothing, broken, held]);
    api.error_event(Nodes, 410, "Expired");
    api.end_watches(Nodes);
    api.delete(Nodes, "z-599");
    api.delete(Nodes, "n-a");
    comes_to_requests(&api, Nodes, Verb::List, 5).await;
    assert_eq!(zonewise.shares(), before);
    gate.open();
    zonewise.comes_to_shares("b 0, c 100").await;
    zonewise.assert_runs();
}

// === Odd objects ===

/// Asserts that one line of the log names the object and the field.
fn assert_named(zonewise: &Zonewise, kind: &str, name: &str, field: &str) {
    let lines = zonewise.log_with(&[("kind", kind), ("name", name), ("field", field)]);
    assert_eq!(
        lines.len(),
        1,
        "{kind} {name} {field} in:\n{}",
        zonewise.raw_log()
    );
    assert_eq!(lines[0]["level"], "WARN");
}

fn odd_node() -> Value {
    with(
        node("odd", "c", 1),
        &json!({"metadata": {"labels": {"example.com/rack": 7}}}),
    )
}

fn odd_service() -> Value {
    with(
        service("odd"),
        &json!({"metadata": {"annotations": ["service.kubernetes.io/topology-mode"]}}),
    )
}

#[tokio::test]
async fn odd_objects_in_a_list_are_named_and_counted_and_the_rest_goes_on() {
    let api = usual();
    api.put(Nodes, odd_node());
    let odd_namespace = json!({"metadata": {"name": "elsewhere", "annotations": 5}});
    api.put(Namespaces, odd_namespace);
    api.put(Services, odd_service());
    api.put(Services, service("broken"));
    api.put(
        EndpointSlices,
        with(slice("broken-1", "broken", &[]), &json!({"endpoints": "x"})),
    );
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.is_ready().await;
    assert_named(&zonewise, "Node", "odd", "metadata.labels");
    assert_named(&zonewise, "Service", "shop/odd", "metadata.annotations");
    assert_named(&zonewise, "EndpointSlice", "shop/broken-1", "endpoints");
    for resource in Resource::ALL {
        assert_eq!(zonewise.unreadable(resource), 1);
        assert_eq!(zonewise.errors(resource), 0);
    }
    // The node's zone and CPU are as they should be, so it counts.
    assert_eq!(zonewise.shares(), "a 31, b 31, c 38");
    assert!(zonewise.ask(&web()).starts_with("Hints: "));
    let six = endpoints(3, &["a", "a", "b", "b", "c", "c"]);
    let of_odd = slice("odd-1", "odd", &six);
    assert_eq!(zonewise.ask(&of_odd), NOT_UNDERSTOOD);
    let beside_odd = slice("broken-2", "broken", &six);
    assert_eq!(zonewise.ask(&beside_odd), NOT_UNDERSTOOD);
    let in_its_place = slice("broken-1", "broken", &six);
    assert!(zonewise.ask(&in_its_place).starts_with("Hints: "));
}

#[tokio::test]
async fn odd_objects_in_a_watch_are_named_and_counted_and_forgotten_once_mended() {
    let api = usual();
    api.put(
        EndpointSlices,
        slice("web-2", "web", &endpoints(2, &["a", "b", "c"])),
    );
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    assert_eq!(zonewise.ask(&web()), PLANNED);

    let yes = json!({"addresses": ["10.0.2.1"], "zone": "a", "conditions": {"ready": "yes"}});
    api.put(EndpointSlices, slice("web-2", "web", &[yes]));
    zonewise.comes_to_answer(&web(), NOT_UNDERSTOOD).await;
    assert_named(
        &zonewise,
        "EndpointSlice",
        "shop/web-2",
        "endpoints.conditions",
    );
    api.put(
        EndpointSlices,
        slice("web-2", "web", &endpoints(2, &["a", "b", "c"])),
    );
    zonewise.comes_to_answer(&web(), PLANNED).await;
    api.put(
        EndpointSlices,
        with(slice("web-3", "web", &[]), &json!({"endpoints": "x"})),
    );
    zonewise.comes_to_answer(&web(), NOT_UNDERSTOOD).await;
    api.delete(EndpointSlices, "shop/web-3");
    zonewise.comes_to_answer(&web(), PLANNED).await;

    api.put(
        Services,
        with(
            service("web"),
            &json!({"metadata": {"annotations": ["Auto"]}}),
        ),
    );
    zonewise.comes_to_answer(&web(), NOT_UNDERSTOOD).await;
    assert_named(&zonewise, "Service", "shop/web", "metadata.annotations");
    api.put(Services, service("web"));
    zonewise.comes_to_answer(&web(), PLANNED).await;

    api.put(Nodes, odd_node());
    zonewise.comes_to_shares("a 31, b 31, c 38").await;
    assert_named(&zonewise, "Node", "odd", "metadata.labels");
    api.delete(Nodes, "odd");
    zonewise.comes_to_shares(THIRDS).await;
    assert_eq!(zonewise.ask(&web()), PLANNED);

    // A node whose zone is no text has none, as one whose CPU is no quantity has none.
    api.put(
        Nodes,
        with(
            node("odd", "c", 1),
            &json!({"metadata": {"labels": {"topology.kubernetes.io/zone": 5}}}),
        ),
    );
    zonewise.comes_to_nodes("Insufficient", 1).await;
    zonewise
        .comes_to_answer(&web(), "Strip InsufficientNodeInfo: - - - - - -")
        .await;
    api.put(Nodes, node("odd", "c", 1));
    zonewise.comes_to_shares("a 31, b 31, c 38").await;

    let counts = [2, 0, 1, 2];
    for (resource, count) in Resource::ALL.into_iter().zip(counts) {
        assert_eq!(zonewise.unreadable(resource), count, "{resource:?}");
        assert_eq!(zonewise.errors(resource), 0);
        assert_eq!(api.requests(resource, Verb::List).len(), 1, "{resource:?}");
    }
    zonewise.assert_runs();
}

#[tokio::test]
async fn a_readiness_of_unexpected_type_is_named_too() {
    let api = usual();
    let odd = json!({"status": {"conditions": [{"type": "Ready", "status": true}]}});
    api.put(Nodes, with(node("odd", "c", 1), &odd));
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.is_ready().await;
    assert_eq!(zonewise.unreadable(Nodes), 1);
    assert_named(&zonewise, "Node", "odd", "status.conditions");
}

#[tokio::test]
async fn what_is_null_empty_or_missing_is_not_odd() {
    let api = usual();
    api.put(Nodes, json!({"metadata": {"name": "bare"}}));
    let no_spec = json!({"metadata": service("bare")["metadata"]});
    api.put(Services, no_spec);
    api.put(
        Services,
        json!({"metadata": {"name": "plain", "namespace": "shop"}}),
    );
    api.put(Services, service("nowhere"));
    let nulls = json!({"endpoints": null, "ports": null});
    let mut empty = slice("web-2", "web", &[]);
    empty["endpoints"] = nulls["endpoints"].clone();
    empty["ports"] = nulls["ports"].clone();
    api.put(EndpointSlices, empty.clone());
    api.put(
        EndpointSlices,
        json!({"metadata": {"name": "bare", "namespace": "shop"}, "addressType": "IPv4", "endpoints": null}),
    );
    let lost = json!({"addresses": ["10.0.4.1"], "nodeName": "", "conditions": {"ready": true}});
    let unready =
        json!({"addresses": ["10.0.5.1"], "nodeName": "", "conditions": {"ready": false}});
    api.put(EndpointSlices, slice("nowhere-1", "nowhere", &[lost]));
    api.put(EndpointSlices, slice("web-3", "web", &[unready]));
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.is_ready().await;
    zonewise.comes_to_nodes("NotReady", 1).await;
    assert_eq!(zonewise.shares(), THIRDS);
    assert_eq!(zonewise.ask(&web()), PLANNED);
    assert_eq!(zonewise.ask(&empty), "Hints:");
    let of_bare = slice("bare-1", "bare", &endpoints(6, &["a", "b", "c"]));
    assert_eq!(zonewise.ask(&of_bare), "Hints: a b c");
    let of_plain = slice("plain-1", "plain", &endpoints(7, &["a", "b", "c"]));
    assert_eq!(zonewise.ask(&of_plain), "Untouched NotOptedIn: - - -");
    let beside_lost = slice("nowhere-2", "nowhere", &endpoints(8, &["a", "b", "c"]));
    assert_eq!(zonewise.ask(&beside_lost), "Strip NoZoneSpecified: - - -");
    for resource in Resource::ALL {
        assert_eq!(zonewise.unreadable(resource), 0, "{resource:?}");
    }
    // Ready and without labels: the one thing that capacity can't do without.
    let no_labels = with(node("bare", "c", 4), &json!({"metadata": {"labels": null}}));
    api.put(Nodes, no_labels);
    zonewise
        .comes_to_answer(&web(), "Strip InsufficientNodeInfo: - - - - - -")
        .await;
    zonewise.assert_runs();
}

// === Nodes ===

#[tokio::test]
async fn a_heartbeat_changes_nothing_but_the_time_of_the_last_event() {
    let api = usual();
    api.start();
    let zonewise = Zonewise::start_ready(&api).await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
    let seen = || {
        let mut metrics = zonewise.metrics().samples;
        // These move with the time and with whoever asks.
        let moving = ["process_", "open_connections", "last_event"];
        metrics.retain(|sample| !moving.iter().any(|part| sample.name.contains(part)));
        (metrics, zonewise.raw_log())
    };
    let heard = zonewise.last_event(Nodes);
    let before = seen();
    pause(1_100).await;
    for second in 1..=10 {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        let conditions = json!([
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": time},
            {"type": "Ready", "status": "True", "lastHeartbeatTime": time},
        ]);
        api.put(
            Nodes,
            with(
                node("n-a", "a", 4),
                &json!({"status": {"conditions": conditions}}),
            ),
        );
    }
    zonewise.comes_to_hear(Nodes, heard).await;
    pause(200).await;
    assert_eq!(seen(), before);
    assert_eq!(zonewise.ask(&web()), PLANNED);
}

#[tokio::test]
async fn a_new_node_without_a_zone_strips_once_its_grace_is_over_with_no_event() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_with(&api, &[("--node-grace", "3s")]).await;
    zonewise.is_ready().await;
    let created = |seconds_ago: i64| {
        let time = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds_ago);
        let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let changes = json!({"metadata": {"creationTimestamp": time, "labels": null}});
        with(node("new", "", 4), &changes)
    };
    // Made by a clock that is ahead, so that its grace lasts for as long as it takes to look.
    api.put(Nodes, created(-3_600));
    zonewise.comes_to_nodes("Settling", 1).await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
    assert_eq!(zonewise.shares(), THIRDS);
    api.put(Nodes, created(0));
    zonewise
        .comes_to_answer(&web(), "Strip InsufficientNodeInfo: - - - - - -")
        .await;
    zonewise.comes_to_nodes("Insufficient", 1).await;
}

/// Twenty nodes: eight in zone a, six in b and six in c.
fn twenty() -> Vec<Value> {
    let zone = |i: usize| match i {
        0..8 => "a",
        8..14 => "b",
        _ => "c",
    };
    (0..20)
        .map(|i| node(&format!("n-{i:02}"), zone(i), 4))
        .collect()
}

fn not_ready(nodes: &[Value]) -> Vec<Value> {
    let not_ready = |node: &Value| with(node.clone(), &ready("Unknown"));
    nodes.iter().map(not_ready).collect()
}

async fn storm(come: impl AsyncFnOnce(&ApiServer, Vec<Value>)) {
    let api = ApiServer::new();
    api.put_all(Nodes, twenty());
    api.put(Services, service("web"));
    api.put(EndpointSlices, web());
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    let shares = "a 40, b 30, c 30";
    assert_eq!(zonewise.shares(), shares);
    let before = zonewise.ask(&web());
    assert!(before.starts_with("Hints: "), "{before}");

    come(&api, not_ready(&twenty()[..12])).await;
    zonewise.comes_to_metric("zonewise_frozen", &[], 1).await;
    zonewise.comes_to_nodes("NotReady", 12).await;
    assert_eq!(zonewise.shares(), shares);
    assert_eq!(zonewise.ask(&web()), before);

    api.put_all(Nodes, twenty()[..1].to_vec());
    zonewise.comes_to_metric("zonewise_frozen", &[], 0).await;
    assert_eq!(zonewise.shares(), "a 11, b 22, c 67");
    api.put_all(Nodes, twenty()[1..12].to_vec());
    zonewise.comes_to_shares(shares).await;
    assert_eq!(zonewise.ask(&web()), before);
    zonewise.assert_runs();
}

#[tokio::test]
async fn capacity_is_held_while_twelve_of_twenty_nodes_are_not_ready() {
    storm(async |api, nodes| api.put_all(Nodes, nodes)).await;
}

#[tokio::test]
async fn capacity_is_held_as_it_was_before_a_storm_that_comes_node_by_node() {
    storm(async |api, nodes| {
        for node in nodes {
            api.put(Nodes, node);
            pause(50).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_storm_at_the_start_holds_nothing_since_nothing_was_known() {
    let api = usual();
    for i in 0..497 {
        api.put(Nodes, node(&format!("o-{i:03}"), "b", 4));
    }
    for i in 0..700 {
        let down = with(node(&format!("p-{i:03}"), "c", 4), &ready("Unknown"));
        api.put(Nodes, down);
    }
    api.put(Nodes, node("q", "c", 1_992));
    let gate = Gate::shut();
    api.next(
        Nodes,
        Verb::List,
        [Fault::Nothing, Fault::Hold(gate.clone())],
    );
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise
        .comes_to_readyz(503, "waiting for the first list of nodes\n")
        .await;
    pause(200).await;
    gate.open();
    zonewise.is_ready().await;
    assert_eq!(zonewise.shares(), "a 0, b 50, c 50");
    assert_eq!(zonewise.metric("zonewise_frozen", &[]), 0);
}

// === Broken answers ===

#[tokio::test]
async fn a_line_that_is_no_json_and_an_error_event_cost_nothing_that_comes_after() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    api.send(Nodes, "{\"type\":\"MODIFIED\",\"object\":}\n");
    api.put(Nodes, node("n-a", "a", 16));
    zonewise.comes_to_errors(Nodes, 1).await;
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    assert_eq!(zonewise.told_errors(Nodes).len(), 1);

    api.error_event(Services, 500, "InternalError");
    api.end_watches(Services);
    api.put(Services, service("new"));
    let new = slice(
        "new-1",
        "new",
        &endpoints(3, &["a", "a", "a", "a", "b", "c"]),
    );
    zonewise.comes_to_answer(&new, "Hints: a a a a b c").await;
    assert_eq!(zonewise.errors(Services), 1);
    assert_eq!(api.requests(Services, Verb::List).len(), 1);
    zonewise.assert_runs();
}

#[tokio::test]
async fn an_event_whose_line_is_no_json_is_not_missed_for_good() {
    let api = usual();
    api.start();
    let zonewise = Zonewise::start_ready(&api).await;
    api.put_garbled(
        Nodes,
        node("n-a", "a", 16),
        "{\"type\":\"MODIFIED\",\"object\":}\n",
    );
    zonewise.comes_to_errors(Nodes, 1).await;
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
}

#[tokio::test]
async fn an_event_that_is_cut_short_comes_again_whole() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    api.put_cut_short(Nodes, node("n-a", "a", 16)).await;
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
    // The same where a line is ended in its middle and goes on in no other.
    api.send(Nodes, "{\"type\":\"MODIFIED\",\"object\":{\"meta\n");
    api.put(Nodes, node("n-b", "b", 16));
    zonewise.comes_to_shares("a 44, b 44, c 11").await;
    assert_eq!(api.requests(Nodes, Verb::List).len(), 1);
    zonewise.assert_runs();
}

#[tokio::test]
async fn lists_that_are_refused_are_tried_again_and_told_of() {
    let api = usual();
    let sentence = "Sorry, something is wrong here.\n".to_owned();
    api.next(Nodes, Verb::List, [Fault::Answer(500, sentence)]);
    api.next(Services, Verb::List, [Fault::status(403, "Forbidden")]);
    api.next(
        EndpointSlices,
        Verb::List,
        [Fault::status(401, "Unauthorized")],
    );
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    for (resource, words) in [
        (Nodes, "500"),
        (Services, "scripted: Forbidden"),
        (EndpointSlices, "scripted: Unauthorized"),
    ] {
        zonewise.comes_to_errors(resource, 1).await;
        let error = &zonewise.told_errors(resource)[0];
        assert!(error.contains(words), "{error}");
    }
    zonewise.is_ready().await;
    assert_eq!(zonewise.ask(&web()), PLANNED);
}

#[tokio::test]
async fn watches_that_are_refused_are_tried_again_with_what_is_known() {
    let api = usual();
    api.start();
    let mut zonewise = Zonewise::start_ready(&api).await;
    let faults = [
        (Nodes, Fault::Answer(500, "Sorry.\n".into()), "500"),
        (
            Services,
            Fault::status(403, "Forbidden"),
            "scripted: Forbidden",
        ),
        (EndpointSlices, Fault::Answer(502, String::new()), "502"),
    ];
    for (resource, fault, _) in faults.clone() {
        api.next(resource, Verb::Watch, [fault]);
        api.end_watches(resource);
    }
    api.put(Nodes, node("n-a", "a", 16));
    for (resource, _, words) in faults {
        zonewise.comes_to_errors(resource, 1).await;
        let error = &zonewise.told_errors(resource)[0];
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(zonewise.readyz(), (200, "ok\n".to_owned()));
    assert!(zonewise.ask(&web()).starts_with("Hints: "));
    zonewise.comes_to_shares("a 67, b 17, c 17").await;
    assert_eq!(api.requests(Nodes, Verb::List).len(), 1);
    zonewise.assert_runs();
}

#[tokio::test]
async fn an_api_server_that_asks_for_fewer_requests_gets_fewer_and_is_told_of() {
    let api = usual();
    let busy = Fault::status(429, "TooManyRequests");
    api.always(Nodes, Verb::List, busy);
    api.always(
        Services,
        Verb::List,
        Fault::status(503, "ServiceUnavailable"),
    );
    api.next(EndpointSlices, Verb::List, [Fault::RetryAfter(3_600)]);
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    pause(2_500).await;
    for resource in [Nodes, Services] {
        let lists = api.requests(resource, Verb::List).len();
        let errors = zonewise.errors(resource);
        assert!(
            lists <= 5 && errors >= 1,
            "{resource:?}: {lists} lists in 2.5 s, {errors} errors counted"
        );
        assert!(!zonewise.told_errors(resource).is_empty(), "{resource:?}");
    }
    api.always(Nodes, Verb::List, Fault::Nothing);
    api.always(Services, Verb::List, Fault::Nothing);
    zonewise.is_ready().await;
}

#[tokio::test]
async fn a_list_that_is_no_list_is_told_of_in_a_sentence_and_not_in_full() {
    let api = usual();
    let page = format!("<html>{}</html>", "Welcome! ".repeat(5_000));
    api.next(Nodes, Verb::List, [Fault::Answer(200, page.clone())]);
    api.next(Services, Verb::List, [Fault::Answer(502, page)]);
    api.start();
    let mut zonewise = Zonewise::start(&api).await;
    zonewise.comes_to_errors(Nodes, 1).await;
    zonewise.comes_to_errors(Services, 1).await;
    zonewise.is_ready().await;
    let told = zonewise.raw_log();
    let long: Vec<String> = told
        .lines()
        .filter(|line| line.len() > 1_000)
        .map(|line| format!("{} bytes: {}", line.len(), &line[..200]))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}
