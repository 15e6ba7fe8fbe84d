//! The probe: a write that stores nothing, and that zonewise answers with a mark if the API server asks it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Request;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::configuration::Webhook;
use super::line::{Line, Thing};
use super::served::{Fault, Served};
use crate::cli::api::{Api, SLICES, collection};
use crate::cluster::slice::SERVICE_NAME_LABEL;
use crate::controller::scope::{NamespaceLabels, takes};
use crate::telemetry::VERSION;
use crate::webhook::asked::{self, Answered};
use crate::words::{for_a_line, with_causes};

/// How long one write may take.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// How often the probe is sent: a webhook that was just registered, or whose replica just ended, is not asked yet.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// The Service that the slice of the probe names; there need be none.
const SERVICE: &str = "zonewise-check";

/// What came of it.
pub enum Outcome {
    /// zonewise answered at this try, after so long.
    Answered(Answered, u32, Duration),
    /// The write went through without a word of it.
    Unanswered,
    /// The API server did not take the write.
    Refused(Refused),
}

/// Why the API server did not take the write.
pub enum Refused {
    /// Who asks may not.
    Forbidden,
    /// There is no such namespace.
    NoNamespace,
    /// Anything else, with its sentence.
    Other(String),
}

/// Sends the probe into a namespace.
pub async fn send(api: &Api, namespace: &str, webhook: &Webhook) -> Outcome {
    let nonce = nonce();
    let slice = slice(&nonce, &labels(&nonce, webhook));
    for number in 1..=TRIES {
        let started = Instant::now();
        let written = timeout(WRITE_TIME, write(api, namespace, &slice)).await;
        let silence = || Refused::Other(format!("no answer within {WRITE_TIME:.0?}"));
        match written.unwrap_or_else(|_| Err(silence())) {
            Err(refused) => return Outcome::Refused(refused),
            Ok(warnings) => {
                let answered = warnings.iter().find_map(|w| asked::read(w, &nonce));
                if let Some(answered) = answered {
                    return Outcome::Answered(answered, number, started.elapsed());
                }
            }
        }
        if number < TRIES {
            sleep(PAUSE).await;
        }
    }
    Outcome::Unanswered
}

/// A word that no other check uses.
fn nonce() -> String {
    use std::hash::BuildHasher as _;
    // Each RandomState has keys of its own, which is randomness enough.
    let random = std::hash::RandomState::new().hash_one(0);
    format!("{random:016x}")
}

/// The labels of the probe, with those that the webhook's selector asks for.
fn labels(nonce: &str, webhook: &Webhook) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if let Some(selector) = &webhook.scope.object_selector {
        add_wanted(&mut labels, selector);
    }
    labels.insert(SERVICE_NAME_LABEL.to_owned(), SERVICE.to_owned());
    labels.insert(asked::LABEL.to_owned(), nonce.to_owned());
    labels
}

fn add_wanted(labels: &mut BTreeMap<String, String>, selector: &LabelSelector) {
    let equal = selector.match_labels.iter().flatten();
    labels.extend(equal.map(|(key, value)| (key.clone(), value.clone())));
    for requirement in selector.match_expressions.iter().flatten() {
        let mut values = requirement.values.iter().flatten();
        let value = match requirement.operator.as_str() {
            "In" => values.next().cloned(),
            "Exists" => Some(String::new()),
            _ => None,
        };
        if let Some(value) = value {
            labels.entry(requirement.key.clone()).or_insert(value);
        }
    }
}

fn slice(nonce: &str, labels: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": format!("{SERVICE}-{nonce}"), "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    })
}

/// The warnings that come back with the write.
async fn write(api: &Api, namespace: &str, slice: &Value) -> Result<Vec<String>, Refused> {
    let other = |error: kube::Error| Refused::Other(for_a_line(&with_causes(&error)));
    let dry_run = PostParams {
        dry_run: true,
        field_manager: Some(SERVICE.to_owned()),
    };
    let path = collection(SLICES, Some(namespace), "endpointslices");
    let request = Request::new(path).create(&dry_run, slice.to_string().into_bytes());
    let request = request.map_err(|error| other(kube::Error::BuildRequest(error)))?;
    let answer = api.client().send(request.map(Body::from)).await;
    let (head, body) = answer.map_err(other)?.into_parts();
    if head.status.is_success() {
        // Somebody else's warning may have letters that `to_str` refuses.
        let warnings = head.headers.get_all(hyper::header::WARNING).iter();
        let text = |value: &hyper::header::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        return Ok(warnings.map(text).collect());
    }
    let body = body.collect().await.map_err(other)?.to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    Err(match head.status.as_u16() {
        // An admission plug-in that refuses the write says so with the same status.
        403 if message.contains("cannot create resource") => Refused::Forbidden,
        404 => Refused::NoNamespace,
        code => Refused::Other(format!("{} ({code})", for_a_line(message))),
    })
}

/// What else is known that may tell why the probe was not answered.
pub struct Clues<'a> {
    pub webhook: &'a Webhook,
    /// The namespace's labels, where they are known.
    pub namespace_labels: Option<BTreeMap<String, String>>,
    /// Whether the Service has endpoints that are ready, where there is a Service and they may be seen.
    pub has_endpoints: Option<bool>,
    pub trusts_nothing: bool,
    /// What was seen from here.
    pub served: &'a Served,
    /// What the API server says that `/readyz` says, where the webhook is behind a Service.
    pub readyz: Option<Readyz>,
}

/// What came of asking the webhook's `/readyz` by way of the API server.
pub enum Readyz {
    /// The API server reached it, and it is ready.
    Ready,
    /// It was reached and is not ready, or nothing there is, and this is what came back.
    NotReady(String),
    /// It was not reached, and why.
    NotReached(String),
    /// Who asks may not look.
    Forbidden,
}

impl Readyz {
    /// Tells by the text of a refusal who refused: the replica, the API server for want of endpoints, or the way there.
    pub fn of(refusal: &str) -> Self {
        let not_ready = ["waiting for", "shutting down", "no endpoints available"];
        if not_ready.iter().any(|text| refusal.contains(text)) {
            Self::NotReady(refusal.to_owned())
        } else {
            Self::NotReached(refusal.to_owned())
        }
    }
}

impl Outcome {
    pub fn was_answered(&self) -> bool {
        matches!(self, Self::Answered(..))
    }

    /// What is to be told.
    pub fn line(&self, namespace: &str, clues: &Clues<'_>) -> Line {
        const THING: Thing = Thing::Probe;
        match self {
            Self::Answered(answered, 1, took) => {
                let Answered { version, replica } = answered;
                let other = if version == VERSION {
                    ""
                } else {
                    ", which is not this program's"
                };
                let took = took.as_millis();
                Line::ok(
                    THING,
                    format!(
                        "a dry run in {namespace} was answered by {replica}, version {version}{other}, in {took} ms"
                    ),
                )
            }
            Self::Answered(answered, number, _) => Line::warning(
                THING,
                format!(
                    "only dry run {number} was answered, by {}",
                    answered.replica
                ),
                "run the check again; if that stays so, some writes go by without hints: see \
                 apiserver_admission_webhook_fail_open_count",
            ),
            Self::Unanswered => unanswered(namespace, clues),
            Self::Refused(Refused::Forbidden) => Line::warning(
                THING,
                format!(
                    "not looked at: needs permission to create endpointslices in namespace {namespace}"
                ),
                "give that permission to who runs the check (docs/check.md#permissions); nothing is ever stored",
            ),
            Self::Refused(Refused::NoNamespace) => Line::failure(
                THING,
                format!("there is no namespace {namespace} to send a dry run to"),
                "give the namespace of zonewise with --namespace",
            ),
            Self::Refused(Refused::Other(why)) => Line::failure(
                THING,
                format!("the API server refused a dry run in {namespace}: {why}"),
                "if it names zonewise's webhook, set failurePolicy: Ignore first; otherwise some other admission rule \
                 refuses EndpointSlices there, so give another --namespace",
            ),
        }
    }
}

fn unanswered(namespace: &str, clues: &Clues<'_>) -> Line {
    if let Some(left_out) = left_out(namespace, clues) {
        return left_out;
    }
    let (why, advice) = why_unanswered(clues);
    Line::failure(
        Thing::Probe,
        format!("a dry run in {namespace} went by without zonewise: {why}"),
        advice,
    )
}

fn left_out(namespace: &str, clues: &Clues<'_>) -> Option<Line> {
    let webhook = clues.webhook;
    let labels = NamespaceLabels {
        name: namespace,
        all: clues.namespace_labels.as_ref(),
    };
    let in_namespace = takes(webhook.scope.namespace_selector.as_ref(), &labels);
    let own_labels = self::labels("nonce", webhook);
    let (selector, may) = if in_namespace != Some(true) {
        let may = in_namespace.map_or("may leave", |_| "leaves");
        ("namespaceSelector", may)
    } else if takes(webhook.scope.object_selector.as_ref(), &own_labels) != Some(true) {
        ("objectSelector", "leaves")
    } else {
        return None;
    };
    let advice = if selector == "namespaceSelector" {
        "give --namespace with one that it takes, in which you may create endpointslices"
    } else {
        "no probe can have labels that it takes: write a slice of an opted-in Service and see whether it gets hints"
    };
    Some(Line::warning(
        Thing::Probe,
        format!(
            "not looked at: the webhook's {selector} {may} out a dry run in {namespace} (it takes only {})",
            webhook.selectors().join(", and ")
        ),
        advice,
    ))
}

const PODS: &str = "see why the pods are not there or not ready: kubectl -n NAMESPACE get pods, and their log; /readyz says what they wait for";

const FIREWALL: &str = "open the way from the control plane to the pods' webhook port (firewall, NetworkPolicy, security \
                        group; hostNetwork where the control plane can't reach pods): docs/installation.md";

const TRUST: &str = "put the CA of the certificate that is served into caBundle; the API server's log tells what it has \
                     against it (failed calling webhook)";

const TRUST_OR_CLUSTER_IP: &str = "put the CA of the certificate that is served into caBundle, and see that the control \
                                   plane reaches cluster IPs (kube-proxy runs there, or --enable-aggregator-routing is \
                                   set); the API server's log tells which (failed calling webhook)";

/// The likeliest cause first: what is known to be wrong, then what was seen, then what may be.
fn why_unanswered(clues: &Clues<'_>) -> (String, String) {
    let told = |why: &str, advice: &str| (why.to_owned(), advice.to_owned());
    if clues.has_endpoints == Some(false) {
        return told("its Service has no ready endpoint", PODS);
    }
    if clues.trusts_nothing {
        return told(
            "the API server trusts nothing that zonewise could show, see ca-bundle",
            TRUST,
        );
    }
    match clues.served {
        Served::Faulty(Fault::Distrusted(why)) => {
            return told(
                &format!("the CA in caBundle does not trust what is served ({why})"),
                TRUST,
            );
        }
        Served::Faulty(fault @ Fault::NoHandshake(why)) => {
            return told(
                &format!("no TLS handshake with it comes about ({why})"),
                fault.advice(),
            );
        }
        Served::Faulty(fault @ (Fault::NotYet(_) | Fault::Expired(_))) => {
            return told(
                "the certificate that is served is not valid now, see served-certificate",
                fault.advice(),
            );
        }
        Served::Trusted(_) | Served::Unreachable(_) | Served::NotLooked => {}
    }
    match &clues.readyz {
        Some(Readyz::Ready) => {
            return told(
                "the API server reaches a pod's /readyz, so most likely it does not trust the certificate",
                TRUST_OR_CLUSTER_IP,
            );
        }
        Some(Readyz::NotReady(why)) => {
            return told(&format!("no replica is ready ({why})"), PODS);
        }
        Some(Readyz::NotReached(why)) => {
            return told(
                &format!("the API server does not reach its /readyz either ({why})"),
                FIREWALL,
            );
        }
        Some(Readyz::Forbidden) | None => {}
    }
    let seen = match (clues.served, &clues.readyz) {
        (Served::Unreachable(why), None) => {
            format!("it can't be reached from here either ({why})")
        }
        (_, Some(Readyz::Forbidden)) => {
            "with permission to get services/proxy the check would look further".to_owned()
        }
        _ => "the API server does not say why".to_owned(),
    };
    let conditions = clues.webhook.conditions();
    let conditions = if conditions.is_empty() {
        String::new()
    } else {
        format!(
            "; one of its match conditions leaves the probe out ({})",
            conditions.join(", ")
        )
    };
    (
        seen,
        format!(
            "likely, in this order: nothing listens there; a firewall between control plane and pods; a caBundle of \
             another CA{conditions}. The API server's log says which (failed calling webhook)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(selectors: Value) -> Webhook {
        let mut webhook = selectors;
        webhook["name"] = "endpointslices.zonewise.dev".into();
        webhook["clientConfig"] = json!({});
        serde_json::from_value(webhook).unwrap()
    }

    #[test]
    fn the_probe_has_the_labels_that_the_selector_asks_for() {
        let selector = json!({"objectSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["web", "db"]},
                {"key": "x", "operator": "Exists"},
                {"key": "y", "operator": "DoesNotExist"},
            ],
        }});
        let webhook = webhook(selector);
        let labels = labels("n", &webhook);
        assert_eq!(
            takes(webhook.scope.object_selector.as_ref(), &labels),
            Some(true)
        );
        assert_eq!((&*labels["tier"], &*labels[asked::LABEL]), ("web", "n"));
    }

    fn told<'a>(webhook: &'a Webhook, clues: impl FnOnce(&mut Clues<'a>)) -> Line {
        let mut all = Clues {
            webhook,
            namespace_labels: None,
            has_endpoints: Some(true),
            trusts_nothing: false,
            served: &Served::NotLooked,
            readyz: None,
        };
        clues(&mut all);
        Outcome::Unanswered.line("zonewise", &all)
    }

    #[test]
    fn what_is_left_out_is_no_failure() {
        use crate::cli::check::line::Status;
        let by_object = webhook(
            json!({"objectSelector": {"matchExpressions": [{"key": asked::LABEL, "operator": "DoesNotExist"}]}}),
        );
        let line = told(&by_object, |_| {});
        assert_eq!(line.status, Status::Warning);
        assert!(
            line.message.contains("objectSelector leaves out"),
            "{}",
            line.message
        );
        let by_namespace = webhook(json!({"namespaceSelector": {"matchLabels": {"zones": "yes"}}}));
        let line = told(&by_namespace, |_| {});
        assert!(line.message.contains("may leave out"), "{}", line.message);
        let labels = |value: &str| Some([("zones".to_owned(), value.to_owned())].into());
        let line = told(&by_namespace, |clues| clues.namespace_labels = labels("no"));
        assert!(line.message.contains("leaves out"), "{}", line.message);
        let line = told(&by_namespace, |clues| {
            clues.namespace_labels = labels("yes");
        });
        assert_eq!(line.status, Status::Failure);
    }

    #[test]
    fn the_likeliest_cause_is_told() {
        let all = webhook(json!({}));
        let because = |clues: fn(&mut Clues<'_>)| told(&all, clues).message;
        assert!(because(|c| c.has_endpoints = Some(false)).ends_with("no ready endpoint"));
        assert!(because(|c| c.trusts_nothing = true).contains("see ca-bundle"));
        let expired = Served::Faulty(Fault::Expired(time::OffsetDateTime::UNIX_EPOCH));
        let line = told(&all, |clues| clues.served = &expired);
        assert!(line.message.ends_with("see served-certificate"));
        assert_eq!(
            line.advice.as_deref(),
            Some(Fault::Expired(time::OffsetDateTime::UNIX_EPOCH).advice())
        );
        assert!(because(|c| c.readyz = Some(Readyz::Ready)).contains("does not trust"));
        assert!(because(|c| c.readyz = Some(Readyz::of("i/o timeout"))).ends_with("(i/o timeout)"));
        let waits = because(|c| c.readyz = Some(Readyz::of("waiting for the first list of nodes")));
        assert!(waits.contains("no replica is ready (waiting"), "{waits}");
        assert!(because(|c| c.readyz = Some(Readyz::Forbidden)).contains("services/proxy"));
        assert!(because(|_| {}).contains("does not say why"));
    }
}
