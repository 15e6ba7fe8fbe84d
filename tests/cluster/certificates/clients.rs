//! An API server that shows a certificate of its own, set up as docs/certificates.md says.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

use super::load;
use super::stage::{Stage, number};
use crate::support::control_plane::ClientLimits;
use crate::support::plane::Plane;
use crate::support::proxy::Proxy;
use crate::support::wait::eventually;
use crate::support::world::create_first_nodes;

/// Writes what the API server is to read, and the CA of its certificate; the API server's argument.
fn set_up(dir: &Path) -> String {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = CertifiedIssuer::self_signed(ca, key).expect("a CA");
    let mut client = CertificateParams::default();
    let name = &mut client.distinguished_name;
    name.push(DnType::CommonName, "kube-apiserver-webhook-client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    let certificate = client.signed_by(&key, &ca).expect("a certificate");

    let path = |name: &str| dir.join(name).display().to_string();
    let write = |name: &str, text: String| {
        std::fs::write(dir.join(name), text).expect("the file is written");
    };
    write("ca.crt", ca.pem());
    write("client.crt", certificate.pem());
    write("client.key", key.serialize_pem());
    write(
        "webhooks.kubeconfig",
        format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: '*'\n  user:\n    client-certificate: {}\n    \
             client-key: {}\n",
            path("client.crt"),
            path("client.key")
        ),
    );
    write(
        "admission.yaml",
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: \
             MutatingAdmissionWebhook\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n    \
             kind: WebhookAdmissionConfiguration\n    kubeConfigFile: {}\n",
            path("webhooks.kubeconfig")
        ),
    );
    format!("--admission-control-config-file={}", path("admission.yaml"))
}

#[test]
fn an_api_server_that_shows_its_certificate_gets_answers() {
    crate::run(answers());
}

async fn answers() {
    const REJECTED: &str = "zonewise_rejected_requests_total";
    let dir = tempfile::TempDir::new().expect("a temporary folder can be made");
    let plane = Arc::new(Plane::start_with(ClientLimits::Usual, vec![set_up(dir.path())]).await);
    create_first_nodes(&plane.client).await;
    let stage = Stage::on(plane, "zonewise").await;
    let asked = |replica| {
        stage.replica(replica).with(
            "--client-ca-file",
            &dir.path().join("ca.crt").display().to_string(),
        )
    };
    let label = [("limit", "client-certificate")];

    let replica = asked("asks").with("--client-subject-names", "kube-apiserver-webhook-client");
    let proxy = Proxy::over(&[&replica]);
    stage.install(proxy.port).await;
    replica.start().await;
    load::calls_go_through(&stage).await;
    assert!(number(&replica, REJECTED, &label).abs() < 0.5);
    replica.stop().await;

    let replica = asked("asks-for-another").with("--client-subject-names", "somebody-else");
    let proxy = Proxy::over(&[&replica]);
    stage.install_mutating(proxy.port).await;
    replica.start().await;
    eventually(
        "the API server is turned away, and does without",
        async || {
            load::write_once(&stage).await?;
            let rejected = number(&replica, REJECTED, &label);
            (rejected > 0.5)
                .then_some(())
                .ok_or_else(|| "it is not".to_owned())
        },
    )
    .await;
}
