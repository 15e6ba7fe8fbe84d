//! What one replica serves and says, without an API server.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::configuration::Kind;
use super::looks::Seen;
use super::*;
use crate::controller::lease::{Candidate, LeaseSettings};

const NAME: &str = "zonewise.zonewise.svc";

/// A replica with its metrics, and when it began.
struct Replica {
    work: Work,
    registry: Registry,
    began: Instant,
}

/// One that has not looked yet.
fn replica() -> Replica {
    let client = Client::new(
        tower::service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }),
        "zonewise",
    );
    let mut registry = Registry::default();
    let serving_metrics = Metrics::register(&mut registry);
    let settings = LeaseSettings::new("zonewise", "zonewise", "z-0");
    let work = Work::new(Certificates {
        secret: SecretName {
            namespace: "zonewise".to_owned(),
            name: "certificates".to_owned(),
        },
        rules: rules(),
        configurations: vec![ConfigurationName {
            kind: Kind::Mutating,
            name: "zonewise".to_owned(),
        }],
        owner: None,
        claim: Candidate::new(client.clone(), settings).claim(),
        current: CurrentCertificate::none(serving_metrics.clone()),
        readiness: Readiness::default(),
        metrics: CertificateMetrics::register_all(&mut registry),
        serving_metrics,
        client,
    });
    Replica {
        work,
        registry,
        began: Instant::now(),
    }
}

fn rules() -> Rules {
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    Rules::new(vec![NAME.to_owned()], hour, day).unwrap()
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

/// What the first leader of all makes.
fn made() -> Contents {
    let remembered = Remembered::default();
    let circumstances = Circumstances {
        now: now(),
        next_is_trusted: false,
        remembered: &remembered,
    };
    let nothing = Contents::default();
    let due = plan(&nothing, &rules(), &circumstances);
    plan::carry_out(&due, &nothing, &rules(), &circumstances).unwrap()
}

/// A webhook configuration that trusts what each of these has in its bundle.
fn trusting(all: &[&Contents]) -> Configuration {
    use base64::Engine as _;
    let bundle: String = all.iter().map(|contents| contents.bundle_pem()).collect();
    let bundle = base64::engine::general_purpose::STANDARD.encode(bundle);
    let service = json!({"name": "zonewise", "namespace": "zonewise"});
    Configuration::read(&json!({"webhooks": [{
        "name": "endpointslices.zonewise.dev",
        "clientConfig": {"caBundle": bundle, "service": service},
    }]}))
}

fn cut_off() -> Seen {
    Err(Failed::Unanswered("scripted".to_owned()))
}

impl Replica {
    /// A look at this Secret and this webhook configuration, so many seconds after all was made.
    fn see(&mut self, contents: &Contents, seen: Seen, after: u64) {
        self.work.looks.note(vec![seen]);
        let after = Duration::from_secs(after);
        let now = Moment {
            time: now() + after,
            clock: self.began + after,
        };
        self.work.note_trusted(contents, now);
        self.work.serve(contents, "is empty", now);
    }

    fn serves(&self, contents: &Contents) -> bool {
        let serving = self.work.with.current.get().unwrap();
        serving.chain() == contents.server.as_ref().unwrap().serving.chain()
    }

    fn trusted(&self) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut lines = text.lines();
        lines.find_map(|line| {
            Some(
                line.strip_prefix("zonewise_certificate_trusted ")?
                    .to_owned(),
            )
        })
    }
}

/// How long certificates last here.
const HOUR: u64 = 3600;

#[tokio::test]
async fn what_is_served_stays_until_another_is_known_to_be_trusted_everywhere() {
    let (own, mut other) = (made(), made());
    let mut replica = replica();
    replica.see(&own, Ok(trusting(&[&own])), 0);
    assert!(replica.serves(&own));
    for untried in [cut_off(), Ok(trusting(&[&own]))] {
        replica.see(&other, untried, 5);
        assert!(replica.serves(&own));
    }
    other.trust_too(&own.bundle);
    for (after, goes_over) in [(10, false), (14, false), (15, true)] {
        replica.see(&other, Ok(trusting(&[&own, &other])), after);
        assert_eq!(
            replica.serves(&other),
            goes_over,
            "after {after} s: every API server has heard of it an interval later"
        );
    }
}

#[tokio::test]
async fn who_goes_over_to_an_older_certificate_remembers_the_ca_of_the_newer_one() {
    let (older, mut newer) = (made(), made());
    let mut replica = replica();
    newer.trust_too(&older.bundle);
    replica.see(&newer, Ok(trusting(&[&newer])), 0);
    for after in [5, 10] {
        replica.see(&older, Ok(trusting(&[&newer])), after);
    }
    assert!(replica.serves(&older), "it is trusted, and has been");
    let remembered = &replica.work.remembered;
    let time = now() + Duration::from_secs(10);
    assert!(remembered.is_missing_in(&older.bundle, time));
    let all = remembered.added_to(&older, time);
    assert!(all.bundle.contains(&newer.bundle[0]));
    // Somebody has brought it about that nobody who serves by it is called.
    replica.see(&older, Ok(trusting(&[&older])), 15);
    let remembered = &replica.work.remembered;
    assert!(!remembered.is_missing_in(&older.bundle, time));
}

#[tokio::test]
async fn what_is_distrusted_is_given_up_at_once() {
    let (own, other) = (made(), made());
    let mut replica = replica();
    replica.see(&own, Ok(trusting(&[&own])), 0);
    replica.see(&other, Ok(trusting(&[&other])), 5);
    assert!(replica.serves(&other));
}

#[tokio::test]
async fn what_is_about_to_end_is_given_up_for_what_there_is() {
    let (own, other) = (made(), made());
    let mut replica = replica();
    replica.see(&own, Ok(trusting(&[&own])), 2 * HOUR / 3);
    let renewed = Contents {
        server: renewed(&other, 2 * HOUR / 3),
        ..other
    };
    replica.see(&renewed, cut_off(), HOUR - 11);
    assert!(replica.serves(&own));
    replica.see(&renewed, Ok(trusting(&[&own])), HOUR - 2);
    assert!(replica.serves(&own), "the other is known to be distrusted");
    replica.see(&renewed, cut_off(), HOUR - 1);
    assert!(replica.serves(&renewed));
}

/// Another certificate of the same CA, made so many seconds later.
fn renewed(contents: &Contents, after: u64) -> Option<Server> {
    let circumstances = Circumstances {
        now: now() + Duration::from_secs(after),
        next_is_trusted: false,
        remembered: &Remembered::default(),
    };
    let due = plan(contents, &rules(), &circumstances);
    let after = plan::carry_out(&due, contents, &rules(), &circumstances);
    after.unwrap().server
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_not_trusted_though_nobody_can_be_asked() {
    let own = made();
    let mut replica = replica();
    replica.see(&own, Ok(trusting(&[&own])), 0);
    assert_eq!(replica.trusted().as_deref(), Some("1"));
    let nothing = Contents::default();
    replica.see(&nothing, cut_off(), HOUR - 1);
    assert_eq!(
        replica.trusted().as_deref(),
        Some("1"),
        "nothing says otherwise"
    );
    replica.see(&nothing, cut_off(), HOUR + 1);
    assert_eq!(replica.trusted().as_deref(), Some("0"));
}

#[test]
fn what_to_do_about_a_secret_that_can_not_be_written_is_what_helps() {
    let problem = || "scripted".to_owned();
    let immutable = unwritten(&Failed::Other(problem()), true);
    assert!(immutable.contains("so delete it"), "{immutable}");
    let refused = unwritten(&Failed::Forbidden(problem()), true);
    assert!(refused.ends_with("needs permission to create secrets, and to update this one"));
    assert_eq!(unwritten(&Failed::Other(problem()), false), "scripted");
}
