//! Certificates that zonewise makes itself.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// A CA and a server certificate that it signed, in PEM.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The CA's certificate: for the `caBundle` of webhook configurations.
    pub ca: String,
    /// The server's certificate.
    pub certificate: String,
    /// The server's private key.
    pub key: String,
}

/// Makes a CA, which forgets its key at once, and a server certificate for `names`, DNS names or IP addresses.
///
/// Both are valid from an hour ago, so that clocks may differ, for `lifetime`.
///
/// # Errors
/// When a name can't stand in a certificate.
pub fn generate(names: &[String], lifetime: Duration) -> Result<Bundle, rcgen::Error> {
    let now = OffsetDateTime::now_utc();
    let (not_before, not_after) = (now - Duration::HOUR, now + lifetime);
    let mut ca = CertificateParams::default();
    ca.distinguished_name = common_name("zonewise CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (ca.not_before, ca.not_after) = (not_before, not_after);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

    let mut server = CertificateParams::new(names)?;
    server.distinguished_name = common_name("zonewise");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    (server.not_before, server.not_after) = (not_before, not_after);
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &ca)?;
    Ok(Bundle {
        ca: ca.pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Whether a text can be the name of a server: an IP address or a DNS name.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let dns = name.strip_prefix("*.").unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || (dns.len() <= 253 && dns.split('.').all(label))
}
