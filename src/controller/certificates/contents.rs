//! What the Secret holds, read so that nothing in it can be a surprise.

use std::collections::BTreeMap;

use rcgen::{KeyPair, PublicKeyData as _};
use time::OffsetDateTime;

use super::rules::Rules;
use crate::certs::read::{self, Certificate};
use crate::certs::serving::ServingCertificate;
use crate::certs::trust;

/// The `data` of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The CAs that are to be trusted, newest first: what goes into webhook configurations.
pub const BUNDLE: &str = "ca.crt";
/// The key of the CA that signs.
pub const CA_KEY: &str = "ca.key";
/// The key of the CA that will sign once it is trusted everywhere.
pub const NEXT_CA_KEY: &str = "next-ca.key";
/// The server certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Its key.
pub const KEY: &str = "tls.key";

/// What could be made of the Secret.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The CAs in the bundle that may vouch for servers, each once, in their order.
    pub bundle: Vec<Certificate>,
    /// The CA that signs.
    pub signing: Option<Ca>,
    /// The CA that will.
    pub next: Option<Ca>,
    /// The server certificate, if it goes with its key.
    pub server: Option<Server>,
}

/// A CA of the bundle whose key is there.
#[derive(Clone)]
pub struct Ca {
    /// Its certificate.
    pub certificate: Certificate,
    /// Its key, PEM.
    pub key: String,
}

/// A server certificate with its key.
#[derive(Clone)]
pub struct Server {
    /// As it is served.
    pub serving: ServingCertificate,
    /// What its leaf says.
    pub leaf: Certificate,
    /// PEM, as it was found.
    pub pem: [Vec<u8>; 2],
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("leaf", &self.leaf)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ca")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Ca {
    /// One whose key and certificate are of one pair.
    #[must_use]
    pub fn of_pair(certificate: Certificate, key: String) -> Option<Self> {
        let public_key = KeyPair::from_pem(&key).ok()?.subject_public_key_info();
        (certificate.objection.is_none() && certificate.public_key == public_key)
            .then_some(Self { certificate, key })
    }

    fn find(bundle: &[Certificate], key: Option<&Vec<u8>>) -> Option<Self> {
        let key = String::from_utf8(key?.clone()).ok()?;
        let public_key = KeyPair::from_pem(&key).ok()?.subject_public_key_info();
        let certificate = bundle.iter().find(|ca| ca.public_key == public_key)?;
        Some(Self {
            certificate: certificate.clone(),
            key,
        })
    }

    /// Whether it may sign at this moment.
    #[must_use]
    pub fn is_valid(&self, now: OffsetDateTime) -> bool {
        self.certificate.validity.holds(now)
    }
}

impl Server {
    /// From a certificate and its key, PEM.
    #[must_use]
    pub fn read(certificate: &[u8], key: &[u8]) -> Option<Self> {
        let serving = ServingCertificate::from_pem(certificate, key).ok()?;
        let leaf = Certificate::read(serving.chain().first()?).ok()?;
        Some(Self {
            serving,
            leaf,
            pem: [certificate.to_vec(), key.to_vec()],
        })
    }

    /// Whether it may be served at this moment for these names, and is of this CA and ends no later.
    #[must_use]
    pub fn is_good(&self, ca: &Ca, rules: &Rules, now: OffsetDateTime) -> bool {
        self.leaf.validity.holds(now)
            && self.leaf.validity.until <= ca.certificate.validity.until
            && self.leaf.names == rules.names_in_certificate()
            && self.is_of(&ca.certificate, rules, now)
    }

    /// Whether this CA vouches for it at this moment.
    #[must_use]
    pub fn is_of(&self, ca: &Certificate, rules: &Rules, now: OffsetDateTime) -> bool {
        self.check(ca, rules, now).is_ok()
    }

    /// The same with the reason.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(
        &self,
        ca: &Certificate,
        rules: &Rules,
        now: OffsetDateTime,
    ) -> Result<(), String> {
        let name = rules.names().first();
        // What a certificate for *.example says is true of any name below.
        let name = name.map(|name| name.replacen('*', "any", 1));
        let cas = std::slice::from_ref(ca);
        trust::check_by(self.serving.chain(), cas, &name.unwrap_or_default(), now)
    }
}

impl Contents {
    /// Reads what can be read.
    #[must_use]
    pub fn read(data: &Data) -> Self {
        let pem = data.get(BUNDLE).map(Vec::as_slice).unwrap_or_default();
        let mut bundle: Vec<Certificate> = Vec::new();
        for ca in read::certificates(pem).0 {
            if ca.objection.is_none() && !bundle.contains(&ca) {
                bundle.push(ca);
            }
        }
        let signing = Ca::find(&bundle, data.get(CA_KEY));
        let next = Ca::find(&bundle, data.get(NEXT_CA_KEY));
        let is_signing = |next: &Ca| {
            let signing = signing.as_ref();
            signing.is_some_and(|ca| ca.certificate == next.certificate)
        };
        let next = next.filter(|next| !is_signing(next));
        let pair = data.get(CERTIFICATE).zip(data.get(KEY));
        let server = pair.and_then(|(certificate, key)| Server::read(certificate, key));
        Self {
            bundle,
            signing,
            next,
            server,
        }
    }

    /// Has these CAs trusted too, beside those that sign and before all others: of those the last go first.
    pub fn trust_too(&mut self, cas: &[Certificate]) {
        let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.bundle)
            .into_iter()
            .partition(|ca| self.is_own(ca));
        self.bundle = own;
        for ca in cas.iter().cloned().chain(others) {
            if !self.bundle.contains(&ca) {
                self.bundle.push(ca);
            }
        }
    }

    /// Whether this CA signs, or will.
    #[must_use]
    pub fn is_own(&self, certificate: &Certificate) -> bool {
        let own = [&self.signing, &self.next].into_iter().flatten();
        own.into_iter().any(|ca| ca.certificate == *certificate)
    }

    /// What goes into webhook configurations, PEM.
    #[must_use]
    pub fn bundle_pem(&self) -> String {
        pem(&self.bundle)
    }

    /// What the Secret has to hold for this. Keys that are not ours are left out.
    #[must_use]
    pub fn data(&self) -> Data {
        let mut data = Data::new();
        let mut put = |key: &str, value: Vec<u8>| {
            data.insert(key.to_owned(), value);
        };
        put(BUNDLE, self.bundle_pem().into_bytes());
        if let Some(ca) = &self.signing {
            put(CA_KEY, ca.key.clone().into_bytes());
        }
        if let Some(ca) = &self.next {
            put(NEXT_CA_KEY, ca.key.clone().into_bytes());
        }
        if let Some(server) = &self.server {
            let [certificate, key] = server.pem.clone();
            put(CERTIFICATE, certificate);
            put(KEY, key);
        }
        data
    }

    /// The Secret's `data` as it should be: with this in place of what it has under our keys.
    #[must_use]
    pub fn in_place_in(&self, data: &Data) -> Data {
        let ours = [BUNDLE, CA_KEY, NEXT_CA_KEY, CERTIFICATE, KEY];
        let mut data = data.clone();
        data.retain(|key, _| !ours.contains(&key.as_str()));
        data.extend(self.data());
        data
    }
}

/// Certificates in PEM, one after another.
fn pem(certificates: &[Certificate]) -> String {
    use base64::Engine as _;
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::engine::general_purpose::STANDARD.encode(&certificate.der);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            // Base64 is ASCII.
            text.push_str(std::str::from_utf8(line).unwrap_or_default());
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
