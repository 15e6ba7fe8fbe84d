//! Who may ask: clients that show a certificate of a given CA, where one is given.
//!
//! TLS takes any certificate, and none; a client has only to prove that it holds the key of the one that it shows. Whether
//! that is enough is judged once for each connection, and said in answers: a client that is turned away with a status
//! and a sentence can be helped, one whose handshake fails can't. Health paths answer everybody.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::http::Extensions;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::request::Refused;
use crate::certs::read::{self, Certificate};
use crate::certs::{provider, signatures};
use crate::file_watch::FileWatch;

/// Why a client gets no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotAdmitted {
    /// It showed nothing.
    #[error(
        "a client certificate is needed here, and this client showed none; see --client-ca-file in docs/certificates.md"
    )]
    None,
    /// It showed one that does not count.
    #[error(
        "the client certificate is not accepted: {0}; see --client-ca-file in docs/certificates.md"
    )]
    Invalid(String),
    /// It showed one with other names.
    #[error(
        "the client certificate is for {shown} and none of these may ask; see --client-subject-names in docs/certificates.md"
    )]
    OtherName {
        /// The names in the certificate.
        shown: String,
    },
}

/// Whether the client of a connection may ask: goes along with each of its requests.
#[derive(Debug, Clone)]
pub struct Client(Result<(), Arc<NotAdmitted>>);

/// Whether a request may be answered; it may where nobody looks at clients.
pub(super) fn admit(extensions: &Extensions) -> Result<(), Refused> {
    match extensions.get::<Client>() {
        Some(Client(Err(why))) => Err(Refused::Client((**why).clone())),
        Some(Client(Ok(()))) | None => Ok(()),
    }
}

/// The CA whose clients may ask, and their names.
#[derive(Debug)]
pub struct ClientCa {
    file: PathBuf,
    /// No names means any.
    names: Vec<String>,
    current: ArcSwap<Verifier>,
}

/// What was read, and what was made of it.
#[derive(Debug)]
struct Verifier {
    pem: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCa {
    /// Reads the CA, PEM, of which there may be several.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(file: PathBuf, names: Vec<String>) -> Result<Arc<Self>, String> {
        let current = read_file(&file)?;
        Ok(Arc::new(Self {
            file,
            names,
            current: ArcSwap::from_pointee(current),
        }))
    }

    /// Judges the certificates that a client showed, leaf first.
    pub fn judge(&self, shown: Option<&[CertificateDer<'static>]>) -> Client {
        Client(self.check(shown.unwrap_or_default()).map_err(Arc::new))
    }

    fn check(&self, shown: &[CertificateDer<'static>]) -> Result<(), NotAdmitted> {
        let (leaf, rest) = shown.split_first().ok_or(NotAdmitted::None)?;
        let verifier = &self.current.load().verifier;
        let result = verifier.verify_client_cert(leaf, rest, UnixTime::now());
        result.map_err(|error| NotAdmitted::Invalid(error.to_string()))?;
        if self.names.is_empty() {
            return Ok(());
        }
        let leaf = Certificate::read(leaf).map_err(NotAdmitted::Invalid)?;
        let is_named = |name: &String| self.names.contains(name);
        // DNS names go by no case.
        let is_named_as_dns =
            |name: &String| self.names.iter().any(|n| n.eq_ignore_ascii_case(name));
        if leaf.common_name.as_ref().is_some_and(is_named) || leaf.names.iter().any(is_named_as_dns)
        {
            return Ok(());
        }
        let shown: Vec<String> = leaf.common_name.into_iter().chain(leaf.names).collect();
        let shown = crate::words::for_a_line(&format!("{shown:?}"));
        Err(NotAdmitted::OtherName { shown })
    }

    /// Reads the file again whenever it changes, for as long as the process lives. Connections that are open keep what
    /// was said of their clients.
    pub async fn reload(self: Arc<Self>) {
        let mut watch = FileWatch::new(std::slice::from_ref(&self.file));
        let mut told = String::new();
        loop {
            let file = self.file.clone();
            let read = tokio::task::spawn_blocking(move || read_file(&file)).await;
            match read.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(verifier) if verifier.pem == self.current.load().pem => told.clear(),
                Ok(verifier) => {
                    self.current.store(Arc::new(verifier));
                    told.clear();
                    tracing::info!(file = %self.file.display(), "CA of clients read again");
                }
                Err(error) if error != told => {
                    tracing::warn!(
                        error,
                        "the new CA of clients is refused, the one before goes on"
                    );
                    told = error;
                }
                Err(_) => {}
            }
            watch.changed().await;
        }
    }
}

fn read_file(file: &std::path::Path) -> Result<Verifier, String> {
    let named = |problem: String| format!("{}: {problem}", file.display());
    let pem = std::fs::read(file).map_err(|error| named(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let (certificates, all_read) = read::certificates(&pem);
    for certificate in certificates {
        let added = roots.add(certificate.der);
        added.map_err(|error| named(error.to_string()))?;
    }
    if roots.is_empty() || !all_read {
        return Err(named(
            "no certificates in PEM in there, or a broken one".to_owned(),
        ));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
    let verifier = verifier.build().map_err(|error| named(error.to_string()))?;
    Ok(Verifier { pem, verifier })
}

impl ClientCertVerifier for ClientCa {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None, so that clients show what they have: the CA may be another by the time they do.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
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
