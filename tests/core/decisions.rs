//! What is decided for a slice, and what its patch does, on clusters that fit a screen.

mod heuristics;

use std::path::Path;

use serde_json::{Value, json};
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::slice::{SliceRecord, service_of};
use zonewise::cluster::store::{StoreRules, Writer};
use zonewise::decide::{Decision, Snapshot, Verdict, decide};
use zonewise::planner::heuristic::Heuristic;
use zonewise::settings::{Mode, Settings};
use zonewise::webhook::mutate::patch_for;
use zonewise::webhook::stored::{StoredEndpoints, take_stored_hints};

/// A cluster in which each of zones a, b and c has one node of four cores.
struct World {
    objects: Objects,
    settings: Settings,
}

impl World {
    fn new(service: Value) -> Self {
        let mut world = Self {
            objects: Objects::default(),
            settings: Settings::default(),
        };
        for zone in ["a", "b", "c"] {
            world.add(node(&format!("node-{zone}"), Some(zone), "4"));
        }
        let mut whole = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}});
        merge(&mut whole, service);
        world.add(whole);
        world
    }

    fn auto() -> Self {
        Self::new(annotated("Auto"))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "reads better where it is called"
    )]
    fn add(&mut self, object: Value) -> &mut Self {
        self.objects
            .add_text(Path::new("test"), &object.to_string())
            .unwrap();
        self
    }

    fn writer(&self) -> Writer {
        self.objects.load(StoreRules::default(), crate::now())
    }

    /// Decides on `slice`, which is about to be stored in place of `old`.
    fn decide(&self, slice: &Value, old: Option<&Value>) -> Decision {
        let cluster = self.writer().cluster();
        let wire = typed_slice(slice).unwrap();
        let old = old.map(|old| typed_slice(old).unwrap());
        let mut record = SliceRecord::read(&wire);
        take_stored_hints(&mut record, &wire, &StoredEndpoints::of(old.as_ref()));
        let service = service_of(&wire);
        let snapshot = Snapshot::take(&cluster, service.as_deref());
        decide(&snapshot, service.as_deref(), &record, &self.settings)
    }

    /// Verdict and reason, such as `Strip OptedOut`.
    fn verdict(&self, slice: &Value) -> String {
        let decision = self.decide(slice, None);
        let reason = decision
            .reason
            .map(|reason| reason.word())
            .unwrap_or_default();
        format!("{} {reason}", decision.verdict.word())
            .trim()
            .to_owned()
    }

    /// The hints of each endpoint, as `a` or `-`, once the slice is stored in place of `old`.
    fn stored_hints(&self, slice: &Value, old: Option<&Value>) -> String {
        let decision = self.decide(slice, old);
        let (typed, old) = (
            typed_slice(slice).unwrap(),
            old.map(|old| typed_slice(old).unwrap()),
        );
        let mut stored = slice.clone();
        if let Some(patch) = patch_for(&decision, &typed, old.as_ref(), || None) {
            let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
            json_patch::patch(&mut stored, &patch).unwrap();
        }
        let hint = |endpoint: &Value| match endpoint.pointer("/hints/forZones") {
            Some(zones) => zones
                .as_array()
                .unwrap()
                .iter()
                .map(|z| z["name"].as_str().unwrap())
                .collect(),
            None => "-".to_owned(),
        };
        let hints: Vec<String> = stored["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(hint)
            .collect();
        hints.join(" ")
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter()
                .for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

/// Gives an object an annotation.
pub fn annotate(object: &mut Value, key: &str, value: &str) {
    merge(object, json!({"metadata": {"annotations": {key: value}}}));
}

fn annotated(mode: &str) -> Value {
    json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": mode}}})
}

fn node(name: &str, zone: Option<&str>, cpu: &str) -> Value {
    let labels = zone.map_or_else(
        || json!({}),
        |zone| json!({"topology.kubernetes.io/zone": zone}),
    );
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A slice of shop/web whose endpoints stand in the zones named by the letters of `zones`; a capital is not ready, and
/// `?` says nothing of its zone. `first` is the number of its first address.
fn slice_from(name: &str, zones: &str, first: usize) -> Value {
    let endpoint = |(i, zone): (usize, char)| {
        let mut endpoint = json!({"addresses": [format!("10.0.0.{}", first + i)],
            "conditions": {"ready": zone.is_lowercase() || zone == '?'}});
        if zone != '?' {
            endpoint["zone"] = zone.to_lowercase().to_string().into();
        }
        endpoint
    };
    json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": zones.chars().enumerate().map(endpoint).collect::<Vec<_>>()})
}

fn slice(zones: &str) -> Value {
    slice_from("web-1", zones, 1)
}

fn hinted(mut slice: Value, hints: &str) -> Value {
    for (endpoint, zone) in slice["endpoints"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(hints.split(' '))
    {
        endpoint["hints"] = json!({"forZones": [{"name": zone}]});
    }
    slice
}

#[test]
fn every_ready_endpoint_gets_one_hint_in_proportion_to_cpu() {
    assert_eq!(
        World::auto().stored_hints(&slice("aaaabbbbc"), None),
        "a a a c b b b c c"
    );
}

#[test]
fn an_endpoint_that_is_not_ready_has_a_hint_for_a_zone_that_a_ready_one_names() {
    let world = World::auto();
    let hints = |stored: &str| {
        let stored = hinted(slice("aabbccC"), stored);
        world.stored_hints(&slice("aabbccC"), Some(&stored))
    };
    assert_eq!(hints("a a b b c c b"), "a a b b c c b", "the stored one");
    assert_eq!(hints("a a b b c c x"), "a a b b c c c", "its own zone");
    assert_eq!(world.stored_hints(&slice("aabbccX"), None), "a a b b c c a");
    assert_eq!(
        world.stored_hints(&slice("aaabbccX"), None),
        "a a a b b c c b",
        "the zone with the highest load"
    );
    let none_ready = hinted(slice("ABC"), "a b c");
    assert_eq!(world.stored_hints(&none_ready, Some(&none_ready)), "- - -");
}

#[test]
fn an_endpoint_that_is_not_ready_names_no_zone_that_ready_ones_name_behind_another_port_alone() {
    let mut world = World::auto();
    let mut grpc = slice_from("web-2", "abc", 11);
    grpc["ports"][0]["name"] = "grpc".into();
    world.add(hinted(grpc, "a b c"));
    let mut both = slice("aabbccC");
    let port = json!({"name": "grpc", "protocol": "TCP", "port": 9090});
    both["ports"].as_array_mut().expect("ports").push(port);
    let stored = hinted(both.clone(), "a a b b c c b");
    assert_eq!(world.stored_hints(&both, Some(&stored)), "a a b b c c b");
    // Only the other slice has ready endpoints, behind the other port.
    let waiting = slice("C");
    assert_eq!(world.stored_hints(&waiting, Some(&waiting)), "c");
}

#[test]
fn too_few_endpoints_leave_no_hint() {
    let world = World::auto();
    assert_eq!(
        world.verdict(&slice("ab")),
        "Strip InsufficientNumberOfEndpoints"
    );
    assert_eq!(
        world.verdict(&slice("abca")),
        "Strip MinAllocationExceedsOverloadThreshold"
    );
    assert_eq!(world.stored_hints(&hinted(slice("ab"), "a b"), None), "- -");
}

#[test]
fn each_service_says_whether_it_wants_hints() {
    let verdict = |service: Value| World::new(service).verdict(&slice("abc"));
    assert_eq!(verdict(json!({})), "Untouched NotOptedIn");
    assert_eq!(verdict(annotated("auto")), "Hints");
    assert_eq!(verdict(annotated("Disabled")), "Strip OptedOut");
    assert_eq!(
        verdict(annotated("example.com/x")),
        "Untouched OtherHeuristic"
    );
    assert_eq!(verdict(annotated("")), "Untouched OtherHeuristic");
    assert_eq!(
        verdict(json!({"spec": {"trafficDistribution": "PreferSameZone"}})),
        "Untouched LeftToKubernetes"
    );
    assert_eq!(
        verdict(json!({"spec": {"trafficDistribution": "PreferClose"}})),
        "Untouched LeftToKubernetes"
    );
    assert_eq!(
        verdict(json!({"spec": {"trafficDistribution": "PreferSameNode"}})),
        "Untouched PreferSameNode"
    );
    let mut both = annotated("Disabled");
    merge(
        &mut both,
        json!({"spec": {"trafficDistribution": "PreferSameZone"}}),
    );
    assert_eq!(verdict(both), "Untouched OptedOut");
}

#[test]
fn services_for_which_kube_proxy_uses_no_hints_are_left_alone() {
    let verdict = |more: Value| {
        let mut service = annotated("Auto");
        merge(&mut service, more);
        World::new(service).verdict(&slice("abc"))
    };
    assert_eq!(
        verdict(json!({"spec": {"clusterIP": "None"}})),
        "Untouched Headless"
    );
    let proxy = json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": ""}}});
    assert_eq!(verdict(proxy), "Untouched OtherServiceProxy");
    let local = json!({"spec": {"internalTrafficPolicy": "Local"}});
    assert_eq!(verdict(local), "Untouched InternalTrafficPolicyLocal");
    let open = json!({"spec": {"internalTrafficPolicy": "Local", "ports": [{"port": 80, "nodePort": 30000}]}});
    assert_eq!(verdict(open), "Hints");
}

#[test]
fn slices_of_nobody_and_of_reserved_services_are_left_alone() {
    let mut world = World::auto();
    let mut orphan = slice("abc");
    orphan["metadata"]["labels"] = json!({});
    assert_eq!(world.verdict(&orphan), "Untouched UnknownService");
    let mut stranger = slice("abc");
    stranger["metadata"]["labels"]["kubernetes.io/service-name"] = "nobody".into();
    assert_eq!(world.verdict(&stranger), "Untouched UnknownService");
    let mut names = slice("abc");
    names["addressType"] = "FQDN".into();
    assert_eq!(world.verdict(&names), "Untouched UnsupportedAddressType");
    world.settings.own_service = Some("shop/web".into());
    assert_eq!(world.verdict(&slice("abc")), "Untouched ReservedService");
    world.settings.mode = Mode::Off;
    assert_eq!(world.verdict(&slice("abc")), "Untouched ModeOff");
}

#[test]
fn an_endpoint_without_a_zone_takes_that_of_its_node() {
    let world = World::auto();
    let mut sent = slice("ab?");
    sent["endpoints"][2]["nodeName"] = "node-c".into();
    assert_eq!(world.stored_hints(&sent, None), "a b c");
    sent["endpoints"][2]["nodeName"] = "node-x".into();
    let decision = world.decide(&sent, None);
    assert_eq!(decision.verdict, Verdict::Strip);
    assert!(
        decision.message().contains("10.0.0.3"),
        "{}",
        decision.message()
    );
}

#[test]
fn only_a_ready_endpoint_can_lack_a_zone() {
    let mut sent = slice("abc?");
    sent["endpoints"][3]["conditions"]["ready"] = false.into();
    assert_eq!(World::auto().stored_hints(&sent, None), "a b c a");
}

#[test]
fn an_endpoint_in_a_zone_without_capacity_is_hinted_for_one_that_has() {
    let mut sent = slice("abx");
    assert_eq!(World::auto().stored_hints(&sent, None), "a b c");
    sent["endpoints"][2]["zone"] = "No label value! Ever.".into();
    assert_eq!(World::auto().stored_hints(&sent, None), "a b c");
}

#[test]
fn one_node_without_a_zone_strips_and_is_named() {
    let mut world = World::auto();
    world.add(node("node-x", None, "4"));
    let decision = world.decide(&slice("abc"), None);
    assert_eq!(
        decision
            .reason
            .as_ref()
            .map(zonewise::planner::reason::Reason::word),
        Some("InsufficientNodeInfo")
    );
    assert!(
        decision.message().contains("node-x"),
        "{}",
        decision.message()
    );
}

#[test]
fn an_address_in_two_slices_counts_once() {
    let mut world = World::auto();
    // While it moves, 10.0.0.3 stands in both slices: three endpoints for three zones, not four.
    world.add(hinted(slice_from("web-2", "c", 3), "c"));
    assert_eq!(world.stored_hints(&slice("abc"), None), "a b c");
    let mut twice = slice("abcc");
    twice["endpoints"][3]["addresses"][0] = "10.0.0.3".into();
    assert_eq!(world.stored_hints(&twice, None), "a b c c");
}

#[test]
fn no_node_follows_hints_while_another_has_a_copy_without() {
    for mode in ["zonewise.dev/Overlap", "zonewise.dev/PreferZone"] {
        let annotations = json!({"service.kubernetes.io/topology-mode": mode});
        let mut world = World::new(json!({"metadata": {"annotations": annotations}}));
        world.objects.nodes.clear();
        world.add(node("node-a", Some("a"), "4"));
        world.add(node("node-b", Some("b"), "4"));
        // Nothing fits behind its second port, so it stays without.
        let mut both = slice("aab");
        both["metadata"]["name"] = "web-both".into();
        let grpc = json!({"name": "grpc", "protocol": "TCP", "port": 9090});
        both["ports"].as_array_mut().expect("ports").push(grpc);
        world.add(both.clone());
        let http = slice("aabb");
        assert_eq!(world.verdict(&http), "Strip PortOverloaded", "{mode}");
        world.add(hinted(http, "a a b b"));
        assert_eq!(world.verdict(&both), "Strip PortOverloaded", "{mode}");
    }
}

#[test]
fn of_one_address_in_one_slice_kube_proxy_sees_the_last_copy_that_does_not_end() {
    let world = World::auto();
    let copies = |zones: &str, unready: &[usize], ending: &[usize]| {
        let mut slice = slice(zones);
        slice["endpoints"][3]["addresses"][0] = "10.0.0.1".into();
        for &place in unready {
            slice["endpoints"][place]["conditions"] = json!({"ready": false});
        }
        for &place in ending {
            slice["endpoints"][place]["conditions"] = json!({"ready": true, "terminating": true});
        }
        slice
    };
    // Zone a has no endpoint, and two are too few; the copy that nobody sees does not count.
    assert_eq!(
        world.verdict(&copies("abca", &[3], &[])),
        "Strip InsufficientNumberOfEndpoints"
    );
    assert_eq!(
        world.stored_hints(&copies("abca", &[0], &[]), None),
        "a b c a"
    );
    // All that are ready have a hint, seen or not.
    assert_eq!(
        world.stored_hints(&copies("bbca", &[], &[]), None),
        "a b c a"
    );
    assert_eq!(
        world.stored_hints(&copies("abcaa", &[3], &[]), None),
        "b b c a a"
    );
    // Of those that end the first counts, unless another does not end.
    assert_eq!(
        world.stored_hints(&copies("abcc", &[], &[0, 3]), None),
        "a b c a"
    );
    assert_eq!(
        world.stored_hints(&copies("abcc", &[], &[3]), None),
        "a b c a"
    );
}

#[test]
fn a_slice_without_a_usable_port_counts_nowhere_and_has_no_hints() {
    let mut world = World::auto();
    let mut portless = hinted(slice_from("web-2", "ccc", 11), "c c c");
    portless["ports"] = Value::Null;
    world.add(portless.clone());
    assert_eq!(
        world.verdict(&slice("ab")),
        "Strip InsufficientNumberOfEndpoints"
    );
    world.add(slice("abc"));
    assert_eq!(world.stored_hints(&portless, None), "- - -");
}

#[test]
fn each_port_by_itself_must_meet_the_minima() {
    let mut world = World::auto();
    let mut metrics = slice_from("web-2", "abc", 11);
    metrics["ports"] = json!([{"name": "metrics", "protocol": "TCP", "port": 9090}]);
    world.add(metrics.clone());
    assert_eq!(world.verdict(&slice("abc")), "Hints");
    let mut in_one_zone = slice_from("web-2", "aaa", 11);
    in_one_zone["ports"] = metrics["ports"].clone();
    let mut world = World::auto();
    world.add(in_one_zone.clone());
    assert_eq!(world.stored_hints(&slice("abbbcc"), None), "a b b a c c");
    assert_eq!(world.stored_hints(&in_one_zone, None), "a b c");
    let mut too_few = slice_from("web-2", "aa", 11);
    too_few["ports"] = metrics["ports"].clone();
    let mut world = World::auto();
    world.add(too_few);
    assert_eq!(world.verdict(&slice("abbbcca")), "Strip PortBelowMinimum");
    // The same name with another number is the same set.
    let mut renumbered = slice_from("web-4", "c", 31);
    renumbered["ports"][0]["port"] = 8081.into();
    assert_eq!(
        World::auto()
            .add(renumbered)
            .stored_hints(&slice("ab"), None),
        "a b"
    );
}

#[test]
fn siblings_with_hints_of_another_plan_are_planned_around() {
    let mut world = World::auto();
    // Stored alone, web-2 serves a and b more than its part of any plan for both would.
    world.add(hinted(slice_from("web-2", "aabb", 11), "a a b b"));
    assert_eq!(world.stored_hints(&slice("aabbcc"), None), "a c b b c c");
    let hints = world.stored_hints(&slice("ccaaab"), None);
    assert_eq!(
        hints.matches('c').count(),
        3,
        "{hints}: all that c needs must come from this slice"
    );
}

#[test]
fn a_slice_that_no_hints_fit_beside_its_siblings_goes_without_until_they_are_written() {
    let in_b = slice_from("web-2", "bbbbbb", 11);
    let mut world = World::auto();
    world.add(hinted(in_b.clone(), "b b b b b b"));
    assert_eq!(world.verdict(&slice("abc")), "Strip SiblingsOutOfStep");
    let mut world = World::auto();
    world.add(slice("abc"));
    let mended = world.stored_hints(&in_b, Some(&hinted(in_b.clone(), "b b b b b b")));
    assert_eq!(mended, "c a c b b b");
    world.add(hinted(in_b, &mended));
    assert_eq!(world.stored_hints(&slice("abc"), None), "a a c");
}

#[test]
fn one_address_with_two_numbers_of_a_port_counts_twice() {
    let mut world = World::auto();
    // As two rollouts of pods in the host's network: kube-proxy sends traffic to each number.
    world.add(hinted(
        slice_from("web-2", "aaabbbccc", 1),
        "a a a b b b c c c",
    ));
    let mut renumbered = slice("aaa");
    renumbered["ports"][0]["port"] = 8081.into();
    let hints = world.stored_hints(&renumbered, None);
    let mut zones: Vec<&str> = hints.split(' ').collect();
    zones.sort_unstable();
    assert_eq!(zones, ["a", "b", "c"]);
}

#[test]
fn a_copy_without_a_hint_behind_another_port_hides_none_behind_this() {
    let mut world = World::auto();
    world.add(hinted(slice_from("web-2", "bbbbbb", 11), "b b b b b b"));
    let mut bare = slice_from("web-3", "bbbbbb", 11);
    bare["ports"] = json!([{"name": "metrics", "protocol": "TCP", "port": 9090}]);
    world.add(bare);
    assert_eq!(world.verdict(&slice("abc")), "Strip SiblingsOutOfStep");
}

#[test]
fn a_slice_does_not_wait_for_ports_that_it_does_not_have() {
    let mut others = hinted(slice_from("web-2", "bbbbbb", 11), "b b b b b b");
    others["ports"] = json!([{"name": "metrics", "protocol": "TCP", "port": 9090}]);
    let mut world = World::auto();
    world.add(others);
    assert_eq!(world.stored_hints(&slice("abc"), None), "a b c");
}

#[test]
fn an_endpoint_that_moves_to_another_slice_keeps_its_hint() {
    let mut world = World::auto();
    world.add(hinted(
        slice_from("web-2", "aaaaabbbbccccc", 11),
        "c a a a a b b b b c c c c c",
    ));
    let mut moving = slice("a");
    moving["endpoints"][0]["addresses"] = json!(["10.0.0.11"]);
    assert_eq!(world.stored_hints(&moving, None), "c");
    // kube-proxy takes one of the two for the address, and nobody knows which: both must say the same.
    let stored = hinted(moving.clone(), "a");
    assert_eq!(world.stored_hints(&moving, Some(&stored)), "c");
}

#[test]
fn a_slice_without_ready_endpoints_leaves_what_the_others_have() {
    let mut world = World::auto();
    world.add(hinted(slice_from("web-2", "aaab", 11), "a a a b"));
    assert_eq!(
        world.stored_hints(&slice("BBB"), Some(&hinted(slice("BBB"), "b b b"))),
        "- - -"
    );
}

#[test]
fn a_slice_whose_siblings_have_hints_of_another_heuristic_waits_for_them() {
    let mut several = hinted(slice_from("web-2", "abc", 11), "a b c");
    several["endpoints"][0]["hints"]["forZones"] = json!([{"name": "a"}, {"name": "b"}]);
    let mut world = World::auto();
    world.add(several.clone());
    assert_eq!(world.verdict(&slice("abc")), "Strip SiblingsOutOfStep");
    let mut world = World::auto();
    world.add(slice("abc"));
    assert_eq!(world.stored_hints(&several, Some(&several)), "a b c");
}

#[test]
fn a_zone_that_is_gone_costs_nobody_else_their_hints() {
    let mut world = World::auto();
    // The zone of the third endpoint has no node any more.
    world.add(hinted(slice_from("web-2", "abx", 11), "a b x"));
    assert_eq!(world.stored_hints(&slice("abcabcc"), None), "a b c a b c c");
}

#[test]
fn hints_that_were_stored_stay_though_the_controller_leaves_them_out() {
    let world = World::auto();
    let sent = slice("aaaaaaaabbbbbbbccccccc");
    let (fresh, kept) = (
        "a a a a a a a a b b b b b b b c c c c c c c",
        "c a a a a a a a b b b b b b b c c c c c c c",
    );
    let stored = hinted(sent.clone(), kept);
    assert_eq!(world.stored_hints(&sent, None), fresh);
    assert_eq!(world.stored_hints(&sent, Some(&stored)), kept);
    // Another pod on the address is another endpoint.
    let mut replaced = sent;
    replaced["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "uid": "new"});
    assert_eq!(world.stored_hints(&replaced, Some(&stored)), fresh);
}

#[test]
fn only_a_slice_with_the_hints_that_are_decided_is_as_decided() {
    let world = World::auto();
    let is_carried_out = |slice: &Value| {
        let record = SliceRecord::read(&typed_slice(slice).unwrap());
        world.decide(slice, Some(slice)).is_carried_out(&record)
    };
    let right = hinted(slice("abcA"), "a b c a");
    assert!(is_carried_out(&right));
    assert!(!is_carried_out(&slice("abcA")), "no hints");
    let abroad = hinted(slice("abcA"), "a b c x");
    assert!(
        !is_carried_out(&abroad),
        "a zone that no ready endpoint names"
    );
    let mut for_node = right.clone();
    for_node["endpoints"][0]["hints"]["forNodes"] = json!([{"name": "node-a"}]);
    assert!(!is_carried_out(&for_node), "a hint for a node");
    assert!(
        is_carried_out(&slice("ab")),
        "too few endpoints, and no hints"
    );
    assert!(
        !is_carried_out(&hinted(slice("ab"), "a b")),
        "too few endpoints"
    );
}

#[test]
fn many_uneven_ports_are_not_all_looked_at() {
    let mut world = World::auto();
    let ports = |range: std::ops::Range<u32>| -> Value {
        let port = |n| json!({"name": format!("p{n}"), "protocol": "TCP", "port": 1});
        range.map(port).collect()
    };
    for n in 0..257 {
        let mut sibling = slice_from(&format!("web-{}", n + 2), "", 11);
        sibling["ports"] = ports(n..n + 1);
        world.add(sibling);
    }
    assert_eq!(world.verdict(&slice("abc")), "Strip TooManyPorts");
    let mut world = World::auto();
    let mut wide = slice_from("web-2", "abc", 11);
    wide["ports"] = ports(0..20_000);
    world.add(wide);
    let mut other = slice("abc");
    other["ports"] = ports(10_000..30_000);
    assert_eq!(world.verdict(&other), "Hints", "three sets of ports");
}

#[test]
fn without_a_decision_the_stored_hints_come_back() {
    let mut world = World::auto();
    let mut odd = slice_from("web-2", "abc", 11);
    odd["endpoints"][0]["conditions"]["ready"] = "yes".into();
    world.add(odd);
    let stored = hinted(slice("abc"), "b c a");
    assert_eq!(world.verdict(&slice("abc")), "Kept UnreadableObject");
    assert_eq!(world.stored_hints(&slice("abc"), Some(&stored)), "b c a");
    assert_eq!(world.stored_hints(&slice("abcA"), Some(&stored)), "b c a b");
    // A new endpoint would be left without a hint, and one is enough for kube-proxy to ignore all.
    assert_eq!(world.stored_hints(&slice("abca"), Some(&stored)), "- - - -");
}

#[test]
fn a_replica_that_has_not_synced_keeps_what_is_stored() {
    let cluster = Writer::new(StoreRules::default()).cluster();
    let sent = typed_slice(&slice("abc")).unwrap();
    let snapshot = Snapshot::take(&cluster, Some("shop/web"));
    let decision = decide(
        &snapshot,
        Some("shop/web"),
        &SliceRecord::read(&sent),
        &Settings::default(),
    );
    assert_eq!(
        (decision.verdict, decision.reason.map(|r| r.word())),
        (Verdict::Kept, Some("NotSynced"))
    );
}
