//! Webhook configurations: what they trust, and how the CA bundle gets there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{GetParams, Patch, PatchParams};
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::certs::read::{self, Certificate};
use crate::certs::trust;
use crate::controller::call::{Failed, call};
use crate::settings::FIELD_MANAGER;
use crate::webhook::{MUTATE_PATH, VALIDATE_PATH};

/// Which of the two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its webhooks may change what is written.
    Mutating,
    /// Its webhooks may refuse what is written.
    Validating,
}

impl Kind {
    /// The kind's name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// Which webhook configuration.
#[derive(Debug, Clone)]
pub struct ConfigurationName {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ConfigurationName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.name)
    }
}

/// zonewise's webhooks are named so, whatever their configuration is called.
pub const DOMAIN: &str = ".zonewise.dev";

/// One as it was read: those of its webhooks that call zonewise.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    uid: String,
    version: String,
    webhooks: Vec<Webhook>,
}

/// One of its webhooks.
#[derive(Debug, Clone)]
struct Webhook {
    name: String,
    bundle: Vec<u8>,
    cas: Vec<Certificate>,
    /// The name that an API server expects in the certificate.
    server: Option<String>,
    /// Whether it names a Service rather than a URL.
    has_service: bool,
}

/// Whether an API server that goes by it would trust a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It would.
    Trusted,
    /// It would not, and this is why.
    Distrusted(String),
    /// That can't be told, and this is why.
    Unknown(String),
}

impl ConfigurationName {
    fn requests(&self) -> kube::core::Request {
        let plural = self.kind.plural();
        kube::core::Request::new(format!("/apis/admissionregistration.k8s.io/v1/{plural}"))
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`Failed::Absent`] where there is none.
    pub async fn get(&self, client: &Client) -> Result<Configuration, Failed> {
        let request = self.requests().get(&self.name, &GetParams::default());
        let object = call::<Value>(client, request).await?;
        Ok(Configuration::read(&object))
    }

    /// Puts a CA bundle into each webhook that was read, by server-side apply, if it still is as it was read. Its uid is sent
    /// along, so that none is ever made.
    ///
    /// # Errors
    /// [`Failed::Conflict`] where it has changed or gone meanwhile.
    pub async fn put_bundle(
        &self,
        client: &Client,
        read: &Configuration,
        bundle: &[u8],
    ) -> Result<(), Failed> {
        let bundle = STANDARD.encode(bundle);
        let webhook =
            |webhook: &Webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}});
        let webhooks: Vec<Value> = read.webhooks.iter().map(webhook).collect();
        let applied = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": self.kind.word(),
            "metadata": {"name": self.name, "uid": read.uid, "resourceVersion": read.version},
            "webhooks": webhooks,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let request = self
            .requests()
            .patch(&self.name, &parameters, &Patch::Apply(applied));
        match call::<Value>(client, request).await {
            Ok(_) => Ok(()),
            Err(Failed::Absent) => Err(Failed::Conflict),
            Err(failed) => Err(failed),
        }
    }
}

impl Configuration {
    /// Reads what the API server answers.
    #[must_use]
    pub fn read(object: &Value) -> Self {
        let text = |pointer| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let webhooks = object["webhooks"].as_array();
        Self {
            uid: text("/metadata/uid"),
            version: text("/metadata/resourceVersion"),
            webhooks: webhooks
                .into_iter()
                .flatten()
                .filter(|webhook| calls_zonewise(webhook))
                .map(Webhook::read)
                .collect(),
        }
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether every webhook of it has this bundle.
    #[must_use]
    pub fn has_bundle(&self, bundle: &[u8]) -> bool {
        self.webhooks.iter().all(|webhook| webhook.bundle == bundle)
    }

    /// Whether an API server goes by its host's own CAs for some webhook of it, and these may vouch for it: no public CA signs
    /// the name of a Service.
    #[must_use]
    pub fn goes_by_the_hosts_cas(&self) -> bool {
        self.webhooks
            .iter()
            .any(|webhook| webhook.bundle.is_empty() && !webhook.has_service)
    }

    /// Whether this CA is in the bundle of every webhook of it.
    #[must_use]
    pub fn trusts_ca(&self, ca: &Certificate) -> bool {
        self.webhooks.iter().all(|webhook| webhook.cas.contains(ca))
    }

    /// Whether a chain, leaf first, is trusted by all of its webhooks.
    #[must_use]
    pub fn trusts(&self, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Trust {
        if self.webhooks.is_empty() {
            return Trust::Distrusted("it has no webhook that calls zonewise".to_owned());
        }
        let all = self
            .webhooks
            .iter()
            .map(|webhook| webhook.trusts(chain, now));
        worst(all)
    }
}

impl ConfigurationName {
    /// Whether a chain, leaf first, is trusted by what this was read as; unknown where it could not be read.
    #[must_use]
    pub fn trust(
        &self,
        read: &Result<Configuration, Failed>,
        chain: &[CertificateDer<'_>],
        now: OffsetDateTime,
    ) -> Trust {
        match read {
            Ok(configuration) => match configuration.trusts(chain, now) {
                Trust::Distrusted(why) => Trust::Distrusted(format!("{self}: {why}")),
                Trust::Unknown(why) => Trust::Unknown(format!("{self}: {why}")),
                Trust::Trusted => Trust::Trusted,
            },
            Err(Failed::Absent) => Trust::Distrusted(format!("there is no {self}")),
            Err(_) => Trust::Unknown(format!("{self} can't be read")),
        }
    }
}

/// The first that distrusts, else the first that can't tell.
pub fn worst(all: impl Iterator<Item = Trust>) -> Trust {
    let mut worst = Trust::Trusted;
    for trust in all {
        match trust {
            Trust::Distrusted(_) => return trust,
            Trust::Unknown(_) if worst == Trust::Trusted => worst = trust,
            _ => {}
        }
    }
    worst
}

impl Webhook {
    fn read(object: &Value) -> Self {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let bundle = text("/clientConfig/caBundle").and_then(|text| STANDARD.decode(text).ok());
        let bundle = bundle.unwrap_or_default();
        let service =
            text("/clientConfig/service/name").zip(text("/clientConfig/service/namespace"));
        let has_service = service.is_some();
        let service = service.map(|(name, namespace)| format!("{name}.{namespace}.svc"));
        let url = || text("/clientConfig/url").and_then(host);
        Self {
            name: text("/name").unwrap_or_default().to_owned(),
            cas: read::certificates(&bundle).0,
            server: service.or_else(url),
            has_service,
            bundle,
        }
    }

    fn trusts(&self, chain: &[CertificateDer<'_>], now: OffsetDateTime) -> Trust {
        let name = &self.name;
        let Some(server) = &self.server else {
            return Trust::Unknown(format!("its webhook {name} names no Service and no URL"));
        };
        if self.bundle.is_empty() {
            return Trust::Distrusted(format!("its webhook {name} has no CA bundle"));
        }
        match trust::check_by(chain, &self.cas, server, now) {
            Ok(()) => Trust::Trusted,
            Err(why) => Trust::Distrusted(format!(
                "the CA bundle of its webhook {name} does not vouch for {server}: {why}"
            )),
        }
    }
}

/// By its name or, since it may have another, by the path: what else stands in a configuration has a CA of its own.
fn calls_zonewise(webhook: &Value) -> bool {
    let text = |pointer| webhook.pointer(pointer).and_then(Value::as_str);
    let of_url = || text("/clientConfig/url")?.parse::<hyper::Uri>().ok();
    let is_path = |path: &str| matches!(path, MUTATE_PATH | VALIDATE_PATH);
    text("/name").is_some_and(|name| name.ends_with(DOMAIN))
        || text("/clientConfig/service/path").is_some_and(is_path)
        || of_url().is_some_and(|url| is_path(url.path()))
}

/// The host of a URL, without the brackets of an IPv6 address.
fn host(url: &str) -> Option<String> {
    let uri: hyper::Uri = url.parse().ok()?;
    let host = uri.host()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Some(bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs;

    fn configuration(bundle: &str, client: &Value) -> Configuration {
        let mut client = client.clone();
        client["caBundle"] = json!(STANDARD.encode(bundle));
        Configuration::read(&json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "webhooks": [{"name": "endpointslices.zonewise.dev", "clientConfig": client}],
        }))
    }

    #[test]
    fn trust_goes_by_the_bundle_and_by_the_name_that_is_called() {
        let names = ["zonewise.zw.svc", "127.0.0.1", "::1"].map(str::to_owned);
        let made = certs::generate(&names, time::Duration::DAY).unwrap();
        let other = certs::generate(&names, time::Duration::DAY).unwrap();
        let chain = read::certificates(made.certificate.as_bytes()).0;
        let chain = [chain[0].der.clone()];
        let now = OffsetDateTime::now_utc();
        let service = |name| json!({"service": {"name": name, "namespace": "zw", "port": 443}});
        let trusts =
            |bundle: &str, client: &Value| configuration(bundle, client).trusts(&chain, now);
        for client in [
            service("zonewise"),
            json!({"url": "https://127.0.0.1:8443/mutate"}),
            json!({"url": "https://[::1]:8443/mutate"}),
        ] {
            assert_eq!(trusts(&made.ca, &client), Trust::Trusted, "{client}");
            assert_eq!(
                trusts(&(other.ca.clone() + &made.ca), &client),
                Trust::Trusted
            );
            assert!(matches!(trusts(&other.ca, &client), Trust::Distrusted(_)));
        }
        let elsewhere = trusts(&made.ca, &service("other"));
        assert!(matches!(elsewhere, Trust::Distrusted(_)), "{elsewhere:?}");
        let empty = trusts("", &service("zonewise"));
        assert!(matches!(empty, Trust::Distrusted(_)), "{empty:?}");
        let nowhere = trusts(&made.ca, &json!({}));
        assert!(matches!(nowhere, Trust::Unknown(_)), "{nowhere:?}");
        let none = Configuration::default().trusts(&chain, now);
        assert!(matches!(none, Trust::Distrusted(_)), "{none:?}");
        let over = now + time::Duration::DAY * 2;
        let late = configuration(&made.ca, &service("zonewise")).trusts(&chain, over);
        assert!(matches!(late, Trust::Distrusted(_)), "{late:?}");
    }

    #[test]
    fn webhooks_that_do_not_call_zonewise_are_left_alone() {
        let service = |path| json!({"service": {"name": "a", "namespace": "b", "path": path}});
        let url = |path| json!({"url": format!("https://a.b/{path}")});
        let webhook = |(name, client): (&str, Value)| json!({"name": name, "clientConfig": client});
        let all = [
            ("a.zonewise.dev", service("/elsewhere")),
            ("renamed.by.somebody", service("/mutate")),
            ("also.by.url", url("validate?timeout=1s")),
            ("x.y.z", service("/mutate-pods")),
            ("zonewise.dev.x.y", url("")),
            (
                "without.a.path",
                json!({"service": {"name": "a", "namespace": "b"}}),
            ),
        ];
        let read = Configuration::read(&json!({"webhooks": all.map(webhook)}));
        let names: Vec<&str> = read.webhooks.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(
            names,
            ["a.zonewise.dev", "renamed.by.somebody", "also.by.url"]
        );
    }

    #[test]
    fn without_a_bundle_the_hosts_cas_may_vouch_for_a_url_and_never_for_a_service() {
        let goes =
            |bundle: &str, client: Value| configuration(bundle, &client).goes_by_the_hosts_cas();
        let url = json!({"url": "https://zonewise.example.com/mutate"});
        assert!(goes("", url.clone()));
        assert!(!goes("some", url));
        assert!(!goes(
            "",
            json!({"service": {"name": "zonewise", "namespace": "zw"}})
        ));
    }
}
