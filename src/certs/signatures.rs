//! Whether a handshake is signed with the key of the certificate that is shown, for verifiers that take any certificate and
//! judge it afterwards.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::CertificateDer;

use super::provider;

/// In TLS 1.2.
///
/// # Errors
/// What is wrong with it.
pub fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = provider().signature_verification_algorithms;
    verify_tls12_signature(message, certificate, signature, &algorithms)
}

/// In TLS 1.3.
///
/// # Errors
/// What is wrong with it.
pub fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = provider().signature_verification_algorithms;
    verify_tls13_signature(message, certificate, signature, &algorithms)
}

/// The schemes of either.
#[must_use]
pub fn schemes() -> Vec<SignatureScheme> {
    provider()
        .signature_verification_algorithms
        .supported_schemes()
}
