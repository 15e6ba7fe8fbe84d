//! Whether a client that goes by a CA bundle trusts what a server shows.

use std::time::Duration;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::{CertificateError, RootCertStore};
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
/// Why it is not trusted, in words that are the same at the next look.
pub fn check_by(
    chain: &[CertificateDer<'_>],
    cas: &[Certificate],
    name: &str,
    now: OffsetDateTime,
) -> Result<(), String> {
    let (leaf, rest) = chain.split_first().ok_or("there is no certificate")?;
    let valid: Vec<&Certificate> = cas.iter().filter(|ca| ca.validity.holds(now)).collect();
    // rustls alone would take a root for valid whenever.
    if valid.is_empty() {
        return Err("there is no CA in there that is valid now".to_owned());
    }
    let objection = |der: &CertificateDer<'_>| {
        let read = Certificate::read(&der.clone().into_owned());
        read.ok().and_then(|certificate| certificate.objection)
    };
    let issuers = rest.iter().filter(|der| objection(der).is_none());
    let issuers: Vec<_> = issuers.cloned().collect();
    // What is in the bundle itself needs no issuer.
    let is_root = |ca: &&Certificate| ca.objection.is_none() || ca.der == *leaf;
    let roots: Vec<_> = valid.iter().copied().filter(is_root).collect();
    let verified = verify(leaf, &issuers, &roots, name, now);
    let of_the_cas = valid.iter().filter_map(|ca| ca.objection);
    let would_else = || roots.is_empty() || verify(leaf, rest, &valid, name, now).is_ok();
    match rest.iter().filter_map(objection).chain(of_the_cas).next() {
        Some(objection) if verified.is_err() && would_else() => Err(format!(
            "the CA that would have to vouch for it is none for servers: {objection}"
        )),
        _ => verified,
    }
}

/// By these roots and these certificates in between, whatever they are for.
fn verify(
    leaf: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    cas: &[&Certificate],
    name: &str,
    now: OffsetDateTime,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(cas.iter().map(|ca| ca.der.clone()));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let at = u64::try_from(now.unix_timestamp()).unwrap_or(0);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let result = verifier.verify_server_cert(leaf, between, &server, &[], at);
    result.map(drop).map_err(|error| match error {
        rustls::Error::InvalidCertificate(error) => in_words(&error),
        error => error.to_string(),
    })
}

/// rustls tells of an end with the time of the look, which is another at each.
fn in_words(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("a certificate expired at {}", moment(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("a certificate is not valid before {}", moment(*not_before))
        }
        error => error.to_string(),
    }
}

fn moment(time: UnixTime) -> Timestamp {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
        Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
    };

    use super::*;
    use crate::certs::{self, Signer, Validity};

    /// A leaf for `a.b.svc` and its CA, PEM.
    fn of(
        change_ca: impl FnOnce(&mut CertificateParams),
        change_leaf: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, String) {
        let [ca_key, key] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change_ca(&mut ca);
        let bundle = ca.self_signed(&ca_key).unwrap().pem();
        let mut leaf = CertificateParams::new(["a.b.svc".to_owned()]).unwrap();
        leaf.distinguished_name.push(DnType::CommonName, "a leaf");
        change_leaf(&mut leaf);
        let leaf = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key));
        (leaf.unwrap().der().clone(), bundle)
    }

    #[test]
    fn a_root_that_is_no_issuer_for_servers_vouches_for_none_and_that_is_told() {
        type Change = fn(&mut CertificateParams);
        let now = OffsetDateTime::now_utc();
        let wrongs: [(Change, &str); 3] = [
            (|ca| ca.is_ca = IsCa::ExplicitNoCa, "it is no CA"),
            (
                |ca| ca.key_usages = vec![KeyUsagePurpose::DigitalSignature],
                "its key usage lacks keyCertSign",
            ),
            (
                |ca| ca.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
                "its extended key usage lacks serverAuth",
            ),
        ];
        let another = of(|_| {}, |_| {}).1;
        for (change, objection) in wrongs {
            let (leaf, bundle) = of(change, |_| {});
            for bundle in [bundle.clone(), another.clone() + &bundle] {
                let chain = std::slice::from_ref(&leaf);
                let why = check(chain, bundle.as_bytes(), "a.b.svc", now).unwrap_err();
                let wanted = format!(
                    "the CA that would have to vouch for it is none for servers: {objection}"
                );
                assert_eq!(why, wanted);
            }
        }
    }

    #[test]
    fn names_and_uses_that_a_ca_or_a_leaf_is_limited_to_are_kept() {
        let now = OffsetDateTime::now_utc();
        let trusts = |(leaf, bundle): (CertificateDer<'static>, String)| {
            check(&[leaf], bundle.as_bytes(), "a.b.svc", now).is_ok()
        };
        let permits = |name: &str| {
            let name = GeneralSubtree::DnsName(name.to_owned());
            NameConstraints {
                permitted_subtrees: vec![name],
                excluded_subtrees: Vec::new(),
            }
        };
        let limited = |name| of(|ca| ca.name_constraints = Some(permits(name)), |_| {});
        assert!(trusts(limited("svc")) && !trusts(limited("example.com")));
        let for_use = |usage| of(|_| {}, |leaf| leaf.extended_key_usages = vec![usage]);
        assert!(trusts(for_use(ExtendedKeyUsagePurpose::ServerAuth)));
        assert!(!trusts(for_use(ExtendedKeyUsagePurpose::ClientAuth)));
    }

    #[test]
    fn a_certificate_that_is_in_the_bundle_itself_needs_no_ca() {
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["a.b.svc".to_owned()]).unwrap();
        let own = own.self_signed(&key).unwrap();
        let now = OffsetDateTime::now_utc();
        let chain = [own.der().clone()];
        assert_eq!(check(&chain, own.pem().as_bytes(), "a.b.svc", now), Ok(()));
    }

    fn made() -> (Vec<CertificateDer<'static>>, String, Validity) {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let day = Validity::beginning(now, time::Duration::DAY);
        let hour = Validity::beginning(now, time::Duration::HOUR);
        let ca = certs::make_ca(day).unwrap();
        let signer = Signer::new(&ca.certificate, &ca.key).unwrap();
        let server = certs::sign_server(&signer, &["a.b.svc".to_owned()], hour).unwrap();
        let chain = read::certificates(server.certificate.as_bytes()).0;
        let chain = chain.into_iter().map(|one| one.der).collect();
        (chain, ca.certificate, hour)
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_the_same_words_at_each_look() {
        let (chain, bundle, valid) = made();
        let why = |at| check(&chain, bundle.as_bytes(), "a.b.svc", at).unwrap_err();
        let late = [1, 7].map(|seconds| why(valid.until + time::Duration::seconds(seconds)));
        assert_eq!(late[0], "a certificate expired at 2027-01-15T09:00:00Z");
        assert_eq!(late[1], late[0]);
        assert_eq!(
            why(valid.from - time::Duration::SECOND),
            "there is no CA in there that is valid now"
        );
    }
}
