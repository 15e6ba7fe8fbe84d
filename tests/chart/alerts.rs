//! Alerts: valid by promtool, tried on made-up series, and each with a page that says what to do.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::helm::{Helm, Release, said};
use super::tools::{text_of, tool};
use super::values::{certificates, merged};

fn groups(values: &Value) -> Value {
    let values = merged(&json!({"prometheusRule": {"enabled": true}}), values);
    let objects = Helm::four().objects(&Release::usual(), &values);
    objects.the("PrometheusRule")["spec"].clone()
}

fn rules(values: &Value) -> Vec<Value> {
    groups(values)["groups"][0]["rules"]
        .as_array()
        .expect("there are rules")
        .clone()
}

fn names(values: &Value) -> BTreeSet<String> {
    rules(values)
        .iter()
        .map(|rule| {
            rule["alert"]
                .as_str()
                .expect("a rule is an alert")
                .to_owned()
        })
        .collect()
}

/// Runs promtool in a folder that has these rules as `rules.json`.
pub fn promtool(arguments: &[&str], folder: &TempDir, rules: &Value) -> Result<String, String> {
    std::fs::write(folder.path().join("rules.json"), rules.to_string())
        .expect("rules can be written");
    let program = tool("ZONEWISE_PROMTOOL", "promtool", "v", "promtool");
    said(
        &Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("promtool runs"),
    )
}

/// The names of zonewise's metrics in an expression, as `/metrics` has them.
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression
        .split(|c| !is_word(c))
        .filter(|word| word.starts_with("zonewise_"));
    words
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect()
}

/// Asserts that the documents tell of each.
pub fn are_documented(names: &BTreeSet<String>) {
    let documents = [
        "docs/serving.md",
        "docs/controller.md",
        "docs/certificates.md",
    ]
    .map(text_of)
    .concat();
    for name in names {
        let told = [format!("`{name}`"), format!("`{name}{{")]
            .iter()
            .any(|form| documents.contains(form));
        assert!(
            told,
            "neither docs/serving.md, docs/controller.md nor docs/certificates.md has metric {name}"
        );
    }
}

#[test]
#[ignore = "needs promtool: make ci"]
fn promtool_finds_no_fault() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    for values in [
        json!({}),
        json!({"prometheusRule": {"selector": "job=~\"zone.*\""}}),
        json!({"mode": "Observe"}),
    ] {
        let checked = promtool(
            &["check", "rules", "--lint=all", "--lint-fatal", "rules.json"],
            &folder,
            &groups(&values),
        );
        checked.unwrap_or_else(|said| panic!("{values}: {said}"));
    }
    let broken =
        json!({"groups": [{"name": "broken", "rules": [{"alert": "Broken", "expr": "sum(x"}]}]});
    promtool(&["check", "rules", "rules.json"], &folder, &broken).expect_err("a fault is found");
}

#[test]
#[ignore = "needs promtool: make ci"]
fn they_go_off_when_they_should_and_not_before() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let tests = text_of("tests/chart/rules_test.yaml");
    std::fs::write(folder.path().join("rules_test.yaml"), &tests).expect("a file can be written");
    let tried = promtool(
        &["test", "rules", "rules_test.yaml"],
        &folder,
        &groups(&json!({})),
    );
    tried.unwrap_or_else(|said| panic!("{said}"));
    for name in names(&json!({})) {
        assert!(
            tests.contains(&format!("alertname: {name}\n")),
            "rules_test.yaml does not try {name}"
        );
    }
}

#[test]
fn each_has_a_page_that_says_what_to_do() {
    let page = text_of("docs/alerts.md");
    for rule in rules(&json!({})) {
        let name = rule["alert"].as_str().expect("it has a name");
        let url = format!(
            "https://github.com/zonewise/zonewise/blob/main/docs/alerts.md#{}",
            name.to_lowercase()
        );
        assert_eq!(rule["annotations"]["runbook_url"], url);
        let (_, section) = page
            .split_once(&format!("## {name}\n"))
            .unwrap_or_else(|| panic!("docs/alerts.md has no {name}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        assert!(
            section.contains("*Do:*"),
            "docs/alerts.md does not say what to do about {name}"
        );
        for field in ["summary", "description"] {
            assert!(
                rule["annotations"][field].is_string(),
                "{name} has no {field}"
            );
        }
        assert!(
            ["warning", "critical"]
                .contains(&rule["labels"]["severity"].as_str().unwrap_or_default())
        );
    }
}

#[test]
fn they_ask_for_metrics_that_there_are() {
    let expressions: Vec<Value> = rules(&json!({}))
        .into_iter()
        .map(|rule| rule["expr"].clone())
        .collect();
    are_documented(&metrics(&json!(expressions).to_string()));
}

#[test]
fn what_is_off_has_no_alerts() {
    let all = names(&json!({}));
    let without =
        |values: Value| -> Vec<String> { all.difference(&names(&values)).cloned().collect() };
    assert_eq!(
        without(merged(
            &certificates("provided"),
            &json!({"controller": {"enabled": false}})
        )),
        [
            "ZonewiseCertificateNotTrusted",
            "ZonewiseNoLeader",
            "ZonewiseSlicesParked",
            "ZonewiseWritesBypassed"
        ]
    );
    let off = json!({"mode": "Off", "prometheusRule": {"enabled": true}});
    let objects = Helm::four().objects(&Release::usual(), &off);
    assert!(objects.all("PrometheusRule").is_empty());
    assert_eq!(
        without(json!({"prometheusRule": {"disabled": ["ZonewiseFrozen"]}})),
        ["ZonewiseFrozen"]
    );
}
