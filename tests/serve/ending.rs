//! The way to the end after a signal.

use std::time::{Duration, Instant};

use super::binary::{Serve, apply, write};
use super::client::{Connection, head, request};
use super::cluster::{ZONES, balanced, hinted, review};
use super::wait::until;

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
fn after_sigterm_it_serves_on_for_the_delay_and_tells_every_connection_to_end() {
    let mut serve = Serve::with(&[("--shutdown-delay-duration", "3s")]);
    let mut before = serve.connect();
    assert!(!before.post("/mutate", &create()).is_last());
    let start = Instant::now();
    serve.signal("TERM");
    wait_until_not_ready(&serve);

    let answer = before.post("/mutate", &create());
    assert_eq!(
        apply(&answer, &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    assert!(answer.is_last(), "a connection from before");
    before.expect_end();

    let mut during = serve.connect();
    let answer = during.post("/mutate", &create());
    assert_eq!(
        apply(&answer, &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    assert!(answer.is_last(), "a connection from after");
    during.expect_end();
    assert_eq!(serve.get("/healthz").status, 200, "it is alive");
    assert_eq!(serve.get("/metrics").status, 200, "and tells of itself");

    assert_eq!(serve.wait().code(), Some(0));
    assert!(
        start.elapsed() >= Duration::from_secs(3),
        "not before the delay is over"
    );
    let messages: Vec<_> = serve
        .log()
        .into_iter()
        .map(|line| line["message"].clone())
        .collect();
    let expected = [
        "serving",
        "ending: not ready from now on, and serving for a while yet",
        "ended",
    ];
    assert!(
        expected
            .iter()
            .all(|message| messages.iter().any(|line| line == message)),
        "{messages:?}"
    );
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
    let mut serve = Serve::with(&[("--request-timeout", "1s")]);
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
        let told = "error: a second signal came, so requests in flight were cut off";
        assert!(
            serve.log_text().lines().any(|line| line == told),
            "{}",
            serve.log_text()
        );
    }
}

#[test]
fn no_request_fails_while_it_ends() {
    let mut serve = Serve::with(&[("--shutdown-delay-duration", "2s")]);
    let webhook = serve.webhook;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| write_until_refused(&serve)))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        serve.signal("TERM");
        for client in clients {
            assert!(client.join().unwrap() > 10, "it wrote all the while");
        }
    });
    assert!(Connection::plain(webhook).is_err());
    assert_eq!(serve.wait().code(), Some(0));
}

/// Writes as a good client does, over a kept connection until an answer says that it ends, until nothing listens any
/// more; how often. A kept connection that ends in any other way is a fault; a new one may come too late.
fn write_until_refused(serve: &Serve) -> usize {
    let tls = serve.tls();
    let slice = balanced();
    let mut count = 0;
    while let Ok(mut connection) = tls.connect(serve.webhook) {
        for nth in 0.. {
            let _ = connection.try_send(&request("/mutate?timeout=1s", &create()));
            let Some(answer) = connection.next_answer() else {
                assert_eq!(nth, 0, "a kept connection ended without a word");
                assert!(
                    Connection::plain(serve.webhook).is_err(),
                    "a new connection ended while others were taken"
                );
                return count;
            };
            assert_eq!(apply(&answer, &slice).stored, hinted(&slice, &ZONES));
            count += 1;
            if answer.is_last() {
                break;
            }
        }
    }
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
