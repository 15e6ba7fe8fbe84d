//! Certificates that look after themselves.
//!
//! One Secret holds a CA and a server certificate. The replica that leads makes them, renews them, and puts the CA into the
//! webhook configurations; every replica, the leader too, serves what it reads in the Secret, and looks whether the webhook
//! configurations trust that. All of it is read with plain calls, every few seconds ([`rules`]).
//!
//! - What is due is decided by [`plan`](mod@plan), which knows no clock and makes no calls. Writes of the Secret name the version that
//!   they replace, so of several leaders one is first, and the others read again.
//! - A replica keeps the last good certificate when the Secret is gone or spoilt, and goes over to another only when the
//!   webhook configurations are known to trust that one, or not to trust its own, or when its own is about to end.
//! - CAs that a replica knows to have signed stay in the bundle when the Secret is put back to an older state or gets a CA of
//!   somebody else's ([`remembered`]).
//! - The CA bundle is put in by server-side apply, with the uid and the version of what was read: it never makes a webhook
//!   configuration. What another tool takes out again and again is put in less and less often ([`puts`]).
//!
//! Permissions, beside those of the [lease](super::lease): `create` on secrets, and `get` and `update` on the one by its
//! name, in the own namespace; `get` and `patch` on the webhook configurations by their names. Where certificates come from
//! files, `get` alone is needed, for [`watching`].

pub mod configuration;
pub mod contents;
pub mod looks;
pub mod metrics;
pub mod overlap;
pub mod plan;
pub mod puts;
pub mod remembered;
pub mod rules;
pub mod secret;
mod told;
pub mod watching;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use self::configuration::{Configuration, ConfigurationName, Trust};
use self::contents::{Contents, Data, Server};
use self::looks::Looks;
use self::metrics::CertificateMetrics;
use self::overlap::Overlap;
use self::plan::{CaStep, Circumstances, Plan, plan};
use self::puts::{Puts, Wanted};
use self::remembered::Remembered;
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

/// Between two rounds at least.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// A bundle that is taken out so often is somebody's doing again and again.
const MANY: u32 = 3;

/// Between two rounds at most for as long as the process is not ready.
const PAUSE_BEFORE_READY: Duration = Duration::from_secs(1);

/// Looks after certificates until the process ends.
pub async fn run(certificates: Certificates) {
    certificates
        .readiness
        .wait_for(format!("for Secret {}", certificates.secret));
    let mut work = Work::new(certificates);
    loop {
        let wrote = work.round().await;
        work.pause(wrote).await;
    }
}

struct Work {
    with: Certificates,
    looks: Looks,
    overlap: Overlap,
    remembered: Remembered,
    puts: Puts,
    /// When a bundle that another tool took out is put in again.
    next_put: Option<Instant>,
    has_been_trusted: bool,
    told: Told,
}

/// The moment of a look.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// By which certificates are judged.
    time: OffsetDateTime,
    /// By which lengths of time are measured.
    clock: Instant,
}

impl Moment {
    fn now() -> Self {
        Self {
            time: OffsetDateTime::now_utc(),
            clock: Instant::now(),
        }
    }
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
    fn new(with: Certificates) -> Self {
        Self {
            looks: Looks::new(with.configurations.clone()),
            with,
            overlap: Overlap::default(),
            remembered: Remembered::default(),
            puts: Puts::default(),
            next_put: None,
            has_been_trusted: false,
            told: Told::default(),
        }
    }

    /// Looks at everything once. Whether anything was written, after which another look is due.
    async fn round(&mut self) -> bool {
        let secret = self.with.secret.get(&self.with.client).await;
        self.looks.look(&self.with.client).await;
        self.tell_failures(&secret);
        let data = match &secret {
            Ok(Some(secret)) => secret.data(),
            Ok(None) | Err(_) => Data::new(),
        };
        let contents = Contents::read(&data);
        let now = Moment::now();
        self.note_trusted(&contents, now);
        let lacks = match &secret {
            Ok(_) => "has no certificate yet; the replica that leads makes one",
            Err(_) => "can't be read",
        };
        self.serve(&contents, lacks, now);
        self.next_put = None;
        let (Ok(secret), true) = (secret, self.with.claim.holds()) else {
            return false;
        };
        self.lead(secret.as_ref(), &data, &contents, now.time).await
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
        let put = self.next_put.map(|at| at - Instant::now());
        let pause = put.map_or(pause, |put| pause.min(put.max(LEAST_PAUSE)));
        tokio::select! {
            () = self.with.claim.changed() => sleep(LEAST_PAUSE).await,
            () = sleep(pause) => {}
        }
    }

    fn tell_failures(&mut self, secret: &Result<Option<Secret>, Failed>) {
        let unreadable =
            |failed: &Failed| Err(format!("can't be read: {}", failed.advised("get it")));
        let secret_state = secret.as_ref().map(drop).or_else(unreadable);
        self.told
            .tell(&format!("Secret {}", self.with.secret), secret_state);
        for (name, seen) in self.looks.now() {
            let state = match seen {
                Err(Failed::Absent) => Err(
                    "is not there: no API server calls zonewise by it; zonewise never makes one, Helm does"
                        .to_owned(),
                ),
                seen => seen.as_ref().map(drop).or_else(unreadable),
            };
            self.told.tell(&name.to_string(), state);
        }
    }

    /// For how long CAs have been trusted wherever anybody could be called from.
    fn note_trusted(&mut self, contents: &Contents, now: Moment) {
        let is_trusted = |ca: &Certificate| {
            self.looks.now().all(|(_, seen)| match seen {
                Ok(configuration) => configuration.trusts_ca(ca),
                Err(failed) => matches!(failed, Failed::Absent),
            })
        };
        let trusted = contents.bundle.iter().filter(|ca| is_trusted(ca));
        let keys = trusted.map(|ca| ca.public_key.as_slice());
        self.overlap.note(keys, now.clock);
    }

    // === What every replica does ===

    /// Serves what is in the Secret, which otherwise `lacks` something, and tells whether that is trusted.
    fn serve(&mut self, contents: &Contents, lacks: &str, now: Moment) {
        let offered = contents.server.as_ref();
        let offered = offered.filter(|server| server.leaf.validity.holds(now.time));
        if let Some(server) = offered {
            self.take_over(server, contents, now);
        }
        if let Some(ca) = &contents.signing {
            let until = ca.certificate.validity.until.unix_timestamp();
            self.with
                .serving_metrics
                .set_certificate_expiration("ca", until);
        }
        let looks = &self.looks;
        self.remembered
            .note(contents, now.time, |ca| looks.may_trust_ca(ca));
        let trust = match self.with.current.get() {
            Some(serving) => self.looks.trust_by_the_last(serving.chain(), now.time),
            None => Trust::Distrusted(format!("Secret {} {lacks}", self.with.secret)),
        };
        self.tell_trust(trust);
    }

    /// Serves what is offered, unless what is served is better.
    fn take_over(&mut self, offered: &Server, contents: &Contents, now: Moment) {
        let serving = self.with.current.get();
        if serving.is_some_and(|serving| self.stays_with(&serving, offered, contents, now)) {
            return;
        }
        let offered = &offered.serving;
        self.with.current.replace(offered);
        let until = jiff::Timestamp::from_second(offered.not_after()).unwrap_or_default();
        tracing::info!(secret = %self.with.secret, %until, "serving the certificate of the Secret");
    }

    /// Whether what is served is offered, or better: it is not known to be distrusted, and what is offered has not been
    /// known to be trusted for long enough for every API server to have heard of it.
    fn stays_with(
        &self,
        serving: &ServingCertificate,
        offered: &Server,
        contents: &Contents,
        now: Moment,
    ) -> bool {
        if serving.chain() == offered.serving.chain() {
            return true;
        }
        let trust = |serving: &ServingCertificate| self.looks.trust(serving.chain(), now.time);
        let (interval, would_be) = (self.with.rules.interval(), trust(&offered.serving));
        let at_the_next_look_but_one = now.time + interval * 2;
        let has_settled = |ca: &Certificate| {
            let is_known = self.overlap.is_over(&ca.public_key, interval, now.clock);
            is_known && offered.is_of(ca, &self.with.rules, now.time)
        };
        if matches!(trust(serving), Trust::Distrusted(_)) {
            false
        } else if matches!(would_be, Trust::Distrusted(_)) {
            true
        } else if serving.not_after() <= at_the_next_look_but_one.unix_timestamp() {
            false
        } else {
            would_be != Trust::Trusted || !contents.bundle.iter().any(has_settled)
        }
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
        now: OffsetDateTime,
    ) -> bool {
        self.tell_replaced(contents, now);
        match self.keep_secret(secret, data, contents, now).await {
            Kept::Written => true,
            // Some CA that can sign is better than none.
            Kept::Failed if contents.signing.is_none() => false,
            Kept::InOrder | Kept::Failed => {
                let trusted = self.remembered.added_to(contents, now);
                self.keep_bundles(trusted.bundle_pem().as_bytes()).await
            }
        }
    }

    fn tell_replaced(&mut self, contents: &Contents, now: OffsetDateTime) {
        let is_missing = self.remembered.is_missing_in(&contents.bundle, now);
        let state = if is_missing && contents.signing.is_some() {
            Err("was replaced: it lacks the CA of what replicas serve, which stays trusted")
        } else {
            Ok(())
        };
        let about = format!("the bundle of Secret {}", self.with.secret);
        self.told.tell(&about, state.map_err(str::to_owned));
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
            Ok(after) => {
                self.told.tell("a certificate", Ok(()));
                after
            }
            Err(problem) => {
                self.count(&due, "failed");
                let problem = format!("can't be made: {problem}");
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
        let is_immutable = secret.is_some_and(Secret::is_immutable);
        self.note_written(written, is_immutable, &due, &after)
    }

    fn next_is_trusted(&self, contents: &Contents) -> bool {
        let overlap = self.with.rules.overlap();
        contents.next.as_ref().is_some_and(|next| {
            let key = &next.certificate.public_key;
            self.overlap.is_over(key, overlap, Instant::now())
        })
    }

    fn note_written(
        &mut self,
        written: Result<(), Failed>,
        is_immutable: bool,
        due: &Plan,
        after: &Contents,
    ) -> Kept {
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
            Err(failed) => {
                self.count(due, "failed");
                let why = unwritten(&failed, is_immutable);
                self.told.tell(&about, Err(format!("can't be: {why}")));
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
    async fn keep_bundles(&mut self, bundle: &[u8]) -> bool {
        let seen = self.looks.now();
        let seen = seen.filter_map(|(name, seen)| Some((name.clone(), seen.clone().ok()?)));
        let mut wrote = false;
        for (name, configuration) in seen.collect::<Vec<_>>() {
            let wanted = Wanted {
                uid: configuration.uid().to_owned(),
                bundle: bundle.to_vec(),
            };
            if !self.is_to_be_put(&name, &configuration, &wanted, Instant::now()) {
                continue;
            }
            let Some(under_way) = self.with.claim.write() else {
                break;
            };
            let client = &self.with.client;
            let put = name.put_bundle(client, &configuration, bundle).await;
            drop(under_way);
            wrote |= self.note_put(&name, wanted, put);
        }
        wrote
    }

    /// Whether the bundle is not there and may be put in at this moment.
    fn is_to_be_put(
        &mut self,
        name: &ConfigurationName,
        configuration: &Configuration,
        wanted: &Wanted,
        now: Instant,
    ) -> bool {
        let name = name.to_string();
        let about = format!("the CA bundle in {name}");
        if configuration.has_bundle(&wanted.bundle) {
            if self.puts.has_stayed(&name, now) {
                self.told.tell(&about, Ok(()));
            }
            return false;
        }
        let missing = self.puts.note_missing(&name, wanted, now);
        if missing.is_news {
            self.with.metrics.count_undone();
        }
        if missing.times >= MANY {
            let problem = "is taken out again each time that it is put in, which is done less and less often: find the tool \
                           by managedFields, and have it leave webhooks[].clientConfig.caBundle alone";
            self.told.tell(&about, Err(problem.to_owned()));
        }
        if missing.from > now {
            let next = self.next_put.unwrap_or(missing.from);
            self.next_put = Some(next.min(missing.from));
        }
        missing.from <= now
    }

    fn note_put(
        &mut self,
        name: &ConfigurationName,
        wanted: Wanted,
        put: Result<(), Failed>,
    ) -> bool {
        let about = format!("the CA bundle of {name}");
        match put {
            Ok(()) => {
                self.with.metrics.count_bundle("stored");
                self.puts.note(&name.to_string(), wanted, Instant::now());
                self.told.tell(&about, Ok(()));
                tracing::info!(configuration = %name, "the CA bundle is put in");
                true
            }
            Err(Failed::Conflict | Failed::Absent) => {
                self.with.metrics.count_bundle("conflict");
                true
            }
            Err(failed) => {
                self.with.metrics.count_bundle("failed");
                let problem = failed.advised("patch it");
                self.told
                    .tell(&about, Err(format!("can't be put in: {problem}")));
                false
            }
        }
    }
}

/// Why the Secret can't be written, and what to do.
fn unwritten(failed: &Failed, is_immutable: bool) -> String {
    match failed {
        Failed::Other(problem) if is_immutable => format!(
            "{problem}; it is immutable, so delete it: zonewise makes another, and replicas serve on meanwhile"
        ),
        failed => failed.advised("create secrets, and to update this one"),
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
        CaStep::StartAfresh => {
            "a new CA signs, since there was none that could so that API servers trust it"
        }
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

#[cfg(test)]
mod tests;
