//! The command, run as a user would.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::zonewise;

fn simulate(arguments: &[&str]) -> Output {
    let mut command = zonewise();
    command.arg("simulate").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn succeeded(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "no progress outside a terminal");
    text(&output.stdout).to_owned()
}

fn refused(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr).to_owned()
}

fn measured(arguments: &[&str]) -> Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    serde_json::from_str(&succeeded(&arguments)).unwrap()
}

fn example() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("examples/trace.jsonl").display().to_string()
}

#[test]
fn the_example_has_the_measures_that_can_be_worked_out_by_hand() {
    let outcome = measured(&["--trace", &example()]);
    let auto = &outcome["heuristics"][0];
    // The new pod serves the zone that lost one, so that nothing that is stored changes. Two small zones of 2:1 can't
    // share four endpoints, and five they can. With one zone left there are no hints.
    let counts = json!({
        "events": 5, "hintChanges": 10, "movedHints": 0, "flips": 3, "hintedStates": 2, "violations": 0,
    });
    for (name, expected) in counts.as_object().unwrap() {
        assert_eq!(&auto[name], expected, "{name}");
    }
    let of = |kind: &str| auto["byEvent"][kind]["hintChanges"].as_u64();
    assert_eq!(
        [
            "podReplaced",
            "nodeResized",
            "podAdded",
            "zoneLost",
            "zoneBack"
        ]
        .map(of),
        [0, 4, 4, 2, 0].map(Some)
    );
    let shares = [
        3.0 / 4.0,
        5.0 / 12.0,
        (2.0 / 3.0) * (2.0 / 3.0) + 1.0 / 3.0,
        1.0,
        2.0 / 3.0,
    ];
    let mean = auto["meanInZoneShare"].as_f64().unwrap();
    assert!(
        (mean - shares.iter().sum::<f64>() / 5.0).abs() < 1e-9,
        "{mean}"
    );
}

#[test]
fn a_trace_that_is_written_and_read_again_measures_the_same() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("three.jsonl").display().to_string();
    let of_seeds = [
        "--seed",
        "5",
        "--seeds",
        "3",
        "--events",
        "40",
        "--slice-size",
        "20",
    ];
    let played = measured(&[&of_seeds[..], &["--write-trace", &path]].concat());
    assert_eq!([&played["traces"], &played["firstSeed"]], [3, 5]);
    assert_eq!(played["heuristics"][0]["events"], 120);
    assert_eq!(measured(&["--trace", &path, "--slice-size", "20"]), played);
}

#[test]
fn people_get_a_table() {
    let table = succeeded(&["--trace", &example()]);
    let has = |line: &str| {
        table
            .lines()
            .any(|l| l.split_whitespace().eq(line.split_whitespace()))
    };
    for line in [
        "1 trace, 5 events",
        "changed hints of endpoints that stay 10",
        "from one zone to another 0",
        "hints turned on or off 3",
        "violations of the guarantee 0",
        "traffic in its zone, mean 72.22%",
        "nodeResized 4 in 1 event",
    ] {
        assert!(has(line), "{line} is missing in\n{table}");
    }
    assert!(
        table
            .lines()
            .all(|line| line.trim_end() == line && line.len() <= 80),
        "{table}"
    );
}

#[test]
fn a_chart_is_of_one_trace() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("chart.svg").display().to_string();
    succeeded(&["--trace", &example(), "--svg", &path]);
    let chart = std::fs::read_to_string(&path).unwrap();
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"));
    assert!(chart.contains("<title id=\"title\">5 events of a trace</title>"));
    assert_eq!(
        refused(&["--seeds", "2", "--events", "1", "--svg", &path]),
        "error: --svg draws one trace, and these are 2; play one\n"
    );
    for flag in ["--svg", "--write-trace"] {
        assert_eq!(
            refused(&[flag, "-"]),
            format!("error: {flag} needs the name of a file: the measures go to standard output\n")
        );
    }
}

#[test]
fn the_chart_in_the_docs_is_what_its_command_draws() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = std::fs::read_to_string(docs.join("heuristics.md")).unwrap();
    let (_, command) = page.split_once("`zonewise simulate ").expect("the command");
    let (command, _) = command
        .split_once(" --svg heuristics.svg`")
        .expect("its end");
    let folder = TempDir::new().unwrap();
    let drawn = folder.path().join("heuristics.svg").display().to_string();
    let arguments = command.split_whitespace().chain(["--svg", &drawn]);
    succeeded(&arguments.collect::<Vec<_>>());
    let [drawn, shown] = [Path::new(&drawn), &docs.join("heuristics.svg")]
        .map(|path| std::fs::read_to_string(path).unwrap());
    assert!(
        drawn == shown,
        "draw docs/heuristics.svg anew with the command of docs/heuristics.md"
    );
}

#[test]
fn what_never_ends_a_line_is_refused_and_nothing_in_a_trace_reaches_the_terminal_raw() {
    let refusal = refused(&["--trace", "/dev/zero"]);
    assert_eq!(refusal, "error: /dev/zero:1: is longer than 256 MiB\n");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("odd.jsonl").display().to_string();
    let odd = [
        json!({"header": {"version": 1, "zones": ["a"]}}),
        json!({"start": {"nodes": [{"node": "n\nerror: x", "zone": "\u{1b}[31m", "milliCpu": 1}], "pods": []}}),
    ];
    std::fs::write(&path, odd.map(|line| line.to_string()).join("\n")).unwrap();
    let refusal = refused(&["--trace", &path]);
    assert_eq!(refusal.lines().count(), 1, "{refusal}");
    assert!(!refusal.contains('\u{1b}'), "{refusal}");
    let same = folder.path().join("same").display().to_string();
    assert!(refused(&["--svg", &same, "--write-trace", &same]).contains("name the same file"));
}

#[test]
fn a_trace_that_can_not_be_is_told_by_file_line_and_field() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.jsonl").display().to_string();
    let good = std::fs::read_to_string(example()).unwrap();
    std::fs::write(
        &path,
        good.replace(
            "\"podAdded\":{\"pod\":\"web-6\"",
            "\"podAdded\":{\"pod\":\"web-1\"",
        ),
    )
    .unwrap();
    assert_eq!(
        refused(&["--trace", &path]),
        format!("error: {path}:5: podAdded.pod: a pod web-1 was there before\n")
    );
    assert!(
        refused(&["--trace", "nowhere.jsonl"]).starts_with("error: can't read nowhere.jsonl: ")
    );
    assert!(refused(&["--trace", &path, "--seed", "1"]).contains("cannot be used with"));
    assert!(
        refused(&["--heuristic", "Best"])
            .contains("\"Best\" is no heuristic; there are Auto, Overlap, PreferZone")
    );
}
