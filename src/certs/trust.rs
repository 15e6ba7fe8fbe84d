//! Whether a client that goes by a CA bundle trusts what a server shows.

use std::time::Duration;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::{CertificateError, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use time::OffsetDateTime;

use super::provider;
use super::read::{self, Certificate};

/// Checks a chain, leaf first, as an API server does at `now`: by the CAs of a bundle in PEM, for a DNS name or an IP
/// address.
///
/// # Errors
/// Why it is not trusted, in words.
pub fn check(
    chain: &[CertificateDer<'_>],
    bundle: &[u8],
    name: &str,
    now: OffsetDateTime,
) -> Result<(), String> {
    let (cas, _) = read::certificates(bundle);
    check_by(chain, &cas, name, now)
}

/// The same by certificates that were read before.
///
/// # Errors
/// Why it is not trusted, in words that are the same at the next look.
pub fn check_by(
    chain: &[CertificateDer<'_>],
    cas: &[Certificate],
    name: &str,
    now: OffsetDateTime,
) -> Result<(), String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(cas, now)?.into(), provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let (leaf, rest) = chain.split_first().ok_or("there is no certificate")?;
    let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let at = u64::try_from(now.unix_timestamp()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let result = verifier.verify_server_cert(leaf, rest, &server, &[], at);
    result.map(drop).map_err(|error| match error {
        rustls::Error::InvalidCertificate(error) => in_words(&error),
        error => error.to_string(),
    })
}

/// What an API server that goes by these CAs starts from at `now`: those that are valid then. rustls alone would take a
/// root for valid whenever.
///
/// # Errors
/// Where none of them is.
pub fn roots(cas: &[Certificate], now: OffsetDateTime) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let valid = cas.iter().filter(|ca| ca.validity.holds(now));
    let (added, _) = roots.add_parsable_certificates(valid.map(|ca| ca.der.clone()));
    if added == 0 {
        return Err("there is no CA in there that is valid now".to_owned());
    }
    Ok(roots)
}

/// rustls tells of an end with the time of the look, which is another at each.
fn in_words(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("a certificate expired at {}", moment(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("a certificate is not valid before {}", moment(*not_before))
        }
        error => error.to_string(),
    }
}

fn moment(time: UnixTime) -> Timestamp {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{self, Signer, Validity};

    fn made() -> (Vec<CertificateDer<'static>>, String, Validity) {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let day = Validity::beginning(now, time::Duration::DAY);
        let hour = Validity::beginning(now, time::Duration::HOUR);
        let ca = certs::make_ca(day).unwrap();
        let signer = Signer::new(&ca.certificate, &ca.key).unwrap();
        let server = certs::sign_server(&signer, &["a.b.svc".to_owned()], hour).unwrap();
        let chain = read::certificates(server.certificate.as_bytes()).0;
        let chain = chain.into_iter().map(|one| one.der).collect();
        (chain, ca.certificate, hour)
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_the_same_words_at_each_look() {
        let (chain, bundle, valid) = made();
        let why = |at| check(&chain, bundle.as_bytes(), "a.b.svc", at).unwrap_err();
        let late = [1, 7].map(|seconds| why(valid.until + time::Duration::seconds(seconds)));
        assert_eq!(late[0], "a certificate expired at 2027-01-15T09:00:00Z");
        assert_eq!(late[1], late[0]);
        assert_eq!(
            why(valid.from - time::Duration::SECOND),
            "there is no CA in there that is valid now"
        );
    }
}
