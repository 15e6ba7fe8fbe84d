//! What `serve` is told on its command line and in its environment.

use std::net::TcpListener;

use crate::binary::{Setup, run, stdout};
use crate::client::head;
use crate::cluster::{ZONES, balanced, hinted};
use crate::wait::blocking::until;

fn fail(flag: &str, value: &str) -> (Option<i32>, String) {
    Setup::new().flag(flag, value).fail()
}

fn assert_refused((status, text): &(Option<i32>, String), code: i32, parts: &[&str]) {
    assert_eq!(*status, Some(code), "{text}");
    assert!(text.starts_with("error: "), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a file: {text:?}");
    assert!(!text.contains("panicked"), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    for flag in [
        "--from-files",
        "--tls-cert-file",
        "--tls-private-key-file",
        "--client-ca-file",
    ] {
        assert_refused(
            &fail(flag, "no/such/file.yaml"),
            2,
            &["no/such/file.yaml: No such file"],
        );
    }
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_named_with_what_is_wrong() {
    let setup = Setup::new().cluster("kind: Node\nmetadata: {name: [\n");
    let cluster = format!("{}:", setup.path("cluster.yaml").display());
    assert_refused(&setup.fail(), 2, &[&cluster]);
    let setup = Setup::new().cluster("kind: ConfigMap\n");
    assert_refused(
        &setup.fail(),
        2,
        &["cluster.yaml: no Node, Service or EndpointSlice in there"],
    );
    let setup = Setup::new();
    let certificate = setup.path("cluster.yaml").display().to_string();
    let setup = setup.flag("--tls-cert-file", &certificate);
    assert_refused(
        &setup.fail(),
        2,
        &[&format!("{certificate}: no certificate in PEM in there")],
    );
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_a_sentence() {
    let cases = [
        (
            "--mode",
            "Sometimes",
            "[possible values: Active, Observe, Off]",
        ),
        ("--request-timeout", "5", "write it like 15s, 5m or 1h30m"),
        (
            "--idle-timeout",
            "90s",
            "API servers keep idle connections for 90s, so this must be at least 120s",
        ),
        (
            "--max-body-bytes",
            "16MB",
            "write it like 65536, 64Ki or 16Mi",
        ),
        (
            "--max-in-flight-bytes",
            "many",
            "write it like 65536, 64Ki or 16Mi",
        ),
        ("--max-connections", "many", "--max-connections"),
        (
            "--full-look-interval",
            "0s",
            "0s is not between 10s and 24h",
        ),
        ("--drift-quiet", "11m", "11m is not between 0s and 10m"),
        ("--freeze-not-ready", "55", "55 is not between 0 and 1"),
        ("--own-service", "web", "write it as NAMESPACE/NAME"),
        (
            "--webhook-bind-address",
            "localhost",
            "--webhook-bind-address",
        ),
        (
            "--log-level",
            "zonewise=loud",
            "say error, warn, info, debug or trace",
        ),
        ("--log-level", "inof", "\"inof\" is no level"),
        ("--overload-threshold", "-1", "no decimal from 0 to 10"),
        ("--log-format", "xml", "[possible values: text, json]"),
        ("--kubeconfig", "config", "--from-files"),
        ("--no-such-flag", "1", "--no-such-flag"),
    ];
    for (flag, value, part) in cases {
        assert_refused(&fail(flag, value), 2, &[part]);
    }
}

#[test]
fn flags_that_the_traffic_distribution_replaces_are_refused_with_what_to_write() {
    let cases = [
        ("honor-traffic-distribution", "true", "Overlap"),
        ("honor-traffic-distribution", "false", "None (the default)"),
        ("default-heuristic", "Auto", "Auto"),
    ];
    for (flag, value, write) in cases {
        let write = format!("write --traffic-distribution {write}, which replaces it");
        let flag = format!("--{flag}");
        assert_refused(&fail(&flag, value), 2, &[&flag, &write]);
        let variable = flag.trim_start_matches('-').replace('-', "_");
        let variable = format!("ZONEWISE_{}", variable.to_uppercase());
        let setup = Setup::new().variable(&variable, value);
        assert_refused(&setup.fail(), 2, &[&flag, &write]);
    }
}

/// What `serve` says to these flags and no others.
fn fail_with(flags: &str) -> (Option<i32>, String) {
    let output = run(&[&["serve"], &*flags.split(' ').collect::<Vec<_>>()].concat());
    (
        output.status.code(),
        crate::binary::stderr(&output).to_owned(),
    )
}

#[test]
fn a_certificate_comes_from_files_or_from_a_secret_that_all_that_it_needs_is_there_for() {
    let cases = [
        (
            "--mode Off",
            "no certificate: give --tls-cert-file and --tls-private-key-file, or --certificate-secret",
        ),
        ("--tls-cert-file a", "no certificate: give "),
        (
            "--certificate-secret a --tls-cert-file a",
            "give the Secret or the files, not both",
        ),
        (
            "--certificate-secret a",
            "--certificate-secret needs --own-service or --certificate-names",
        ),
        (
            "--certificate-secret a --certificate-names a_b",
            "--certificate-names \"a_b\": neither a DNS name nor an IP address",
        ),
        (
            "--certificate-secret a --own-service a/b --certificate-lifetime 60h --ca-lifetime 119h",
            "--certificate-lifetime and --ca-lifetime: a certificate lifetime of 60h and a CA lifetime of 119h don't go together",
        ),
        (
            "--certificate-secret a --own-service a/b --from-files a",
            "--certificate-secret needs a cluster, which --from-files stands in for",
        ),
        (
            "--certificate-secret a --own-service a/b --controller false",
            "--certificate-secret needs the controller, which --controller false switches off",
        ),
        (
            "--certificate-secret a --own-service a/b",
            "--certificate-secret needs --webhook-configuration or --validating-webhook-configuration",
        ),
        ("--client-subject-names a", "--client-ca-file <FILE>"),
    ];
    for (flags, part) in cases {
        assert_refused(&fail_with(flags), 2, &[part]);
    }
}

/// Starts it with a number beyond all bounds, which it may refuse or take, but not stumble over.
fn assert_no_panic(flag: &str, value: &str) {
    let mut serve = Setup::new().flag(flag, value).spawn();
    let mut serves = false;
    until("it serves or has ended", || {
        let connection = serve.tls().connect(serve.webhook);
        serves = connection.is_ok_and(|mut connection| connection.get("/healthz").status == 200);
        serves || !serve.runs()
    });
    assert!(
        !serve.log_text().contains("panic"),
        "{flag} {value}: {}",
        serve.log_text()
    );
    if !serves {
        assert_eq!(serve.wait().code(), Some(2), "{flag} {value}");
    }
}

#[test]
fn a_number_beyond_all_bounds_is_refused_or_taken_and_never_a_panic() {
    assert_no_panic("--max-in-flight-bytes", "18446744073709551615");
    for flag in [
        "--first-request-timeout",
        "--request-timeout",
        "--idle-timeout",
        "--shutdown-delay-duration",
        "--max-connection-age",
        "--node-grace",
        "--drift-gather",
        "--drift-quiet",
        "--full-look-interval",
    ] {
        assert_no_panic(flag, "9223372036854775807s");
    }
}

#[test]
fn any_number_of_connections_may_be_asked_for() {
    assert_no_panic("--max-connections", "18446744073709551615");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = fail("--webhook-bind-address", &address);
    assert_refused(&output, 1, &[&format!("can't listen on {address}: ")]);
}

#[test]
fn help_sorts_flags_under_headings_and_says_which_take_commas() {
    let output = run(&["serve", "--help"]);
    let text = stdout(&output);
    let under = |heading: &str| -> Vec<&str> {
        let lines = text.lines().skip_while(|line| *line != heading).skip(1);
        let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
        let flags = lines.filter_map(|line| line.trim_start().strip_prefix("--"));
        flags.filter_map(|flag| flag.split(' ').next()).collect()
    };
    let expected = [
        ("Addresses:", "webhook-bind-address metrics-bind-address"),
        (
            "Certificates:",
            "tls-cert-file tls-private-key-file certificate-secret certificate-names certificate-lifetime \
             ca-lifetime client-ca-file client-subject-names",
        ),
        ("Cluster:", "kubeconfig context from-files"),
        (
            "Limits:",
            "max-body-bytes max-in-flight-bytes max-connections max-connection-age \
             first-request-timeout request-timeout idle-timeout",
        ),
        ("Logs:", "log-level log-format"),
        ("Shutdown:", "shutdown-delay-duration"),
    ];
    for (heading, flags) in expected {
        assert_eq!(under(heading).join(" "), flags, "{heading}");
    }
    for list in [
        "--from-files <PATH,...>",
        "--excluded-node-labels <LABEL,...>",
        "--certificate-names <NAME,...>",
        "--client-subject-names <NAME,...>",
    ] {
        let about = text.split_once(list).expect(list).1;
        assert!(about[..200].contains("commas"), "{list}");
    }
}

#[test]
fn the_environment_stands_in_for_flags() {
    let serve = Setup::new()
        .variable("ZONEWISE_MODE", "Observe")
        .variable("ZONEWISE_MAX_BODY_BYTES", "64Ki")
        .start();
    assert_eq!(
        serve.create(&hinted(&balanced(), &["zone-c"; 3])).patch,
        None
    );
    let mut connection = serve.connect();
    connection.send(head("/mutate", 65_537).as_bytes());
    assert_eq!(connection.answer().status, 413);
    assert_eq!(serve.admitted(&[("decision", "Hints")]), 1);
}

#[test]
fn a_flag_comes_before_the_environment() {
    let serve = Setup::new()
        .variable("ZONEWISE_MODE", "Off")
        .flag("--mode", "Active")
        .start();
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
}

#[test]
fn a_body_may_be_no_larger_than_all_bodies_together() {
    let output = Setup::new()
        .flag("--max-body-bytes", "2Mi")
        .flag("--max-in-flight-bytes", "1Mi");
    assert_refused(&output.fail(), 2, &["--max-in-flight-bytes"]);
}

#[test]
fn port_zero_takes_any_free_port_and_the_log_tells_which() {
    let serve = Setup::new()
        .flag("--webhook-bind-address", "127.0.0.1:0")
        .start();
    let line = serve.wait_for_log("where it serves", |line| line["message"] == "serving");
    let address: std::net::SocketAddr = line["webhook"].as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0, "{line}");
    assert_eq!(
        serve.tls().connect(address).unwrap().get("/healthz").status,
        200
    );
}
