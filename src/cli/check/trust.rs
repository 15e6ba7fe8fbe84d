//! Whom the API server trusts: the CA bundle, and the certificate that is shown to it, where it can be seen from here.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::line::{Line, Status, Thing};
use crate::certs;
use crate::words::{self, with_causes};

/// How long the look at the served certificate may take.
const LOOK_TIME: Duration = Duration::from_secs(3);

/// Less than this is soon, unless a third of the lifetime is still less: then whoever renews has had time to.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    from: Timestamp,
    until: Timestamp,
}

impl Validity {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let validity = parsed.validity();
        Some(Self {
            from: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            until: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }

    fn left(self, now: Timestamp) -> SignedDuration {
        self.until.duration_since(now)
    }

    fn ends_soon(self, now: Timestamp) -> bool {
        let third = self.until.duration_since(self.from) / 3;
        self.left(now) < third.min(SOON)
    }

    fn in_words(self, now: Timestamp) -> String {
        let until = self.until.strftime("%Y-%m-%d %H:%M UTC");
        format!("until {until}, for {}", span(self.left(now)))
    }
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
    certificates: Vec<CertificateDer<'static>>,
}

const RENEW: &str = "self-managed: see that a replica leads and may patch the webhook configuration; cert-manager: see its \
                     Certificate; otherwise put a new CA into caBundle before the old one ends";

impl CaBundle {
    /// Reads the PEM of a webhook configuration. Without any, the API server trusts what its machine does.
    pub fn read(pem: &[u8], has_service: bool, now: Timestamp) -> Self {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = read.unwrap_or_default();
        let valid: Option<Vec<Validity>> = certificates.iter().map(Validity::of).collect();
        let line = match valid {
            _ if pem.is_empty() && has_service => Line::failure(
                Thing::CaBundle,
                "caBundle is empty, so the API server trusts no certificate that zonewise could have",
                "self-managed: the leader puts it in within a minute, so see the log of the replicas; cert-manager: see \
                 the annotation cert-manager.io/inject-ca-from and the log of its cainjector; otherwise put it in",
            ),
            _ if pem.is_empty() => Line::warning(
                Thing::CaBundle,
                "caBundle is empty, so the API server trusts the CAs of the machine that it runs on",
                "put the CA of zonewise's certificate in, unless it is a public one",
            ),
            Some(valid) if !valid.is_empty() => judge(&valid, now),
            _ => Line::failure(
                Thing::CaBundle,
                "caBundle is no list of certificates in PEM",
                "put the CA certificate in, as base64 -w0 of the PEM file writes it",
            ),
        };
        Self { line, certificates }
    }

    /// Whether this alone keeps the API server from trusting anything.
    pub fn is_broken(&self) -> bool {
        self.line.status == Status::Failure
    }
}

/// A bundle is as good as the best in it: while CAs change there is an old one beside the new one.
fn judge(valid: &[Validity], now: Timestamp) -> Line {
    let current = valid.iter().filter(|v| v.from <= now && now < v.until);
    let Some(best) = current.max_by_key(|validity| validity.until) else {
        let early = valid.iter().map(|v| v.from).find(|from| *from > now);
        let last = valid.iter().map(|v| v.until).max().unwrap_or(now);
        return match early {
            Some(from) => Line::failure(
                Thing::CaBundle,
                format!(
                    "the CA in caBundle is not valid before {from}, in {}",
                    span(from.duration_since(now))
                ),
                "compare the clocks of this machine, of the API server and of whoever made the CA",
            ),
            None => Line::failure(
                Thing::CaBundle,
                format!(
                    "the CA in caBundle expired {} ago, at {last}",
                    span(now.duration_since(last))
                ),
                RENEW,
            ),
        };
    };
    let certificates = words::count(valid.len(), "certificate");
    let message = format!("{certificates}, valid {}", best.in_words(now));
    if best.ends_soon(now) {
        Line::warning(Thing::CaBundle, message, RENEW)
    } else {
        Line::ok(Thing::CaBundle, message)
    }
}

/// What a look at the server showed.
pub enum Served {
    /// A certificate that the bundle trusts, and how long it is valid.
    Trusted(Option<Validity>),
    /// One that it does not trust, and why.
    Refused(String),
    /// No way there from here, and why.
    Unreachable(String),
    /// Nothing to look at it with.
    NotLooked,
}

impl Served {
    /// Shakes hands with the server as the API server would: with this bundle and this name.
    pub async fn look(bundle: &CaBundle, host: &str, port: u16) -> Self {
        if bundle.certificates.is_empty() {
            return Self::NotLooked;
        }
        match timeout(LOOK_TIME, Self::shake_hands(bundle, host, port)).await {
            Ok(served) => served,
            Err(_) => Self::Unreachable(format!("no answer within {LOOK_TIME:.0?}")),
        }
    }

    async fn shake_hands(bundle: &CaBundle, host: &str, port: u16) -> Self {
        let stream = match TcpStream::connect((host, port)).await {
            Ok(stream) => stream,
            Err(error) => return Self::Unreachable(error.to_string()),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.certificates.iter().cloned());
        let config = ClientConfig::builder_with_provider(certs::provider())
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_root_certificates(roots).with_no_client_auth());
        let (Ok(config), Ok(name)) = (config, ServerName::try_from(host.to_owned())) else {
            return Self::NotLooked;
        };
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
        match connected.await {
            Ok(stream) => {
                let chain = stream.get_ref().1.peer_certificates();
                let leaf = chain.and_then(|chain| chain.first());
                Self::Trusted(leaf.and_then(Validity::of))
            }
            Err(error) => {
                let of_tls = error
                    .get_ref()
                    .and_then(|e| e.downcast_ref::<rustls::Error>());
                let told = with_causes(&error);
                if of_tls.is_some() {
                    Self::Refused(told)
                } else {
                    Self::Unreachable(told)
                }
            }
        }
    }

    /// What is to be told; the API server's own trust weighs more than what is seen from here.
    pub fn line(&self, at: &str, api_server_trusts: bool, now: Timestamp) -> Line {
        const THING: Thing = Thing::ServedCertificate;
        match self {
            Self::Trusted(Some(valid)) => {
                let message = format!("that of {at} is trusted, valid {}", valid.in_words(now));
                if valid.ends_soon(now) {
                    return Line::warning(
                        THING,
                        message,
                        "see why it is not renewed: the log of the replicas, cert-manager's Certificate, or your Secret",
                    );
                }
                Line::ok(THING, message)
            }
            Self::Trusted(None) => Line::ok(THING, format!("that of {at} is trusted")),
            Self::Refused(_) if api_server_trusts => {
                Line::ok(THING, format!("the API server trusts what {at} shows"))
            }
            Self::Refused(why) => Line::failure(
                THING,
                format!("the CA in caBundle does not trust what {at} shows: {why}"),
                "put the CA of the certificate that the replicas serve into caBundle, and see that the certificate has \
                 the name by which the API server calls",
            ),
            Self::Unreachable(why) => Line::ok(
                THING,
                format!(
                    "not looked at: {at} can't be reached from here, which it need not be ({why})"
                ),
            ),
            Self::NotLooked => Line::ok(
                THING,
                format!("not looked at: there is no CA by which to judge what {at} shows"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use time::OffsetDateTime;

    use super::*;

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 86_400;

    fn certificate(from: i64, until: i64) -> String {
        let mut certificate = CertificateParams::default();
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        (certificate.not_before, certificate.not_after) = (at(NOW + from), at(NOW + until));
        let key = KeyPair::generate().unwrap();
        certificate.self_signed(&key).unwrap().pem()
    }

    fn told(pem: &str) -> (Status, String) {
        let now = Timestamp::from_second(NOW).unwrap();
        let line = CaBundle::read(pem.as_bytes(), true, now).line;
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
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        failure(broken, "no list of certificates");
        failure(&certificate(-9 * DAY, -3 * DAY), "expired 3 days ago");
        failure(&certificate(2 * 3600, DAY), "not valid before");
    }

    #[test]
    fn an_end_that_is_near_is_a_warning() {
        let status = |from, until| told(&certificate(from, until)).0;
        assert_eq!(status(-100 * DAY, 15 * DAY), Status::Ok);
        assert_eq!(status(-100 * DAY, 13 * DAY), Status::Warning);
        // An hour's certificate is renewed after two thirds of it.
        assert_eq!(status(-2000, 1600), Status::Ok);
        assert_eq!(status(-3000, 600), Status::Warning);
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
        let now = Timestamp::from_second(NOW).unwrap();
        let line = CaBundle::read(b"", false, now).line;
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
