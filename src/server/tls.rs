//! The serving certificate: read from files, read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::clients::ClientCa;
use crate::certs::provider;
use crate::certs::serving::{CurrentCertificate, PemProblem, ServingCertificate};
use crate::file_watch::FileWatch;

/// What is wrong with a certificate or its key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no certificate or key.
    #[error("{}: {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Certificate and key are not of one pair, or of a kind that can't be used.
    #[error("{} and {} do not go together: {problem}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The two files of a serving certificate, in PEM.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What the two files hold, not yet understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    /// Reads both files.
    ///
    /// # Errors
    /// [`TlsError::Read`], which names the file.
    pub fn read(&self) -> Result<PemPair, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Ok(PemPair {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
        })
    }

    /// Makes a serving certificate of what was read.
    ///
    /// # Errors
    /// [`TlsError`], which names the file.
    pub fn parse(&self, pair: &PemPair) -> Result<ServingCertificate, TlsError> {
        let parsed = ServingCertificate::from_pem(&pair.certificate, &pair.key);
        parsed.map_err(|problem| match problem {
            PemProblem::Certificate(problem) => pem_error(&self.certificate, &problem),
            PemProblem::Key(problem) => pem_error(&self.key, &problem),
            PemProblem::Pair(problem) => TlsError::Pair {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                problem,
            },
        })
    }
}

fn pem_error(path: &Path, problem: &str) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        problem: problem.to_owned(),
    }
}

/// TLS 1.2 and 1.3, and HTTP/1.1 alone: what API servers speak to webhooks behind a Service. Where `clients` are looked
/// at, each is asked for a certificate.
///
/// # Errors
/// When the crypto provider lacks what these versions need.
pub fn server_config(
    certificate: Arc<CurrentCertificate>,
    clients: Option<Arc<ClientCa>>,
) -> Result<rustls::ServerConfig, rustls::Error> {
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads the files again whenever they differ from what was last `seen`, for as long as the process lives.
pub async fn reload(files: CertificateFiles, seen: PemPair, certificate: Arc<CurrentCertificate>) {
    let mut watch = FileWatch::new(&[files.certificate.clone(), files.key.clone()]);
    let mut seen = Ok(seen);
    loop {
        let read = read_aside(&files).await;
        if read != seen {
            take_over(&files, &read, &certificate).await;
            seen = read;
        }
        watch.changed().await;
    }
}

/// Both files, or the sentence why not, read where that holds up nobody.
async fn read_aside(files: &CertificateFiles) -> Result<PemPair, String> {
    let files = files.clone();
    let read = tokio::task::spawn_blocking(move || files.read().map_err(|error| error.to_string()));
    read.await.unwrap_or_else(|error| Err(error.to_string()))
}

async fn take_over(
    files: &CertificateFiles,
    read: &Result<PemPair, String>,
    certificate: &CurrentCertificate,
) {
    /// A volume may be swapped between the reading of one file and the other.
    const AGAIN: Duration = Duration::from_millis(200);
    let parse = |read: &Result<PemPair, String>| match read {
        Ok(pair) => files.parse(pair).map_err(|error| error.to_string()),
        Err(error) => Err(error.clone()),
    };
    let mut parsed = parse(read);
    if parsed.is_err() {
        tokio::time::sleep(AGAIN).await;
        parsed = parse(&read_aside(files).await);
    }
    match parsed {
        Ok(next) => {
            certificate.replace(&next);
            tracing::info!(file = %files.certificate.display(), "serving certificate read again");
        }
        Err(error) => {
            certificate.count_refused();
            tracing::warn!(
                error,
                "the new serving certificate is refused, the one before goes on"
            );
        }
    }
}
