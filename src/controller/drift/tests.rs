use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::cluster::files::Objects;
use crate::cluster::slice::{MANAGED_BY_LABEL, Manager};
use crate::cluster::store::{StoreRules, Writer};
use crate::cluster::wire::{EndpointSlice, Node, Service};
use crate::controller::events::Pace;
use crate::controller::lease::{Candidate, LeaseSettings};
use crate::controller::metrics::{PatchLabels, ServiceLabels};

/// An API server that has one Lease and takes Events and patches. Of slices that it stores it applies JSON patches.
#[derive(Clone)]
struct ApiServer {
    stored: Arc<Mutex<Stored>>,
    /// Whether patches are kept waiting.
    holds: watch::Sender<bool>,
}

#[derive(Default)]
struct Stored {
    calls: usize,
    lease: Option<Value>,
    writes_of_lease: u64,
    patched: Vec<String>,
    slices: Vec<Value>,
    events: Vec<(String, String)>,
    configuration: Option<Value>,
}

impl ApiServer {
    /// With a Lease that is free.
    fn new() -> Self {
        let server = Self::without_lease();
        server.lease_becomes(&json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
        server
    }

    fn without_lease() -> Self {
        Self {
            stored: Arc::default(),
            holds: watch::Sender::new(false),
        }
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease_becomes(&self, spec: &Value) {
        let given_up = json!({"zonewise.dev/released-by": "z-9"});
        let metadata = json!({"uid": "u", "annotations": given_up});
        self.stored()
            .write(json!({"metadata": metadata, "spec": spec}));
    }

    fn holder(&self) -> String {
        let lease = self.stored().lease.clone().unwrap_or_default();
        text(&lease["spec"]["holderIdentity"])
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body comes whole").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        self.stored().calls += 1;
        let (code, answer) = if path.contains("/leases") {
            self.stored().lease(&head.method, body)
        } else if path.contains("/mutatingwebhookconfigurations/") {
            let configuration = self.stored().configuration.clone();
            configuration.map_or_else(|| (404, refusal(404, "NotFound")), |it| (200, it))
        } else if head.method == Method::PATCH {
            self.stored().patched.push(name.clone());
            let _ = self.holds.subscribe().wait_for(|holds| !holds).await;
            self.stored().patch(&name, &body)
        } else if path.ends_with("/endpointslices") {
            let query = head.uri.query().unwrap_or_default();
            let selects = |slice: &&Value| {
                query == format!("fieldSelector=metadata.name%3D{}", name_of(slice))
            };
            let items: Vec<Value> = self
                .stored()
                .slices
                .iter()
                .filter(selects)
                .cloned()
                .collect();
            (200, json!({"metadata": {}, "items": items}))
        } else if head.method == Method::POST {
            let about = text(&body["regarding"]["name"]);
            self.stored().events.push((about, text(&body["reason"])));
            (201, body)
        } else {
            let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1",
                "metadata": {}, "items": []});
            (200, list)
        };
        let answer = Response::builder()
            .status(code)
            .body(Full::from(answer.to_string()));
        answer.expect("a status is all it needs")
    }
}

impl Stored {
    /// The slice with the patch, where it stores the slice and the patch is a JSON patch.
    fn patch(&mut self, name: &str, patch: &Value) -> (u16, Value) {
        let slice = self.slices.iter_mut().find(|slice| name_of(slice) == name);
        let (Some(slice), Value::Array(_)) = (slice, patch) else {
            let metadata = json!({"name": name, "namespace": "shop", "resourceVersion": "2"});
            return (200, json!({"metadata": metadata}));
        };
        let patch: json_patch::Patch =
            serde_json::from_value(patch.clone()).expect("it is a JSON patch");
        if json_patch::patch(slice, &patch).is_err() {
            return (422, refusal(422, "Invalid"));
        }
        let version: u64 = text(&slice["metadata"]["resourceVersion"]).parse().unwrap();
        slice["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        (200, slice.clone())
    }

    fn lease(&mut self, method: &Method, sent: Value) -> (u16, Value) {
        let version = |lease: &Value| text(&lease["metadata"]["resourceVersion"]);
        match (method.as_str(), &self.lease) {
            ("GET", Some(lease)) => (200, lease.clone()),
            ("PUT", Some(lease)) if version(lease) == version(&sent) => (200, self.write(sent)),
            ("POST", None) => (201, self.write(sent)),
            (_, None) => (404, refusal(404, "NotFound")),
            _ => (409, refusal(409, "Conflict")),
        }
    }

    fn write(&mut self, mut lease: Value) -> Value {
        self.writes_of_lease += 1;
        lease["metadata"]["resourceVersion"] = self.writes_of_lease.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn refusal(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "scripted", "reason": reason, "code": code})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The hinted zone of each endpoint.
fn hints_of(slice: &Value) -> Vec<Value> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let zone = |endpoint: &Value| endpoint["hints"]["forZones"][0]["name"].clone();
    endpoints.map(zone).collect()
}

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

fn node(zone: &str) -> Value {
    json!({
        "metadata": {"name": format!("node-{zone}"), "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A Service of the namespace `shop` that asks for hints, or does not.
fn service(name: &str, asks: bool) -> Value {
    let mode = if asks { json!("Auto") } else { Value::Null };
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"),
            "annotations": {TOPOLOGY_MODE: mode}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
    })
}

/// Its one slice, with endpoints in the first of the zones, that have their hints or do not.
fn slice(service: &str, endpoints: usize, hinted: bool) -> Value {
    let endpoint = |(number, zone): (usize, &&str)| {
        let hints = json!({"forZones": [{"name": zone}]});
        json!({
            "addresses": [format!("10.0.0.{number}")],
            "zone": zone,
            "hints": if hinted { hints } else { Value::Null },
        })
    };
    let endpoints: Vec<Value> = ZONES
        .iter()
        .take(endpoints)
        .enumerate()
        .map(endpoint)
        .collect();
    json!({
        "metadata": {"name": format!("{service}-1"), "namespace": "shop", "resourceVersion": "1",
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    })
}

/// Three zones, with these.
fn cluster(services: Vec<Value>, slices: Vec<Value>) -> Writer {
    let objects = Objects {
        namespaces: Vec::new(),
        nodes: ZONES.map(node).into(),
        services,
        slices,
    };
    objects.load(StoreRules::default(), Timestamp::now())
}

/// A replica of which only the controller is there.
struct Replica {
    writer: Writer,
    server: ApiServer,
    candidate: Candidate,
    metrics: ControllerMetrics,
    running: AbortOnDropHandle<()>,
}

impl Replica {
    fn start(writer: Writer, server: &ApiServer) -> Self {
        Self::start_with(writer, server, Settings::default(), Duration::ZERO)
    }

    fn start_with(
        writer: Writer,
        server: &ApiServer,
        decisions: Settings,
        gather: Duration,
    ) -> Self {
        let times = [1500, 1000, 200].map(Duration::from_millis);
        let lease = LeaseSettings::new("zonewise", "zonewise", "z-0");
        let lease = lease.with_times(times[0], times[1], times[2]);
        let candidate = Candidate::new(server.client(), lease.expect("they go together"));
        let pace = Pace {
            gap: Duration::ZERO,
            ..Pace::default()
        };
        let events = Arc::new(Events::new(server.client(), "z-0", pace));
        let metrics = ControllerMetrics::register(&mut Registry::default(), events.clone());
        let drift = Drift {
            cluster: writer.cluster(),
            decisions: Arc::new(decisions),
            settings: DriftSettings {
                waits: Waits {
                    gather,
                    quiet: Duration::ZERO,
                    quiet_at_most: Duration::ZERO,
                },
                pace: Some(1000.0),
                full_look: Duration::from_hours(1),
                webhook_configuration: Some("zonewise".to_owned()),
            },
            client: server.client(),
            claim: candidate.claim(),
            events,
            metrics: metrics.clone(),
        };
        let running = tokio::spawn(crate::controller::run(drift, candidate.clone()));
        Self {
            writer,
            server: server.clone(),
            candidate,
            metrics,
            running: AbortOnDropHandle::new(running),
        }
    }

    fn applies_service(&mut self, service: &Value) {
        let service: Service<Box<str>> = serde_json::from_value(service.clone()).unwrap();
        self.writer.apply_service(&service);
    }

    fn applies_slice(&mut self, slice: &Value) {
        let slice: EndpointSlice<Box<str>> = serde_json::from_value(slice.clone()).unwrap();
        self.writer.apply_slice(&slice);
    }

    fn loses_node(&mut self, zone: &str) {
        let mut node = node(zone);
        node["status"]["conditions"][0]["status"] = "Unknown".into();
        let node: Node<Box<str>> = serde_json::from_value(node).unwrap();
        self.writer.apply_node(&node, Timestamp::now());
        self.writer.settle(Timestamp::now());
    }

    fn services(&self, decision: &'static str, reason: &'static str) -> i64 {
        let labels = ServiceLabels { decision, reason };
        self.metrics.services.get_or_create(&labels).get()
    }

    async fn has_patched(&self, slice: &str) {
        until("it is patched", || {
            self.server
                .stored()
                .patched
                .iter()
                .any(|patched| patched == slice)
        })
        .await;
    }

    /// Waits until this is told; all that was told so far.
    async fn has_told(&self, about: &str, reason: &str) -> Vec<(String, String)> {
        let told = (about.to_owned(), reason.to_owned());
        until("it is told", || self.server.stored().events.contains(&told)).await;
        self.server.stored().events.clone()
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "never seen that {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const ENABLED: &str = "TopologyAwareHintsEnabled";
const DISABLED: &str = "TopologyAwareHintsDisabled";

#[tokio::test]
async fn a_decision_that_panics_costs_its_own_service_its_mending_and_no_more() {
    let settings = Settings {
        panic_on_service: Some("shop/api".to_owned()),
        ..Settings::default()
    };
    let services = ["api", "web"];
    let writer = cluster(
        services.map(|name| service(name, true)).into(),
        services.map(|name| slice(name, 3, false)).into(),
    );
    let replica = Replica::start_with(writer, &ApiServer::new(), settings, Duration::ZERO);
    replica.has_patched("web-1").await;
    assert_eq!(replica.services("Kept", "Panic"), 1);
    assert_eq!(replica.services("Hints", ""), 1);
    assert!(replica.metrics.panicked.get() > 0);
    assert!(!replica.running.is_finished());
    let patched = replica.server.stored().patched.clone();
    assert!(!patched.contains(&"api-1".to_owned()), "{patched:?}");
}

#[tokio::test]
async fn slices_lose_their_hints_once_when_nothing_asks_for_them_any_more() {
    let names = ["never", "other", "web"];
    let writer = cluster(
        names.map(|name| service(name, name != "never")).into(),
        names.map(|name| slice(name, 3, true)).into(),
    );
    let server = ApiServer::new();
    server.stored().slices = names.map(|name| slice(name, 3, true)).into();
    let mut replica = Replica::start(writer, &server);
    until("all are looked at", || replica.services("Hints", "") == 2).await;
    let mut other = service("other", true);
    other["metadata"]["annotations"][TOPOLOGY_MODE] = "example.com/mine".into();
    replica.applies_service(&other);
    until("another has it", || {
        replica.services("Untouched", "OtherHeuristic") == 1
    })
    .await;
    replica.applies_service(&service("other", false));
    replica.applies_service(&service("web", false));
    replica.has_patched("web-1").await;
    until("its hints are gone", || {
        hints_of(&server.stored().slices[2]) == [Value::Null, Value::Null, Value::Null]
    })
    .await;
    // Whoever gives it hints again means it.
    let mut again = slice("web", 3, true);
    again["metadata"]["resourceVersion"] = "3".into();
    replica.applies_slice(&again);
    replica.applies_service(&service("last", true));
    replica.applies_slice(&slice("last", 3, false));
    replica.has_patched("last-1").await;
    let patched = replica.server.stored().patched.clone();
    assert_eq!(patched, ["web-1", "last-1"]);
}

#[tokio::test]
async fn a_slice_that_was_reordered_meanwhile_loses_all_its_hints_and_no_others() {
    let mut web = service("web", true);
    web["metadata"]["annotations"][TOPOLOGY_MODE] = "zonewise.dev/Overlap".into();
    let mut stored = slice("web", 3, true);
    let server = ApiServer::new();
    let writer = cluster(vec![web], vec![stored.clone()]);
    let mut replica = Replica::start(writer, &server);
    until("it is evaluated", || replica.services("Hints", "") == 1).await;
    stored["metadata"]["resourceVersion"] = "7".into();
    stored["endpoints"].as_array_mut().unwrap().rotate_right(1);
    stored["endpoints"][0]["hints"] = Value::Null;
    server.stored().slices = vec![stored.clone()];
    replica.applies_service(&service("web", false));
    let conflicts = || {
        let labels = PatchLabels { result: "conflict" };
        replica.metrics.patches.get_or_create(&labels).get()
    };
    until("the other version is seen", || conflicts() > 0).await;
    assert_eq!(server.stored().slices[0], stored);
    assert_eq!(server.stored().patched, Vec::<String>::new());
    replica.applies_slice(&stored);
    replica.has_patched("web-1").await;
    until("its hints are gone", || {
        hints_of(&server.stored().slices[0]) == [Value::Null, Value::Null, Value::Null]
    })
    .await;
}

/// A slice that Kubernetes' controller manages, with the first endpoint hinted for this zone.
fn managed(zone: &str) -> Value {
    let mut slice = slice("web", 3, true);
    slice["metadata"]["labels"][MANAGED_BY_LABEL] = Manager::CONTROLLER.into();
    slice["endpoints"][0]["hints"]["forZones"][0]["name"] = zone.into();
    slice
}

#[tokio::test]
async fn a_new_leader_removes_the_hints_of_an_opt_in_that_is_gone() {
    let mut web = service("web", false);
    web["spec"]["trafficDistribution"] = "PreferClose".into();
    let server = ApiServer::new();
    server.stored().slices = vec![managed("zone-b")];
    let writer = cluster(vec![web], vec![managed("zone-b")]);
    let replica = Replica::start(writer, &server);
    replica.has_patched("web-1").await;
    until("its hints are gone", || {
        hints_of(&server.stored().slices[0]) == [Value::Null, Value::Null, Value::Null]
    })
    .await;
    assert_eq!(replica.services("Untouched", "LeftToKubernetes"), 1);
}

#[test]
fn only_hints_that_kubernetes_never_writes_are_removed_from_what_is_left_to_it() {
    let due = |service: &Value, slice: Value| {
        let writer = cluster(vec![service.clone()], vec![slice]);
        let settings = Settings::default();
        look::due(&writer.cluster(), &settings, "shop/web", "web-1", false)
    };
    let distributed = |value: &str, mode: Option<&str>| {
        let mut web = service("web", false);
        web["spec"]["trafficDistribution"] = value.into();
        web["metadata"]["annotations"][TOPOLOGY_MODE] = mode.into();
        web
    };
    let near = distributed("PreferSameZone", None);
    assert_eq!(due(&near, managed("zone-b")), Some(Write::WithoutHints));
    assert_eq!(due(&near, managed("zone-a")), None);
    let mut unready = managed("zone-a");
    unready["endpoints"][0]["conditions"] = json!({"ready": false});
    assert_eq!(due(&near, unready), None);
    let mut by_hand = managed("zone-b");
    by_hand["metadata"]["labels"][MANAGED_BY_LABEL] = "by-hand".into();
    assert_eq!(due(&near, by_hand), None);
    let disabled = distributed("PreferSameZone", Some("Disabled"));
    assert_eq!(due(&disabled, managed("zone-b")), Some(Write::WithoutHints));
    for theirs in [
        distributed("PreferSameNode", None),
        distributed("PreferSameZone", Some("example.com/mine")),
    ] {
        assert_eq!(due(&theirs, managed("zone-b")), None);
    }
}

#[tokio::test]
async fn who_does_not_know_the_cluster_does_not_campaign() {
    let server = ApiServer::new();
    let mut replica = Replica::start(Writer::new(StoreRules::default()), &server);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.stored().calls, 0);
    Objects::default().apply(&mut replica.writer, Timestamp::now());
    until("it leads", || replica.candidate.claim().holds()).await;
}

#[tokio::test]
async fn the_lease_is_given_up_when_the_last_patch_has_ended() {
    let server = ApiServer::new();
    server.holds.send_replace(true);
    let writer = cluster(vec![service("web", true)], vec![slice("web", 3, false)]);
    let replica = Replica::start(writer, &server);
    replica.has_patched("web-1").await;
    let (holder, candidate) = (server.holder(), replica.candidate.clone());
    assert!(holder.starts_with("z-0_"), "{holder}");
    let releasing = tokio::spawn(async move { candidate.release().await });
    until("it stops", || !replica.candidate.claim().holds()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.holder(), holder);
    server.holds.send_replace(false);
    releasing.await.unwrap();
    assert_eq!(server.holder(), "");
}

#[tokio::test]
async fn who_no_longer_leads_looks_at_what_was_still_to_be_looked_at() {
    let server = ApiServer::new();
    let writer = cluster(vec![service("web", false)], vec![slice("web", 3, false)]);
    let hour = Duration::from_hours(1);
    let mut replica = Replica::start_with(writer, &server, Settings::default(), hour);
    until("it leads", || replica.metrics.leader.get() == 1).await;
    until("it has looked", || {
        replica.services("Untouched", "NotOptedIn") == 1
    })
    .await;
    replica.applies_service(&service("web", true));
    server.lease_becomes(&json!({"holderIdentity": "another", "leaseDurationSeconds": 600}));
    until("it follows", || replica.metrics.leader.get() == 0).await;
    until("it has looked", || replica.services("Hints", "") == 1).await;
}

#[tokio::test]
async fn what_a_new_leader_finds_is_no_news_and_what_changes_then_is() {
    let server = ApiServer::new();
    // One that is stripped as it should be, one with hints, one that the API server leaves without.
    let asking = ["few", "web", "bare"].map(|name| service(name, true));
    let mut replica = Replica::start(
        cluster(
            [&asking[..], &[service("late", false)]].concat(),
            vec![
                slice("few", 1, false),
                slice("web", 3, true),
                slice("bare", 3, false),
                slice("late", 3, false),
            ],
        ),
        &server,
    );
    replica.has_patched("bare-1").await;
    replica.applies_service(&service("late", true));
    replica.applies_slice(&slice("late", 3, true));
    let told = replica.has_told("late", ENABLED).await;
    assert_eq!(told, [("late".to_owned(), ENABLED.to_owned())]);
    replica.applies_slice(&slice("web", 1, false));
    let told = replica.has_told("web", DISABLED).await;
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test]
async fn a_new_leader_tells_of_what_it_has_to_mend_and_of_the_node_first() {
    let server = ApiServer::new();
    let mut writer = cluster(vec![service("web", true)], vec![slice("web", 3, true)]);
    let lacks = json!({"metadata": {"name": "bad"}, "status": node("")["status"]});
    let lacks = serde_json::from_value(lacks).unwrap();
    writer.apply_node(&lacks, Timestamp::now());
    writer.settle(Timestamp::now());
    let replica = Replica::start(writer, &server);
    let told = replica.has_told("web", DISABLED).await;
    assert_eq!(
        told[0],
        ("bad".to_owned(), "InsufficientNodeInfo".to_owned())
    );
}

#[tokio::test]
async fn the_first_leader_ever_tells_why_there_are_no_hints() {
    let server = ApiServer::without_lease();
    let writer = cluster(vec![service("few", true)], vec![slice("few", 1, false)]);
    let replica = Replica::start(writer, &server);
    replica.has_told("few", DISABLED).await;
}

#[tokio::test]
async fn hints_that_followed_the_beginning_of_a_storm_come_to_what_is_held() {
    let server = ApiServer::new();
    let writer = cluster(vec![service("web", true)], vec![slice("web", 3, true)]);
    let mut replica = Replica::start(writer, &server);
    replica.loses_node("zone-c");
    replica.has_patched("web-1").await;
    let mut followed = slice("web", 3, true);
    followed["metadata"]["resourceVersion"] = "2".into();
    followed["endpoints"][2]["hints"] = json!({"forZones": [{"name": "zone-a"}]});
    replica.applies_slice(&followed);
    server.stored().patched.clear();
    replica.loses_node("zone-b");
    assert!(replica.writer.cluster().capacity().frozen);
    replica.has_patched("web-1").await;
}

/// A webhook configuration that asks about slices with the label `hints`, and in any namespace but `bare`.
fn narrow_configuration() -> Value {
    let elsewhere =
        json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["bare"]});
    json!({"metadata": {"resourceVersion": "1"}, "webhooks": [{
        "name": "endpointslices.zonewise.dev",
        "clientConfig": {},
        "rules": [{"apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["endpointslices"]}],
        "objectSelector": {"matchLabels": {"hints": "please"}},
        "namespaceSelector": {"matchExpressions": [elsewhere]},
    }]})
}

#[tokio::test]
async fn slices_that_the_webhook_is_not_asked_about_are_left_alone_and_missed_by_nobody() {
    let server = ApiServer::new();
    server.stored().configuration = Some(narrow_configuration());
    let with = |changes: Value, mut object: Value| {
        json_patch::merge(&mut object, &json!({"metadata": changes}));
        object
    };
    let labelled = json!({"labels": {"hints": "please"}});
    let elsewhere = json!({"namespace": "bare"});
    let writer = cluster(
        vec![
            service("web", true),
            service("api", true),
            with(elsewhere.clone(), service("other", true)),
        ],
        vec![
            slice("web", 3, false),
            with(labelled.clone(), slice("api", 3, false)),
            with(elsewhere, with(labelled, slice("other", 3, false))),
        ],
    );
    let mut replica = Replica::start(writer, &server);
    replica.has_patched("api-1").await;
    let mut again = slice("web", 3, false);
    again["metadata"]["resourceVersion"] = "3".into();
    replica.applies_slice(&again);
    until("one waits", || replica.metrics.drifted.get() == 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let patched = server.stored().patched.clone();
    assert!(patched.iter().all(|slice| slice == "api-1"), "{patched:?}");
    assert_eq!(replica.metrics.drifted.get(), 1);
    assert_eq!(replica.metrics.bypassed.get(), 0);
}
