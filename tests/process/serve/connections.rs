//! Connections: how they are kept, how long each stage of one may take, and how they end.

use std::time::{Duration, Instant};

use rustls::ProtocolVersion;

use crate::binary::{Serve, Setup, write};
use crate::client::{Connection, Tls, head, request};
use crate::cluster::{ZONES, balanced, hinted, review};
use crate::wait::LONG_ENOUGH;
use crate::wait::blocking::{eventually, until};

const REJECTED: &str = "zonewise_rejected_connections_total";

fn assert_serves(connection: &mut Connection) {
    let slice = balanced();
    assert_eq!(
        write(connection, "CREATE", &slice, None).stored,
        hinted(&slice, &ZONES)
    );
}

fn create() -> Vec<u8> {
    review("CREATE", &balanced(), None).to_string().into_bytes()
}

#[test]
fn many_requests_go_over_one_connection() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    for _ in 0..500 {
        let answer = connection.post("/mutate?timeout=1s", &create());
        assert_eq!((answer.status, answer.is_last()), (200, false));
    }
    assert_eq!(serve.admitted(&[("decision", "Hints")]), 500);
    assert_eq!(
        serve.count("zonewise_admission_duration_seconds_count", &[]),
        500
    );
}

#[test]
fn requests_that_come_together_are_answered_one_after_the_other() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    let ready = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice();
    connection.send(
        &[
            &request("/mutate", &create()),
            ready,
            &request("/mutate", b"{}"),
            ready,
        ]
        .concat(),
    );
    let statuses = [(); 4].map(|()| connection.answer().status);
    assert_eq!(statuses, [200, 200, 400, 200]);
    assert_serves(&mut connection);
}

#[test]
fn an_idle_connection_outlives_the_limit_for_a_request() {
    let serve = Serve::with(&[("--request-timeout", "1s")]);
    let mut connection = serve.connect();
    assert_serves(&mut connection);
    assert!(
        !connection.has_news(Duration::from_secs(3)),
        "it is kept, and nothing comes over it"
    );
    assert_serves(&mut connection);
    assert_eq!(serve.count(REJECTED, &[]), 0);
}

#[test]
fn http_1_1_alone_is_offered() {
    let serve = Serve::sample();
    let mut both = serve
        .tls()
        .offering(&["h2", "http/1.1"])
        .connect(serve.webhook)
        .unwrap();
    assert_eq!(both.protocol(), Some("http/1.1"));
    assert_serves(&mut both);
    let mut none = serve.tls().connect(serve.webhook).unwrap();
    assert_eq!(none.protocol(), None);
    assert_serves(&mut none);
    let refused = serve.tls().offering(&["h2"]).connect(serve.webhook);
    assert!(refused.is_err(), "HTTP/2 by itself is not spoken");
    serve.wait_for_count("zonewise_tls_handshake_errors_total", &[], 1);
}

#[test]
fn tls_1_2_and_1_3_are_spoken() {
    let serve = Serve::sample();
    let versions = [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ];
    for (offered, agreed) in versions {
        let tls = Tls::with_versions(&serve.path("certs/ca.crt"), &[offered]);
        let mut connection = tls.connect(serve.webhook).unwrap();
        assert_eq!(connection.tls_version(), Some(agreed));
        assert_serves(&mut connection);
    }
    let mut connection = serve.connect();
    assert_eq!(
        connection.tls_version(),
        Some(ProtocolVersion::TLSv1_3),
        "the better one where there is a choice"
    );
    assert_serves(&mut connection);
}

#[test]
fn a_client_that_names_the_server_by_its_address_is_served() {
    let serve = Serve::sample();
    let mut connection = serve
        .tls()
        .expecting("127.0.0.1")
        .connect(serve.webhook)
        .unwrap();
    assert_serves(&mut connection);
}

#[test]
fn plain_http_to_the_webhook_is_a_failed_handshake() {
    let serve = Serve::sample();
    let mut plain = Connection::plain(serve.webhook).unwrap();
    plain.send(&request("/mutate", &create()));
    until("the connection ends", || {
        plain.has_news(LONG_ENOUGH) && plain.try_send(b"x").is_err()
    });
    serve.wait_for_count("zonewise_tls_handshake_errors_total", &[], 1);
    assert_serves(&mut serve.connect());
}

#[test]
fn a_client_that_never_begins_a_handshake_is_let_go() {
    let serve = Serve::with(&[("--first-request-timeout", "1s")]);
    let start = Instant::now();
    let mut silent = Connection::plain(serve.webhook).unwrap();
    silent.expect_end();
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "not before its time"
    );
    serve.wait_for_count(
        REJECTED,
        &[("server", "webhook"), ("limit", "handshake-time")],
        1,
    );
    assert_serves(&mut serve.connect());
}

#[test]
fn a_client_that_never_ends_a_handshake_is_let_go() {
    let serve = Serve::with(&[("--first-request-timeout", "1s")]);
    let mut slow = Connection::plain(serve.webhook).unwrap();
    // A record of a handshake, of which one byte comes at a time.
    let hello = [[0x16, 0x03, 0x01, 0x02, 0x00].as_slice(), &[1; 512]].concat();
    assert!(
        !slow.trickle(&hello, Duration::from_millis(100)),
        "it ends before the record"
    );
    serve.wait_for_count(
        REJECTED,
        &[("server", "webhook"), ("limit", "handshake-time")],
        1,
    );
}

#[test]
fn a_client_that_never_asks_is_let_go() {
    let serve = Serve::with(&[("--first-request-timeout", "1s")]);
    let start = Instant::now();
    let mut silent = serve.connect();
    silent.expect_end();
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "not before its time"
    );
    serve.wait_for_count(
        REJECTED,
        &[("server", "webhook"), ("limit", "first-request-time")],
        1,
    );
}

#[test]
fn a_head_that_comes_a_byte_at_a_time_is_cut_off() {
    let serve = Serve::with(&[("--request-timeout", "1s")]);
    let mut first = serve.connect();
    let mut later = serve.connect();
    assert_serves(&mut later);
    for connection in [&mut first, &mut later] {
        let whole = connection.trickle(head("/mutate", 2).as_bytes(), Duration::from_millis(100));
        assert!(!whole, "it ends before the head does");
    }
    serve.wait_for_count(
        REJECTED,
        &[("server", "webhook"), ("limit", "request-time")],
        2,
    );
}

#[test]
fn a_body_that_comes_a_byte_at_a_time_is_cut_off() {
    let serve = Serve::with(&[("--request-timeout", "1s")]);
    let mut connection = serve.connect();
    let body = create();
    let start = Instant::now();
    connection.send(head("/mutate", body.len()).as_bytes());
    assert!(
        !connection.trickle(&body, Duration::from_millis(100)),
        "it ends before the body does"
    );
    assert!(
        start.elapsed() >= Duration::from_millis(990),
        "not before its time"
    );
    until("the slow request is counted", || {
        let metrics = serve.metrics();
        let answered = metrics.count(
            "zonewise_rejected_requests_total",
            &[("limit", "body-time")],
        );
        let cut = metrics.count(
            REJECTED,
            &[("server", "webhook"), ("limit", "request-time")],
        );
        answered + cut > 0
    });
    assert_eq!(serve.admitted(&[]), 0);
}

#[test]
fn an_answer_that_a_body_came_too_slowly_says_that_the_connection_ends() {
    let serve = Serve::with(&[("--request-timeout", "10s")]);
    let mut connection = serve.connect();
    connection.send(head("/mutate?timeout=1s", 1000).as_bytes());
    let answer = connection.answer();
    assert_eq!(
        (answer.status, answer.text()),
        (408, "the body did not come in time\n")
    );
    assert!(
        answer.is_last(),
        "the rest of the body would be read as the next request"
    );
    connection.expect_end();
    serve.wait_for_count(
        "zonewise_rejected_requests_total",
        &[("limit", "body-time")],
        1,
    );
}

#[test]
fn one_limit_of_time_holds_for_the_whole_of_a_request() {
    let serve = Serve::with(&[("--request-timeout", "6s")]);
    let body = create();
    let bytes = request("/mutate", &body);
    let head_ends = bytes.len() - body.len();
    let begin = || {
        let mut connection = serve.connect();
        connection.send(&bytes[..head_ends - 2]);
        connection
    };
    let mut first = begin();
    std::thread::sleep(Duration::from_secs(4));
    let mut second = begin();
    std::thread::sleep(Duration::from_secs(1));
    // If the end of a head began another time, the second would be over before the first.
    let _ = first.try_send(&bytes[head_ends - 2..=head_ends]);
    assert!(first.has_news(LONG_ENOUGH), "it is waited for without end");
    assert!(
        !second.has_news(Duration::from_millis(1)),
        "the request that began first is over first"
    );
}

#[test]
fn a_client_that_does_not_read_its_answers_is_cut_off() {
    let serve = Serve::with(&[("--request-timeout", "1s")]);
    let mut deaf = serve.connect();
    // So many answers that neither side's buffers hold them.
    let ask = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let socket_is_full = (0..10_000).any(|_| deaf.try_send(&ask).is_err());
    assert!(socket_is_full, "the connection ends");
    assert_serves(&mut serve.connect());
}

#[test]
fn one_connection_more_than_the_limit_is_closed_before_tls() {
    let serve = Serve::with(&[("--max-connections", "3")]);
    let mut open = [(); 3].map(|()| serve.connect());
    for connection in &mut open {
        assert_serves(connection);
    }
    let mut refused = Connection::plain(serve.webhook).unwrap();
    refused.expect_end();
    serve.wait_for_count(
        REJECTED,
        &[("server", "webhook"), ("limit", "connections")],
        1,
    );
    let [first, second, third] = open;
    drop(first);
    until("a place is free again", || {
        serve
            .tls()
            .connect(serve.webhook)
            .is_ok_and(|mut next| next.get("/healthz").status == 200)
    });
    for mut connection in [second, third] {
        assert_serves(&mut connection);
    }
}

#[test]
fn the_metrics_tell_how_many_webhook_connections_are_open() {
    let serve = Serve::sample();
    let mut open = [(); 4].map(|()| serve.connect());
    for connection in &mut open {
        assert_serves(connection);
    }
    serve.wait_for_count("zonewise_open_connections", &[("server", "webhook")], 4);
    drop(open);
    serve.wait_for_count("zonewise_open_connections", &[("server", "webhook")], 0);
}

/// Asks until an answer says that it is the last, and sees the connection end.
fn ask_until_the_last(connection: &mut Connection) {
    let start = Instant::now();
    loop {
        let answer = connection.post("/mutate?timeout=1s", &create());
        assert_eq!(answer.status, 200);
        if answer.is_last() {
            connection.expect_end();
            return;
        }
        assert!(start.elapsed() < LONG_ENOUGH, "it never ends");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_old_connection_ends_with_an_answer_that_says_so_and_never_without() {
    let serve = Serve::with(&[("--max-connection-age", "2s")]);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                ask_until_the_last(&mut serve.connect());
                assert!(
                    start.elapsed() >= Duration::from_millis(1800),
                    "not before its time"
                );
            });
        }
    });
    assert_eq!(serve.count(REJECTED, &[]), 0, "that is no rejection");
}

#[test]
fn an_old_connection_is_not_closed_while_it_is_idle() {
    let serve = Serve::with(&[("--max-connection-age", "2s")]);
    let mut connection = eventually("a young connection is kept", || {
        let mut connection = serve.connect();
        let last = connection.post("/mutate", &create()).is_last();
        (!last)
            .then_some(connection)
            .ok_or_else(|| "it ends".into())
    });
    assert!(
        !connection.has_news(Duration::from_millis(3200)),
        "nothing comes, not even the end"
    );
    assert!(connection.post("/mutate", &create()).is_last());
    connection.expect_end();
}

#[test]
fn both_kinds_of_address_reach_a_dual_stack_listener() {
    let setup = Setup::new();
    let [webhook, metrics] = setup.ports();
    let serve = setup
        .flag("--webhook-bind-address", format!("[::]:{webhook}"))
        .flag("--metrics-bind-address", format!("[::]:{metrics}"))
        .start();
    let mut hosts = vec!["127.0.0.1"];
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        hosts.push("::1");
    }
    for host in hosts {
        let address = |port| std::net::SocketAddr::new(host.parse().unwrap(), port);
        let mut connection = serve
            .tls()
            .expecting(host)
            .connect(address(webhook))
            .unwrap();
        assert_serves(&mut connection);
        assert_eq!(
            Connection::plain(address(metrics))
                .unwrap()
                .get("/readyz")
                .status,
            200,
            "{host}"
        );
    }
}
