//! Whether a client that goes by a CA bundle trusts what a server shows.

use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
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
/// Why it is not trusted, in words.
pub fn check_by(
    chain: &[CertificateDer<'_>],
    cas: &[Certificate],
    name: &str,
    now: OffsetDateTime,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    // rustls takes a root for valid whenever, and an API server does not.
    let valid = cas.iter().filter(|ca| ca.validity.holds(now));
    let added = roots.add_parsable_certificates(valid.map(|ca| ca.der.clone()));
    if added.0 == 0 {
        return Err("there is no CA in there that is valid now".to_owned());
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let (leaf, rest) = chain.split_first().ok_or("there is no certificate")?;
    let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let at = u64::try_from(now.unix_timestamp()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let result = verifier.verify_server_cert(leaf, rest, &server, &[], at);
    result.map(drop).map_err(|error| match error {
        rustls::Error::InvalidCertificate(error) => error.to_string(),
        error => error.to_string(),
    })
}
