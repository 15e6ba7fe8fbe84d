//! What is no review, what is too much, and what becomes of the connection then.

use std::time::Duration;

use serde_json::{Value, json};

use super::overload::hold_room;
use crate::binary::{Serve, apply, write};
use crate::client::{Answer, Connection, head, request};
use crate::cluster::{With as _, ZONES, balanced, hinted, review};
use crate::wait::LONG_ENOUGH;
use crate::wait::blocking::until;

const REJECTED: &str = "zonewise_rejected_requests_total";

fn assert_sentence(answer: &Answer, status: u16, part: &str) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert!(text.contains(part), "{part:?} in {text:?}");
    assert!(
        text.ends_with('\n') && text.len() > 20 && text.lines().count() == 1,
        "one sentence: {text:?}"
    );
}

fn create() -> Vec<u8> {
    review("CREATE", &balanced(), None).to_string().into_bytes()
}

/// Checks that the server answers as if nothing had been.
fn assert_unharmed(serve: &Serve) {
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
}

#[test]
fn what_is_no_review_is_told_why_and_the_connection_goes_on() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    let with =
        |change: &dyn Fn(Value) -> Value| change(review("CREATE", &balanced(), None)).to_string();
    let bodies = [
        (
            String::new(),
            "the body is no AdmissionReview: EOF while parsing",
        ),
        (
            "{".to_owned(),
            "the body is no AdmissionReview: EOF while parsing",
        ),
        (
            "endpoints: []".to_owned(),
            "the body is no AdmissionReview: expected value at line 1 column 1",
        ),
        (
            "[]".to_owned(),
            "the body is no AdmissionReview: it is not an object",
        ),
        ("null".to_owned(), "the body is no AdmissionReview: "),
        (
            with(&|review| review) + "x",
            "the body is no AdmissionReview: trailing characters",
        ),
        ("{}".to_owned(), "the AdmissionReview has no request"),
        (
            r#"{"request":null}"#.to_owned(),
            "the AdmissionReview has no request",
        ),
        (
            with(&|review| review.without("/request")),
            "the AdmissionReview has no request",
        ),
        (with(&|review| review.without("/request/uid")), "has no uid"),
        (
            with(&|review| review.with("/request/uid", json!(""))),
            "has no uid",
        ),
        (
            with(&|review| review.with("/request/uid", json!(7))),
            "the body is no AdmissionReview: ",
        ),
    ];
    let count = bodies.len() as u64;
    for (body, part) in bodies {
        let answer = connection.post("/mutate", body.as_bytes());
        assert_sentence(&answer, 400, part);
        assert!(!answer.is_last(), "{body:?}");
    }
    let slice = balanced();
    assert_eq!(
        write(&mut connection, "CREATE", &slice, None).stored,
        hinted(&slice, &ZONES)
    );
    serve.wait_for_count(REJECTED, &[("limit", "review")], count);
    serve.wait_for_count("zonewise_admission_requests_total", &[], 1);
}

#[test]
fn a_review_that_is_no_utf_8_does_no_harm() {
    let serve = Serve::sample();
    let mut body = create();
    let at = body
        .windows(8)
        .position(|window| window == b"\"zone-b\"")
        .unwrap();
    body[at + 1] = 0xff;
    assert_sentence(
        &serve.connect().post("/mutate", &body),
        400,
        "the body is no AdmissionReview: ",
    );
    assert_unharmed(&serve);
}

#[test]
fn other_paths_and_methods_are_told_what_there_is() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    assert_sentence(
        &connection.get("/"),
        404,
        "there is /mutate and /validate for reviews",
    );
    assert_sentence(
        &connection.get("/metrics"),
        404,
        "there is /mutate and /validate for reviews",
    );
    assert_sentence(
        &connection.post("/mutate/", b"{}"),
        404,
        "there is /mutate and /validate for reviews",
    );
    let wrong = connection.get("/mutate");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    let wrong = connection.post("/healthz", b"");
    assert_eq!(wrong.status, 405);
    for path in ["/healthz", "/readyz"] {
        let answer = connection.get(path);
        assert_eq!((answer.status, answer.text()), (200, "ok\n"), "{path}");
        let answer = serve.get(path);
        assert_eq!(
            (answer.status, answer.text()),
            (200, "ok\n"),
            "{path} of the plain server"
        );
    }
    assert_eq!(serve.get("/mutate").status, 404);
}

#[test]
fn a_body_of_unknown_length_is_refused_with_411() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    let body = create();
    let head = head("/mutate", 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    connection.send(format!("{head}{:x}\r\n", body.len()).as_bytes());
    connection.send(&[&body, b"\r\n0\r\n\r\n".as_slice()].concat());
    assert_sentence(&connection.answer(), 411, "Content-Length");
    assert_unharmed(&serve);
    serve.wait_for_count(REJECTED, &[("limit", "content-length")], 1);
}

#[test]
fn a_body_over_the_limit_is_refused_with_413_and_one_at_the_limit_is_not() {
    let body = create();
    let serve = Serve::with(&[("--max-body-bytes", &body.len().to_string())]);
    let longer = [&body, b" ".as_slice()].concat();
    let answer = serve.connect().post("/mutate", &longer);
    let sentence = format!(
        "the body has {} bytes and may have {}; see --max-body-bytes",
        longer.len(),
        body.len()
    );
    assert_sentence(&answer, 413, &sentence);
    assert_eq!(
        apply(&serve.connect().post("/mutate", &body), &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    serve.wait_for_count(REJECTED, &[("limit", "body-bytes")], 1);
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    connection.send(head("/mutate", 17 << 20).as_bytes());
    assert_sentence(
        &connection.answer(),
        413,
        "the body has 17825792 bytes and may have 16777216",
    );
}

fn padded(length: usize) -> Vec<u8> {
    let mut body = create();
    body.resize(length, b' ');
    body
}

#[test]
fn bodies_over_the_limit_for_all_at_once_are_refused_with_503() {
    let padded = padded(40_000);
    let serve = Serve::with(&[
        ("--max-body-bytes", "64Ki"),
        ("--max-in-flight-bytes", "64Ki"),
        ("--request-timeout", "5m"),
    ]);
    let mut first = hold_room(&serve, &padded, &padded);
    let refused = serve.connect().post("/mutate", &padded);
    assert_sentence(&refused, 503, "--max-in-flight-bytes");
    assert!(serve.count(REJECTED, &[("limit", "in-flight-bytes")]) > 0);
    assert_unharmed(&serve);

    first.send(&padded[padded.len() - 1..]);
    assert_eq!(
        apply(&first.answer(), &balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    until("the room is free again", || {
        serve.connect().post("/mutate", &padded).status == 200
    });
}

#[test]
fn a_client_that_goes_away_amid_a_body_leaves_its_room() {
    let serve = Serve::with(&[
        ("--max-body-bytes", "64Ki"),
        ("--max-in-flight-bytes", "64Ki"),
        ("--request-timeout", "5m"),
    ]);
    let padded = padded(60_000);
    drop(hold_room(&serve, &padded, &padded));
    until("its room is free", || {
        serve.connect().post("/mutate", &padded).status == 200
    });
}

#[test]
fn nesting_without_end_does_no_harm() {
    const DEPTH: usize = 200_000;
    let serve = Serve::sample();
    let places = [
        "/request/options/deep",
        "/request/object/deep",
        "/request/object/metadata/managedFields",
        "/kind",
        "/request/uid",
        "/request/kind",
        "/request/operation",
        "/request/object",
        "/request/object/metadata",
        "/request/object/metadata/labels",
        "/request/object/metadata/annotations",
        "/request/object/endpoints",
        "/request/object/endpoints/0/hints",
        "/request/object/endpoints/0/zone",
        "/request/object/ports",
        "/request/oldObject",
    ];
    let nests = [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"forZones":"#, "}]")];
    for (open, close) in nests {
        let nest = open.repeat(DEPTH) + "0" + &close.repeat(DEPTH);
        let ask = |pointer: &str| {
            // The place is marked in a value, since a value so deep can't be built.
            let mut review = review("CREATE", &balanced(), None);
            match review.pointer_mut(pointer) {
                Some(place) => *place = json!("HERE"),
                None => review = review.with(pointer, json!("HERE")),
            }
            serve.connect().post(
                "/mutate",
                review.to_string().replace("\"HERE\"", &nest).as_bytes(),
            )
        };
        for pointer in places {
            assert_sentence(&ask(pointer), 400, "too many levels of lists and objects");
        }
    }
    assert_unharmed(&serve);
    assert_eq!(serve.admitted(&[("reason", "Panic")]), 0);
}

#[test]
fn a_head_without_end_is_refused_and_ends_the_connection() {
    let serve = Serve::sample();
    let mut connection = serve.connect();
    connection.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
    let refused = (0..256).any(|_| {
        // A piece at a time, so that nothing is on its way when the refusal comes.
        connection.send(&[b'x'; 4096]);
        connection.has_news(Duration::from_millis(5))
    });
    assert!(
        refused || connection.has_news(LONG_ENOUGH),
        "a head of a mebibyte is read on and on"
    );
    let answer = connection.answer();
    assert_eq!((answer.status, answer.is_last()), (431, true), "{answer:?}");
    connection.expect_end();
    assert_unharmed(&serve);
}

#[test]
fn a_head_that_is_none_is_refused_and_ends_the_connection() {
    let serve = Serve::sample();
    for nonsense in [
        "NONSENSE\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "\0\0\r\n\r\n",
    ] {
        let mut connection = serve.connect();
        connection.send(nonsense.as_bytes());
        let answer = connection.answer();
        assert_eq!(
            (answer.status, answer.is_last()),
            (400, true),
            "{nonsense:?}: {answer:?}"
        );
        connection.expect_end();
    }
    assert_unharmed(&serve);
}

/// Whether a connection is of use after an answer: a client that was not told of its end counts on that.
fn goes_on(connection: &mut Connection) -> bool {
    let sent = connection.try_send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    sent.is_ok()
        && connection
            .next_answer()
            .is_some_and(|answer| answer.status == 200)
}

#[test]
fn a_refusal_reaches_its_client_and_says_so_if_it_ends_the_connection() {
    let serve = Serve::with(&[
        ("--max-body-bytes", "1Mi"),
        ("--max-in-flight-bytes", "1Mi"),
        ("--request-timeout", "5m"),
    ]);
    let _holder = hold_room(&serve, &padded(1 << 20), &padded(63_000));
    // As long as a review of a slice with a hundred endpoints.
    let body = vec![b' '; 63_000];
    let chunked = {
        let head = head("/mutate", 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
        [
            format!("{head}{:x}\r\n", body.len()).as_bytes(),
            &body,
            b"\r\n0\r\n\r\n",
        ]
        .concat()
    };
    let cases = [
        ("too many bytes in flight", 503, request("/mutate", &body)),
        (
            "too long, and not sent",
            413,
            head("/mutate", 3 << 20).into_bytes(),
        ),
        ("chunked", 411, chunked),
        ("another path", 404, request("/mutation", &body)),
        ("another method", 405, request("/healthz", &body)),
    ];
    let wrong = cases.into_iter().filter_map(|(what, status, bytes)| {
        let mut connection = serve.connect();
        if connection.try_send(&bytes).is_err() {
            return Some((what, "it is cut off while it sends"));
        }
        let Some(answer) = connection.next_answer() else {
            return Some((what, "there is no answer"));
        };
        assert_eq!(answer.status, status, "{what}");
        let said = answer.is_last() || goes_on(&mut connection);
        (!said).then_some((what, "the connection ends without a word"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}
