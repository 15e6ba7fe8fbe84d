//! What clients that are slow, large or many can't do to the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::binary::{Serve, Setup, apply, write};
use crate::client::{Connection, head, request};
use crate::cluster::{
    self, With as _, ZONES, balanced, endpoint, endpoints, hinted, review, slice_of, web,
};
use crate::wait::blocking::until;

const REJECTED: &str = "zonewise_rejected_requests_total";

/// A path whose client waits for as long as the server lets it.
const PATIENT: &str = "/mutate?timeout=300s";

fn create() -> Vec<u8> {
    review("CREATE", &balanced(), None).to_string().into_bytes()
}

/// A review with blanks at its end, up to a length.
fn padded(length: usize) -> Vec<u8> {
    let mut body = create();
    assert!(body.len() <= length);
    body.resize(length, b' ');
    body
}

/// A slice of `shop/web` with as many endpoints, and as many hints with as long names, as are ever put back.
fn largest() -> Value {
    let names = |length: usize| -> Vec<Value> {
        let name = |number: usize| json!({"name": format!("{number}{}", "x".repeat(length - 1))});
        (0..8).map(name).collect()
    };
    let hints = json!({"forZones": names(253), "forNodes": names(253)});
    let endpoint =
        |number: usize| endpoint(number, ZONES[number % 3]).with("/hints", hints.clone());
    web((0..1000).map(endpoint).collect())
}

fn assert_serves(connection: &mut Connection) {
    let slice = balanced();
    assert_eq!(
        write(connection, "CREATE", &slice, None).stored,
        hinted(&slice, &ZONES)
    );
}

/// Checks that a review as long as that of a hundred endpoints is answered.
fn assert_serves_a_usual_length(serve: &Serve) {
    let answer = serve.connect().post("/mutate?timeout=1s", &padded(62_000));
    assert_eq!(
        apply(&answer, &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
}

/// Sends all of a request but its last byte.
fn hold(serve: &Serve, body: &[u8]) -> Connection {
    let mut connection = serve.connect();
    let bytes = request(PATIENT, body);
    connection.send(&bytes[..bytes.len() - 1]);
    connection
}

/// The same, so that another body then finds no room.
pub fn hold_room(serve: &Serve, body: &[u8], other: &[u8]) -> Connection {
    let mut held = hold(serve, body);
    until("another body finds no room", || {
        // While both grow, either may be the one that is refused.
        if held.has_news(Duration::from_millis(1)) {
            held = hold(serve, body);
        }
        (0..2).all(|_| finds_no_room(serve, other))
    });
    held
}

/// Whether a request is refused because there is no room for its body.
fn finds_no_room(serve: &Serve, body: &[u8]) -> bool {
    let answer = serve.connect().post(PATIENT, body);
    assert!([200, 503].contains(&answer.status), "{}", answer.text());
    answer.status == 503
}

#[test]
fn bodies_that_are_announced_and_do_not_come_take_no_room() {
    let serve = Serve::sample();
    let idle: Vec<Connection> = (0..8)
        .map(|_| {
            let mut connection = serve.connect();
            let head = head("/mutate", 16 << 20);
            let head = head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
            connection.send(head.as_bytes());
            assert_eq!(connection.answer().status, 100, "it is waited for");
            connection
        })
        .collect();
    assert_serves_a_usual_length(&serve);
    assert_eq!(serve.count(REJECTED, &[]), 0);
    drop(idle);
}

#[test]
fn large_bodies_that_do_not_end_leave_room_for_small_ones() {
    let serve = Serve::with(&[
        ("--max-body-bytes", "1Mi"),
        ("--max-in-flight-bytes", "2Mi"),
        ("--request-timeout", "5m"),
    ]);
    let large = padded(1 << 20);
    let mut held = hold_room(&serve, &large, &large);
    let half = 600_000;
    let mut halves = [(); 4].map(|()| {
        let mut connection = serve.connect();
        let _ = connection.try_send(&request(PATIENT, &large)[..half]);
        connection
    });
    until("more than a half finds none either", || {
        halves
            .iter_mut()
            .all(|half| half.has_news(Duration::from_millis(1)))
    });
    assert_serves_a_usual_length(&serve);
    let limit = [("limit", "in-flight-bytes")];
    assert!(serve.count(REJECTED, &limit) > 0);
    held.send(&large[large.len() - 1..]);
    assert_eq!(
        apply(&held.answer(), &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    until("its room is free again", || !finds_no_room(&serve, &large));
}

#[test]
fn an_answer_that_is_not_read_keeps_its_room() {
    let odd = web(endpoints(&ZONES))
        .with("/metadata/name", json!("web-2"))
        .with("/endpoints/0/conditions/ready", json!("yes"));
    let serve = Setup::new()
        .cluster(&format!("{}---\n{odd}\n", cluster::sample()))
        .flag("--max-body-bytes", "8Mi")
        .flag("--max-in-flight-bytes", "12Mi")
        .flag("--request-timeout", "5m")
        .start();
    // The answer has to be more than the buffers of both sides take: all hints that are stored, since beside a slice that
    // can't be read none can be planned.
    let stored = largest();
    let sent = web((0..1000)
        .map(|number| endpoint(number, ZONES[number % 3]))
        .collect());
    let body = review("UPDATE", &sent, Some(&stored))
        .to_string()
        .into_bytes();
    let mut deaf = serve.connect();
    deaf.receive_little();
    deaf.send(&request(PATIENT, &body));
    serve.wait_for_count(
        "zonewise_admission_requests_total",
        &[("reason", "UnreadableObject")],
        1,
    );
    assert!(finds_no_room(&serve, &body), "there is an answer to keep");
    let other = slice_of("api", endpoints(&ZONES));
    assert_eq!(serve.create(&other).stored, hinted(&other, &ZONES));
    drop(deaf);
    until("its room is free", || !finds_no_room(&serve, &body));
}

#[test]
fn a_panic_over_a_large_body_costs_no_more_than_its_own_patch() {
    let serve = Serve::with(&[("--panic-on-service", "shop/api")]);
    let doomed = slice_of("api", endpoints(&ZONES));
    let mut body = review("CREATE", &doomed, None).to_string().into_bytes();
    body.resize(300 << 10, b' ');
    let mut connection = serve.connect();
    for _ in 0..2 {
        let answer = connection.post(PATIENT, &body);
        assert_eq!(apply(&answer, &doomed).patch, None);
    }
    assert_serves(&mut connection);
    assert_eq!(serve.admitted(&[("reason", "Panic")]), 2);
}

#[test]
fn a_request_whose_time_is_over_is_not_worked_on() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    let body = create();
    let head = head("/mutate?timeout=1s", body.len());
    connection.send(
        head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(connection.answer().status, 100, "its time runs");
    serve.stop();
    connection.send(&body);
    std::thread::sleep(Duration::from_millis(1100));
    serve.signal("CONT");
    let answer = connection.answer();
    // Whether the body or the end of its time is seen first is chance.
    assert!([408, 504].contains(&answer.status), "{}", answer.text());
    assert_eq!(serve.admitted(&[]), 0);
    assert_eq!(serve.count(REJECTED, &[]), 1);
    assert_serves(&mut serve.connect());
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let serve = Setup::new().open_files(256, 2500).start();
    assert_eq!(serve.count("process_max_fds", &[]), 2500);
    let told = serve.log_text();
    assert!(!told.contains("open files"), "that is enough: {told}");
}

#[test]
fn more_connections_than_open_files_are_told_of_and_survived() {
    let serve = Setup::new().open_files(64, 128).start();
    let line = serve.wait_for_log("that the limit is too low", |line| line["limit"] == 128);
    assert_eq!(line["needed"], 2064, "{line}");
    let message = line["message"].as_str().unwrap();
    assert!(message.starts_with("--max-connections 1000 "), "{message}");
    let many: Vec<_> = (0..200)
        .map(|_| Connection::plain(serve.webhook).unwrap())
        .collect();
    let is_it = |line: &Value| {
        let message = line["message"].as_str().unwrap_or_default();
        message == "can't accept connections for now"
    };
    serve.wait_for_log("that it can't accept", is_it);
    drop(many);
    until("it serves again", || {
        serve
            .tls()
            .connect(serve.webhook)
            .is_ok_and(|mut connection| connection.get("/healthz").status == 200)
    });
    assert_serves(&mut serve.connect());
    let times = serve.log().iter().filter(|line| is_it(line)).count();
    assert!(times < 20, "{times} lines about one lack");
}
