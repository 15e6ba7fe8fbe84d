//! What a certificate says.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::{Validity, issuer};

/// A certificate, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The whole of it.
    pub der: CertificateDer<'static>,
    /// When it holds.
    pub validity: Validity,
    /// What an API server has against it as an [`issuer`] of a server's certificate, if anything.
    pub objection: Option<&'static str>,
    /// Its public key with the algorithm, DER.
    pub public_key: Vec<u8>,
    /// The common name, if there is one.
    pub common_name: Option<String>,
    /// The names that it is for: DNS names in lower case, IP addresses, email addresses and URIs.
    pub names: BTreeSet<String>,
}

impl Certificate {
    /// Reads one.
    ///
    /// # Errors
    /// A sentence about what is wrong with it.
    pub fn read(der: &CertificateDer<'static>) -> Result<Self, String> {
        let (_, parsed) =
            x509_parser::parse_x509_certificate(der).map_err(|error| error.to_string())?;
        let validity = parsed.validity();
        let validity = Validity {
            from: validity.not_before.to_datetime(),
            until: validity.not_after.to_datetime(),
        };
        let common_name = parsed.subject().iter_common_name().next();
        let common_name = common_name.and_then(|name| name.as_str().ok());
        Ok(Self {
            validity,
            objection: issuer::objection(&parsed),
            public_key: parsed.public_key().raw.to_vec(),
            common_name: common_name.map(str::to_owned),
            names: names(&parsed),
            der: der.clone(),
        })
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self, now: OffsetDateTime) -> bool {
        self.validity.until <= now
    }
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let general = alternative
        .map(|names| names.value.general_names.as_slice())
        .unwrap_or_default();
    general.iter().filter_map(name).collect()
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::RFC822Name(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// The certificates of a PEM text that can be read, and whether that was all that was in there.
#[must_use]
pub fn certificates(pem: &[u8]) -> (Vec<Certificate>, bool) {
    let mut all_read = true;
    let mut read = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem) {
        match der
            .map_err(|error| error.to_string())
            .and_then(|der| Certificate::read(&der))
        {
            Ok(certificate) => read.push(certificate),
            Err(_) => all_read = false,
        }
    }
    (read, all_read)
}
