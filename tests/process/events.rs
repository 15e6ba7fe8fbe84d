//! What goes wrong on the way to the API server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zonewise::controller::events::{Pace, State};
use zonewise::planner::capacity::{InsufficientNode, Missing};

use crate::api_server::Fault;
use crate::api_server::events::{Call, EventServer};
use crate::leader::{Leader, disabled, quick, set};
use crate::wait::{LONG_ENOUGH, eventually};

#[tokio::test]
async fn nothing_is_posted_before_the_events_that_stand_are_read() {
    let server = EventServer::default();
    let first = Leader::begin(server.client(), quick());
    for name in ["a", "b", "c", "d", "e"] {
        first.sees(&set("shop", name, name), &disabled("X"), "x");
    }
    first.counted([5, 0, 0, 0]).await;
    drop(first);
    let before = server.calls().len();
    server.fail_lists([Fault::status(503, "")]);

    let next = Leader::begin(server.client(), quick());
    for name in ["a", "b", "c", "d", "e"] {
        next.sees(&set("shop", name, name), &disabled("X"), "x");
    }
    next.sees(&set("shop", "f", "f"), &State::Enabled, "f");
    next.counted([1, 0, 0, 0]).await;
    let calls = &server.calls()[before..];
    let query = |call: &Call| match call {
        Call::List(query) => query.clone(),
        Call::Create(name) => panic!("{name} was posted too early"),
    };
    let lists: Vec<String> = calls[..calls.len() - 1].iter().map(query).collect();
    let selector = "fieldSelector=reportingController%3Dzonewise.dev%2Fcontroller";
    assert_eq!(lists.len(), 4, "a failed list and three pages: {lists:?}");
    assert!(
        lists.iter().all(|query| query.contains(selector)),
        "{lists:?}"
    );
}

#[tokio::test]
async fn what_fails_is_tried_again_under_the_same_name() {
    let server = EventServer::default();
    server.fail_creates([Fault::status(429, ""), Fault::AnswersLost]);
    let pace = Pace {
        call_time: Duration::from_millis(200),
        ..quick()
    };
    let leader = Leader::begin(server.client(), pace);
    leader.sees(&set("shop", "web", "u"), &State::Enabled, "x");
    leader.counted([0, 1, 0, 2]).await;
    let names = server.creates();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    assert_eq!(server.stored(), ["Service/web"]);
}

#[tokio::test]
async fn what_is_refused_is_left_out_and_the_next_is_posted() {
    let server = EventServer::default();
    server.fail_creates([
        Fault::status(400, ""),
        Fault::status(404, ""),
        Fault::status(422, ""),
    ]);
    let leader = Leader::begin(server.client(), quick());
    for name in ["a", "b", "c", "d"] {
        leader.sees(&set("shop", name, name), &State::Enabled, "x");
    }
    leader.counted([1, 0, 3, 0]).await;
    assert_eq!(server.stored(), ["Service/d"]);
}

#[tokio::test]
async fn what_is_forbidden_is_posted_once_it_is_allowed() {
    let server = EventServer::default();
    server.fail_creates([Fault::status(403, ""), Fault::status(403, "")]);
    let leader = Leader::begin(server.client(), quick());
    for name in ["a", "b"] {
        leader.sees(&set("shop", name, name), &State::Enabled, "x");
    }
    leader.counted([2, 0, 0, 2]).await;
    let mut stored = server.stored();
    stored.sort_unstable();
    assert_eq!(stored, ["Service/a", "Service/b"]);
}

#[tokio::test]
async fn nothing_is_written_without_a_claim() {
    let server = EventServer::default();
    let claim = Arc::new(AtomicBool::new(true));
    let may_write = {
        let claim = claim.clone();
        move || claim.load(Ordering::SeqCst)
    };
    let mut leader = Leader::begin_while(server.client(), quick(), may_write);
    leader.sees(&set("shop", "a", "a"), &State::Enabled, "x");
    leader.counted([1, 0, 0, 0]).await;
    claim.store(false, Ordering::SeqCst);
    leader.sees(&set("shop", "b", "b"), &State::Enabled, "x");
    let ended = tokio::time::timeout(LONG_ENOUGH, &mut leader.running).await;
    ended.expect("it ends").expect("it ends by itself");
    assert_eq!(server.stored(), ["Service/a"]);
}

#[tokio::test]
async fn writes_are_paced_and_nodes_go_first() {
    const GAP: Duration = Duration::from_millis(30);
    let server = EventServer::default();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let may_write = {
        let asked = asked.clone();
        move || {
            asked.lock().unwrap().push(Instant::now());
            true
        }
    };
    let pace = Pace {
        gap: GAP,
        ..quick()
    };
    let leader = Leader::begin_while(server.client(), pace, may_write);
    for name in ["a", "b", "c"] {
        leader.sees(&set("shop", name, name), &disabled("X"), "x");
    }
    let node = InsufficientNode {
        name: "n7".into(),
        missing: vec![Missing::Zone],
    };
    leader.events.observe_nodes(&[node], false);
    eventually("all are stored", async || {
        let stored = server.stored();
        (stored.len() == 4)
            .then_some(())
            .ok_or_else(|| format!("{stored:?}"))
    })
    .await;
    assert_eq!(
        server.stored(),
        ["Node/n7", "Service/a", "Service/b", "Service/c"]
    );
    // The first question is the list's.
    let asked = asked.lock().unwrap();
    let gaps: Vec<Duration> = asked[1..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(
        gaps.len() == 3 && gaps.iter().all(|gap| *gap >= GAP),
        "{gaps:?}"
    );
}
