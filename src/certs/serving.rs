//! What a server shows: a chain with its key, and the one of the moment.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::provider;
use super::read::Certificate;
use crate::telemetry::Metrics;

/// A certificate chain with its key, and when it ends.
#[derive(Debug, Clone)]
pub struct ServingCertificate {
    key: Arc<CertifiedKey>,
    /// End of the leaf's validity, in seconds since 1970.
    not_after: i64,
}

/// What is wrong with a pair in PEM, and with which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PemProblem {
    /// The certificate's.
    Certificate(String),
    /// The key's.
    Key(String),
    /// They do not go together.
    Pair(String),
}

impl ServingCertificate {
    /// Makes one from PEM: a chain, leaf first, and its key.
    ///
    /// # Errors
    /// [`PemProblem`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PemProblem> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| PemProblem::Certificate(error.to_string()))?;
        if chain.is_empty() {
            let problem = "no certificate in PEM in there".to_owned();
            return Err(PemProblem::Certificate(problem));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| PemProblem::Key(format!("no private key in PEM in there: {error}")))?;
        Self::new(chain, key).map_err(PemProblem::Pair)
    }

    /// The chain, leaf first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// When its leaf ends, in seconds since 1970.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Makes one from DER.
    ///
    /// # Errors
    /// A sentence about what is wrong with the pair.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let leaf = chain.first().ok_or("there is no certificate")?;
        let not_after = Certificate::read(leaf)?.validity.until.unix_timestamp();
        let key =
            CertifiedKey::from_der(chain, key, &provider()).map_err(|error| error.to_string())?;
        Ok(Self {
            key: Arc::new(key),
            not_after,
        })
    }
}

/// Hands every new connection the certificate of the moment. Without one, handshakes are refused.
#[derive(Debug)]
pub struct CurrentCertificate {
    current: ArcSwapOption<ServingCertificate>,
    metrics: Metrics,
}

impl CurrentCertificate {
    /// Starts without one.
    #[must_use]
    pub fn none(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwapOption::empty(),
            metrics,
        })
    }

    /// Starts with `certificate`.
    #[must_use]
    pub fn new(certificate: &ServingCertificate, metrics: Metrics) -> Arc<Self> {
        let current = Self::none(metrics);
        current.replace(certificate);
        current
    }

    /// What new connections get.
    #[must_use]
    pub fn get(&self) -> Option<Arc<ServingCertificate>> {
        self.current.load_full()
    }

    /// Connections from now on get `certificate`; those that are open keep what they have.
    pub fn replace(&self, certificate: &ServingCertificate) {
        self.current.store(Some(Arc::new(certificate.clone())));
        self.metrics
            .set_certificate_expiration("serving", certificate.not_after);
    }

    /// Counts another that was refused.
    pub fn count_refused(&self) {
        self.metrics.certificate_reload_errors.inc();
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().as_ref()?.key.clone())
    }
}
