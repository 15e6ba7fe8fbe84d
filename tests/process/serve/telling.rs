//! What it tells of itself: metrics and logs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::binary::{Serve, Setup, replace};
use crate::client::{Connection, head};
use crate::cluster::{
    self, With as _, ZONES, balanced, endpoint, endpoints, hinted, review, slice_of, web,
};
use crate::wait::blocking::until;

const GAUGES: [&str; 14] = [
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
    "zonewise_build_info",
    "zonewise_cache_synced",
    "zonewise_certificate_expiration_timestamp_seconds",
    "zonewise_frozen",
    "zonewise_nodes",
    "zonewise_open_connections",
    "zonewise_watch_last_event_timestamp_seconds",
    "zonewise_zone_capacity_ratio",
];

const COUNTERS: [&str; 8] = [
    "process_cpu_seconds",
    "zonewise_admission_requests",
    "zonewise_certificate_reload_errors",
    "zonewise_rejected_connections",
    "zonewise_rejected_requests",
    "zonewise_tls_handshake_errors",
    "zonewise_unreadable_objects",
    "zonewise_watch_errors",
];

const HISTOGRAMS: [&str; 1] = ["zonewise_admission_duration_seconds"];

/// Words that may stand as `reason`: those of decisions, and two of the webhook itself.
fn reasons() -> BTreeSet<&'static str> {
    zonewise::planner::reason::Reason::WORDS
        .into_iter()
        .chain(["", "OtherKind", "Panic"])
        .collect()
}

/// Sends one of everything.
fn exercise(serve: &Serve) {
    let slice = balanced();
    serve.create(&slice);
    serve.update(&web(endpoints(&["zone-a"])), &slice);
    serve.create(&slice_of("api", endpoints(&ZONES)));
    serve.create(&slice_of("plain", endpoints(&ZONES)));
    serve.create(&slice_of("nobody", endpoints(&ZONES)));
    serve.ask(&review("DELETE", &Value::Null, Some(&slice)));
    serve.ask(&review("CREATE", &slice, None).with("/request/operation", json!("MISCHIEF")));
    serve.ask(&review("CREATE", &slice, None).with("/request/namespace", json!("elsewhere")));
    serve.ask(
        &review("CREATE", &slice, None)
            .with("/request/object/endpoints/0/zone", json!("zone-invented")),
    );
    serve.connect().post("/mutate", b"{}");
    serve.connect().send(head("/mutate", 17 << 20).as_bytes());
    drop(serve.tls().offering(&["h2"]).connect(serve.webhook));
}

#[test]
fn every_metric_is_there_with_its_type_and_help() {
    let serve = Serve::with(&[
        ("--panic-on-service", "shop/api"),
        ("--first-request-timeout", "2s"),
    ]);
    exercise(&serve);
    Connection::plain(serve.webhook).unwrap().expect_end();
    replace(&serve.path("certs/tls.crt"), "nonsense");
    until("everything is counted", || {
        let metrics = serve.metrics();
        let counted = |counter: &&str| metrics.types.contains_key(*counter);
        COUNTERS.iter().all(counted)
            && metrics.count("zonewise_certificate_reload_errors_total", &[]) > 0
    });
    let answer = serve.get("/metrics");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    let metrics = serve.metrics();
    let families = [
        ("gauge", GAUGES.as_slice()),
        ("counter", &COUNTERS),
        ("histogram", &HISTOGRAMS),
    ];
    for (kind, names) in families {
        for name in names {
            assert_eq!(
                metrics.types.get(*name).map(String::as_str),
                Some(kind),
                "{name}"
            );
        }
    }
    assert_eq!(
        metrics.helps.len(),
        metrics.types.len(),
        "each is explained"
    );
}

#[test]
fn the_cluster_s_metrics_say_what_the_cluster_is() {
    let nodes = cluster::nodes(&[("zone-a", 6), ("zone-b", 2)]);
    let sick = cluster::nodes(&[("zone-c", 4)]).replace("\"True\"", "\"False\"");
    let nameless = "---\nkind: Node\nmetadata: {name: lost}\n\
                    status: {allocatable: {cpu: 1}, conditions: [{type: Ready, status: \"True\"}]}\n";
    let serve = Setup::new().cluster(&(nodes + &sick + nameless)).start();
    let metrics = serve.metrics();
    let shares = metrics
        .samples
        .iter()
        .filter(|sample| sample.name == "zonewise_zone_capacity_ratio");
    let shares: Vec<_> = shares
        .map(|sample| (sample.labels["zone"].as_str(), sample.value))
        .collect();
    assert_eq!(shares, [("zone-a", 0.75), ("zone-b", 0.25)]);
    let count = |name: &str, labels: &[(&str, &str)], expected: u64| {
        assert_eq!(
            metrics.values(name, labels).len(),
            1,
            "{name} with {labels:?}"
        );
        assert_eq!(
            metrics.count(name, labels),
            expected,
            "{name} with {labels:?}"
        );
    };
    let states = [
        ("Counted", 2),
        ("Insufficient", 1),
        ("NotReady", 1),
        ("ControlPlane", 0),
        ("Settling", 0),
    ];
    for (state, expected) in states {
        count("zonewise_nodes", &[("state", state)], expected);
    }
    count("zonewise_frozen", &[], 0);
    for resource in ["nodes", "namespaces", "services", "endpointslices"] {
        count("zonewise_cache_synced", &[("resource", resource)], 1);
        count("zonewise_watch_errors_total", &[("resource", resource)], 0);
        count(
            "zonewise_unreadable_objects_total",
            &[("resource", resource)],
            0,
        );
    }
    count(
        "zonewise_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1,
    );
    count("zonewise_certificate_reload_errors_total", &[], 0);
    count("zonewise_tls_handshake_errors_total", &[], 0);
    assert!(metrics.count("process_resident_memory_bytes", &[]) > 1_000_000);
}

#[test]
fn labels_come_from_fixed_sets_whatever_is_asked() {
    let serve = Serve::with(&[("--panic-on-service", "shop/api")]);
    exercise(&serve);
    let metrics = serve.metrics();
    let name = "zonewise_admission_requests_total";
    assert_eq!(
        metrics.label_values(name, "webhook"),
        BTreeSet::from(["mutate"])
    );
    assert_eq!(
        metrics.label_values(name, "operation"),
        BTreeSet::from(["CREATE", "UPDATE", "OTHER"])
    );
    assert_eq!(
        metrics.label_values(name, "decision"),
        BTreeSet::from(["Hints", "Strip", "Untouched"])
    );
    let unknown: Vec<_> = metrics
        .label_values(name, "reason")
        .difference(&reasons())
        .copied()
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(
        metrics.label_values("zonewise_zone_capacity_ratio", "zone"),
        BTreeSet::from(ZONES)
    );
    let allowed = [
        "webhook",
        "server",
        "operation",
        "decision",
        "reason",
        "limit",
        "zone",
        "state",
        "resource",
        "usage",
        "version",
        "le",
    ];
    let labels = metrics
        .samples
        .iter()
        .flat_map(|sample| sample.labels.keys());
    let odd: Vec<_> = labels
        .filter(|label| !allowed.contains(&label.as_str()))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
    let text = serve.get("/metrics").text().to_owned();
    for name in [
        "shop",
        "web",
        "elsewhere",
        "nobody",
        "zone-invented",
        "MISCHIEF",
        "10.0.0",
    ] {
        assert!(
            !text.contains(&format!("\"{name}\"")),
            "{name} is in the metrics"
        );
    }
}

#[test]
fn the_histogram_of_durations_adds_up() {
    let serve = Serve::sample();
    for _ in 0..20 {
        serve.create(&balanced());
    }
    let metrics = serve.metrics();
    let name = |suffix: &str| format!("zonewise_admission_duration_seconds{suffix}");
    let buckets = metrics.values(&name("_bucket"), &[]);
    assert!(buckets.is_sorted(), "{buckets:?}");
    assert_eq!(metrics.count(&name("_bucket"), &[("le", "+Inf")]), 20);
    assert_eq!(metrics.count(&name("_count"), &[]), 20);
    let seconds = metrics.values(&name("_sum"), &[]);
    assert!(
        matches!(*seconds, [seconds] if seconds > 0.0 && seconds < 20.0),
        "{seconds:?}"
    );
}

#[test]
fn a_changed_decision_is_logged_once_and_an_unchanged_one_never() {
    let serve = Serve::sample();
    let few = web(endpoints(&["zone-a", "zone-b"]));
    for slice in [&balanced(), &balanced(), &few, &few, &few, &balanced()] {
        serve.create(slice);
    }
    let pair = |line: &Value| (line["decision"].clone(), line["reason"].clone());
    let lines = serve.logged_decisions();
    let expected = [
        ("Hints", ""),
        ("Strip", "InsufficientNumberOfEndpoints"),
        ("Hints", ""),
    ];
    let expected = expected.map(|(decision, reason)| (json!(decision), json!(reason)));
    assert_eq!(lines.iter().map(pair).collect::<Vec<_>>(), expected);
    let strip = &lines[1];
    assert_eq!(strip["service"], "shop/web");
    assert_eq!(strip["address_type"], "IPv4");
    assert_eq!(strip["level"], "INFO");
    let told = strip["message"].as_str().unwrap();
    assert!(
        told.starts_with("2 ready endpoints for 3 zones, and each zone needs one of its own"),
        "{told}"
    );
    assert!(
        strip["timestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z')),
        "{strip}"
    );
}

#[test]
fn a_slice_that_waits_for_its_siblings_is_no_changed_decision() {
    let in_b = web((10..16).map(|number| endpoint(number, "zone-b")).collect())
        .with("/metadata/name", json!("web-2"));
    let stale = hinted(&in_b, &["zone-b"; 6]);
    let serve = Setup::new()
        .cluster(&format!("{}---\n{stale}\n", cluster::sample()))
        .start();
    for _ in 0..2 {
        serve.create(&balanced());
        serve.update(&in_b, &stale);
    }
    assert_eq!(serve.admitted(&[("reason", "SiblingsOutOfStep")]), 2);
    let decisions = serve.logged_decisions();
    let decided: Vec<_> = decisions.iter().map(|line| &line["decision"]).collect();
    assert_eq!(decided, ["Hints"]);
}

#[test]
fn services_and_address_types_are_logged_each_by_itself() {
    let serve = Serve::sample();
    let six = (1..=3).map(|i| {
        endpoints(&ZONES)[i - 1]
            .clone()
            .with("/addresses", json!([format!("fd00::{i}")]))
    });
    let ipv6 = web(six.collect())
        .with("/addressType", json!("IPv6"))
        .with("/metadata/name", json!("web-v6"));
    for _ in 0..2 {
        serve.create(&balanced());
        assert_eq!(serve.create(&ipv6).stored, hinted(&ipv6, &ZONES));
        serve.create(&slice_of("api", endpoints(&ZONES)));
    }
    let of = |line: &Value| (line["service"].clone(), line["address_type"].clone());
    let lines: Vec<_> = serve.logged_decisions().iter().map(of).collect();
    let expected = [
        ("shop/web", "IPv4"),
        ("shop/web", "IPv6"),
        ("shop/api", "IPv4"),
    ];
    assert_eq!(
        lines,
        expected.map(|(service, address_type)| (json!(service), json!(address_type)))
    );
}

#[test]
fn a_service_that_never_asked_for_hints_is_not_worth_a_line() {
    let serve = Serve::sample();
    serve.create(&slice_of("plain", endpoints(&ZONES)));
    serve.create(&slice_of("nobody", endpoints(&ZONES)));
    assert_eq!(serve.logged_decisions(), [] as [Value; 0]);
}

#[test]
fn the_first_line_says_where_it_serves_and_how() {
    let serve = Serve::sample();
    let log = serve.log();
    let line = &log[0];
    assert_eq!(line["message"], "serving");
    assert_eq!(line["webhook"], serve.webhook.to_string());
    assert_eq!(line["metrics"], serve.metrics.to_string());
    assert_eq!(
        (&line["mode"], &line["version"]),
        (&json!("Active"), &json!(env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn text_for_people_has_no_colours_in_a_file_and_a_level_leaves_lines_out() {
    let serve = Serve::with(&[("--log-format", "text")]);
    serve.create(&balanced());
    let text = serve.log_text();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].contains(" INFO ") && lines[0].contains("serving"),
        "{text}"
    );
    assert!(
        lines[1].contains("3 ready endpoints of the slice are hinted.")
            && lines[1].contains("shop/web"),
        "{text}"
    );

    let quiet = Serve::with(&[("--log-level", "warn")]);
    quiet.create(&balanced());
    assert_eq!(quiet.log_text(), "");
    let loud = Serve::with(&[("--log-level", "zonewise=debug")]);
    loud.connect().post("/mutate", b"{}");
    let line = loud.wait_for_log("of a refusal", |line| line["level"] == "DEBUG");
    let told = line["message"].as_str().unwrap();
    assert!(
        told.starts_with("refused: the AdmissionReview has no request"),
        "{told}"
    );
}
