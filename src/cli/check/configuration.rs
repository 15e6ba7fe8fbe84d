//! Webhook configurations, and what is asked of ours.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde::Deserialize;
use time::OffsetDateTime;

use super::line::{Line, Thing};
use super::served::{Looks, Served, host_and_port};
use super::target::Target;
use super::trust::CaBundle;
use crate::cli::api::{Api, Refusal};
use crate::controller::certificates::configuration::DOMAIN;
use crate::controller::scope::Scope;
use crate::webhook::VALIDATE_PATH;
use crate::words;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A mutating or validating webhook configuration.
#[derive(Debug, Clone, Deserialize)]
pub struct Configuration {
    metadata: Name,
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
}

#[derive(Debug, Clone, Deserialize)]
struct Name {
    name: String,
}

impl Configuration {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// One of its webhooks.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    pub client_config: WebhookClientConfig,
    #[serde(default)]
    admission_review_versions: Vec<String>,
    failure_policy: Option<String>,
    match_conditions: Option<Vec<MatchCondition>>,
    #[serde(flatten)]
    pub scope: Scope,
    reinvocation_policy: Option<String>,
    side_effects: Option<String>,
    timeout_seconds: Option<i32>,
}

/// What is known of the mutating webhook configurations.
pub struct Found {
    /// Ours, and which of its webhooks it is about.
    pub ours: Option<(Configuration, usize)>,
    /// All of them, where they may be listed.
    pub all: Result<Vec<Configuration>, Refusal>,
    /// What is to be told of ours.
    pub line: Line,
}

/// Lists mutating or validating webhook configurations.
pub async fn list(api: &Api, plural: &str) -> Result<Vec<Configuration>, Refusal> {
    let mut all = Vec::new();
    let path = format!("{GROUP}/{plural}");
    api.list(&path, None, |one: Configuration| all.push(one))
        .await?;
    // The order in which the API server asks them.
    all.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(all)
}

/// Finds the configuration of this name, or else the one with a webhook that is named as zonewise's is.
pub async fn find(api: &Api, name: Option<&str>) -> Found {
    const PLURAL: &str = "mutatingwebhookconfigurations";
    let all = list(api, PLURAL).await;
    let asked = name.unwrap_or("zonewise");
    let found = match (&all, name) {
        (Ok(all), Some(name)) => pick(all, name, |one| one.name() == name),
        (Ok(all), None) => pick(all, "with a webhook called ….zonewise.dev", is_zonewises),
        (Err(_), _) => match api.get(&format!("{GROUP}/{PLURAL}"), asked).await {
            Ok(one) => Ok(one),
            Err(Refusal::NotFound(_)) => Err(missing(asked, &[])),
            Err(refusal) => Err(Line::not_looked_at(
                Thing::Configuration,
                &refusal,
                &format!("list {PLURAL}, or to get the one named {asked}"),
            )),
        },
    };
    let found = found.and_then(|one| match one.ours() {
        Some(place) => Ok((one, place)),
        None => Err(empty(&one)),
    });
    match found {
        Ok((one, place)) => Found {
            line: Line::ok(
                Thing::Configuration,
                format!(
                    "{} has the webhook {}",
                    one.name(),
                    one.webhooks[place].name
                ),
            ),
            ours: Some((one, place)),
            all,
        },
        Err(line) => Found {
            ours: None,
            all,
            line,
        },
    }
}

fn pick(
    all: &[Configuration],
    wanted: &str,
    is_it: impl Fn(&Configuration) -> bool,
) -> Result<Configuration, Line> {
    let names: Vec<&str> = all
        .iter()
        .filter(|one| is_zonewises(one))
        .map(Configuration::name)
        .collect();
    let mut those = all.iter().filter(|one| is_it(one));
    match (those.next(), those.next()) {
        (Some(one), None) => Ok(one.clone()),
        (None, _) => Err(missing(wanted, &names)),
        (Some(_), Some(_)) => Err(Line::failure(
            Thing::Configuration,
            format!("there are several: {}", words::first(&names)),
            "give --webhook-configuration NAME to look at one; two installations that hint the same slices undo each \
             other's work, so take one away or keep them apart with namespace selectors",
        )),
    }
}

fn is_zonewises(one: &Configuration) -> bool {
    one.webhooks.iter().any(|w| w.name.ends_with(DOMAIN))
}

fn missing(name: &str, others: &[&str]) -> Line {
    let there_is = if others.is_empty() {
        "so the API server never asks zonewise, and no slice gets hints".to_owned()
    } else {
        format!("though there is {}", words::first(others))
    };
    Line::failure(
        Thing::Configuration,
        format!("there is no MutatingWebhookConfiguration {name}, {there_is}"),
        "install the chart, with another mode than Off, or apply the configuration of docs/serving.md; if it has another name, give \
         --webhook-configuration NAME",
    )
}

fn empty(one: &Configuration) -> Line {
    Line::failure(
        Thing::Configuration,
        format!("{} has no webhook at all", one.name()),
        "apply the configuration of the chart or of docs/serving.md again",
    )
}

impl Configuration {
    /// The place of the webhook that is zonewise's.
    fn ours(&self) -> Option<usize> {
        let place = |is_it: &dyn Fn(&Webhook) -> bool| self.webhooks.iter().position(is_it);
        place(&|w| w.name.ends_with(DOMAIN) && w.is_about_slices())
            .or_else(|| place(&Webhook::is_about_slices))
            .or_else(|| place(&|_| true))
    }
}

/// Whether the rule is about more than creating and updating slices.
fn covers_more(rule: &RuleWithOperations) -> bool {
    let only = |all: Option<&Vec<String>>, allowed: &[&str]| {
        all.into_iter()
            .flatten()
            .all(|one| allowed.contains(&one.as_str()))
    };
    !only(rule.api_groups.as_ref(), &["discovery.k8s.io"])
        || !only(rule.resources.as_ref(), &["endpointslices"])
        || !only(rule.operations.as_ref(), &["CREATE", "UPDATE"])
}

/// Whether a selector takes everything.
fn takes_all(selector: Option<&LabelSelector>) -> bool {
    selector.is_none_or(|selector| selector == &LabelSelector::default())
}

/// A selector in kubectl's words.
fn in_words(selector: &LabelSelector) -> String {
    let selector = Selector::try_from(selector.clone());
    selector.map_or_else(|error| error.to_string(), |selector| selector.to_string())
}

impl Webhook {
    fn is_about_slices(&self) -> bool {
        self.scope.covers("CREATE") || self.scope.covers("UPDATE")
    }

    /// The names of its conditions.
    pub fn conditions(&self) -> Vec<&str> {
        let conditions = self.match_conditions.iter().flatten();
        conditions
            .map(|condition| condition.name.as_str())
            .collect()
    }

    /// Its selectors, in words.
    pub fn selectors(&self) -> Vec<String> {
        let selectors = [
            ("namespaces", &self.scope.namespace_selector),
            ("slices", &self.scope.object_selector),
        ];
        let narrow = selectors
            .into_iter()
            .filter(|(_, selector)| !takes_all(selector.as_ref()));
        narrow
            .filter_map(|(what, s)| Some(format!("{what} with {}", in_words(s.as_ref()?))))
            .collect()
    }

    /// Whether writes of slices are what it is asked about.
    pub fn rules(&self) -> Line {
        let rules = self.scope.rules.as_deref().unwrap_or_default();
        let missing: Vec<&str> = ["CREATE", "UPDATE"]
            .into_iter()
            .filter(|operation| !self.scope.covers(operation))
            .collect();
        let as_in_the_docs = "apply the rules of the chart or of docs/serving.md again";
        if !missing.is_empty() {
            return Line::failure(
                Thing::Rules,
                format!(
                    "no rule covers {} of endpointslices in discovery.k8s.io/v1, so such writes get no hints",
                    missing.join(" and ")
                ),
                as_in_the_docs,
            );
        }
        if !self.admission_review_versions.iter().any(|v| v == "v1") {
            return Line::failure(
                Thing::Rules,
                "admissionReviewVersions lacks v1, the only version that zonewise speaks",
                as_in_the_docs,
            );
        }
        if rules.iter().any(covers_more) {
            return Line::warning(
                Thing::Rules,
                "the rules cover more than CREATE and UPDATE of endpointslices: zonewise leaves all else alone, and \
                 each such write waits for it",
                as_in_the_docs,
            );
        }
        Line::ok(Thing::Rules, "CREATE and UPDATE of endpointslices")
    }

    /// Whom the API server trusts when it calls this.
    pub fn ca_bundle(&self, now: OffsetDateTime) -> CaBundle {
        let config = &self.client_config;
        let pem = config.ca_bundle.as_ref().map_or(&[][..], |pem| &pem.0);
        CaBundle::read(pem, config.service.is_some(), now)
    }

    /// What is to be told of the way from the API server to a validating one.
    async fn way_to_validate(
        &self,
        looks: &mut Looks,
        now: OffsetDateTime,
    ) -> impl Iterator<Item = Line> {
        let target = Target::of(&self.client_config);
        let path = target
            .path()
            .filter(|path| path != VALIDATE_PATH)
            .map(|path| {
                Line::failure(
                    Thing::Validating,
                    format!("the path {path} is called, where nobody answers its reviews"),
                    "set the path of its clientConfig to /validate",
                )
            });
        let (bundle, address) = (self.ca_bundle(now), target.address());
        let served = Served::look(looks, &bundle, address.as_ref(), now).await;
        let at = address.map_or_else(String::new, host_and_port);
        let served = served.line(&at, false, now);
        [served, bundle.line].into_iter().chain(path)
    }

    /// What a dead or slow webhook costs.
    pub fn failure_policy(&self, thing: Thing) -> Line {
        let policy = self.failure_policy.as_deref().unwrap_or("Fail");
        let timeout = self.timeout_seconds.unwrap_or(10);
        let side_effects = self.side_effects.as_deref().unwrap_or("Unknown");
        if policy != "Ignore" {
            return Line::failure(
                thing,
                format!(
                    "failurePolicy of {} is {policy}: while zonewise is down no EndpointSlice can be written, not even its own",
                    self.name
                ),
                "set failurePolicy: Ignore; a dead webhook must cost hints, never a write",
            );
        }
        if !matches!(side_effects, "None" | "NoneOnDryRun") {
            return Line::failure(
                thing,
                format!(
                    "sideEffects of {} is {side_effects}, so dry runs are refused",
                    self.name
                ),
                "set sideEffects: None, which is what zonewise has",
            );
        }
        if timeout > 1 {
            return Line::warning(
                thing,
                format!(
                    "timeoutSeconds of {} is {timeout}: so long each write of a slice waits where zonewise hangs",
                    self.name
                ),
                "set timeoutSeconds: 1; Ignore does not cover latency",
            );
        }
        Line::ok(thing, "failurePolicy Ignore, timeoutSeconds 1")
    }

    /// What selectors and conditions leave out.
    pub fn scope(&self) -> Line {
        let conditions = self.match_conditions.iter().flatten();
        let mut expressions = conditions.map(|condition| condition.expression.as_str());
        if !expressions.any(|text| text.contains("kubernetes.io/service-name")) {
            return Line::warning(
                Thing::Scope,
                "no match condition is about kubernetes.io/service-name: the API server asks about its own \
                 default/kubernetes and about slices without a Service, all of which zonewise leaves alone",
                "add the matchConditions of the chart or of docs/serving.md, so that these writes need not wait",
            );
        }
        let selectors = self.selectors();
        let conditions = words::count(self.conditions().len(), "match condition");
        let message = if selectors.is_empty() {
            format!("all namespaces and slices but for {conditions}")
        } else {
            format!(
                "only {}, with {conditions}; all else gets no hints",
                selectors.join(", and ")
            )
        };
        Line::ok(Thing::Scope, message)
    }
}

/// Whether other mutating webhooks could change hints after ours.
pub fn others(all: &[Configuration], ours: &(Configuration, usize)) -> Line {
    let (configuration, place) = ours;
    let mine = (configuration.name(), *place);
    let reinvoked = |webhook: &Webhook| webhook.reinvocation_policy.as_deref() == Some("IfNeeded");
    let webhooks = all.iter().flat_map(|one| {
        let webhooks = one.webhooks.iter().enumerate();
        webhooks.map(|(place, webhook)| ((one.name(), place), webhook))
    });
    let others = webhooks.filter(|(at, webhook)| *at != mine && webhook.is_about_slices());
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return Line::ok(
            Thing::OtherWebhooks,
            "no other is asked about EndpointSlices",
        );
    }
    let names = |those: &mut dyn Iterator<Item = &((&str, usize), &Webhook)>| {
        let names: Vec<String> = those
            .map(|((configuration, _), webhook)| format!("{} of {configuration}", webhook.name))
            .collect();
        words::first(&names)
    };
    // The API server asks in the order of the configurations' names.
    let mut after = others
        .iter()
        .filter(|(at, webhook)| *at > mine || reinvoked(webhook))
        .peekable();
    if after.peek().is_none() || reinvoked(&configuration.webhooks[*place]) {
        let names = names(&mut others.iter());
        return Line::ok(
            Thing::OtherWebhooks,
            format!("zonewise has the last word; asked before it about EndpointSlices: {names}"),
        );
    }
    Line::warning(
        Thing::OtherWebhooks,
        format!(
            "asked about EndpointSlices after zonewise, so that it could change hints or drop them: {}",
            names(&mut after)
        ),
        "keep it away from EndpointSlices by its rules or selectors, or set reinvocationPolicy: IfNeeded on zonewise's \
         webhook, so that it is asked again",
    )
}

/// What is to be told of the validating webhooks that are zonewise's: the worst.
pub async fn validating(
    all: &Result<Vec<Configuration>, Refusal>,
    looks: &mut Looks,
    now: OffsetDateTime,
) -> Line {
    const NEEDS: &str = "list validatingwebhookconfigurations";
    let all = match all {
        Ok(all) => all,
        Err(refusal) => return Line::not_looked_at(Thing::Validating, refusal, NEEDS),
    };
    let webhooks = all.iter().flat_map(|one| &one.webhooks);
    let mut lines = Vec::new();
    for webhook in webhooks.filter(|w| w.name.ends_with(DOMAIN)) {
        let way = webhook.way_to_validate(looks, now).await;
        lines.extend(way.map(|line| line.of(Thing::Validating, &webhook.name)));
        lines.push(webhook.failure_policy(Thing::Validating));
    }
    // Of those that are as bad the last, which tells most where all is well.
    let worst = lines.into_iter().max_by_key(|line| line.status);
    worst.unwrap_or_else(|| Line::ok(Thing::Validating, "none: validation is off"))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::certs::{self, Signer, Validity, read};
    use crate::cli::check::line::Status;

    fn configuration(name: &str, webhooks: &[Value]) -> Configuration {
        let json = json!({"metadata": {"name": name}, "webhooks": webhooks});
        serde_json::from_value(json).unwrap()
    }

    fn webhook(name: &str, changes: &Value) -> Value {
        let mut webhook = json!({
            "name": name,
            "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "rules": [{"apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["endpointslices"]}],
            "matchConditions": [{"name": "a", "expression": "'kubernetes.io/service-name' in object.metadata.labels"}],
        });
        json_patch::merge(&mut webhook, changes);
        webhook
    }

    fn changed(changes: &Value) -> Webhook {
        serde_json::from_value(webhook("endpointslices.zonewise.dev", changes)).unwrap()
    }

    fn rule(changes: &Value) -> Value {
        let mut rule = json!({"apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["endpointslices"]});
        json_patch::merge(&mut rule, changes);
        json!({"rules": [rule]})
    }

    #[test]
    fn rules_must_cover_both_writes_of_slices() {
        let status = |changes: &Value| changed(changes).rules().status;
        assert_eq!(status(&json!({})), Status::Ok);
        let only_create = changed(&rule(&json!({"operations": ["CREATE"]}))).rules();
        assert_eq!(only_create.status, Status::Failure);
        assert!(only_create.message.contains("no rule covers UPDATE"));
        assert_eq!(status(&rule(&json!({"scope": "Cluster"}))), Status::Failure);
        assert_eq!(status(&rule(&json!({"apiGroups": [""]}))), Status::Failure);
        assert_eq!(status(&json!({"rules": null})), Status::Failure);
        assert_eq!(
            status(&json!({"admissionReviewVersions": ["v1beta1"]})),
            Status::Failure
        );
        assert_eq!(
            status(&rule(&json!({"operations": ["*"]}))),
            Status::Warning
        );
        assert_eq!(status(&rule(&json!({"resources": ["*"]}))), Status::Warning);
    }

    #[test]
    fn a_dead_webhook_must_cost_no_write_and_a_slow_one_little() {
        let line = |changes: &Value| changed(changes).failure_policy(Thing::FailurePolicy);
        assert_eq!(line(&json!({})).status, Status::Ok);
        assert_eq!(
            line(&json!({"failurePolicy": null})).status,
            Status::Failure
        );
        assert_eq!(
            line(&json!({"sideEffects": "Some"})).status,
            Status::Failure
        );
        let slow = line(&json!({"timeoutSeconds": null}));
        assert_eq!(slow.status, Status::Warning);
        assert!(slow.message.contains("is 10"), "{}", slow.message);
    }

    #[test]
    fn what_is_left_out_is_told() {
        assert_eq!(
            changed(&json!({})).scope().message,
            "all namespaces and slices but for 1 match condition"
        );
        let narrow =
            json!({"objectSelector": {"matchLabels": {"team": "a"}}, "namespaceSelector": {}});
        assert_eq!(
            changed(&narrow).scope().message,
            "only slices with team=a, with 1 match condition; all else gets no hints"
        );
        let all = changed(&json!({"matchConditions": null})).scope();
        assert_eq!(all.status, Status::Warning);
    }

    #[test]
    fn who_is_asked_later_could_change_hints() {
        let ours = configuration("m", &[webhook("endpointslices.zonewise.dev", &json!({}))]);
        let other = |name: &str, changes: &Value| configuration(name, &[webhook("x.y", changes)]);
        let told = |other: Configuration, ours: Configuration| {
            let all = [other, ours.clone()];
            others(&all, &(ours, 0))
        };
        let none = others(std::slice::from_ref(&ours), &(ours.clone(), 0));
        assert_eq!(none.message, "no other is asked about EndpointSlices");
        assert_eq!(
            told(other("a", &json!({})), ours.clone()).status,
            Status::Ok
        );
        let after = told(other("z", &json!({})), ours.clone());
        assert_eq!(after.status, Status::Warning);
        assert!(after.message.ends_with("x.y of z"), "{}", after.message);
        let again = json!({"reinvocationPolicy": "IfNeeded"});
        assert_eq!(
            told(other("a", &again), ours.clone()).status,
            Status::Warning
        );
        let pods = rule(&json!({"apiGroups": [""], "resources": ["pods"]}));
        assert_eq!(told(other("z", &pods), ours).message, none.message);
        let asked_again = configuration("m", &[webhook("endpointslices.zonewise.dev", &again)]);
        assert_eq!(told(other("z", &json!({})), asked_again).status, Status::Ok);
    }

    #[test]
    fn the_configuration_is_found_by_its_webhooks_name() {
        let ours =
            |name: &str| configuration(name, &[webhook("endpointslices.zonewise.dev", &json!({}))]);
        let other = configuration("other", &[webhook("x.y", &json!({}))]);
        let found = |all: &[Configuration]| pick(all, "x", is_zonewises);
        assert_eq!(found(&[other.clone(), ours("a")]).unwrap().name(), "a");
        let several = found(&[ours("a"), ours("b")]).unwrap_err();
        assert!(
            several.message.ends_with("several: a, b"),
            "{}",
            several.message
        );
        assert!(found(&[other]).unwrap_err().message.contains("never asks"));
        let by_name = pick(&[ours("a")], "zonewise", |one| one.name() == "zonewise").unwrap_err();
        assert!(
            by_name.message.ends_with("though there is a"),
            "{}",
            by_name.message
        );
    }

    #[tokio::test]
    async fn validation_that_is_off_is_no_fault() {
        let told = async |webhook: Value| {
            let all = Ok(vec![configuration("v", &[webhook])]);
            validating(&all, &mut Looks::default(), now()).await.status
        };
        let fails = json!({"failurePolicy": "Fail"});
        assert_eq!(told(webhook("x.y", &fails)).await, Status::Ok);
        let ours = webhook("validate.zonewise.dev", &fails);
        assert_eq!(told(ours).await, Status::Failure);
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
    }

    fn ca() -> (Signer, String) {
        let made = certs::make_ca(Validity::beginning(now(), time::Duration::days(365)));
        let made = made.unwrap();
        let signer = Signer::new(&made.certificate, &made.key).unwrap();
        (signer, made.certificate)
    }

    #[tokio::test]
    async fn the_way_to_a_validating_webhook_is_judged_as_that_to_the_mutating_one() {
        let (signer, good) = ca();
        let names = ["zonewise.z.svc".to_owned()];
        let month = Validity::beginning(now(), time::Duration::days(30));
        let server = certs::sign_server(&signer, &names, month).unwrap();
        let server = read::certificates(server.certificate.as_bytes()).0;
        let mut looks = Looks::of_one(
            ("zonewise.z.svc".to_owned(), 443),
            vec![server[0].der.clone()],
        );
        let webhook = |name: &str, pem: &str, path: &str| {
            let pem = base64::engine::general_purpose::STANDARD.encode(pem);
            let service = json!({"name": "zonewise", "namespace": "z", "path": path});
            let client = json!({"url": null, "service": service, "caBundle": pem});
            webhook(name, &json!({"clientConfig": client}))
        };
        // The worst of all counts, wherever it stands.
        let mut told = async |bundle: &str, path: &str| {
            let both = [
                webhook("hints.zonewise.dev", bundle, path),
                webhook("services.zonewise.dev", &good, "/validate"),
            ];
            let all = Ok(vec![configuration("v", &both)]);
            let line = validating(&all, &mut looks, now()).await;
            assert_eq!(
                line.docs,
                "docs/troubleshooting.md#check-validating-webhook"
            );
            (line.status, line.message)
        };
        let (status, message) = told(&good, "/validate").await;
        assert_eq!(status, Status::Ok, "{message}");
        let over = Validity {
            from: now() - time::Duration::days(9),
            until: now() - time::Duration::days(3),
        };
        let expired = certs::make_ca(over).unwrap().certificate;
        let foreign = ca().1;
        for (bundle, path, wanted) in [
            ("", "/validate", "caBundle is empty"),
            ("no PEM", "/validate", "caBundle is no list of"),
            (&expired, "/validate", "the CA in caBundle expired 3 days"),
            (&foreign, "/validate", "the CA in caBundle does not trust"),
            (&good, "/mutate", "the path /mutate is called, where nobody"),
        ] {
            let (status, message) = told(bundle, path).await;
            assert_eq!(status, Status::Failure, "{message}");
            let wanted = format!("hints.zonewise.dev: {wanted}");
            assert!(message.starts_with(&wanted), "{message}");
        }
    }
}
