//! Certificates that zonewise makes itself, and what certificates say.

pub mod issuer;
pub mod read;
pub mod serving;
pub mod signatures;
pub mod trust;

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls::crypto::CryptoProvider;
use rustls_pki_types::CertificateDer;
use time::{Duration, OffsetDateTime};

/// The crypto provider of every TLS connection here.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

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

/// A certificate with its private key, in PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// From when to when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From this second on.
    pub from: OffsetDateTime,
    /// Until this second.
    pub until: OffsetDateTime,
}

impl Validity {
    /// How long before it is made a certificate begins: clocks may be behind by so much. What is left of a certificate
    /// is always reckoned from its end, so this is as well where lifetimes are shorter.
    pub const BACKDATED: Duration = Duration::HOUR;

    /// From an hour before `now` until `lifetime` after it.
    #[must_use]
    pub fn beginning(now: OffsetDateTime, lifetime: Duration) -> Self {
        Self {
            from: now - Self::BACKDATED,
            until: now.saturating_add(lifetime),
        }
    }

    /// How long it lasts from when it was made. That is known of what is made here, which begins
    /// [`Self::BACKDATED`] before; of somebody else's it is less than the truth by as much.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        (self.until - self.from - Self::BACKDATED).max(Duration::ZERO)
    }

    /// As much of it as lies within another's.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            from: self.from.max(other.from),
            until: self.until.min(other.until),
        }
    }

    /// Whether it holds at a moment.
    #[must_use]
    pub fn holds(&self, now: OffsetDateTime) -> bool {
        self.from <= now && now < self.until
    }
}

/// Makes a CA, which forgets its key at once, and a server certificate for `names`, DNS names or IP addresses.
///
/// Both are valid from an hour ago, so that clocks may differ, for `lifetime`.
///
/// # Errors
/// When a name can't stand in a certificate.
pub fn generate(names: &[String], lifetime: Duration) -> Result<Bundle, rcgen::Error> {
    let validity = Validity::beginning(OffsetDateTime::now_utc(), lifetime);
    let ca = make_ca(validity)?;
    let server = sign_server(&Signer::new(&ca.certificate, &ca.key)?, names, validity)?;
    Ok(Bundle {
        ca: ca.certificate,
        certificate: server.certificate,
        key: server.key,
    })
}

/// Makes a CA that signs itself. Part of its name comes from its key, so that no two have one name.
///
/// # Errors
/// When there is no randomness to be had.
pub fn make_ca(validity: Validity) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut ca = CertificateParams::default();
    let fingerprint = fingerprint(&key.subject_public_key_info());
    ca.distinguished_name = common_name(&format!("zonewise CA {fingerprint}"));
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (ca.not_before, ca.not_after) = (validity.from, validity.until);
    Ok(Pair {
        certificate: ca.self_signed(&key)?.pem(),
        key: key.serialize_pem(),
    })
}

/// A public key in short, for names and messages.
#[must_use]
pub fn fingerprint(public_key: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = ring::digest::digest(&ring::digest::SHA256, public_key);
    let mut text = String::new();
    for byte in &digest.as_ref()[..4] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A CA that can sign.
#[derive(Debug)]
pub struct Signer(Issuer<'static, KeyPair>);

impl Signer {
    /// From the CA's certificate and key, in PEM.
    ///
    /// # Errors
    /// When either can't be read.
    pub fn new(certificate: &str, key: &str) -> Result<Self, rcgen::Error> {
        Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?).map(Self)
    }

    /// The same from the certificate's DER.
    ///
    /// # Errors
    /// When either can't be read.
    pub fn from_der(certificate: &CertificateDer<'_>, key: &str) -> Result<Self, rcgen::Error> {
        Issuer::from_ca_cert_der(certificate, KeyPair::from_pem(key)?).map(Self)
    }
}

/// Makes a server certificate for `names`, DNS names or IP addresses, that `ca` signs.
///
/// # Errors
/// When a name can't stand in a certificate.
pub fn sign_server(
    ca: &Signer,
    names: &[String],
    validity: Validity,
) -> Result<Pair, rcgen::Error> {
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name = common_name("zonewise");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    (server.not_before, server.not_after) = (validity.from, validity.until);
    let key = KeyPair::generate()?;
    Ok(Pair {
        certificate: server.signed_by(&key, &ca.0)?.pem(),
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
