//! From a request to its answer: on the spot for a body of usual size, aside for a large one.

use std::panic::AssertUnwindSafe;

use axum::body::Bytes;
use axum::extract::Request;
use tokio::time::{Instant, timeout_at};

use super::request::Refused;
use super::room::{LARGE, Room};
use super::routes::App;
use crate::telemetry::AdmissionLabels;
use crate::webhook::decided::Decided;
use crate::webhook::mutate::{self, Answer};
use crate::webhook::validate::{self, Told};

/// What is asked of zonewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Webhook {
    /// Which hints a slice gets.
    Mutate,
    /// What is wrong with what a person writes.
    Validate,
}

impl Webhook {
    /// Its word in metrics.
    fn word(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// Reads a review and answers it before `deadline`.
pub(super) async fn answer(
    app: &App,
    webhook: Webhook,
    request: Request,
    deadline: Instant,
) -> Result<Bytes, Refused> {
    let (body, room) = app.bodies.read(request, deadline).await?;
    let start = Instant::now();
    let reviewed = if body.len() > LARGE {
        review_aside(app.clone(), webhook, body, room, deadline).await
    } else {
        review(app, webhook, body, room, deadline)
    }?;
    app.metrics
        .count_admission(&reviewed.labels, start.elapsed());
    if let Some(decided) = reviewed.decided {
        decided.tell();
    }
    if let Some(told) = reviewed.told {
        told.tell();
    }
    Ok(reviewed.answer)
}

/// An answer that has its room, and what is to be told of it when it goes out.
struct Reviewed {
    labels: AdmissionLabels,
    decided: Option<Decided>,
    told: Option<Told>,
    answer: Bytes,
}

/// Reviews where that holds up nobody: the largest bodies take a tenth of a second and more, and there are as few workers
/// as processors.
async fn review_aside(
    app: App,
    webhook: Webhook,
    body: Bytes,
    room: Room,
    deadline: Instant,
) -> Result<Reviewed, Refused> {
    let place = app.bodies.places.clone().acquire_owned();
    let place = timeout_at(deadline, place)
        .await
        .map_err(|_| Refused::Overdue)?;
    let work = tokio::task::spawn_blocking(move || {
        let reviewed = review(&app, webhook, body, room, deadline);
        drop(place);
        reviewed
    });
    timeout_at(deadline, work)
        .await
        .map_err(|_| Refused::Overdue)?
        .map_err(|_| Refused::Panicked)?
}

fn review(
    app: &App,
    webhook: Webhook,
    body: Bytes,
    mut room: Room,
    deadline: Instant,
) -> Result<Reviewed, Refused> {
    if Instant::now() >= deadline {
        return Err(Refused::Overdue);
    }
    let answer = answer_or_allow(app, webhook, &body)?;
    drop(body);
    room.resize(answer.body.len())?;
    Ok(Reviewed {
        labels: AdmissionLabels {
            webhook: webhook.word(),
            operation: answer.operation.word(),
            decision: answer.decision,
            reason: answer.reason,
        },
        decided: answer.decided,
        told: answer.told,
        answer: Bytes::from_owner(Charged {
            answer: answer.body,
            _room: room,
        }),
    })
}

/// An answer with the room that it takes, for as long as the connection holds any of it.
struct Charged {
    answer: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

/// A panic must cost its own answer and no more; nothing that it could leave half done is shared.
fn answer_or_allow(app: &App, webhook: Webhook, body: &[u8]) -> Result<Answer, Refused> {
    let answer = std::panic::catch_unwind(AssertUnwindSafe(|| match webhook {
        Webhook::Mutate => mutate::mutate(body, &app.cluster, &app.settings),
        Webhook::Validate => validate::validate(body, &app.cluster, &app.settings),
    }));
    if let Ok(answer) = answer {
        return Ok(answer?);
    }
    let allowed = std::panic::catch_unwind(|| match webhook {
        Webhook::Mutate => mutate::allow_untouched(body),
        Webhook::Validate => validate::allow_unjudged(body),
    });
    allowed.ok().flatten().ok_or(Refused::Panicked)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::header;
    use futures::FutureExt as _;
    use jiff::Timestamp;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;
    use crate::cluster::files::Objects;
    use crate::cluster::store::StoreRules;
    use crate::server::request::Bodies;
    use crate::settings::{Settings, Validation};
    use crate::telemetry::{Metrics, Readiness};

    const CLUSTER: &str = r#"
kind: Node
metadata: {name: a, labels: {topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 4}, conditions: [{type: Ready, status: "True"}]}
---
kind: Node
metadata: {name: b, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: 4}, conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: web, namespace: shop, annotations: {service.kubernetes.io/topology-mode: Auto}}
spec: {clusterIP: 10.0.0.1}
"#;

    fn app(in_flight: usize) -> App {
        let mut objects = Objects::default();
        objects
            .add_text(Path::new("cluster.yaml"), CLUSTER)
            .unwrap();
        let writer = objects.load(StoreRules::default(), Timestamp::UNIX_EPOCH);
        App {
            cluster: writer.cluster(),
            settings: Arc::new(Settings::default()),
            metrics: Metrics::register(&mut Registry::default()),
            readiness: Readiness::default(),
            bodies: Bodies::new(in_flight, in_flight, Duration::from_hours(1)),
        }
    }

    /// A review of a slice of `shop/web`, whose answer is longer than it is, with blanks up to a length.
    fn review(length: usize) -> Request {
        let zone = |i: usize| if i.is_multiple_of(2) { "a" } else { "b" };
        let endpoint = |i: usize| json!({"addresses": [i.to_string()], "zone": zone(i)});
        let endpoints: Vec<_> = (0..20).map(endpoint).collect();
        let slice = json!({
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"port": 80}],
            "endpoints": endpoints,
        });
        let kind = json!({"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"});
        let review = json!({"request": {
            "uid": "1", "kind": kind, "operation": "CREATE", "namespace": "shop", "object": slice,
        }});
        let mut body = review.to_string().into_bytes();
        body.resize(length.max(body.len()), b' ');
        Request::builder()
            .header(header::CONTENT_LENGTH, body.len())
            .body(Body::from(body))
            .unwrap()
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    #[tokio::test]
    async fn large_bodies_wait_for_a_place_and_small_ones_do_not() {
        let app = app(64 << 20);
        let places = app.bodies.places.available_permits();
        let processors = std::thread::available_parallelism().unwrap().get();
        assert_eq!(places, processors.div_ceil(2));
        let all = u32::try_from(places).unwrap();
        let taken = app.bodies.places.acquire_many(all).await.unwrap();
        let mut large = Box::pin(answer(&app, Webhook::Mutate, review(LARGE + 1), far()));
        assert!((&mut large).now_or_never().is_none());
        let small = answer(&app, Webhook::Mutate, review(LARGE), far())
            .await
            .unwrap();
        assert!((&mut large).now_or_never().is_none());
        drop(taken);
        assert_eq!(large.await.unwrap(), small);
        assert_eq!(app.bodies.places.available_permits(), places);
    }

    #[tokio::test]
    async fn a_large_body_waits_no_longer_than_its_client() {
        let app = app(64 << 20);
        let all = u32::try_from(app.bodies.places.available_permits()).unwrap();
        let taken = app.bodies.places.acquire_many(all).await.unwrap();
        let soon = Instant::now() + Duration::from_millis(20);
        let refused = answer(&app, Webhook::Mutate, review(LARGE + 1), soon)
            .await
            .unwrap_err();
        assert_eq!(
            (refused.status().as_u16(), refused.limit()),
            (504, "deadline")
        );
        drop(taken);
        assert!(
            answer(&app, Webhook::Mutate, review(LARGE + 1), far())
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn what_finds_no_room_to_be_answered_was_not_decided() {
        let logged = |app: &App| {
            let state = app.cluster.service("shop/web").unwrap();
            state.last_logged[0].load(Ordering::Relaxed)
        };
        let small = app(2048);
        let refused = answer(&small, Webhook::Mutate, review(0), far())
            .await
            .unwrap_err();
        assert_eq!(
            (refused.status().as_u16(), refused.limit()),
            (503, "in-flight-bytes")
        );
        assert_eq!(logged(&small), 0);
        let large = app(4096);
        answer(&large, Webhook::Mutate, review(0), far())
            .await
            .unwrap();
        assert_ne!(logged(&large), 0);
    }

    #[tokio::test]
    async fn a_panic_in_judging_allows_the_write() {
        let mut app = app(64 << 20);
        app.settings = Arc::new(Settings {
            validation: Validation::Enforce,
            panic_on_service: Some("shop/web".to_owned()),
            ..Settings::default()
        });
        let review = json!({"request": {
            "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Service"}, "operation": "CREATE",
            "namespace": "shop", "userInfo": {"username": "jane"},
            "object": {"metadata": {"name": "web", "annotations": {"zonewise.dev/nothing": ""}}},
        }})
        .to_string();
        let request = Request::builder()
            .header(header::CONTENT_LENGTH, review.len())
            .body(Body::from(review))
            .unwrap();
        let answer = answer(&app, Webhook::Validate, request, far()).await;
        let answer: serde_json::Value = serde_json::from_slice(&answer.unwrap()).unwrap();
        assert_eq!(answer["response"], json!({"uid": "1", "allowed": true}));
        let labels = AdmissionLabels {
            webhook: "validate",
            operation: "CREATE",
            decision: "Allowed",
            reason: "Panic",
        };
        let counted = app.metrics.admission_requests.get_or_create(&labels).get();
        assert_eq!(counted, 1);
    }
}
