//! The Secret is spoilt in every way, and mended.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyPair,
    KeyUsagePurpose, NameConstraints,
};
use time::{Duration, OffsetDateTime};
use zonewise::certs::{self, Signer, Validity};
use zonewise::controller::certificates::contents::{BUNDLE, CA_KEY, CERTIFICATE, Contents, KEY};

use super::load::{self, Load};
use super::stage::{SECRET, Stage, data};
use crate::support::proxy::Proxy;
use crate::support::replica::Replica;
use crate::support::wait::eventually;
use crate::support::world::say;

type Data = BTreeMap<String, Vec<u8>>;

/// Replaces what the Secret holds. Its version then.
async fn spoil(stage: &Stage, spoil: impl FnOnce(&mut Data)) -> Option<String> {
    let mut secret = stage.secret().await.expect("a Secret");
    let mut data = data(&secret);
    spoil(&mut data);
    let bytes = data
        .into_iter()
        .map(|(key, value)| (key, ByteString(value)));
    secret.data = Some(bytes.collect());
    let (secrets, parameters) = (stage.own::<Secret>(), PostParams::default());
    let replaced = secrets.replace(SECRET, &parameters, &secret).await;
    let replaced = replaced.expect("the Secret is replaced");
    replaced.metadata.resource_version
}

fn garble(data: &mut Data) {
    for value in data.values_mut() {
        *value = b"\xffno PEM in here".to_vec();
    }
}

/// As if a restore had written a part of what another backup held.
fn mix(data: &mut Data) {
    let names = ["127.0.0.1".to_owned()];
    let other = certs::generate(&names, Duration::DAY).expect("a pair");
    data.insert(KEY.to_owned(), other.key.into_bytes());
}

/// Puts in a CA that somebody made for another purpose, in place of the one that signs.
fn give(data: &mut Data, change: impl FnOnce(&mut CertificateParams)) {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut ca);
    let key = KeyPair::generate().expect("a key");
    let made = ca.self_signed(&key).expect("a CA");
    data.insert(BUNDLE.to_owned(), made.pem().into_bytes());
    data.insert(CA_KEY.to_owned(), key.serialize_pem().into_bytes());
}

fn give_a_ca_of_other_names(data: &mut Data) {
    let permitted_subtrees = vec![GeneralSubtree::DnsName("example.com".to_owned())];
    give(data, |ca| {
        ca.name_constraints = Some(NameConstraints {
            permitted_subtrees,
            excluded_subtrees: Vec::new(),
        });
    });
}

pub async fn the_secret_is_repaired_whatever_becomes_of_it(stage: &Stage) {
    type Spoil = fn(&mut Data);
    let ways: [(&str, Spoil); 11] = [
        ("emptied", |data| data.clear()),
        ("garbage", garble),
        ("of two halves", mix),
        ("without a certificate", |data| {
            data.remove(CERTIFICATE);
        }),
        ("without the CA's key", |data| {
            data.remove(CA_KEY);
        }),
        ("without the bundle", |data| {
            data.remove(BUNDLE);
        }),
        ("cut short", |data| {
            for value in data.values_mut() {
                value.truncate(value.len() / 2);
            }
        }),
        ("with a CA twice", |data| {
            let twice = data[BUNDLE].repeat(2);
            data.insert(BUNDLE.to_owned(), twice);
        }),
        ("with a CA for other names", give_a_ca_of_other_names),
        ("with a CA for clients", |data| {
            give(data, |ca| {
                ca.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            });
        }),
        ("with a CA that may not sign", |data| {
            give(data, |ca| {
                ca.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            });
        }),
    ];
    let replicas = ["a", "b"].map(|name| stage.replica(name));
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    stage.install(proxy.port).await;
    for replica in &replicas {
        replica.start().await;
    }
    stage.is_in_order(&all).await;
    load::calls_go_through(stage).await;
    let (before, load) = (stage.faults_from(0).len(), Load::begin(stage).await);
    for (way, spoilt) in ways {
        say(&format!("  {way}"));
        let version = spoil(stage, spoilt).await;
        is_mended(stage, &all, version).await;
    }
    say("  deleted");
    let version = stage.secret().await.expect("a Secret");
    let (secrets, parameters) = (stage.own::<Secret>(), DeleteParams::default());
    let deleted = secrets.delete(SECRET, &parameters).await;
    deleted.expect("the Secret is deleted");
    is_mended(stage, &all, version.metadata.resource_version).await;
    let (written, faults) = load.end().await;
    assert_eq!(faults, Vec::<String>::new(), "of {written} writes");
    assert_eq!(stage.faults_from(before), Vec::<String>::new());
    assert_eq!(stage.unused(), Vec::<String>::new());
}

/// Good in itself, for the names of these replicas.
fn a_strangers() -> Data {
    let now = OffsetDateTime::now_utc();
    let names = ["zonewise.zonewise.svc", "127.0.0.1"].map(str::to_owned);
    let ca = certs::make_ca(Validity::beginning(now, Duration::HOUR * 2)).expect("a CA");
    let signer = Signer::new(&ca.certificate, &ca.key).expect("it can sign");
    let validity = Validity::beginning(now, Duration::HOUR);
    let server = certs::sign_server(&signer, &names, validity).expect("a pair");
    let all = [
        (BUNDLE, ca.certificate),
        (CA_KEY, ca.key),
        (CERTIFICATE, server.certificate),
        (KEY, server.key),
    ];
    let all = all.map(|(key, value)| (key.to_owned(), value.into_bytes()));
    all.into()
}

pub async fn another_secret_takes_over_without_a_gap(stage: &Stage) {
    let replicas = ["a", "b"].map(|name| {
        let replica = stage.replica(name);
        replica.with("--max-connection-age", "500ms")
    });
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    stage.install(proxy.port).await;
    for replica in &replicas {
        replica.start().await;
    }
    stage.is_in_order(&all).await;
    load::calls_go_through(stage).await;
    let older = data(&stage.secret().await.expect("a Secret"));
    let (before, load) = (stage.faults_from(0).len(), Load::begin(stage).await);
    for (way, other) in [
        ("of a stranger", a_strangers()),
        ("of a backup", older),
        ("of another stranger", a_strangers()),
    ] {
        say(&format!("  {way}"));
        let version = spoil(stage, |data| data.clone_from(&other)).await;
        is_mended(stage, &all, version).await;
        let contents = stage.contents().await.expect("a Secret");
        let its_own = Contents::read(&other).signing.expect("a CA");
        let signing = contents.signing.expect("a CA");
        assert_eq!(signing.certificate, its_own.certificate, "it is taken over");
    }
    let (written, faults) = load.end().await;
    assert_eq!(faults, Vec::<String>::new(), "of {written} writes");
    assert_eq!(stage.faults_from(before), Vec::<String>::new());
}

/// The Secret is in order again, and no longer has the version in which it was spoilt.
async fn is_mended(stage: &Stage, replicas: &[&Replica], spoilt: Option<String>) {
    eventually("the Secret is as it should be", async || {
        let secret = stage.secret().await?;
        let data = data(&secret);
        let is_other = secret.metadata.resource_version != spoilt;
        (is_other && Contents::read(&data).in_place_in(&data) == data)
            .then_some(())
            .ok_or_else(|| "it is not".to_owned())
    })
    .await;
    stage.is_in_order(replicas).await;
}

pub async fn everything_has_expired(stage: &Stage) {
    let replica = stage.replica("late");
    let proxy = Proxy::over(&[&replica]);
    stage.install(proxy.port).await;
    replica.start().await;
    let before = stage.is_in_order(&[&replica]).await;
    replica.stop().await;

    let now = OffsetDateTime::now_utc();
    let over = Validity {
        from: now - Duration::DAY,
        until: now - Duration::MINUTE,
    };
    let ca = certs::make_ca(over).expect("a CA");
    let signer = Signer::new(&ca.certificate, &ca.key).expect("it can sign");
    let server = certs::sign_server(&signer, &["127.0.0.1".to_owned()], over).expect("a pair");
    spoil(stage, |data| {
        data.insert(BUNDLE.to_owned(), ca.certificate.into_bytes());
        data.insert(CA_KEY.to_owned(), ca.key.into_bytes());
        data.insert(CERTIFICATE.to_owned(), server.certificate.into_bytes());
        data.insert(KEY.to_owned(), server.key.into_bytes());
    })
    .await;
    replica.start().await;
    let after = stage.is_in_order(&[&replica]).await;
    assert_eq!(after.bundle.len(), 1, "what has expired has gone");
    assert_ne!(after.bundle, before.bundle);
    load::calls_go_through(stage).await;
}
