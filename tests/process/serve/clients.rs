//! Clients that have to show a certificate.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use time::{Duration, OffsetDateTime};

use crate::binary::{Serve, Setup, replace};
use crate::client::{Answer, Tls};
use crate::cluster::{balanced, review};

const REJECTED: &str = "zonewise_rejected_requests_total";

/// A CA of clients.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A client's certificate and key, PEM.
struct Shown {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap())
    }

    fn write(&self, file: &Path) {
        replace(file, self.0.pem());
    }

    /// One with this common name.
    fn client(&self, name: &str) -> Shown {
        self.sign(name, &[], |_| {})
    }

    fn sign(
        &self,
        name: &str,
        alternative: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Shown {
        let alternative: Vec<_> = alternative.iter().map(ToString::to_string).collect();
        let mut client = CertificateParams::new(alternative).unwrap();
        client.distinguished_name.push(DnType::CommonName, name);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut client);
        let key = KeyPair::generate().unwrap();
        Shown {
            certificate: client.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A server for clients of a CA.
fn serve(ca: &Authority, names: Option<&str>) -> Serve {
    let setup = Setup::new();
    let file = setup.path("clients.crt");
    ca.write(&file);
    let setup = setup.flag("--client-ca-file", file.display().to_string());
    match names {
        Some(names) => setup.flag("--client-subject-names", names),
        None => setup,
    }
    .start()
}

fn ask(serve: &Serve, tls: &Tls) -> Answer {
    let mut connection = tls.connect(serve.webhook).expect("the handshake succeeds");
    assert_eq!(connection.get("/healthz").status, 200);
    assert_eq!(connection.get("/readyz").status, 200);
    let review = review("CREATE", &balanced(), None).to_string();
    connection.post("/mutate?timeout=1s", review.as_bytes())
}

fn show(serve: &Serve, shown: &Shown) -> Answer {
    ask(serve, &serve.tls().showing(&shown.certificate, &shown.key))
}

fn assert_refused(answer: &Answer, sentence: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(answer.text().starts_with(sentence), "{}", answer.text());
    assert!(
        answer.text().ends_with("in docs/certificates.md\n"),
        "{}",
        answer.text()
    );
}

#[test]
fn a_client_of_the_ca_gets_an_answer_and_others_a_sentence() {
    let (ca, other) = (Authority::new(), Authority::new());
    let serve = serve(&ca, None);
    assert_eq!(show(&serve, &ca.client("kube-apiserver")).status, 200);
    let none = "a client certificate is needed here, and this client showed none";
    assert_refused(&ask(&serve, &serve.tls()), none);
    let invalid = "the client certificate is not accepted: ";
    assert_refused(&show(&serve, &other.client("kube-apiserver")), invalid);
    let over = ca.sign("kube-apiserver", &[], |client| {
        client.not_after = OffsetDateTime::now_utc() - Duration::MINUTE;
    });
    assert_refused(&show(&serve, &over), invalid);
    let server = ca.sign("kube-apiserver", &[], |client| {
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    assert_refused(&show(&serve, &server), invalid);
    assert_eq!(serve.count(REJECTED, &[("limit", "client-certificate")]), 4);
    assert_eq!(serve.count("zonewise_tls_handshake_errors_total", &[]), 0);
}

#[test]
fn every_version_of_tls_asks_for_the_certificate() {
    let ca = Authority::new();
    let serve = serve(&ca, None);
    let Shown { certificate, key } = ca.client("kube-apiserver");
    for version in rustls::ALL_VERSIONS {
        let trusted = serve.path("certs/ca.crt");
        let tls = || Tls::with_versions(&trusted, &[version]);
        assert_eq!(
            ask(&serve, &tls().showing(&certificate, &key)).status,
            200,
            "{version:?}"
        );
        assert_eq!(ask(&serve, &tls()).status, 403, "{version:?}");
    }
}

#[test]
fn a_client_needs_one_of_the_names() {
    let ca = Authority::new();
    let serve = serve(&ca, Some("kube-apiserver,control.example"));
    for (name, alternative) in [
        ("kube-apiserver", &[][..]),
        ("somebody", &["other.example", "control.example"]),
    ] {
        let answer = show(&serve, &ca.sign(name, alternative, |_| {}));
        assert_eq!(answer.status, 200, "{name}");
    }
    let other = ca.sign("kube-apiserver-2", &["other.example"], |_| {});
    let sentence = "the client certificate is for [\"kube-apiserver-2\", \"other.example\"] and none of these may ask";
    assert_refused(&show(&serve, &other), sentence);
}

#[test]
fn the_ca_of_clients_is_read_again_and_a_broken_one_changes_nothing() {
    let (ca, next) = (Authority::new(), Authority::new());
    let serve = serve(&ca, None);
    let file = serve.path("clients.crt");
    replace(&file, "no PEM");
    let refusal = "the new CA of clients is refused, the one before goes on";
    let line = serve.wait_for_log("of the broken file", |line| line["message"] == refusal);
    let error = line["error"].as_str().unwrap();
    assert!(error.starts_with(&file.display().to_string()), "{error}");
    assert_eq!(show(&serve, &ca.client("a")).status, 200);

    next.write(&file);
    let again = "CA of clients read again";
    serve.wait_for_log("of the new file", |line| line["message"] == again);
    assert_eq!(show(&serve, &next.client("a")).status, 200);
    assert_eq!(show(&serve, &ca.client("a")).status, 403);
}
