//! Whom an API server takes for an issuer of a server's certificate, by the rules of Go's `crypto/x509`. Of roots rustls
//! looks at none of this.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, GeneralSubtree, ParsedExtension, X509Extension};
use x509_parser::x509::X509Version;

/// What an API server has against this certificate as an issuer, if anything: a sentence about "it".
#[must_use]
pub fn objection(certificate: &X509Certificate<'_>) -> Option<&'static str> {
    // CheckSignatureFrom: before version 3 nothing said who is a CA.
    if certificate.version() == X509Version::V3 && !certificate.is_ca() {
        return Some("it is no CA");
    }
    if !may_sign_certificates(certificate) {
        return Some("its key usage lacks keyCertSign");
    }
    if !is_for_servers(certificate) {
        return Some("its extended key usage lacks serverAuth");
    }
    let mut extensions = certificate.extensions().iter();
    extensions
        .any(|extension| extension.critical && !is_known(extension))
        .then_some("it has a critical extension that API servers do not know")
}

fn may_sign_certificates(certificate: &X509Certificate<'_>) -> bool {
    match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|u| u.value.flags == 0 || u.value.key_cert_sign()),
        Err(_) => false,
    }
}

/// `checkChainForKeyUsage`: usages narrow from the root to the leaf, and none at all means any.
fn is_for_servers(certificate: &X509Certificate<'_>) -> bool {
    match certificate.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(usage)) => usage.value.any || usage.value.server_auth,
        Err(_) => false,
    }
}

/// `processExtensions`: what is critical and not among these makes a certificate useless.
fn is_known(extension: &X509Extension<'_>) -> bool {
    match extension.parsed_extension() {
        ParsedExtension::NameConstraints(names) => {
            let both = [&names.permitted_subtrees, &names.excluded_subtrees];
            both.into_iter().flatten().flatten().all(is_known_tree)
        }
        ParsedExtension::AuthorityInfoAccess(_)
        | ParsedExtension::AuthorityKeyIdentifier(_)
        | ParsedExtension::BasicConstraints(_)
        | ParsedExtension::CertificatePolicies(_)
        | ParsedExtension::CRLDistributionPoints(_)
        | ParsedExtension::ExtendedKeyUsage(_)
        | ParsedExtension::InhibitAnyPolicy(_)
        | ParsedExtension::KeyUsage(_)
        | ParsedExtension::PolicyConstraints(_)
        | ParsedExtension::PolicyMappings(_)
        | ParsedExtension::SubjectAlternativeName(_)
        | ParsedExtension::SubjectKeyIdentifier(_) => true,
        _ => false,
    }
}

fn is_known_tree(tree: &GeneralSubtree<'_>) -> bool {
    matches!(
        tree.base,
        GeneralName::DNSName(_)
            | GeneralName::IPAddress(_)
            | GeneralName::RFC822Name(_)
            | GeneralName::URI(_)
    )
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose as Extended,
        IsCa, KeyPair, KeyUsagePurpose as Usage,
    };

    use crate::certs::read::Certificate;

    fn objection(change: impl FnOnce(&mut CertificateParams)) -> Option<&'static str> {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut ca);
        let made = ca.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Certificate::read(made.der()).unwrap().objection
    }

    #[test]
    fn an_issuer_is_a_ca_that_may_sign_and_whose_uses_are_those_of_servers() {
        assert_eq!(objection(|_| {}), None);
        assert_eq!(objection(|ca| ca.is_ca = IsCa::NoCa), Some("it is no CA"));
        let usage = |usage: &[Usage]| objection(|ca| ca.key_usages = usage.to_vec());
        assert_eq!(usage(&[Usage::CrlSign, Usage::KeyCertSign]), None);
        assert_eq!(
            usage(&[Usage::DigitalSignature]),
            Some("its key usage lacks keyCertSign")
        );
        let extended = |uses: &[Extended]| objection(|ca| ca.extended_key_usages = uses.to_vec());
        assert_eq!(
            extended(&[Extended::ClientAuth, Extended::ServerAuth]),
            None
        );
        assert_eq!(extended(&[Extended::Any]), None);
        assert_eq!(
            extended(&[Extended::ClientAuth]),
            Some("its extended key usage lacks serverAuth")
        );
    }

    #[test]
    fn a_critical_extension_of_somebodys_own_spoils_a_certificate_and_one_that_is_not_does_not() {
        let with = |critical| {
            let mut own = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            own.set_criticality(critical);
            objection(|ca| ca.custom_extensions = vec![own])
        };
        assert_eq!(with(false), None);
        assert_eq!(
            with(true),
            Some("it has a critical extension that API servers do not know")
        );
    }
}
