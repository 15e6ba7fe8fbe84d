//! What `/mutate` does to slices.

use serde_json::{Value, json};

use crate::binary::{Serve, Setup, apply, write};
use crate::cluster::{
    self, TRIGGER_TIME, With as _, ZONES, balanced, endpoint, endpoints, hinted, hints, review,
    slice_of, web,
};

/// The zones of 4, 4 and 1 endpoints.
const LOPSIDED: [&str; 9] = [
    "zone-a", "zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-b", "zone-b", "zone-c",
];

fn pointer_to_trigger_time() -> String {
    format!("/metadata/annotations/{}", TRIGGER_TIME.replace('/', "~1"))
}

#[test]
fn every_endpoint_of_balanced_zones_is_hinted_for_its_own_zone() {
    let serve = Serve::sample();
    let slice = balanced();
    let written = serve.create(&slice);
    assert_eq!(written.stored, hinted(&slice, &ZONES));
    let add = |i: usize| json!({"op": "add", "path": format!("/endpoints/{i}/hints"), "value": hints(ZONES[i])});
    assert_eq!(written.patch, Some(vec![add(0), add(1), add(2)]));
    assert_eq!(
        serve.admitted(&[
            ("decision", "Hints"),
            ("operation", "CREATE"),
            ("reason", "")
        ]),
        1
    );
}

#[test]
fn a_crowded_zone_gives_one_endpoint_to_a_short_zone() {
    let serve = Serve::sample();
    let slice = web(endpoints(&LOPSIDED));
    let expected = [
        "zone-a", "zone-a", "zone-a", "zone-c", "zone-b", "zone-b", "zone-b", "zone-c", "zone-c",
    ];
    assert_eq!(serve.create(&slice).stored, hinted(&slice, &expected));
}

#[test]
fn zones_of_uneven_cpu_get_endpoints_in_proportion() {
    let cluster =
        cluster::nodes(&[("zone-a", 8), ("zone-b", 4)]) + &cluster::service("web", "Auto");
    let serve = Setup::new().cluster(&cluster).start();
    let slice = web(endpoints(&[
        "zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-b",
    ]));
    let expected = ["zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-a"];
    assert_eq!(serve.create(&slice).stored, hinted(&slice, &expected));
}

#[test]
fn hints_that_are_right_get_no_patch() {
    let serve = Serve::sample();
    let right = hinted(&balanced(), &ZONES);
    let written = serve.update(&right, &right);
    assert_eq!(written.patch, None);
    assert_eq!(written.stored, right);
}

#[test]
fn only_the_hint_that_is_wrong_is_patched() {
    let serve = Serve::sample();
    let wrong = hinted(&balanced(), &["zone-a", "zone-a", "zone-c"]);
    let written = serve.update(&wrong, &wrong);
    let replace = json!({"op": "replace", "path": "/endpoints/1/hints", "value": hints("zone-b")});
    assert_eq!(written.patch, Some(vec![replace]));
    assert_eq!(written.stored, hinted(&balanced(), &ZONES));
}

#[test]
fn fewer_endpoints_than_zones_lose_every_hint() {
    let serve = Serve::sample();
    let bare = web(endpoints(&["zone-a", "zone-b"]));
    let stale = hinted(&bare, &["zone-a", "zone-c"]);
    assert_eq!(serve.update(&stale, &stale).stored, bare);
    assert_eq!(
        serve.create(&bare).patch,
        None,
        "there is nothing to take away"
    );
    let refused = [
        ("decision", "Strip"),
        ("reason", "InsufficientNumberOfEndpoints"),
    ];
    assert_eq!(serve.admitted(&refused), 2);
}

#[test]
fn a_write_that_would_change_nothing_else_keeps_the_stored_trigger_time() {
    let serve = Serve::sample();
    let stored = hinted(&balanced(), &ZONES);
    let sent = balanced().with(&pointer_to_trigger_time(), json!("2026-02-02T02:02:02Z"));
    assert_eq!(serve.update(&sent, &stored).stored, stored);
    let stored_without = stored.without(&pointer_to_trigger_time());
    assert_eq!(serve.update(&sent, &stored_without).stored, stored_without);
}

#[test]
fn a_write_that_changes_an_endpoint_keeps_its_own_trigger_time() {
    let serve = Serve::sample();
    let stored = hinted(&balanced(), &ZONES);
    let sent = balanced()
        .with(&pointer_to_trigger_time(), json!("2026-02-02T02:02:02Z"))
        .with("/endpoints/0/addresses", json!(["10.0.9.9"]));
    assert_eq!(serve.update(&sent, &stored).stored, hinted(&sent, &ZONES));
}

#[test]
fn the_cached_siblings_of_a_slice_count_with_it() {
    let sibling =
        slice_of("web", endpoints(&["zone-a", "zone-b"])).with("/metadata/name", json!("web-2"));
    let serve = Setup::new()
        .cluster(&format!("{}---\n{sibling}\n", cluster::sample()))
        .start();
    let alone = web(vec![endpoint(7, "zone-c")]);
    assert_eq!(
        serve.create(&alone).stored,
        hinted(&alone, &["zone-c"]),
        "three endpoints over three zones"
    );
}

#[test]
fn what_is_no_slice_that_is_written_is_allowed_untouched() {
    let serve = Serve::sample();
    let slice = balanced();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}});
    let pods = review("CREATE", &pod, None)
        .with(
            "/request/kind",
            json!({"group": "", "version": "v1", "kind": "Pod"}),
        )
        .with(
            "/request/resource",
            json!({"group": "", "version": "v1", "resource": "pods"}),
        );
    let beta = json!({"group": "discovery.k8s.io", "version": "v1beta1", "kind": "EndpointSlice"});
    let create = || review("CREATE", &slice, None);
    let reviews = [
        ("a deletion", review("DELETE", &Value::Null, Some(&slice))),
        ("a connection", review("CONNECT", &slice, None)),
        ("a Pod", pods),
        ("another version", create().with("/request/kind", beta)),
        (
            "a subresource",
            create().with("/request/subResource", json!("status")),
        ),
        ("no object", create().with("/request/object", Value::Null)),
        ("no kind", create().without("/request/kind")),
    ];
    let count = reviews.len() as u64;
    for (what, review) in reviews {
        assert_eq!(apply(&serve.ask(&review), &slice).patch, None, "{what}");
    }
    assert_eq!(
        serve.admitted(&[("decision", "Untouched"), ("reason", "OtherKind")]),
        count
    );
}

#[test]
fn a_slice_of_no_service_or_of_one_that_did_not_opt_in_is_untouched() {
    let serve = Serve::sample();
    let orphan = balanced().without("/metadata/labels/kubernetes.io~1service-name");
    let unknown = slice_of("nobody", endpoints(&ZONES));
    let plain = slice_of("plain", endpoints(&ZONES));
    let stale = |slice: &Value| hinted(slice, &["zone-c", "zone-c", "zone-c"]);
    for slice in [&orphan, &unknown, &plain] {
        assert_eq!(serve.create(&stale(slice)).patch, None, "{slice}");
    }
    assert_eq!(serve.admitted(&[("reason", "UnknownService")]), 2);
    assert_eq!(serve.admitted(&[("reason", "NotOptedIn")]), 1);
}

#[test]
fn a_slice_with_a_generated_name_has_neither_name_nor_uid_and_is_hinted() {
    let serve = Serve::sample();
    let slice = balanced()
        .without("/metadata/name")
        .without("/metadata/uid")
        .without("/metadata/namespace")
        .with("/metadata/generateName", json!("web-"));
    assert_eq!(serve.create(&slice).stored, hinted(&slice, &ZONES));
}

#[test]
fn null_endpoints_and_null_ports_are_taken_for_none() {
    let serve = Serve::sample();
    for slice in [
        balanced().with("/endpoints", Value::Null),
        balanced().with("/endpoints", json!([])),
        balanced().without("/endpoints"),
    ] {
        assert_eq!(serve.create(&slice).patch, None, "{slice}");
    }
    let no_port = hinted(&balanced(), &ZONES).with("/ports", Value::Null);
    let expected = balanced().with("/ports", Value::Null);
    assert_eq!(
        serve.update(&no_port, &no_port).stored,
        expected,
        "kube-proxy takes nothing from it"
    );
}

#[test]
fn empty_hints_are_filled_or_taken_away() {
    let serve = Serve::sample();
    let empty = |slice: &Value| {
        let count = slice["endpoints"].as_array().unwrap().len();
        let empty = |slice: Value, i| slice.with(&format!("/endpoints/{i}/hints"), json!({}));
        (0..count).fold(slice.clone(), empty)
    };
    assert_eq!(
        serve.create(&empty(&balanced())).stored,
        hinted(&balanced(), &ZONES)
    );
    let few = web(endpoints(&["zone-a", "zone-b"]));
    assert_eq!(serve.create(&empty(&few)).stored, few);
}

#[test]
fn an_endpoint_that_is_not_ready_keeps_its_hint_and_one_that_does_not_say_is_ready() {
    let serve = Serve::sample();
    let slice = web(endpoints(&["zone-a", "zone-b", "zone-c", "zone-c"]))
        .without("/endpoints/0/conditions")
        .with("/endpoints/3/conditions/ready", json!(false));
    let stale = hinted(&slice, &["zone-c"; 4]);
    let expected = hinted(&slice, &["zone-a", "zone-b", "zone-c", "zone-c"]);
    assert_eq!(serve.update(&stale, &stale).stored, expected);
}

#[test]
fn node_hints_beside_zone_hints_are_dropped() {
    let serve = Serve::sample();
    let right = hinted(&balanced(), &ZONES);
    let noded = right.clone().with(
        "/endpoints/0/hints/forNodes",
        json!([{"name": "node-zone-a"}]),
    );
    assert_eq!(serve.update(&noded, &noded).stored, right);
}

#[test]
fn an_endpoint_without_a_zone_takes_that_of_its_node() {
    let serve = Serve::sample();
    let slice = balanced().without("/endpoints/1/zone");
    assert_eq!(serve.create(&slice).stored, hinted(&slice, &ZONES));
    let lost = slice.without("/endpoints/1/nodeName");
    let stale = hinted(&lost, &ZONES);
    assert_eq!(serve.update(&stale, &stale).stored, lost);
    assert_eq!(
        serve.admitted(&[("decision", "Strip"), ("reason", "NoZoneSpecified")]),
        1
    );
}

#[test]
fn a_thousand_endpoints_are_hinted_in_one_answer() {
    let serve = Serve::sample();
    // 500, 300 and 200: each zone's share is a third, so at least 278 must serve it.
    let zone = |i| {
        if i < 500 {
            ZONES[0]
        } else if i < 800 {
            ZONES[1]
        } else {
            ZONES[2]
        }
    };
    let slice = web((0..1000).map(|i| endpoint(i, zone(i))).collect());
    let written = serve.create(&slice);
    let hint = |i: usize| written.stored["endpoints"][i]["hints"]["forZones"][0]["name"].clone();
    let count = |zone: &str| (0..1000).filter(|&i| hint(i) == zone).count();
    let counts = ZONES.map(count);
    assert_eq!(counts.iter().sum::<usize>(), 1000);
    assert!(
        counts.iter().all(|count| (333..=334).contains(count)),
        "{counts:?}"
    );
    let zones: Vec<String> = (0..1000)
        .map(|i| hint(i).as_str().unwrap().to_owned())
        .collect();
    let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
    assert_eq!(
        written.stored,
        hinted(&slice, &zones),
        "nothing but hints changes"
    );
    assert_eq!(
        serve.update(&written.stored, &written.stored).patch,
        None,
        "what was planned stands"
    );
}

#[test]
fn escapes_in_texts_are_read_as_json_says() {
    let serve = Serve::sample();
    let slice = balanced();
    let text = review("CREATE", &slice, None).to_string();
    let escaped = text
        .replace("zone-b", r"zone\u002db")
        .replace("shop", r"\u0073hop");
    assert_ne!(escaped, text);
    let answer = serve.connect().post("/mutate", escaped.as_bytes());
    assert_eq!(apply(&answer, &slice).stored, hinted(&slice, &ZONES));
}

#[test]
fn a_panic_in_deciding_costs_no_more_than_its_own_patch() {
    let serve = Serve::with(&[("--panic-on-service", "shop/api")]);
    let mut connection = serve.connect();
    let doomed = slice_of("api", endpoints(&ZONES));
    assert_eq!(write(&mut connection, "CREATE", &doomed, None).patch, None);
    assert_eq!(
        write(&mut connection, "UPDATE", &doomed, Some(&doomed)).patch,
        None
    );
    let slice = balanced();
    let next = write(&mut connection, "CREATE", &slice, None);
    assert_eq!(
        next.stored,
        hinted(&slice, &ZONES),
        "the next request, over the same connection"
    );
    assert_eq!(
        serve.admitted(&[("decision", "Untouched"), ("reason", "Panic")]),
        2
    );
    let line = serve.wait_for_log("of the panic", |line| line["level"] == "ERROR");
    assert_eq!(line["message"], "panic: asked to by --panic-on-service");
}

#[test]
fn observing_decides_and_counts_but_patches_nothing() {
    let serve = Serve::with(&[("--mode", "Observe")]);
    let stale = hinted(&balanced(), &["zone-c"; 3]);
    assert_eq!(serve.create(&stale).patch, None);
    assert_eq!(serve.admitted(&[("decision", "Hints"), ("reason", "")]), 1);
    let line = &serve.logged_decisions()[0];
    assert_eq!(
        (&line["service"], &line["decision"]),
        (&json!("shop/web"), &json!("Hints"))
    );
}

#[test]
fn switched_off_it_leaves_every_slice_alone() {
    let serve = Serve::with(&[("--mode", "off")]);
    let stale = hinted(&balanced(), &["zone-c"; 3]);
    assert_eq!(serve.update(&stale, &stale).patch, None);
    assert_eq!(
        serve.admitted(&[("decision", "Untouched"), ("reason", "ModeOff")]),
        1
    );
}

#[test]
fn its_own_service_and_that_of_the_api_server_are_left_alone() {
    let serve = Serve::with(&[("--own-service", "shop/web")]);
    let kubernetes =
        slice_of("kubernetes", endpoints(&ZONES)).with("/metadata/namespace", json!("default"));
    let asked = review("CREATE", &kubernetes, None).with("/request/namespace", json!("default"));
    assert_eq!(apply(&serve.ask(&asked), &kubernetes).patch, None);
    assert_eq!(serve.create(&balanced()).patch, None);
    assert_eq!(
        serve.admitted(&[("decision", "Untouched"), ("reason", "ReservedService")]),
        2
    );
}

#[test]
fn a_dry_run_is_answered_like_any_write() {
    let serve = Serve::sample();
    let slice = balanced();
    let dry = review("CREATE", &slice, None).with("/request/dryRun", json!(true));
    assert_eq!(
        apply(&serve.ask(&dry), &slice).stored,
        hinted(&slice, &ZONES)
    );
}
