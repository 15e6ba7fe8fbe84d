//! Heuristics, thresholds and weights, and who asks for them.

use std::collections::BTreeMap;

use super::*;
use zonewise::planner::allocation::Threshold;
use zonewise::planner::auto::Origin;
use zonewise::planner::overlap::judge;
use zonewise::planner::zone_set::ZoneSet;

const DISTRIBUTED: &str = "PreferSameZone";

/// A World whose Service has a trafficDistribution, which the operator opts in.
fn by_distribution() -> World {
    let mut world = World::new(json!({"spec": {"trafficDistribution": DISTRIBUTED}}));
    world.settings.traffic_distribution = Some(Heuristic::Overlap);
    world
}

fn overlap() -> World {
    World::new(annotated("zonewise.dev/Overlap"))
}

/// A World whose Service asks for heuristic Auto and has these annotations too.
#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better where it is called"
)]
fn auto_with(annotations: Value) -> World {
    let mut service = annotated("Auto");
    merge(
        &mut service,
        json!({"metadata": {"annotations": annotations}}),
    );
    World::new(service)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better where it is called"
)]
fn namespace(annotations: Value) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
}

#[test]
fn overlap_shares_endpoints_where_auto_gives_up() {
    let hints = overlap().stored_hints(&slice("aaaabbbbccc"), None);
    let naming = |zone: char| hints.split(' ').filter(|hint| hint.contains(zone)).count();
    assert_eq!(hints.split(' ').count(), 11);
    assert!(hints.split(' ').all(|hint| hint != "-"), "{hints}");
    assert!(('a'..='c').all(|zone| naming(zone) >= 4), "{hints}");
}

#[test]
fn overlap_takes_autos_plan_where_that_is_as_good() {
    for zones in ["aabbcc", "aabbccc", "aaabbcc"] {
        let own = zones
            .chars()
            .map(String::from)
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(overlap().stored_hints(&slice(zones), None), own);
    }
}

#[test]
fn what_overlap_planned_it_leaves_as_it_is() {
    for zones in [
        "aaaabbbbccc",
        "aabbc",
        "ab",
        "aab",
        "aaabbbc",
        "aabc",
        "aaaab",
    ] {
        let sent = slice(zones);
        let hints = overlap().stored_hints(&sent, None);
        let stored = with_hints(sent.clone(), &hints);
        assert_eq!(
            overlap().stored_hints(&sent, Some(&stored)),
            hints,
            "{zones}"
        );
    }
}

/// The slice with the hints that `stored_hints` tells.
fn with_hints(mut slice: Value, hints: &str) -> Value {
    let endpoints = slice["endpoints"].as_array_mut().unwrap().iter_mut();
    for (endpoint, hint) in endpoints.zip(hints.split(' ')) {
        if hint == "-" {
            endpoint.as_object_mut().unwrap().remove("hints");
            continue;
        }
        let zones: Vec<Value> = hint
            .chars()
            .map(|zone| json!({"name": zone.to_string()}))
            .collect();
        endpoint["hints"] = json!({"forZones": zones});
    }
    slice
}

#[test]
fn hints_of_kubernetes_that_keep_the_guarantee_stay_as_they_are() {
    let kubernetes = hinted(slice("ab"), "a b");
    assert_eq!(
        by_distribution().stored_hints(&kubernetes, Some(&kubernetes)),
        "a b"
    );
    // With a single endpoint hints say nothing, and Kubernetes' own do no harm.
    let one = hinted(slice("a"), "a");
    assert_eq!(
        by_distribution().verdict(&one),
        "Untouched NoBetterThanNone"
    );
    assert_eq!(overlap().verdict(&one), "Strip NoBetterThanNone");
}

#[test]
fn overlap_for_endpoints_in_several_slices_agrees_with_what_the_others_have() {
    let mut world = overlap();
    let whole = world.stored_hints(&slice("aaaabbbbccc"), None);
    let hints: Vec<&str> = whole.split(' ').collect();
    let (first, second) = (slice("aaaabb"), slice_from("web-2", "bbccc", 7));
    world.add(with_hints(second, &hints[6..].join(" ")));
    let stored = with_hints(first.clone(), &hints[..6].join(" "));
    world.add(stored.clone());
    assert_eq!(
        world.stored_hints(&first, Some(&stored)),
        hints[..6].join(" ")
    );
}

#[test]
fn prefer_zone_hints_own_zones_or_none() {
    let world = World::new(annotated("zonewise.dev/PreferZone"));
    assert_eq!(world.stored_hints(&slice("aabbccc"), None), "a a b b c c c");
    assert_eq!(world.stored_hints(&slice("ab"), None), "a b");
    assert_eq!(world.verdict(&slice("aab")), "Strip OwnZonesOverloaded");
    assert_eq!(world.stored_hints(&slice("abx"), None), "a b c");
}

#[test]
fn more_zones_than_a_hint_can_name_are_too_many_where_auto_gives_up() {
    let mut world = overlap();
    for zone in ["d", "e", "f", "g", "h", "i"] {
        world.add(node(&format!("node-{zone}"), Some(zone), "4"));
    }
    assert_eq!(world.verdict(&slice("abcdefgh")), "Strip TooManyZones");
    assert_eq!(
        world.stored_hints(&slice("abcdefghi"), None),
        "a b c d e f g h i"
    );
}

#[test]
fn a_service_may_have_a_threshold_of_its_own() {
    let threshold = |value: &str| {
        auto_with(json!({"zonewise.dev/overload-threshold": value})).verdict(&slice("aabc"))
    };
    assert_eq!(threshold("0.333334"), "Hints");
    assert_eq!(
        threshold("0.333333"),
        "Strip MinAllocationExceedsOverloadThreshold"
    );
}

#[test]
fn weights_take_the_place_of_cpu_and_zones_without_one_keep_no_endpoint() {
    let world = auto_with(json!({"zonewise.dev/zone-weights": "a=3,b=1"}));
    assert_eq!(world.stored_hints(&slice("aabc"), None), "a a b a");
    let alone = auto_with(json!({"zonewise.dev/zone-weights": "b=1"}));
    assert_eq!(alone.stored_hints(&slice("aab"), None), "b b b");
}

#[test]
fn an_annotation_that_cannot_be_used_keeps_what_is_stored_and_says_why() {
    for (key, value, told) in [
        ("zonewise.dev/overload-threshold", "20%", "\"20%\""),
        ("zonewise.dev/zone-weights", "a:3", "ZONE=WEIGHT"),
        (
            "zonewise.dev/zone-weights",
            "a=1,nowhere=2",
            "no node is in zone nowhere",
        ),
        (
            "service.kubernetes.io/topology-mode",
            "zonewise.dev/Overlaps",
            "zonewise.dev/Overlap and",
        ),
    ] {
        let world = auto_with(json!({key: value}));
        let stored = hinted(slice("aabbc"), "a a b b a");
        assert_eq!(
            world.stored_hints(&slice("aabbc"), Some(&stored)),
            "a a b b a"
        );
        let decision = world.decide(&slice("aabbc"), Some(&stored));
        assert_eq!(
            (decision.verdict, decision.reason_word()),
            (Verdict::Kept, "InvalidAnnotation")
        );
        let message = decision.message();
        assert!(message.contains(key) && message.contains(told), "{message}");
        assert!(message.starts_with("Service shop/web "), "{message}");
    }
}

#[test]
fn annotations_that_nothing_asks_for_are_no_mistake() {
    let service = json!({"metadata": {"annotations": {"zonewise.dev/zone-weights": "?"}}});
    assert_eq!(
        World::new(service).verdict(&slice("abc")),
        "Untouched NotOptedIn"
    );
}

#[test]
fn the_namespace_asks_for_all_its_services_and_each_may_say_otherwise() {
    let in_namespace = |service: Value, annotations: Value| {
        let mut world = World::new(service);
        world.add(namespace(annotations));
        world.verdict(&slice("aabc"))
    };
    let auto = || json!({"service.kubernetes.io/topology-mode": "Auto"});
    let overlap = || json!({"service.kubernetes.io/topology-mode": "zonewise.dev/Overlap"});
    let refused = "Strip MinAllocationExceedsOverloadThreshold";
    assert_eq!(in_namespace(json!({}), auto()), refused);
    assert_eq!(in_namespace(json!({}), overlap()), "Hints");
    assert_eq!(in_namespace(annotated("Auto"), overlap()), refused);
    assert_eq!(
        in_namespace(annotated("Disabled"), overlap()),
        "Strip OptedOut"
    );
    let distributed = json!({"spec": {"trafficDistribution": DISTRIBUTED}});
    assert_eq!(in_namespace(distributed.clone(), auto()), refused);
    assert_eq!(in_namespace(distributed.clone(), overlap()), "Hints");
    let left = "Untouched LeftToKubernetes";
    assert_eq!(in_namespace(distributed.clone(), json!({})), left);
    let disabled = json!({"service.kubernetes.io/topology-mode": "Disabled"});
    assert_eq!(in_namespace(distributed, disabled), left);
    let mut threshold = auto();
    merge(
        &mut threshold,
        json!({"zonewise.dev/overload-threshold": "0.4"}),
    );
    assert_eq!(in_namespace(json!({}), threshold.clone()), "Hints");
    let own = json!({"metadata": {"annotations": {"zonewise.dev/overload-threshold": "0.1"}}});
    assert_eq!(in_namespace(own, threshold), refused);
    let unknown = json!({"service.kubernetes.io/topology-mode": "zonewise.dev/x"});
    assert_eq!(in_namespace(json!({}), unknown), "Kept InvalidAnnotation");
}

#[test]
fn a_namespace_can_be_observed_or_left_alone_or_tried_first() {
    let mode = |flag: Mode, annotation: &str| {
        let mut world = World::auto();
        world.settings.mode = flag;
        world.add(namespace(json!({"zonewise.dev/mode": annotation})));
        let decision = world.decide(&slice("abc"), None);
        (decision.verdict, decision.reason_word(), decision.mode)
    };
    assert_eq!(
        mode(Mode::Active, "Observe"),
        (Verdict::Hints, "", Mode::Observe)
    );
    assert_eq!(
        mode(Mode::Observe, "Active"),
        (Verdict::Hints, "", Mode::Active)
    );
    assert_eq!(
        mode(Mode::Active, "Off"),
        (Verdict::Untouched, "ModeOff", Mode::Off)
    );
    assert_eq!(
        mode(Mode::Off, "Active"),
        (Verdict::Untouched, "ModeOff", Mode::Off)
    );
    let (verdict, reason, _) = mode(Mode::Active, "on");
    assert_eq!((verdict, reason), (Verdict::Kept, "InvalidAnnotation"));
}

#[test]
fn services_that_say_nothing_can_be_hinted_by_default() {
    let mut world = World::new(json!({}));
    world.settings.default_mode = Some(Heuristic::PreferZone);
    assert_eq!(world.stored_hints(&slice("ab"), None), "a b");
    let mut disabled = World::new(annotated("Disabled"));
    disabled.settings.default_mode = Some(Heuristic::PreferZone);
    assert_eq!(disabled.verdict(&slice("ab")), "Strip OptedOut");
}

#[test]
fn the_heuristic_of_a_traffic_distribution_is_a_setting_and_auto_means_auto() {
    let mut world = by_distribution();
    assert_eq!(world.verdict(&slice("aabc")), "Hints");
    world.settings.traffic_distribution = Some(Heuristic::Auto);
    assert_eq!(
        world.verdict(&slice("aabc")),
        "Strip MinAllocationExceedsOverloadThreshold"
    );
    assert_eq!(
        World::auto().verdict(&slice("aabc")),
        "Strip MinAllocationExceedsOverloadThreshold"
    );
}

#[test]
fn each_set_of_ports_is_shared_by_itself() {
    let mut world = overlap();
    let admin_port = |slice: &mut Value| {
        slice["ports"] = json!([{"name": "admin", "protocol": "TCP", "port": 9090}]);
    };
    let mut admin = slice_from("web-2", "aab", 21);
    admin_port(&mut admin);
    world.add(with_hints(admin, "c a b"));
    assert_eq!(world.verdict(&slice("aaaabbbbccc")), "Hints");
    assert_eq!(world.stored_hints(&slice("abc"), None), "a b c");
}

#[test]
fn a_port_that_hints_gain_nothing_is_no_matter_of_another_port() {
    let mut world = overlap();
    let mut metrics = slice_from("web-2", "a", 21);
    metrics["ports"] = json!([{"name": "metrics", "protocol": "TCP", "port": 9090}]);
    world.add(metrics.clone());
    assert_eq!(world.stored_hints(&slice("abc"), None), "a b c");
    assert_eq!(world.verdict(&slice("aaaabbbbccc")), "Hints");
    world.add(with_hints(slice("abc"), "a b c"));
    assert_eq!(world.verdict(&metrics), "Strip NoBetterThanNone");
}

/// Beside each other's own zones the two can do no better than 58 %.
#[test]
fn two_slices_come_to_what_one_of_their_endpoints_would() {
    let mut world = overlap();
    let mut slices = [
        with_hints(slice("baa"), "b a a"),
        with_hints(slice_from("web-2", "cb", 4), "c b"),
    ];
    let add = |world: &mut World, slices: &[Value]| {
        for slice in slices {
            world.add(slice.clone());
        }
    };
    add(&mut world, &slices);
    for _ in 0..4 {
        for place in [0, 1] {
            let stored = slices[place].clone();
            let hints = world.stored_hints(&stored, Some(&stored));
            slices[place] = with_hints(stored, &hints);
            add(&mut world, &slices);
        }
    }
    let cluster = world.writer().cluster();
    let filter = zonewise::report::Filter::default();
    let objects = Objects {
        slices: slices.to_vec(),
        ..world.objects.clone()
    };
    let report = zonewise::report::Report::new(&cluster, &world.settings, &objects, &filter);
    let in_zone = report.services[0].in_zone_share;
    assert!(in_zone > Some(0.73), "{in_zone:?}");
    assert_eq!(report.services[0].decision, "Hints");
}

#[test]
fn hints_of_kubernetes_that_would_overload_are_stripped_where_none_are_better() {
    let mut world = by_distribution();
    world.objects.nodes.clear();
    world.add(node("node-a", Some("a"), "7"));
    world.add(node("node-b", Some("b"), "3"));
    // Own zones would load the endpoint of zone a with 1.4 of the average.
    assert_eq!(
        world.verdict(&hinted(slice("ab"), "a b")),
        "Strip NoOverlap"
    );
}

#[test]
fn a_weight_for_a_zone_without_nodes_that_count_is_told_and_explained() {
    let mut world = auto_with(json!({"zonewise.dev/zone-weights": "d=1"}));
    let mut down = node("node-d", Some("d"), "4");
    down["status"]["conditions"][0]["status"] = "False".into();
    world.add(down);
    assert_eq!(
        world.verdict(&slice("abc")),
        "Strip WeighedZonesWithoutCapacity"
    );
    world.add(slice("abc"));
    let cluster = world.writer().cluster();
    let report = zonewise::report::Report::new(
        &cluster,
        &world.settings,
        &world.objects,
        &zonewise::report::Filter::default(),
    );
    assert_eq!(
        report.services[0].reason,
        Some("WeighedZonesWithoutCapacity")
    );
}

#[test]
fn homeless_endpoints_in_two_slices_come_to_rest_with_prefer_zone() {
    let mut world = World::new(annotated("zonewise.dev/PreferZone"));
    world
        .objects
        .nodes
        .retain(|node| node["metadata"]["name"] != "node-c");
    world.add(slice_from("web-2", "x", 21));
    let first = slice("aabbx");
    let hints = world.stored_hints(&first, None);
    assert_eq!(hints, "a a b b a");
    world.objects.slices.clear();
    world.add(with_hints(first, &hints));
    assert_eq!(world.stored_hints(&slice_from("web-2", "x", 21), None), "b");
}

#[test]
fn a_namespace_mode_that_cannot_be_used_keeps_the_hints_that_are_stored() {
    let mut world = overlap();
    world.add(namespace(json!({"zonewise.dev/mode": "Actve"})));
    let decision = world.decide(&slice("abc"), None);
    assert_eq!(
        (decision.verdict, decision.mode),
        (Verdict::Kept, Mode::Active)
    );
}

#[test]
fn without_ready_endpoints_every_heuristic_says_the_same() {
    for mode in ["Auto", "zonewise.dev/Overlap", "zonewise.dev/PreferZone"] {
        let world = World::new(annotated(mode));
        assert_eq!(
            world.verdict(&slice("AB")),
            "Strip InsufficientNumberOfEndpoints",
            "{mode}"
        );
    }
}

/// How far above the average the busiest endpoint is; nothing where kube-proxy follows no hints.
fn worst_overload(slices: &[Value]) -> Option<f64> {
    let number = |zone: &Value| u16::from(zone.as_str().unwrap().as_bytes()[0] - b'a');
    let mut endpoints = Vec::new();
    for endpoint in slices
        .iter()
        .flat_map(|s| s["endpoints"].as_array().unwrap())
    {
        let mut hints = ZoneSet::EMPTY;
        for zone in endpoint["hints"]["forZones"].as_array()? {
            hints.insert(number(&zone["name"]));
        }
        endpoints.push((Origin::Zone(number(&endpoint["zone"])), hints));
    }
    Some(judge(&[1, 1, 1], Threshold::KUBERNETES, endpoints).worst_overload)
}

#[test]
fn slices_that_are_decided_at_once_come_to_rest_under_the_ceiling() {
    const PARTS: [&str; 5] = ["a", "b", "ab", "aac", "bcc"];
    let triples = PARTS.into_iter().flat_map(|x| {
        let pairs = PARTS
            .into_iter()
            .flat_map(move |y| PARTS.map(|z| [x, y, z]));
        pairs.collect::<Vec<_>>()
    });
    for parts in triples {
        for heuristic in ["zonewise.dev/Overlap", "zonewise.dev/PreferZone"] {
            let mut world = World::new(annotated(heuristic));
            let mut slices: Vec<Value> = (1..)
                .zip(parts)
                .map(|(number, zones)| slice_from(&format!("web-{number}"), zones, 20 * number))
                .collect();
            let decide = |world: &World, slice: &Value| {
                let hints = world.stored_hints(slice, Some(slice));
                with_hints(slice.clone(), &hints)
            };
            // Each by a replica that has yet to hear of the others.
            for slice in &slices {
                world.add(slice.clone());
            }
            slices = slices.iter().map(|slice| decide(&world, slice)).collect();
            let mut rounds = 0;
            loop {
                let before = slices.clone();
                for place in 0..slices.len() {
                    world.objects.slices.clear();
                    for slice in &slices {
                        world.add(slice.clone());
                    }
                    slices[place] = decide(&world, &slices[place]);
                }
                if slices == before {
                    break;
                }
                rounds += 1;
                assert!(rounds <= 4, "{heuristic} {parts:?} does not come to rest");
            }
            let worst = worst_overload(&slices);
            assert!(
                worst.is_none_or(|worst| worst <= 0.2 + 1e-9),
                "{heuristic} {parts:?}: {worst:?}"
            );
        }
    }
}

/// What the EndpointSlice controller sends for a trafficDistribution.
fn in_own_zones(slice: Value) -> Value {
    let endpoints = slice["endpoints"].as_array().unwrap();
    let zones: Vec<&str> = endpoints
        .iter()
        .map(|e| e["zone"].as_str().unwrap())
        .collect();
    let zones = zones.join(" ");
    with_hints(slice, &zones)
}

#[test]
fn no_write_of_the_controller_is_let_pass_that_overloads_an_endpoint() {
    const PARTS: [&str; 7] = ["a", "b", "c", "ab", "aaa", "aac", "bcc"];
    for (before, after) in PARTS.into_iter().flat_map(|x| PARTS.map(|y| (x, y))) {
        for other in PARTS {
            let mut world = by_distribution();
            let mut stored: BTreeMap<&str, Value> = BTreeMap::new();
            let writes = [
                ("web-1", before, 1),
                ("web-2", other, 21),
                ("web-1", after, 41),
            ];
            // At last each is looked at, as drift is.
            let all = writes.iter().chain(&writes[1..]);
            for &(name, zones, first) in all {
                let sent = in_own_zones(slice_from(name, zones, first));
                world.objects.slices.clear();
                for slice in stored.values() {
                    world.add(slice.clone());
                }
                let hints = world.stored_hints(&sent, stored.get(name));
                stored.insert(name, with_hints(sent, &hints));
                let slices: Vec<Value> = stored.values().cloned().collect();
                let worst = worst_overload(&slices);
                assert!(
                    worst.is_none_or(|worst| worst <= 0.2 + 1e-9),
                    "{before} then {after} beside {other}: {worst:?}"
                );
            }
        }
    }
}

#[test]
fn what_kubernetes_hints_for_zones_that_have_no_part_of_the_traffic_overloads_the_others() {
    let mut world = by_distribution();
    world.objects.nodes.clear();
    world.add(node("node-a", Some("a"), "18"));
    world.add(node("node-b", Some("b"), "2"));
    // With the endpoint in d for d alone, that of a would carry 1.9 of the average.
    assert_eq!(world.verdict(&in_own_zones(slice("ad"))), "Strip NoOverlap");
    let stored = in_own_zones(slice("ad"));
    assert_eq!(world.stored_hints(&stored, Some(&stored)), "- -");
}

#[test]
fn hints_that_keep_no_more_traffic_in_its_zone_than_none_are_not_given() {
    for zones in ["aa", "aaa", "aaaa"] {
        assert_eq!(
            overlap().verdict(&slice(zones)),
            "Strip NoBetterThanNone",
            "{zones}"
        );
        let sent = in_own_zones(slice(zones));
        assert_eq!(
            by_distribution().verdict(&sent),
            "Untouched NoBetterThanNone"
        );
    }
}

#[test]
fn a_namespace_mode_that_cannot_be_used_keeps_the_hints_of_those_who_opted_out_too() {
    let mut world = World::new(annotated("Disabled"));
    world.add(namespace(json!({"zonewise.dev/mode": "Obsrve"})));
    assert_eq!(world.verdict(&slice("abc")), "Kept InvalidAnnotation");
    let mut silent = World::new(json!({}));
    silent.add(namespace(json!({"zonewise.dev/mode": "Obsrve"})));
    assert_eq!(silent.verdict(&slice("abc")), "Untouched NotOptedIn");
}

#[test]
fn a_hint_that_a_homeless_endpoint_has_is_given_up_where_it_is_in_the_way() {
    let mut world = World::new(annotated("zonewise.dev/PreferZone"));
    world
        .objects
        .nodes
        .retain(|node| node["metadata"]["name"] != "node-c");
    let stored = with_hints(slice("xaab"), "a a a b");
    assert_eq!(world.stored_hints(&stored, Some(&stored)), "b a a b");
}

#[test]
fn a_slice_counts_on_others_for_nothing_that_they_cannot_do_behind_ports_that_it_lacks() {
    let mut world = overlap();
    world.objects.nodes.clear();
    world.add(node("node-a", Some("a"), "4"));
    world.add(node("node-b", Some("b"), "4"));
    let with_grpc = |name, zones, first| {
        let mut slice = slice_from(name, zones, first);
        let grpc = json!({"name": "grpc", "protocol": "TCP", "port": 9090});
        slice["ports"].as_array_mut().expect("ports").push(grpc);
        slice
    };
    let first = with_hints(with_grpc("web-1", "aaaa", 3), "a a b b");
    world.add(first);
    world.add(with_grpc("web-3", "ba", 7));
    // With both for zone b, web-3 would have to serve zone a twice, which leaves grpc too little for b.
    let second = slice_from("web-2", "bb", 1);
    assert_eq!(world.stored_hints(&second, None), "b a");
}
