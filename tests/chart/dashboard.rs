//! The dashboard: queries that Prometheus understands, over metrics that there are.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::alerts::{are_documented, metrics, promtool};
use super::helm::{Helm, Release};

fn dashboard() -> Value {
    let values = json!({"grafanaDashboard": {"enabled": true}});
    let objects = Helm::four().objects(&Release::usual(), &values);
    let text = objects.the("ConfigMap")["data"]["zonewise.json"]
        .as_str()
        .expect("it is in the ConfigMap");
    serde_json::from_str(text).expect("a dashboard is JSON")
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"]
        .as_array()
        .expect("there are panels")
        .iter()
        .collect()
}

fn queries(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard)
        .into_iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    targets
        .map(|target| {
            target["expr"]
                .as_str()
                .expect("a target has a query")
                .to_owned()
        })
        .collect()
}

#[test]
#[ignore = "needs promtool: make ci"]
fn prometheus_understands_its_queries() {
    let queries = queries(&dashboard());
    assert!(queries.len() > 25, "{queries:?}");
    let rule = |(number, query): (usize, &String)| {
        let query = query
            .replace("$__rate_interval", "5m")
            .replace("$namespace", "a")
            .replace("$job", "b");
        json!({"record": format!("query:{number}"), "expr": query})
    };
    let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
    let folder = TempDir::new().expect("a temporary folder can be made");
    let rules = json!({"groups": [{"name": "queries", "rules": rules}]});
    promtool(&["check", "rules", "rules.json"], &folder, &rules)
        .unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn it_asks_for_metrics_that_there_are() {
    are_documented(&metrics(&queries(&dashboard()).join("\n")));
}

#[test]
fn panels_have_titles_and_places_of_their_own() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(
            panel["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty())
        );
        assert!(ids.insert(panel["id"].to_string()), "{panel}");
        let place = |field: &str| {
            panel["gridPos"][field]
                .as_u64()
                .expect("a panel has a place")
        };
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{} lies over another", panel["title"]);
            }
        }
        if panel["type"] != "row" {
            assert!(
                panel["description"].is_string(),
                "{} says nothing of itself",
                panel["title"]
            );
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
        }
    }
}
