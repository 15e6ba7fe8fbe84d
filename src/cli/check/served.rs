//! The certificate that is shown to the API server, where it can be seen from here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::line::{Line, Thing};
use super::trust::{CaBundle, ends_soon, in_words, length, moment};
use crate::certs::read::Certificate;
use crate::certs::{self, Validity, signatures};
use crate::words::with_causes;

/// How long the look at the served certificate may take.
const LOOK_TIME: Duration = Duration::from_secs(3);

/// What a look at the server showed.
pub enum Served {
    /// A certificate that the bundle trusts, and how long it is valid.
    Trusted(Option<Validity>),
    /// One that an API server would not take.
    Faulty(Fault),
    /// No way there from here, and why.
    Unreachable(String),
    /// Nothing to look at it with.
    NotLooked,
}

/// Why an API server would not take what is shown.
pub enum Fault {
    /// It is valid from then on, whatever the bundle.
    NotYet(OffsetDateTime),
    /// It ended then.
    Expired(OffsetDateTime),
    /// The bundle does not trust it, and why.
    Distrusted(String),
    /// No certificate was shown, and why.
    NoHandshake(String),
}

/// Where TLS is spoken: a host and a port.
pub type Address = (String, u16);

/// An address in words.
pub fn host_and_port((host, port): Address) -> String {
    format!("{host}:{port}")
}

/// What servers showed: each is looked at once.
#[derive(Default)]
pub struct Looks(BTreeMap<Address, Shown>);

/// A chain, leaf first, or that none was seen.
type Shown = Result<Vec<CertificateDer<'static>>, Unseen>;

enum Unseen {
    /// No way there from here, and why.
    Unreachable(String),
    /// No TLS there, and why.
    NoHandshake(String),
}

impl Looks {
    async fn look(&mut self, address: &Address) -> &Shown {
        if !self.0.contains_key(address) {
            let (host, port) = address;
            let shown = timeout(LOOK_TIME, shake_hands(host, *port)).await;
            let silence = || Unseen::Unreachable(format!("no answer within {LOOK_TIME:.0?}"));
            let shown = shown.unwrap_or_else(|_| Err(silence()));
            self.0.insert(address.clone(), shown);
        }
        &self.0[address]
    }

    /// As if this had been seen there.
    #[cfg(test)]
    pub fn of_one(address: Address, chain: Vec<CertificateDer<'static>>) -> Self {
        Self([(address, Ok(chain))].into())
    }
}

impl Served {
    /// Looks at what the server shows, and judges it as the API server would: by this bundle and this name.
    pub async fn look(
        looks: &mut Looks,
        bundle: &CaBundle,
        address: Option<&Address>,
        now: OffsetDateTime,
    ) -> Self {
        let Some(address) = address.filter(|_| bundle.has_current(now)) else {
            return Self::NotLooked;
        };
        match looks.look(address).await {
            Ok(chain) => Self::judge(chain, bundle, &address.0, now),
            Err(Unseen::Unreachable(why)) => Self::Unreachable(why.clone()),
            Err(Unseen::NoHandshake(why)) => Self::Faulty(Fault::NoHandshake(why.clone())),
        }
    }

    fn judge(
        chain: &[CertificateDer<'static>],
        bundle: &CaBundle,
        host: &str,
        now: OffsetDateTime,
    ) -> Self {
        let leaf = chain.first().and_then(|leaf| Certificate::read(leaf).ok());
        let valid = leaf.map(|leaf| leaf.validity);
        let Err(why) = bundle.check(chain, host, now) else {
            return Self::Trusted(valid);
        };
        Self::Faulty(match valid {
            Some(valid) if valid.from > now => Fault::NotYet(valid.from),
            Some(valid) if !valid.holds(now) => Fault::Expired(valid.until),
            _ => Fault::Distrusted(why),
        })
    }

    /// What is to be told. That the probe was answered, which `was_answered` tells, says nothing of new connections.
    pub fn line(&self, at: &str, was_answered: bool, now: OffsetDateTime) -> Line {
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
            Self::Faulty(fault) if was_answered => Line::warning(
                THING,
                format!(
                    "{}. The probe was answered over a connection that the API server keeps, and new ones will fail",
                    fault.message(at, now)
                ),
                fault.advice(),
            ),
            Self::Faulty(fault) => Line::failure(THING, fault.message(at, now), fault.advice()),
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

impl Fault {
    fn message(&self, at: &str, now: OffsetDateTime) -> String {
        match self {
            Self::NotYet(from) => format!(
                "the certificate that {at} shows is not valid before {}, in {}",
                moment(*from),
                length(*from - now)
            ),
            Self::Expired(until) => format!(
                "the certificate that {at} shows expired {} ago, at {}",
                length(now - *until),
                moment(*until)
            ),
            Self::Distrusted(why) => {
                format!("the CA in caBundle does not trust what {at} shows: {why}")
            }
            Self::NoHandshake(why) => format!("no TLS handshake with {at} comes about: {why}"),
        }
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NotYet(_) => {
                "compare the clocks of this machine, of the API server and of whoever made the certificate"
            }
            Self::Expired(_) => {
                "self-managed: see that a replica leads, that it may write the Secret, and that the Secret is not \
                 immutable; cert-manager: see its Certificate; otherwise put a new one into the Secret that is mounted"
            }
            Self::Distrusted(_) => {
                "put the CA of the certificate that the replicas serve into caBundle, and see that it may sign for \
                 servers, and that the certificate has the name by which the API server calls"
            }
            Self::NoHandshake(_) => {
                "see that zonewise listens there, and the log of the replicas: without a certificate they refuse handshakes"
            }
        }
    }
}

/// Sees what a server shows, whatever it is.
async fn shake_hands(host: &str, port: u16) -> Shown {
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| Unseen::Unreachable(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(certs::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Unseen::NoHandshake(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Any))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| Unseen::Unreachable(error.to_string()))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match connected.await {
        Ok(stream) => {
            let chain = stream.get_ref().1.peer_certificates();
            Ok(chain.unwrap_or_default().to_vec())
        }
        Err(error) => {
            let of_tls = error
                .get_ref()
                .and_then(|e| e.downcast_ref::<rustls::Error>());
            let told = with_causes(&error);
            Err(if of_tls.is_some() {
                Unseen::NoHandshake(told)
            } else {
                Unseen::Unreachable(told)
            })
        }
    }
}

/// Takes any certificate, so that it can be judged afterwards: nothing is ever sent over that connection.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        signatures::verify_tls12(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        signatures::verify_tls13(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        signatures::schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::read;
    use crate::cli::check::line::Status;

    const NOW: i64 = 1_800_000_000;
    const DAY: i64 = 86_400;

    fn now() -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(NOW).unwrap()
    }

    /// How a leaf that begins and ends then is judged, by its own CA or by another.
    fn served(from: i64, until: i64, is_of_another: bool) -> Served {
        let at = |seconds| OffsetDateTime::from_unix_timestamp(NOW + seconds).unwrap();
        let [ca, another] = [(); 2].map(|()| {
            let year = Validity::beginning(now(), time::Duration::days(365));
            certs::make_ca(year).unwrap()
        });
        let signer = certs::Signer::new(&ca.certificate, &ca.key).unwrap();
        let (from, until) = (at(from), at(until));
        let leaf = certs::sign_server(&signer, &["a.b.svc".to_owned()], Validity { from, until });
        let chain = read::certificates(leaf.unwrap().certificate.as_bytes()).0;
        let ca = if is_of_another { another } else { ca };
        let bundle = CaBundle::read(ca.certificate.as_bytes(), true, now());
        Served::judge(&[chain[0].der.clone()], &bundle, "a.b.svc", now())
    }

    #[test]
    fn a_certificate_that_is_refused_is_told_with_its_cause_and_what_helps() {
        let told = |served: &Served| {
            let line = served.line("a:443", false, now());
            (line.status, line.message, line.advice.unwrap_or_default())
        };
        let (status, message, advice) = told(&served(-9 * DAY, -3 * DAY, false));
        assert_eq!(status, Status::Failure);
        assert_eq!(
            message,
            "the certificate that a:443 shows expired 3 days ago, at 2027-01-12T08:00:00Z"
        );
        assert!(advice.starts_with("self-managed: see that a replica leads, "));
        let (_, message, advice) = told(&served(2 * 3600, DAY, false));
        assert_eq!(
            message,
            "the certificate that a:443 shows is not valid before 2027-01-15T10:00:00Z, in 2 hours"
        );
        assert!(advice.starts_with("compare the clocks"));
        let (status, message, advice) = told(&served(-DAY, DAY, true));
        assert_eq!(status, Status::Failure);
        assert!(message.starts_with("the CA in caBundle does not trust what a:443 shows: "));
        assert!(advice.starts_with("put the CA of the certificate"));
        assert_eq!(told(&served(-DAY, 90 * DAY, false)).0, Status::Ok);
    }

    #[test]
    fn an_answered_probe_does_not_make_good_what_new_connections_will_refuse() {
        let line = served(-DAY, DAY, true).line("a:443", true, now());
        assert_eq!(line.status, Status::Warning);
        assert!(
            line.message.ends_with("and new ones will fail"),
            "{}",
            line.message
        );
        assert!(line.advice.is_some());
        let good = served(-DAY, 90 * DAY, false).line("a:443", true, now());
        assert_eq!(good.status, Status::Ok);
    }
}
