//! Whom the API server trusts: the CA bundle.

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;

use super::line::{Line, Status, Thing};
use crate::certs::read::{self, Certificate};
use crate::certs::{Validity, trust};
use crate::words;

/// Less than this is soon, unless a third of the lifetime is still less: then whoever renews has had time to.
const SOON: time::Duration = time::Duration::days(14);

/// Whether its end is near, and a renewal late.
pub fn ends_soon(valid: Validity, now: OffsetDateTime) -> bool {
    let third: time::Duration = valid.lifetime() / 3;
    valid.until - now < third.min(SOON)
}

/// Until when it is valid.
pub fn in_words(valid: Validity, now: OffsetDateTime) -> String {
    let until = moment(valid.until).strftime("%Y-%m-%d %H:%M UTC");
    format!("until {until}, for {}", length(valid.until - now))
}

/// The same moment as it is told.
pub fn moment(time: OffsetDateTime) -> Timestamp {
    Timestamp::from_second(time.unix_timestamp()).unwrap_or_default()
}

/// A length of time in words.
pub fn length(duration: time::Duration) -> String {
    span(SignedDuration::from_secs(duration.whole_seconds()))
}

/// A length of time in its largest unit that tells something.
pub fn span(duration: SignedDuration) -> String {
    let seconds = usize::try_from(duration.as_secs()).unwrap_or(0);
    let units = [("day", 86_400), ("hour", 3600), ("minute", 60)];
    let fits = units.into_iter().find(|(_, unit)| seconds >= 2 * unit);
    match fits {
        Some((noun, unit)) => words::count(seconds / unit, noun),
        None => words::count(seconds, "second"),
    }
}

/// What is said of the CA bundle, and the certificates in it.
pub struct CaBundle {
    pub line: Line,
    cas: Vec<Certificate>,
}

const RENEW: &str = "self-managed: see that a replica leads and may patch the webhook configuration; cert-manager: see its \
                     Certificate; otherwise put a new CA into caBundle before the old one ends";

impl CaBundle {
    /// Reads the PEM of a webhook configuration. Without any, the API server trusts what its machine does.
    pub fn read(pem: &[u8], has_service: bool, now: OffsetDateTime) -> Self {
        let (cas, all_read) = read::certificates(pem);
        let line = if pem.is_empty() {
            empty(has_service)
        } else if cas.is_empty() {
            Line::failure(
                Thing::CaBundle,
                "caBundle is no list of certificates in PEM",
                "put the CA certificate in, as base64 -w0 of the PEM file writes it",
            )
        } else {
            judge(&cas, all_read, now)
        };
        Self { line, cas }
    }

    /// Whether this alone keeps the API server from trusting anything.
    pub fn is_broken(&self) -> bool {
        self.line.status == Status::Failure
    }

    /// Whether a client that goes by it would take this chain, leaf first, for that of this host.
    pub fn check(
        &self,
        chain: &[CertificateDer<'_>],
        host: &str,
        now: OffsetDateTime,
    ) -> Result<(), String> {
        trust::check_by(chain, &self.cas, host, now)
    }

    /// Whether there is anything in it by which to judge.
    pub fn has_current(&self, now: OffsetDateTime) -> bool {
        self.cas.iter().any(|ca| ca.validity.holds(now))
    }
}

fn empty(has_service: bool) -> Line {
    if has_service {
        return Line::failure(
            Thing::CaBundle,
            "caBundle is empty, so the API server trusts no certificate that zonewise could have",
            "self-managed: the leader puts it in within a minute, so see the log of the replicas; cert-manager: see \
             the annotation cert-manager.io/inject-ca-from and the log of its cainjector; otherwise put it in",
        );
    }
    Line::warning(
        Thing::CaBundle,
        "caBundle is empty, so the API server trusts the CAs of the machine that it runs on",
        "put the CA of zonewise's certificate in, unless it is a public one",
    )
}

/// A bundle is as good as the best in it: while CAs change there is an old one beside the new one.
fn judge(cas: &[Certificate], all_read: bool, now: OffsetDateTime) -> Line {
    let current = || cas.iter().filter(|ca| ca.validity.holds(now));
    let Some(first) = current().next() else {
        return not_now(cas.iter().map(|ca| ca.validity), now);
    };
    let issuers = current().filter(|ca| ca.objection.is_none());
    let Some(best) = issuers.map(|ca| ca.validity).max_by_key(|v| v.until) else {
        return no_issuer(first, current().any(|ca| !ca.names.is_empty()));
    };
    let certificates = words::count(cas.len(), "certificate");
    let message = format!("{certificates}, valid {}", in_words(best, now));
    if ends_soon(best, now) {
        Line::warning(Thing::CaBundle, message, RENEW)
    } else if !all_read {
        Line::warning(
            Thing::CaBundle,
            format!(
                "{message}; and a block that is no certificate, which the API server passes over"
            ),
            "take that block out of caBundle, or mend it: whoever put it in meant something by it",
        )
    } else {
        Line::ok(Thing::CaBundle, message)
    }
}

/// The API server takes none of these for an issuer, the first for this reason. One that has names may be what is served.
fn no_issuer(first: &Certificate, have_names: bool) -> Line {
    let objection = first.objection.unwrap_or_default();
    let message =
        format!("what is in caBundle vouches for no server's certificate but itself: {objection}");
    let advice = "put the CA of the certificate that the replicas serve into caBundle: one that is a CA (basicConstraints), and \
                  has keyCertSign and serverAuth where it has usages; self-managed: the leader makes such a one, so see the log \
                  of the replicas";
    if have_names {
        Line::warning(Thing::CaBundle, message, advice)
    } else {
        Line::failure(Thing::CaBundle, message, advice)
    }
}

/// None of these holds at this moment.
fn not_now(valid: impl Iterator<Item = Validity> + Clone, now: OffsetDateTime) -> Line {
    if let Some(from) = valid.clone().map(|v| v.from).find(|from| *from > now) {
        return Line::failure(
            Thing::CaBundle,
            format!(
                "the CA in caBundle is not valid before {}, in {}",
                moment(from),
                length(from - now)
            ),
            "compare the clocks of this machine, of the API server and of whoever made the CA",
        );
    }
    let last = valid.map(|v| v.until).max().unwrap_or(now);
    Line::failure(
        Thing::CaBundle,
        format!(
            "the CA in caBundle expired {} ago, at {}",
            length(now - last),
            moment(last)
        ),
        RENEW,
    )
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType,
    };

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 86_400;

    fn certificate(from: i64, until: i64) -> String {
        changed(from, until, |_| {})
    }

    fn changed(from: i64, until: i64, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut certificate = CertificateParams::default();
        certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut certificate);
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        (certificate.not_before, certificate.not_after) = (at(NOW + from), at(NOW + until));
        let key = KeyPair::generate().unwrap();
        certificate.self_signed(&key).unwrap().pem()
    }

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(NOW).unwrap()
    }

    fn told(pem: &str) -> (Status, String) {
        let line = CaBundle::read(pem.as_bytes(), true, now()).line;
        (line.status, line.message)
    }

    #[test]
    fn a_bundle_that_trusts_nothing_is_a_failure() {
        let failure = |pem: &str, wanted: &str| {
            let (status, message) = told(pem);
            assert_eq!(status, Status::Failure, "{message}");
            assert!(message.contains(wanted), "{message}");
        };
        failure("", "is empty");
        failure("garbage", "no list of certificates");
        failure(BROKEN, "no list of certificates");
        failure(&certificate(-9 * DAY, -3 * DAY), "expired 3 days ago");
        failure(&certificate(2 * 3600, DAY), "not valid before");
    }

    const BROKEN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_block_that_is_no_certificate_leaves_the_others_as_they_are() {
        let good = certificate(-DAY, 90 * DAY);
        for pem in [good.clone() + BROKEN, BROKEN.to_owned() + &good] {
            let (status, message) = told(&pem);
            assert_eq!(status, Status::Warning, "{message}");
            assert!(
                message.starts_with("1 certificate, valid until ")
                    && message.ends_with("which the API server passes over"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_no_issuer_vouches_at_most_for_itself() {
        let (status, message) = told(&changed(-DAY, DAY, |ca| {
            ca.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }));
        assert_eq!(status, Status::Failure);
        assert_eq!(
            message,
            "what is in caBundle vouches for no server's certificate but itself: its extended key usage lacks serverAuth"
        );
        let leaf = changed(-DAY, DAY, |leaf| {
            leaf.is_ca = IsCa::NoCa;
            leaf.subject_alt_names = vec![SanType::DnsName("a.b.svc".try_into().unwrap())];
        });
        assert_eq!(told(&leaf).0, Status::Warning, "it may be what is served");
        let beside_a_ca = leaf + &certificate(-100 * DAY, 90 * DAY);
        assert_eq!(told(&beside_a_ca).0, Status::Ok);
    }

    #[test]
    fn there_is_nothing_to_judge_by_once_all_cas_have_expired() {
        let judges = |pem: String| CaBundle::read(pem.as_bytes(), true, now()).has_current(now());
        let expired = certificate(-9 * DAY, -DAY);
        assert!(!judges(expired.clone()));
        assert!(judges(expired + &certificate(-DAY, DAY)));
    }

    #[test]
    fn an_end_that_is_near_is_a_warning() {
        let status = |from, until| told(&certificate(from, until)).0;
        assert_eq!(status(-100 * DAY, 15 * DAY), Status::Ok);
        assert_eq!(status(-100 * DAY, 13 * DAY), Status::Warning);
        // An hour's certificate, which begins an hour before it is made, is renewed after two thirds of it.
        let made_ago = |seconds: i64| status(-seconds - 3600, 3600 - seconds);
        assert_eq!(made_ago(2300), Status::Ok);
        assert_eq!(made_ago(2500), Status::Warning);
    }

    #[test]
    fn the_best_of_a_bundle_counts() {
        let both = certificate(-100 * DAY, -DAY) + &certificate(-DAY, 90 * DAY);
        let (status, message) = told(&both);
        assert_eq!(status, Status::Ok, "{message}");
        assert!(
            message.starts_with("2 certificates, valid until "),
            "{message}"
        );
        assert!(message.ends_with("for 90 days"), "{message}");
    }

    #[test]
    fn an_empty_bundle_before_a_url_may_be_meant() {
        let line = CaBundle::read(b"", false, now()).line;
        assert_eq!(line.status, Status::Warning);
    }

    #[test]
    fn times_are_told_in_a_unit_that_tells_something() {
        let told = [1, 119, 120, 7199, 7200, 2 * DAY].map(|s| span(SignedDuration::from_secs(s)));
        let wanted = [
            "1 second",
            "119 seconds",
            "2 minutes",
            "119 minutes",
            "2 hours",
            "2 days",
        ];
        assert_eq!(told, wanted);
    }
}
