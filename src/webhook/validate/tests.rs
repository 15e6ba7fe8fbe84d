use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::cluster::files::Objects;
use crate::cluster::store::{StoreRules, Writer};

/// Three zones of 4 CPUs; `shop/web` asks for hints, and another slice of it has two hinted endpoints in each zone.
fn cluster() -> Arc<Cluster> {
    let mut objects = Objects::default();
    let mut add = |object: Value| {
        objects
            .add_text(Path::new("cluster.yaml"), &object.to_string())
            .unwrap();
    };
    three_zones().into_iter().for_each(&mut add);
    add(json!({
        "kind": "Namespace",
        "metadata": {"name": "bad", "annotations": {"zonewise.dev/overload-threshold": "much"}},
    }));
    add(
        json!({"kind": "Namespace", "metadata": {"name": "off", "annotations": {"zonewise.dev/mode": "Off"}}}),
    );
    add(service("web", &json!({MODE: "Auto"})));
    add(service("plain", &json!({})));
    let others = [["a", "a"], ["b", "b"], ["c", "c"]].concat();
    add(slice("web-2", "10.0.2", &zones(&others)));
    objects
        .load(StoreRules::default(), Timestamp::UNIX_EPOCH)
        .cluster()
}

/// Nodes of 4 CPUs in zones a, b and c.
fn three_zones() -> [Value; 3] {
    ["a", "b", "c"].map(|zone| {
        json!({
            "kind": "Node",
            "metadata": {"name": zone, "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"allocatable": {"cpu": 4}, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    })
}

/// Three zones and a Service.
fn cluster_with(service: &Value) -> Arc<Cluster> {
    let mut objects = Objects::default();
    for object in three_zones().iter().chain([service]) {
        objects
            .add_text(Path::new("cluster.yaml"), &object.to_string())
            .unwrap();
    }
    objects
        .load(StoreRules::default(), Timestamp::UNIX_EPOCH)
        .cluster()
}

const MODE: &str = "service.kubernetes.io/topology-mode";

fn service(name: &str, annotations: &Value) -> Value {
    json!({
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {"clusterIP": "10.0.0.1"},
    })
}

/// Endpoints in these zones, each hinted for its own.
fn zones<'a>(zones: &[&'a str]) -> Vec<(&'a str, Option<&'a str>)> {
    zones.iter().map(|zone| (*zone, Some(*zone))).collect()
}

/// A slice of `shop/web`: of each endpoint its zone and its hint.
fn slice(name: &str, network: &str, endpoints: &[(&str, Option<&str>)]) -> Value {
    let endpoint = |(i, (zone, hint)): (usize, &(&str, Option<&str>))| {
        let mut endpoint = json!({"addresses": [format!("{network}.{i}")], "zone": zone});
        if let Some(hint) = hint {
            endpoint["hints"] = json!({"forZones": [{"name": hint}]});
        }
        endpoint
    };
    json!({
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80}],
        "endpoints": endpoints.iter().enumerate().map(endpoint).collect::<Vec<_>>(),
    })
}

/// A review of a write by a person; of a new object where none is stored.
fn review(object: &Value, stored: Option<&Value>) -> Value {
    let (group, kind) = match object["kind"].as_str().unwrap() {
        kind @ ("Service" | "Namespace") => ("", kind),
        kind => ("discovery.k8s.io", kind),
    };
    json!({"request": {
        "uid": "1",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "operation": if stored.is_some() { "UPDATE" } else { "CREATE" },
        "namespace": object["metadata"]["namespace"],
        "userInfo": {"username": "jane", "groups": ["system:masters"]},
        "object": object,
        "oldObject": stored,
    }})
}

/// How a review is answered: the decision, its reason, what it is refused for, and the warnings.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    decision: &'static str,
    reason: &'static str,
    refused: Option<String>,
    warnings: Vec<String>,
}

fn ask_by(validation: Validation, review: &Value) -> Said {
    let settings = Settings {
        validation,
        ..Settings::default()
    };
    answered(&cluster(), &settings, review)
}

fn answered(cluster: &Cluster, settings: &Settings, review: &Value) -> Said {
    let answer = validate(review.to_string().as_bytes(), cluster, settings).unwrap();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let response = &body["response"];
    let message = response["status"]["message"].as_str();
    assert_eq!(response["allowed"] == json!(false), message.is_some());
    assert_eq!(answer.decision == "Denied", message.is_some());
    let warnings = response["warnings"].as_array().cloned().unwrap_or_default();
    let warnings: Vec<String> = warnings
        .iter()
        .map(|warning| warning.as_str().unwrap().to_owned())
        .collect();
    assert!(
        warnings
            .iter()
            .all(|warning| warning.chars().count() <= 120)
    );
    Said {
        decision: answer.decision,
        reason: answer.reason,
        refused: message.map(ToOwned::to_owned),
        warnings,
    }
}

fn ask(review: &Value) -> Said {
    ask_by(Validation::Warn, review)
}

/// The reason and the first warning about a new Service with these annotations.
fn warned_of(annotations: &Value) -> (&'static str, String) {
    let said = ask(&review(&service("web", annotations), None));
    (
        said.reason,
        said.warnings.first().cloned().unwrap_or_default(),
    )
}

fn allowed(reason: &'static str) -> Said {
    Said {
        decision: "Allowed",
        reason,
        refused: None,
        warnings: Vec::new(),
    }
}

#[test]
fn a_service_whose_endpoints_get_hints_is_passed_over_in_silence() {
    let annotations =
        json!({MODE: "zonewise.dev/Overlap", "zonewise.dev/overload-threshold": "0.35"});
    assert_eq!(
        ask(&review(&service("web", &annotations), None)),
        allowed("")
    );
}

#[test]
fn annotations_that_can_not_be_used_are_told() {
    let threshold = warned_of(&json!({MODE: "Auto", "zonewise.dev/overload-threshold": "20%"}));
    assert_eq!(threshold.0, "InvalidAnnotation");
    assert!(
        threshold
            .1
            .starts_with("zonewise: overload-threshold \"20%\": it is no decimal from 0 to 10"),
        "{}",
        threshold.1
    );
    let weights = warned_of(&json!({MODE: "Auto", "zonewise.dev/zone-weights": "a=3,b"}));
    assert_eq!(
        weights.1,
        "zonewise: zone-weights \"a=3,b\": \"b\" is not ZONE=WEIGHT, such as zone-a=3"
    );
    let mode = warned_of(&json!({MODE: "zonewise.dev/overlap"}));
    assert_eq!(mode.0, "InvalidAnnotation");
    assert!(
        mode.1.contains("zonewise has zonewise.dev/Overlap"),
        "{}",
        mode.1
    );
}

#[test]
fn what_is_no_annotation_is_told_with_the_one_that_may_be_meant() {
    let typo = json!({MODE: "Auto", "zonewise.dev/overload-treshold": "0.3"});
    assert_eq!(
        warned_of(&typo),
        (
            "UnknownAnnotation",
            "zonewise: there is no annotation zonewise.dev/overload-treshold; zonewise.dev/overload-threshold may be meant"
                .to_owned()
        )
    );
    let strange = json!({MODE: "Auto", "zonewise.dev/colour": "red"});
    assert_eq!(
        warned_of(&strange).1,
        "zonewise: there is no annotation zonewise.dev/colour; Services may have overload-threshold, zone-weights"
    );
    let misplaced = json!({MODE: "Auto", "zonewise.dev/mode": "Off"});
    assert_eq!(
        warned_of(&misplaced),
        (
            "MisplacedAnnotation",
            "zonewise: zonewise.dev/mode is for Namespaces; on a Service it does nothing"
                .to_owned()
        )
    );
}

#[test]
fn what_the_service_comes_to_is_told_where_that_is_no_hints() {
    let unknown_zone = json!({MODE: "Auto", "zonewise.dev/zone-weights": "a=3,d=1"});
    assert_eq!(
        warned_of(&unknown_zone),
        (
            "InvalidAnnotation",
            "zonewise: zone-weights \"a=3,d=1\": no node is in zone d; there are a, b, c"
                .to_owned()
        )
    );
    let idle = warned_of(&json!({"zonewise.dev/overload-threshold": "0.3"}));
    assert_eq!(idle.0, "NotOptedIn");
    assert!(
        idle.1
            .starts_with("zonewise: no hints: Nothing asks for hints"),
        "{}",
        idle.1
    );
    let mut headless = service("web", &json!({MODE: "zonewise.dev/Overlap"}));
    headless["spec"]["clusterIP"] = json!("None");
    assert_eq!(ask(&review(&headless, None)).reason, "Headless");
    let uneven = json!({MODE: "Auto", "zonewise.dev/zone-weights": "a=6,b=1,c=1"});
    assert_eq!(warned_of(&uneven).0, "");
    let strict =
        json!({MODE: "zonewise.dev/PreferZone", "zonewise.dev/zone-weights": "a=6,b=1,c=1"});
    let strict = warned_of(&strict);
    assert_eq!(strict.0, "OwnZonesOverloaded");
    assert!(
        strict
            .1
            .starts_with("zonewise: no hints: With every endpoint"),
        "{}",
        strict.1
    );
}

#[test]
fn a_service_without_endpoints_is_not_told_that_it_has_too_few() {
    let new = service("new", &json!({MODE: "zonewise.dev/Overlap"}));
    assert_eq!(ask(&review(&new, None)), allowed(""));
    let disabled = service("web", &json!({MODE: "Disabled"}));
    assert_eq!(ask(&review(&disabled, None)), allowed(""));
}

#[test]
fn a_mistake_of_the_namespace_is_told_as_its_own() {
    let mut of_bad = service("new", &json!({MODE: "zonewise.dev/Overlap"}));
    of_bad["metadata"]["namespace"] = json!("bad");
    let said = ask_by(Validation::Enforce, &review(&of_bad, None));
    assert_eq!(said.decision, "Warned");
    assert!(
        said.warnings[0].starts_with("zonewise: Namespace bad: overload-threshold \"much\""),
        "{said:?}"
    );
}

#[test]
fn a_service_is_refused_for_what_this_write_makes_and_warned_of_what_it_finds() {
    let typo = service(
        "web",
        &json!({MODE: "Auto", "zonewise.dev/overload-treshold": "0.3"}),
    );
    let fine = service("web", &json!({MODE: "Auto"}));
    let enforced = |object: &Value, stored: Option<&Value>| {
        ask_by(Validation::Enforce, &review(object, stored))
    };
    for stored in [None, Some(&fine)] {
        let said = enforced(&typo, stored);
        assert_eq!((said.decision, said.warnings.len()), ("Denied", 0));
        let refused = said.refused.unwrap();
        assert!(
            refused.starts_with("there is no annotation zonewise.dev/overload-treshold;")
                && refused
                    .ends_with("(zonewise refuses this since it runs with --validation enforce)"),
            "{refused}"
        );
    }
    let found = enforced(&typo, Some(&typo));
    assert_eq!((found.decision, found.warnings.len()), ("Warned", 1));
    let both = json!({MODE: "Auto", "zonewise.dev/overload-treshold": "0.3", "zonewise.dev/zone-weights": "a"});
    let both = enforced(&service("web", &both), Some(&typo));
    assert_eq!((both.decision, both.warnings.len()), ("Denied", 1));
    assert!(both.refused.unwrap().starts_with("zone-weights \"a\""));
    let unknown_zone = json!({MODE: "Auto", "zonewise.dev/zone-weights": "a=3,d=1"});
    let later = enforced(&service("web", &unknown_zone), Some(&fine));
    assert_eq!(later.decision, "Warned", "zone d may yet come");
}

fn namespace(annotations: &Value) -> Value {
    json!({
        "kind": "Namespace",
        "metadata": {"name": "shop", "annotations": annotations},
    })
}

/// The reasons and warnings about a new Namespace with these annotations.
fn warned_of_namespace(annotations: &Value) -> (&'static str, Vec<String>) {
    let said = ask(&review(&namespace(annotations), None));
    (said.reason, said.warnings)
}

#[test]
fn a_namespace_whose_annotations_can_be_read_gets_no_warning() {
    for annotations in [
        json!({}),
        json!({MODE: "Disabled"}),
        json!({MODE: "Overlap"}),
        json!({
            MODE: "zonewise.dev/Overlap",
            "zonewise.dev/overload-threshold": "0.34",
            "zonewise.dev/zone-weights": "a=3,b=1",
            "zonewise.dev/mode": "observe",
        }),
    ] {
        let written = review(&namespace(&annotations), None);
        assert_eq!(ask(&written), allowed(""), "{annotations}");
    }
}

#[test]
fn each_value_of_a_namespace_that_can_not_be_used_is_a_warning() {
    for (key, value, warning) in [
        (
            "zonewise.dev/overload-threshold",
            "20%",
            "zonewise: overload-threshold \"20%\": it is no decimal from 0 to 10",
        ),
        (
            "zonewise.dev/zone-weights",
            "a=3,b",
            "zonewise: zone-weights \"a=3,b\": \"b\" is not ZONE=WEIGHT",
        ),
        (
            "zonewise.dev/mode",
            "on",
            "zonewise: mode \"on\": there are Active, Observe and Off",
        ),
        (
            MODE,
            "zonewise.dev/overlap",
            "zonewise: topology-mode \"zonewise.dev/overlap\": zonewise has zonewise.dev/Overlap",
        ),
        (
            "service.kubernetes.io/topology-aware-hints",
            "zonewise.dev/Auto",
            "zonewise: topology-aware-hints \"zonewise.dev/Auto\": zonewise has",
        ),
    ] {
        let (reason, warnings) = warned_of_namespace(&json!({key: value}));
        assert_eq!((reason, warnings.len()), ("InvalidAnnotation", 1), "{key}");
        assert!(warnings[0].starts_with(warning), "{warnings:?}");
    }
}

#[test]
fn a_misspelt_key_on_a_namespace_is_a_warning_with_the_key_that_may_be_meant() {
    let unknown = |key: &str| {
        let (reason, warnings) = warned_of_namespace(&json!({key: "Off"}));
        assert_eq!((reason, warnings.len()), ("UnknownAnnotation", 1), "{key}");
        warnings[0].clone()
    };
    assert_eq!(
        unknown("zonewise.dev/mod"),
        "zonewise: there is no annotation zonewise.dev/mod; zonewise.dev/mode may be meant"
    );
    assert_eq!(
        unknown("zonewise.dev/zone-weight"),
        "zonewise: there is no annotation zonewise.dev/zone-weight; zonewise.dev/zone-weights may be meant"
    );
    assert_eq!(
        unknown("zonewise.dev/colour"),
        "zonewise: there is no annotation zonewise.dev/colour; Namespaces may have overload-threshold, zone-weights, mode"
    );
}

#[test]
fn a_namespace_is_refused_for_what_this_write_makes_and_warned_of_what_it_finds() {
    let wrong = namespace(&json!({"zonewise.dev/overload-threshold": "20%"}));
    let enforced = |object: &Value, stored: Option<&Value>| {
        ask_by(Validation::Enforce, &review(object, stored))
    };
    for stored in [None, Some(&namespace(&json!({})))] {
        let said = enforced(&wrong, stored);
        assert_eq!((said.decision, said.warnings.len()), ("Denied", 0));
        let refused = said.refused.unwrap();
        assert!(
            refused.starts_with("overload-threshold \"20%\":"),
            "{refused}"
        );
    }
    let found = enforced(&wrong, Some(&wrong));
    assert_eq!((found.decision, found.warnings.len()), ("Warned", 1));
    let worse = json!({"zonewise.dev/overload-threshold": "20%", "zonewise.dev/colour": "red"});
    let worse = enforced(&namespace(&worse), Some(&wrong));
    assert_eq!((worse.decision, worse.warnings.len()), ("Denied", 1));
    let refused = worse.refused.unwrap();
    assert!(
        refused.starts_with("there is no annotation zonewise.dev/colour"),
        "{refused}"
    );
}

#[test]
fn a_namespace_that_is_off_is_not_validated() {
    let off = json!({"zonewise.dev/mode": "Off", "zonewise.dev/colour": "red"});
    let off = ask_by(Validation::Enforce, &review(&namespace(&off), None));
    assert_eq!(off, allowed("ModeOff"));
}

#[test]
fn a_namespace_is_validated_before_the_caches_have_synced_and_not_where_a_program_writes_it() {
    let empty = Writer::new(StoreRules::default()).cluster();
    let settings = Settings {
        validation: Validation::Enforce,
        ..Settings::default()
    };
    let mut wrong = review(&namespace(&json!({"zonewise.dev/colour": "red"})), None);
    let said = answered(&empty, &settings, &wrong);
    assert_eq!(said.decision, "Denied");
    wrong["request"]["userInfo"]["username"] = json!("system:serviceaccount:argocd:argocd");
    assert_eq!(answered(&empty, &settings, &wrong), allowed("NotAPerson"));
}

/// A slice of `shop/web` with endpoints in these zones, written over the same with hints for their own zones.
fn rehinted(endpoints: &[(&str, Option<&str>)]) -> Value {
    let before = zones(&endpoints.iter().map(|(zone, _)| *zone).collect::<Vec<_>>());
    review(
        &slice("web-1", "10.0.1", endpoints),
        Some(&slice("web-1", "10.0.1", &before)),
    )
}

/// Ten that there are none of, and what the decision comes to.
const MOST_WARNINGS: usize = 12;

const PARTIAL: [(&str, Option<&str>); 3] = [("a", Some("a")), ("b", None), ("c", Some("c"))];

/// Beside the two of each zone in the other slice, a has 2 of 9.
const OVERLOADING: [(&str, Option<&str>); 3] =
    [("a", Some("b")), ("b", Some("b")), ("c", Some("c"))];

#[test]
fn hints_on_a_part_of_the_endpoints_are_told() {
    let said = ask(&rehinted(&PARTIAL));
    assert_eq!((said.decision, said.reason), ("Warned", "PartialHints"));
    assert_eq!(
        said.warnings,
        [
            "zonewise: 1 of 3 ready endpoints has no zone hint, so kube-proxy follows none of the hints"
        ]
    );
    let none = [("a", None), ("b", None)];
    assert_eq!(ask(&rehinted(&none)), allowed(""));
}

#[test]
fn an_endpoint_without_a_zone_hides_no_overload() {
    let mut write = rehinted(&[("", Some("a")), ("a", Some("b")), ("b", Some("b"))]);
    write["request"]["object"]["endpoints"][0]
        .as_object_mut()
        .unwrap()
        .remove("zone");
    assert_eq!(ask(&write).reason, "EndpointOverloaded");
}

#[test]
fn of_annotations_that_there_are_none_of_only_so_many_are_told() {
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|i| (format!("zonewise.dev/x-{i}"), json!("")))
        .collect();
    let said = ask(&review(&service("web", &Value::Object(many)), None));
    assert!(
        said.warnings.len() <= MOST_WARNINGS,
        "{}",
        said.warnings.len()
    );
}

#[test]
fn hints_for_nodes_are_told() {
    let mut write = rehinted(&[("a", Some("a")), ("b", Some("b")), ("c", Some("c"))]);
    write["request"]["object"]["endpoints"][1]["hints"]["forNodes"] = json!([{"name": "n1"}]);
    let said = ask(&write);
    assert_eq!((said.decision, said.reason), ("Warned", "NodeHints"));
    assert!(
        said.warnings[0].starts_with("zonewise: endpoint 10.0.1.1 is hinted for nodes"),
        "{said:?}"
    );
}

#[test]
fn weights_that_can_not_be_used_are_not_what_hints_are_judged_by() {
    let annotations = json!({MODE: "Auto", "zonewise.dev/zone-weights": "a=3,nope=1"});
    let cluster = cluster_with(&service("web", &annotations));
    let fine = rehinted(&[("a", Some("a")), ("b", Some("b")), ("c", Some("c"))]);
    let settings = Settings {
        validation: Validation::Enforce,
        ..Settings::default()
    };
    assert_eq!(answered(&cluster, &settings, &fine), allowed("NotOptedIn"));
}

#[test]
fn a_zone_that_has_too_few_endpoints_is_told_with_its_numbers() {
    let said = ask(&rehinted(&OVERLOADING));
    assert_eq!(
        said.warnings,
        [
            "zonewise: an endpoint would carry 50% above the average (20% is allowed): a has 2 of 9 endpoints and needs 3"
        ]
    );
    assert_eq!(said.reason, "EndpointOverloaded");
    let fine = [("a", Some("a")), ("b", Some("b")), ("c", Some("c"))];
    assert_eq!(ask(&rehinted(&fine)), allowed(""));
}

#[test]
fn the_services_own_threshold_and_weights_are_what_hints_are_judged_by() {
    let judged_by = |annotations: Value| {
        let cluster = cluster_with(&service("web", &annotations));
        let settings = Settings {
            validation: Validation::Warn,
            ..Settings::default()
        };
        answered(&cluster, &settings, &rehinted(&OVERLOADING)).reason
    };
    // Of 3 endpoints b has 2, and a is served by all.
    assert_eq!(judged_by(json!({MODE: "Auto"})), "EndpointOverloaded");
    let loose = json!({MODE: "Auto", "zonewise.dev/overload-threshold": "0.5"});
    assert_eq!(judged_by(loose), "");
    let weighed = json!({MODE: "Auto", "zonewise.dev/zone-weights": "b=2,c=1"});
    assert_eq!(judged_by(weighed), "");
}

#[test]
fn a_zone_that_only_an_endpoint_names_that_is_not_ready_is_a_fault() {
    let cluster = cluster_with(&service("web", &json!({MODE: "Auto"})));
    let settings = Settings {
        validation: Validation::Warn,
        ..Settings::default()
    };
    let mut review = rehinted(&zones(&["a", "b", "c"]));
    for object in ["object", "oldObject"] {
        let conditions = &mut review["request"][object]["endpoints"][2]["conditions"];
        *conditions = json!({"ready": false});
    }
    let said = answered(&cluster, &settings, &review);
    assert_eq!(said.reason, "NotReadyAlone");
    assert!(
        said.warnings[0].contains("10.0.1.2 is not ready and hinted for zone c"),
        "{:?}",
        said.warnings
    );
    review["request"]["object"]["endpoints"][2]["hints"] = json!({"forZones": [{"name": "b"}]});
    assert_eq!(answered(&cluster, &settings, &review).reason, "");
}

#[test]
fn a_hint_for_a_zone_in_which_no_node_counts_is_told() {
    let strange = [("a", Some("a")), ("b", Some("b")), ("c", Some("moon"))];
    let said = ask(&rehinted(&strange));
    assert_eq!(said.reason, "ZoneWithoutCapacity");
    assert_eq!(
        said.warnings[0],
        "zonewise: endpoint 10.0.1.2 is hinted for zone moon, in which no node counts"
    );
}

#[test]
fn hints_are_refused_where_they_are_all_that_a_person_changes_in_the_endpoints() {
    let enforced = |review: &Value| ask_by(Validation::Enforce, review);
    for (endpoints, told) in [
        (
            &OVERLOADING,
            "an endpoint would carry 50% above the average",
        ),
        (&PARTIAL, "1 of 3 ready endpoints has no zone hint"),
    ] {
        let said = enforced(&rehinted(endpoints));
        assert_eq!(said.decision, "Denied");
        assert!(said.refused.unwrap().starts_with(told));
        let object = slice("web-1", "10.0.1", endpoints);
        let new = enforced(&review(&object, None));
        assert_eq!(new.decision, "Warned", "a backup that is brought back");
        let found = enforced(&review(&object, Some(&object)));
        assert_eq!(found.decision, "Warned", "it was so before");
        let other = slice("web-1", "10.0.7", endpoints);
        let moved = enforced(&review(&object, Some(&other)));
        assert_eq!(moved.decision, "Warned", "endpoints are others");
    }
}

#[test]
fn a_dry_run_is_answered_as_the_write_would_be() {
    let mut dry = rehinted(&OVERLOADING);
    dry["request"]["dryRun"] = json!(true);
    let write = ask_by(Validation::Enforce, &rehinted(&OVERLOADING));
    assert_eq!(ask_by(Validation::Enforce, &dry), write);
    let told = |review: &Value| {
        let settings = Settings {
            validation: Validation::Warn,
            ..Settings::default()
        };
        let answer = validate(review.to_string().as_bytes(), &cluster(), &settings);
        answer.unwrap().told.is_some()
    };
    assert!(
        told(&rehinted(&OVERLOADING)) && !told(&dry),
        "it leaves no line"
    );
}

#[test]
fn programs_and_what_is_being_deleted_are_left_alone() {
    let by = |change: fn(&mut Value)| {
        let mut review = rehinted(&OVERLOADING);
        change(&mut review["request"]);
        ask_by(Validation::Enforce, &review)
    };
    let account = by(|r| r["userInfo"]["username"] = json!("system:serviceaccount:shop:deployer"));
    assert_eq!(account, allowed("NotAPerson"));
    let nobody = by(|r| r["userInfo"] = Value::Null);
    assert_eq!(nobody, allowed("NotAPerson"));
    let deleted =
        by(|r| r["object"]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(deleted, allowed("BeingDeleted"));
    let part = by(|r| r["subResource"] = json!("status"));
    assert_eq!(part, allowed("OtherKind"));
}

#[test]
fn what_is_not_zonewises_is_left_alone() {
    let mut plain = rehinted(&OVERLOADING);
    plain["request"]["object"]["metadata"]["labels"] =
        json!({"kubernetes.io/service-name": "plain"});
    assert_eq!(ask(&plain), allowed("NotOptedIn"));
    let mut stray = rehinted(&OVERLOADING);
    stray["request"]["object"]["metadata"]["labels"] = json!({});
    assert_eq!(ask(&stray), allowed("NotOptedIn"));
    let mut off = service("web", &json!({"zonewise.dev/colour": "red"}));
    off["metadata"]["namespace"] = json!("off");
    assert_eq!(ask(&review(&off, None)), allowed("ModeOff"));
    let mut api_servers = service("kubernetes", &json!({"zonewise.dev/colour": "red"}));
    api_servers["metadata"]["namespace"] = json!("default");
    assert_eq!(ask(&review(&api_servers, None)), allowed("ReservedService"));
    let said = ask_by(Validation::Off, &rehinted(&OVERLOADING));
    assert_eq!(said, allowed("ValidationOff"));
}

#[test]
fn who_knows_nothing_yet_says_nothing() {
    let empty = Writer::new(StoreRules::default()).cluster();
    let settings = Settings {
        validation: Validation::Enforce,
        ..Settings::default()
    };
    let typo = service("web", &json!({"zonewise.dev/overload-treshold": "0.3"}));
    for review in [rehinted(&OVERLOADING), review(&typo, None)] {
        assert_eq!(answered(&empty, &settings, &review), allowed("NotSynced"));
    }
}
