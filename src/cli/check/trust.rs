//! Whom the API server trusts: the CA bundle, and the certificate that is shown to it, where it can be seen from here.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::line::{Line, Status, Thing};
use crate::certs::read::{self, Certificate};
use crate::certs::{self, Validity, trust};
use crate::words::{self, with_causes};

/// How long the look at the served certificate may take.
const LOOK_TIME: Duration = Duration::from_secs(3);

/// Less than this is soon, unless a third of the lifetime is still less: then whoever renews has had time to.
const SOON: time::Duration = time::Duration::days(14);

fn ends_soon(valid: Validity, now: OffsetDateTime) -> bool {
    let third: time::Duration = valid.lifetime() / 3;
    valid.until - now < third.min(SOON)
}

fn in_words(valid: Validity, now: OffsetDateTime) -> String {
    let until = moment(valid.until).strftime("%Y-%m-%d %H:%M UTC");
    format!("until {until}, for {}", length(valid.until - now))
}

fn moment(time: OffsetDateTime) -> Timestamp {
    Timestamp::from_second(time.unix_timestamp()).unwrap_or_default()
}

fn length(duration: time::Duration) -> String {
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

    /// What a client that goes by it starts from.
    fn roots(&self, now: OffsetDateTime) -> Option<RootCertStore> {
        trust::roots(&self.cas, now).ok()
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
    let valid = || cas.iter().map(|ca| ca.validity);
    let current = valid().filter(|validity| validity.holds(now));
    let Some(best) = current.max_by_key(|validity| validity.until) else {
        return not_now(valid(), now);
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
    pub async fn look(bundle: &CaBundle, host: &str, port: u16, now: OffsetDateTime) -> Self {
        let Some(roots) = bundle.roots(now) else {
            return Self::NotLooked;
        };
        match timeout(LOOK_TIME, Self::shake_hands(roots, host, port)).await {
            Ok(served) => served,
            Err(_) => Self::Unreachable(format!("no answer within {LOOK_TIME:.0?}")),
        }
    }

    async fn shake_hands(roots: RootCertStore, host: &str, port: u16) -> Self {
        let stream = match TcpStream::connect((host, port)).await {
            Ok(stream) => stream,
            Err(error) => return Self::Unreachable(error.to_string()),
        };
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
                let leaf = chain.and_then(|chain| Certificate::read(chain.first()?).ok());
                Self::Trusted(leaf.map(|leaf| leaf.validity))
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
    pub fn line(&self, at: &str, api_server_trusts: bool, now: OffsetDateTime) -> Line {
        const THING: Thing = Thing::ServedCertificate;
        match self {
            Self::Trusted(Some(valid)) => {
                let message = format!("that of {at} is trusted, valid {}", in_words(*valid, now));
                if ends_soon(*valid, now) {
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
    fn a_ca_that_has_expired_vouches_for_nothing() {
        let roots = |pem: String| {
            let bundle = CaBundle::read(pem.as_bytes(), true, now());
            bundle.roots(now()).map(|roots| roots.len())
        };
        let expired = certificate(-9 * DAY, -DAY);
        assert_eq!(roots(expired.clone()), None);
        assert_eq!(roots(expired + &certificate(-DAY, DAY)), Some(1));
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
