//! Certificates that look after themselves.
//!
//! One Secret holds a CA and a server certificate. The replica that leads makes them, renews them, and puts the CA into the
//! webhook configurations; every replica, the leader too, serves what it reads in the Secret, and looks whether the webhook
//! configurations trust that. All of it is read with plain calls, every few seconds ([`rules`]).
//!
//! - What is due is decided by [`plan`](mod@plan), which knows no clock and makes no calls. Writes of the Secret name the version that
//!   they replace, so of several leaders one is first, and the others read again.
//! - A replica keeps the last good certificate when the Secret is gone or spoilt, and goes over to another only when the
//!   webhook configurations trust that one, or do not trust its own.
//! - The CA bundle is put in by server-side apply, with the uid and the version of what was read: it never makes a webhook
//!   configuration.
//!
//! Permissions, beside those of the [lease](super::lease): `create` on secrets, and `get` and `update` on the one by its
//! name, in the own namespace; `get` and `patch` on the webhook configurations by their names. Where certificates come from
//! files, `get` alone is needed, for [`watching`].

pub mod configuration;
pub mod contents;
pub mod metrics;
pub mod overlap;
pub mod plan;
pub mod rules;
pub mod secret;
mod told;
pub mod watching;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use self::configuration::{Configuration, ConfigurationName, Trust, worst};
use self::contents::{Contents, Data};
use self::metrics::CertificateMetrics;
use self::overlap::Overlap;
use self::plan::{CaStep, Circumstances, Plan, plan};
use self::rules::Rules;
use self::secret::{Secret, SecretName};
use self::told::Told;
use super::call::Failed;
use super::lease::Claim;
use super::owner::Owner;
use crate::certs;
use crate::certs::read::Certificate;
use crate::certs::serving::{CurrentCertificate, ServingCertificate};
use crate::telemetry::{Metrics, Readiness};

/// What it works with.
pub struct Certificates {
    /// The API server.
    pub client: Client,
    /// Where they are kept.
    pub secret: SecretName,
    /// Names and lifetimes.
    pub rules: Rules,
    /// Whose CA bundles are looked after.
    pub configurations: Vec<ConfigurationName>,
    /// What owns the Secret.
    pub owner: Option<Owner>,
    /// Whether this replica leads.
    pub claim: Claim,
    /// What is served.
    pub current: Arc<CurrentCertificate>,
    /// Ready once what is served is trusted.
    pub readiness: Readiness,
    /// What it counts.
    pub metrics: CertificateMetrics,
    /// Where ends of certificates are told.
    pub serving_metrics: Metrics,
}

/// What a webhook configuration was seen as.
type Seen = Result<Configuration, Failed>;

/// Between two rounds at least.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Between two rounds at most for as long as the process is not ready.
const PAUSE_BEFORE_READY: Duration = Duration::from_secs(1);

/// Looks after certificates until the process ends.
pub async fn run(certificates: Certificates) {
    certificates
        .readiness
        .wait_for(format!("for Secret {}", certificates.secret));
    let mut work = Work {
        with: certificates,
        overlap: Overlap::default(),
        remembered: Vec::new(),
        has_been_trusted: false,
        told: Told::default(),
    };
    loop {
        let wrote = work.round().await;
        work.pause(wrote).await;
    }
}

struct Work {
    with: Certificates,
    overlap: Overlap,
    /// The bundle as it last was in order.
    remembered: Vec<Certificate>,
    has_been_trusted: bool,
    told: Told,
}

/// How the Secret stands after a look.
enum Kept {
    /// As it should be.
    InOrder,
    /// Written, by whomever: it has to be read again.
    Written,
    /// Not as it should be.
    Failed,
}

impl Work {
    /// Looks at everything once. Whether anything was written, after which another look is due.
    async fn round(&mut self) -> bool {
        let secret = self.with.secret.get(&self.with.client).await;
        let seen = self.look_at_configurations().await;
        self.tell_failures(&secret, &seen);
        let data = match &secret {
            Ok(Some(secret)) => secret.data(),
            Ok(None) | Err(_) => Data::new(),
        };
        let contents = Contents::read(&data);
        let now = OffsetDateTime::now_utc();
        self.note_next(&contents, &seen);
        let lacks = match &secret {
            Ok(_) => "has no certificate yet; the replica that leads makes one",
            Err(_) => "can't be read",
        };
        self.serve(&contents, lacks, &seen, now);
        let (Ok(secret), true) = (secret, self.with.claim.holds()) else {
            return false;
        };
        self.lead(secret.as_ref(), &data, &contents, &seen, now)
            .await
    }

    async fn look_at_configurations(&self) -> Vec<Seen> {
        let client = &self.with.client;
        let looks = self.with.configurations.iter().map(|name| name.get(client));
        futures::future::join_all(looks).await
    }

    async fn pause(&mut self, wrote: bool) {
        let interval = self.with.rules.interval();
        let pause = if wrote {
            LEAST_PAUSE
        } else if self.has_been_trusted {
            interval
        } else {
            interval.min(PAUSE_BEFORE_READY)
        };
        tokio::select! {
            () = self.with.claim.changed() => sleep(LEAST_PAUSE).await,
            () = sleep(pause) => {}
        }
    }

    fn tell_failures(&mut self, secret: &Result<Option<Secret>, Failed>, seen: &[Seen]) {
        let advice = "give zonewise's service account get on it";
        let secret_state = match secret {
            Err(Failed::Other(problem)) => Err(format!("can't be read: {problem}; {advice}")),
            _ => Ok(()),
        };
        self.told
            .tell(&format!("Secret {}", self.with.secret), secret_state);
        for (name, seen) in self.with.configurations.iter().zip(seen) {
            let state = match seen {
                Ok(_) | Err(Failed::Conflict) => Ok(()),
                Err(Failed::Absent) => Err(
                    "is not there: no API server calls zonewise by it; zonewise never makes one, Helm does"
                        .to_owned(),
                ),
                Err(Failed::Other(problem)) => {
                    Err(format!("can't be read: {problem}; {advice}"))
                }
            };
            self.told.tell(&name.to_string(), state);
        }
    }

    /// For how long the next CA has been trusted wherever anybody could be called from.
    fn note_next(&mut self, contents: &Contents, seen: &[Seen]) {
        let next = contents.next.as_ref().map(|next| &next.certificate);
        let trusted = next.filter(|next| {
            seen.iter().all(|seen| match seen {
                Ok(configuration) => configuration.trusts_ca(next),
                Err(failed) => matches!(failed, Failed::Absent),
            })
        });
        let key = trusted.map(|next| next.public_key.as_slice());
        self.overlap.note(key, Instant::now());
    }

    // === What every replica does ===

    /// Serves what is in the Secret, which otherwise `lacks` something, and tells whether that is trusted.
    fn serve(&mut self, contents: &Contents, lacks: &str, seen: &[Seen], now: OffsetDateTime) {
        let offered = contents.server.as_ref();
        let offered = offered.filter(|server| server.leaf.validity.holds(now));
        if let Some(server) = offered {
            self.take_over(&server.serving, seen, now);
        }
        if let Some(ca) = &contents.signing {
            let until = ca.certificate.validity.until.unix_timestamp();
            self.with
                .serving_metrics
                .set_certificate_expiration("ca", until);
            self.remembered.clone_from(&contents.bundle);
        }
        let trust = match self.with.current.get() {
            Some(serving) => self.trust(&serving, seen, now),
            None => Trust::Distrusted(format!("Secret {} {lacks}", self.with.secret)),
        };
        self.tell_trust(trust);
    }

    /// Serves what is offered, unless what is served is trusted and this is not, or not yet.
    fn take_over(&mut self, offered: &ServingCertificate, seen: &[Seen], now: OffsetDateTime) {
        let serving = self.with.current.get();
        if let Some(serving) = &serving {
            let is_served = serving.chain() == offered.chain();
            let distrusted = |trust| matches!(trust, Trust::Distrusted(_));
            if is_served
                || (self.trust(serving, seen, now) == Trust::Trusted
                    && distrusted(self.trust(offered, seen, now)))
            {
                return;
            }
        }
        self.with.current.replace(offered);
        let until = jiff::Timestamp::from_second(offered.not_after()).unwrap_or_default();
        tracing::info!(secret = %self.with.secret, %until, "serving the certificate of the Secret");
    }

    fn trust(&self, serving: &ServingCertificate, seen: &[Seen], now: OffsetDateTime) -> Trust {
        let judged = self.with.configurations.iter().zip(seen);
        worst(judged.map(|(name, seen)| name.trust(seen, serving.chain(), now)))
    }

    fn tell_trust(&mut self, trust: Trust) {
        let state = match trust {
            Trust::Trusted => {
                self.with.metrics.set_trusted(Some(true));
                if !std::mem::replace(&mut self.has_been_trusted, true) {
                    self.with.readiness.has_all();
                    tracing::info!(
                        "the webhook configurations trust the certificate that is served"
                    );
                }
                Ok(())
            }
            Trust::Distrusted(why) => {
                self.with.metrics.set_trusted(Some(false));
                Err(why)
            }
            Trust::Unknown(why) if self.has_been_trusted => {
                tracing::debug!(why, "can't tell whether the certificate is trusted");
                return;
            }
            Trust::Unknown(why) => Err(why),
        };
        if let (Err(why), false) = (&state, self.has_been_trusted) {
            let waits = format!("until the API server trusts the certificate: {why}");
            self.with.readiness.wait_for(waits);
            return;
        }
        let state = state.map_err(|why| format!("is not trusted: {why}"));
        self.told.tell("the certificate that is served", state);
    }

    // === What the replica that leads does ===

    async fn lead(
        &mut self,
        secret: Option<&Secret>,
        data: &Data,
        contents: &Contents,
        seen: &[Seen],
        now: OffsetDateTime,
    ) -> bool {
        match self.keep_secret(secret, data, contents, now).await {
            Kept::Written => true,
            // Some CA that can sign is better than none.
            Kept::Failed if contents.signing.is_none() => false,
            Kept::InOrder | Kept::Failed => self.keep_bundles(contents, seen).await,
        }
    }

    /// Writes the Secret where something is due.
    async fn keep_secret(
        &mut self,
        secret: Option<&Secret>,
        data: &Data,
        contents: &Contents,
        now: OffsetDateTime,
    ) -> Kept {
        let circumstances = Circumstances {
            now,
            next_is_trusted: self.next_is_trusted(contents),
            remembered: &self.remembered,
        };
        let due = plan(contents, &self.with.rules, &circumstances);
        let after = plan::carry_out(&due, contents, &self.with.rules, &circumstances);
        let after = match after {
            Ok(after) => after,
            Err(problem) => {
                self.count(&due, "failed");
                self.told.tell("a certificate", Err(problem));
                return Kept::Failed;
            }
        };
        let owner = self.with.owner.as_ref().and_then(Owner::reference);
        let is_owned = |secret: &Secret| {
            let owner = owner.as_ref();
            owner.is_none_or(|owner| secret.is_owned_by(owner))
        };
        let wanted = after.in_place_in(data);
        if wanted == *data && secret.is_some_and(is_owned) {
            return Kept::InOrder;
        }
        let Some(under_way) = self.with.claim.write() else {
            return Kept::Failed;
        };
        let (name, client) = (&self.with.secret, &self.with.client);
        let written = name.put(client, secret, &wanted, owner.as_ref()).await;
        drop(under_way);
        if let (None, Some(owner)) = (secret, &self.with.owner) {
            owner.ask_again();
        }
        self.note_written(written, &due, &after)
    }

    fn next_is_trusted(&self, contents: &Contents) -> bool {
        let overlap = self.with.rules.overlap();
        contents.next.as_ref().is_some_and(|next| {
            let key = &next.certificate.public_key;
            self.overlap.is_over(key, overlap, Instant::now())
        })
    }

    fn note_written(&mut self, written: Result<(), Failed>, due: &Plan, after: &Contents) -> Kept {
        let about = format!("Secret {}, to be written,", self.with.secret);
        match written {
            Ok(()) => {
                self.count(due, "renewed");
                self.told.tell(&about, Ok(()));
                tell_step(due, after, &self.with.secret);
                Kept::Written
            }
            // Somebody else was faster; what is due now is seen at the next look.
            Err(Failed::Conflict) => Kept::Written,
            Err(Failed::Absent) => Kept::Failed,
            Err(Failed::Other(problem)) => {
                self.count(due, "failed");
                let advice = "zonewise needs permission to create secrets, and to update this one";
                let state = Err(format!("can't be: {problem}; {advice}"));
                self.told.tell(&about, state);
                Kept::Failed
            }
        }
    }

    fn count(&self, due: &Plan, result: &'static str) {
        if due.ca != CaStep::Keep {
            self.with.metrics.count_renewal("ca", result);
        }
        if due.server.is_some() {
            self.with.metrics.count_renewal("serving", result);
        }
    }

    /// Puts the bundle where it is not. Whether it was put anywhere.
    async fn keep_bundles(&mut self, contents: &Contents, seen: &[Seen]) -> bool {
        let bundle = contents.bundle_pem().into_bytes();
        let mut wrote = false;
        for (name, seen) in self.with.configurations.clone().iter().zip(seen) {
            let Ok(configuration) = seen else {
                continue;
            };
            if configuration.has_bundle(&bundle) {
                continue;
            }
            let Some(under_way) = self.with.claim.write() else {
                break;
            };
            let client = &self.with.client;
            let put = name.put_bundle(client, configuration, &bundle).await;
            drop(under_way);
            wrote |= self.note_put(name, put);
        }
        wrote
    }

    fn note_put(&mut self, name: &ConfigurationName, put: Result<(), Failed>) -> bool {
        let about = format!("the CA bundle of {name}");
        match put {
            Ok(()) => {
                self.with.metrics.count_bundle("stored");
                self.told.tell(&about, Ok(()));
                tracing::info!(configuration = %name, "the CA bundle is put in");
                true
            }
            Err(Failed::Conflict | Failed::Absent) => {
                self.with.metrics.count_bundle("conflict");
                true
            }
            Err(Failed::Other(problem)) => {
                self.with.metrics.count_bundle("failed");
                let advice = "zonewise needs permission to patch it";
                self.told
                    .tell(&about, Err(format!("can't be put in: {problem}; {advice}")));
                false
            }
        }
    }
}

fn tell_step(due: &Plan, after: &Contents, secret: &SecretName) {
    let ca = |ca: &Option<contents::Ca>| {
        let ca = ca.as_ref().map(|ca| &ca.certificate);
        ca.map(|ca| certs::fingerprint(&ca.public_key))
            .unwrap_or_default()
    };
    let what = match due.ca {
        CaStep::Keep => "no CA is new",
        CaStep::StartAfresh => "a new CA signs, since there was none that could",
        CaStep::MakeNext => "the next CA is made, and will sign when it is trusted everywhere",
        CaStep::UseNext => "the next CA signs from now on",
    };
    tracing::info!(
        %secret,
        ca = ca(&after.signing),
        next_ca = ca(&after.next),
        new_certificate_because = due.server.unwrap_or_default(),
        "certificates written: {what}"
    );
}
