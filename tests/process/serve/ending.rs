//! The way to the end after a signal.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::binary::{Serve, apply, write};
use crate::client::{Connection, head, request};
use crate::cluster::{ZONES, balanced, hinted, review};
use crate::wait::blocking::until;

fn create() -> Vec<u8> {
    review("CREATE", &balanced(), None).to_string().into_bytes()
}

/// Waits until `/readyz` of both servers says that the end has begun.
fn wait_until_not_ready(serve: &Serve) {
    until("/readyz of the plain server says no", || {
        serve.get("/readyz").status == 503
    });
    let answer = serve.connect().get("/readyz");
    assert_eq!((answer.status, answer.text()), (503, "shutting down\n"));
    assert!(answer.is_last());
    let plain = serve.get("/readyz");
    assert_eq!((plain.status, plain.text()), (503, "shutting down\n"));
}

#[test]
fn after_sigterm_it_serves_on_and_tells_every_connection_to_end() {
    let serve = Serve::with(&[("--shutdown-delay-duration", "5m")]);
    let mut before = serve.connect();
    assert!(!before.post("/mutate", &create()).is_last());
    serve.signal("TERM");
    wait_until_not_ready(&serve);
    for (what, mut connection) in [("from before", before), ("from after", serve.connect())] {
        let answer = connection.post("/mutate", &create());
        assert_eq!(
            apply(&answer, &balanced()).stored,
            hinted(&balanced(), &ZONES),
            "{what}"
        );
        assert!(answer.is_last(), "{what}");
        connection.expect_end();
    }
    assert_eq!(serve.get("/healthz").status, 200, "it is alive");
    assert_eq!(serve.get("/metrics").status, 200, "and tells of itself");
}

#[test]
fn it_ends_well_when_the_delay_is_over() {
    let mut serve = Serve::with(&[("--shutdown-delay-duration", "1s")]);
    let start = Instant::now();
    serve.signal("TERM");
    assert_eq!(serve.wait().code(), Some(0));
    assert!(start.elapsed() >= Duration::from_secs(1), "not before");
    let log = serve.log();
    let messages: Vec<_> = log
        .iter()
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    let expected = [
        "serving",
        "ending: not ready from now on, and serving for a while yet; a second signal ends it at once",
        "ended",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_request_in_flight_is_finished_even_after_the_delay() {
    let mut serve = Serve::with(&[("--shutdown-delay-duration", "0s")]);
    let mut idle = serve.connect();
    assert_eq!(idle.get("/healthz").status, 200);
    let mut slow = serve.connect();
    let body = create();
    slow.send(
        head("/mutate", body.len())
            .replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(slow.answer().status, 100, "the request has begun");
    slow.send(&body[..100]);
    serve.signal("TERM");
    until("no connection is taken any more", || {
        Connection::plain(serve.webhook).is_err()
    });
    idle.expect_end();
    std::thread::sleep(Duration::from_millis(500));
    assert!(serve.runs(), "it waits for the request");
    slow.send(&body[100..]);
    let answer = slow.answer();
    assert_eq!(
        apply(&answer, &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    assert!(answer.is_last());
    assert_eq!(serve.wait().code(), Some(0));
}

#[test]
fn a_request_that_never_ends_does_not_hold_up_the_end() {
    let mut serve = Serve::with(&[
        ("--request-timeout", "1s"),
        ("--first-request-timeout", "1s"),
    ]);
    let mut stuck = serve.connect();
    stuck.send(head("/mutate", 100).as_bytes());
    let mut mute = serve.connect();
    mute.send(b"GET /read");
    let _handshake = Connection::plain(serve.webhook).unwrap();
    serve.signal("TERM");
    assert_eq!(serve.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM")] {
        let mut serve = Serve::with(&[("--shutdown-delay-duration", "5m")]);
        serve.signal(first);
        wait_until_not_ready(&serve);
        assert!(serve.runs());
        serve.signal(second);
        assert_eq!(serve.wait().code(), Some(1), "{first}, then {second}");
        let told = "error: a second signal came, so requests in flight, if any, were cut off";
        assert!(
            serve.log_text().lines().any(|line| line == told),
            "{}",
            serve.log_text()
        );
    }
}

#[test]
fn no_request_fails_before_the_delay_is_over() {
    const DELAY: Duration = Duration::from_secs(2);
    let mut serve = Serve::with(&[("--shutdown-delay-duration", "2s")]);
    let told = OnceLock::new();
    let may_be_late = || {
        told.get()
            .is_some_and(|told: &Instant| told.elapsed() >= DELAY)
    };
    std::thread::scope(|scope| {
        let clients = [(); 3].map(|()| scope.spawn(|| write_until_refused(&serve, may_be_late)));
        std::thread::sleep(Duration::from_millis(300));
        told.set(Instant::now()).unwrap();
        serve.signal("TERM");
        for client in clients {
            assert!(client.join().unwrap() > 10, "it wrote all the while");
        }
    });
    assert_eq!(serve.wait().code(), Some(0));
}

/// Writes as a good client does, over a kept connection until an answer says that it ends, until nothing listens any
/// more; how often. A kept connection that ends in any other way is a fault; a new one may come too late.
fn write_until_refused(serve: &Serve, may_be_late: impl Fn() -> bool) -> usize {
    let tls = serve.tls();
    let slice = balanced();
    let mut count = 0;
    while let Ok(mut connection) = tls.connect(serve.webhook) {
        for nth in 0.. {
            let _ = connection.try_send(&request("/mutate?timeout=1s", &create()));
            let Some(answer) = connection.next_answer() else {
                assert_eq!(nth, 0, "a kept connection ended without a word");
                assert!(may_be_late(), "a new connection ended too early");
                return count;
            };
            assert_eq!(apply(&answer, &slice).stored, hinted(&slice, &ZONES));
            count += 1;
            if answer.is_last() {
                break;
            }
        }
    }
    assert!(may_be_late(), "no connection was taken any more, too early");
    count
}

#[test]
fn a_connection_written_to_after_the_answer_that_ends_it_gets_no_second_answer() {
    let serve = Serve::with(&[("--shutdown-delay-duration", "5m")]);
    serve.signal("TERM");
    wait_until_not_ready(&serve);
    let mut connection = serve.connect();
    let slice = balanced();
    write(&mut connection, "CREATE", &slice, None);
    let _ = connection.try_send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(connection.next_answer().is_none());
}
