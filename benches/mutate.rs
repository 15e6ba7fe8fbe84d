//! Times one call of `mutate`: from the bytes of a review, as an API server writes it, to the bytes of its answer.
//!
//! - `bare`: neither the slice nor what is stored has hints, so each endpoint gets one.
//! - `idle`: a sync that changes nothing: what is stored has the hints, and the trigger time is put back too.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use jiff::Timestamp;
use zonewise::cluster::files::Objects;
use zonewise::cluster::store::{Cluster, StoreRules};
use zonewise::settings::Settings;
use zonewise::webhook::mutate::{Answer, mutate};

const SIZES: [usize; 3] = [12, 100, 1000];

/// In proportion to the CPU in peers/cluster.yaml, so that each endpoint is hinted for its own zone.
const ZONES: [&str; 4] = ["zone-a", "zone-a", "zone-b", "zone-c"];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let cluster = cluster();
    for (name, stored_hints) in [("bare", false), ("idle", true)] {
        let mut group = criterion.benchmark_group(name);
        for endpoints in SIZES {
            let body = review(endpoints, stored_hints);
            let answer = answer(&body, &cluster);
            assert_eq!(answer.decision, "Hints", "{}", answer.reason);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(BenchmarkId::from_parameter(endpoints), |bencher| {
                bencher.iter(|| answer_again(&body, &cluster));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

fn answer(body: &str, cluster: &Cluster) -> Answer {
    mutate(body.as_bytes(), cluster, &Settings::default()).expect("it is a review")
}

fn answer_again(body: &str, cluster: &Cluster) -> Answer {
    answer(black_box(body), cluster)
}

/// The nodes and the Service of the peer's cluster.
fn cluster() -> Arc<Cluster> {
    let mut objects = Objects::default();
    objects
        .add_text(
            Path::new("peers/cluster.yaml"),
            include_str!("peers/cluster.yaml"),
        )
        .expect("the peer's cluster can be read");
    objects
        .load(StoreRules::default(), Timestamp::now())
        .cluster()
}

/// An UPDATE by the EndpointSlice controller.
fn review(endpoints: usize, stored_hints: bool) -> String {
    let kind = r#"{"group":"discovery.k8s.io","version":"v1","kind":"EndpointSlice"}"#;
    let resource = r#"{"group":"discovery.k8s.io","version":"v1","resource":"endpointslices"}"#;
    let object = slice(endpoints, "2026-03-09T16:40:31Z", false);
    let old_object = slice(endpoints, "2026-03-09T16:40:12Z", stored_hints);
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"c97ace4c-8fef-4cee-8fa0-f3c9f52aab18","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"web-275nt","namespace":"shop","operation":"UPDATE","userInfo":{{"username":"system:serviceaccount:kube-system:endpointslice-controller","uid":"256e61f0-f7e3-4cf5-9eb5-e3dc97e38ddf","groups":["system:serviceaccounts","system:serviceaccounts:kube-system","system:authenticated"]}},"object":{object},"oldObject":{old_object},"dryRun":false,"options":{{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
    )
}

fn slice(endpoints: usize, time: &str, hints: bool) -> String {
    let mut list = String::new();
    for number in 0..endpoints {
        let comma = if number == 0 { "" } else { "," };
        write!(list, "{comma}{}", endpoint(number, hints)).expect("memory takes all writes");
    }
    format!(
        r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"web-275nt","generateName":"web-","namespace":"shop","uid":"79de8357-ee7d-40ea-9c5f-15f836c2fd40","resourceVersion":"1846702","generation":118,"creationTimestamp":"2026-03-02T08:14:55Z","labels":{{"app":"web","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"web"}},"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{time}"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Service","name":"web","uid":"2f0c8f5e-6c0f-4d6b-9a43-0b7a5d1c9e27","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"discovery.k8s.io/v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:addressType":{{}},"f:endpoints":{{}},"f:metadata":{{"f:annotations":{{".":{{}},"f:endpoints.kubernetes.io/last-change-trigger-time":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:endpointslice.kubernetes.io/managed-by":{{}},"f:kubernetes.io/service-name":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"2f0c8f5e-6c0f-4d6b-9a43-0b7a5d1c9e27\"}}":{{}}}}}},"f:ports":{{}}}}}}]}},"addressType":"IPv4","endpoints":[{list}],"ports":[{{"name":"http","protocol":"TCP","port":8080}}]}}"#
    )
}

fn endpoint(number: usize, hint: bool) -> String {
    let zone = ZONES[number % ZONES.len()];
    let hints = if hint {
        format!(r#","hints":{{"forZones":[{{"name":"{zone}"}}]}}"#)
    } else {
        String::new()
    };
    format!(
        r#"{{"addresses":["10.244.{}.{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"targetRef":{{"kind":"Pod","namespace":"shop","name":"storefront-web-q4tr257rtp-{number:05}","uid":"e832ed6a-d5b2-4fe8-8a2b-1aa5be{number:06}"}},"nodeName":"production-workers-{zone}-tpbknbjs-6cnk","zone":"{zone}"{hints}}}"#,
        number / 250,
        number % 250 + 2,
    )
}
