//! Certificates and CAs that are renewed all the time, while slices are written.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::time::sleep;
use zonewise::certs::{self, Pair, Signer, Validity, fingerprint};

use super::load::{self, Load};
use super::stage::{Stage, number};
use crate::support::proxy::Proxy;
use crate::support::replica::{Certificates, Replica};
use crate::support::wait::eventually;
use crate::support::world::say;

/// How long it goes on, and how many CAs and certificates take over meanwhile at least.
struct Size {
    time: Duration,
    lifetimes: [&'static str; 2],
    least: [usize; 2],
}

/// Renewed after two thirds of their lifetimes: certificates every 5 s and CAs every 30 s, or every 6.7 s and 20 s. A machine that
/// is busy with other scenes needs the rest of a lifetime to renew in time.
fn size() -> Size {
    if crate::is_full_size() {
        return Size {
            time: Duration::from_mins(3),
            lifetimes: ["7500ms", "45s"],
            least: [5, 30],
        };
    }
    Size {
        time: Duration::from_secs(115),
        lifetimes: ["10s", "30s"],
        least: [5, 14],
    }
}

pub async fn rotations_under_load(stage: &Stage) {
    let Size {
        time,
        lifetimes,
        least,
    } = size();
    let replicas = ["a", "b"].map(|name| {
        stage
            .replica(name)
            .with("--certificate-lifetime", lifetimes[0])
            .with("--ca-lifetime", lifetimes[1])
            .with("--max-connection-age", "500ms")
    });
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    stage.install(proxy.port).await;
    for replica in &replicas {
        replica.start().await;
    }
    load::calls_go_through(stage).await;
    let (before, load, began) = (
        stage.faults_from(0).len(),
        Load::begin(stage).await,
        Instant::now(),
    );
    let (mut cas, mut certificates) = (BTreeSet::new(), BTreeSet::new());
    while began.elapsed() < time {
        let contents = stage.contents().await.expect("a Secret");
        let signing = contents.signing.expect("a CA that signs");
        let server = contents.server.expect("a certificate");
        assert!(server.leaf.validity.until <= signing.certificate.validity.until);
        cas.insert(fingerprint(&signing.certificate.public_key));
        certificates.insert(fingerprint(&server.leaf.public_key));
        sleep(Duration::from_millis(500)).await;
    }
    let (written, faults) = load.end().await;
    let failed = failed_handshakes(&all);
    say(&format!(
        "  {written} writes in {:.0?}: {} CAs and {} certificates took over, {failed} handshakes failed",
        began.elapsed(),
        cas.len() - 1,
        certificates.len() - 1,
    ));
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(stage.faults_from(before), Vec::<String>::new());
    assert!(failed.abs() < 0.5);
    assert!(cas.len() > least[0] && certificates.len() > least[1]);
}

fn failed_handshakes(replicas: &[&Replica]) -> f64 {
    let failed = |replica: &&Replica| number(replica, "zonewise_tls_handshake_errors_total", &[]);
    replicas.iter().map(failed).sum()
}

/// Files as those of a Secret volume: links into `..data`, which is a link to a folder.
struct Volume {
    path: PathBuf,
    version: usize,
}

impl Volume {
    fn new(path: PathBuf, first: &Pair) -> Self {
        std::fs::create_dir_all(&path).expect("a folder");
        let mut volume = Self { path, version: 0 };
        volume.swap(first);
        for name in ["tls.crt", "tls.key"] {
            let link = symlink(format!("..data/{name}"), volume.path.join(name));
            link.expect("a link");
        }
        volume
    }

    /// What a kubelet does when the Secret changes.
    fn swap(&mut self, pair: &Pair) {
        let before = format!("..{}", self.version);
        self.version += 1;
        let next = format!("..{}", self.version);
        let folder = self.path.join(&next);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("tls.crt"), &pair.certificate).expect("a file");
        std::fs::write(folder.join("tls.key"), &pair.key).expect("a file");
        let link = self.path.join("..data_tmp");
        symlink(&next, &link).expect("a link");
        std::fs::rename(&link, self.path.join("..data")).expect("it is renamed");
        let _ = std::fs::remove_dir_all(self.path.join(before));
    }
}

/// A CA of somebody else, who keeps the one before in the bundle.
struct Authority {
    made: Vec<Pair>,
}

impl Authority {
    fn next(&mut self) {
        let validity = Validity::beginning(OffsetDateTime::now_utc(), time::Duration::DAY);
        self.made.push(certs::make_ca(validity).expect("a CA"));
    }

    fn bundle(&self) -> String {
        let cas = self.made.iter().rev().take(2);
        cas.map(|ca| ca.certificate.as_str()).collect()
    }

    fn sign(&self) -> Pair {
        let ca = self.made.last().expect("a CA");
        let signer = Signer::new(&ca.certificate, &ca.key).expect("it can sign");
        let validity = Validity::beginning(OffsetDateTime::now_utc(), time::Duration::HOUR);
        certs::sign_server(&signer, &["127.0.0.1".to_owned()], validity).expect("a pair")
    }
}

pub async fn files_swapped_under_load(stage: &Stage) {
    let full = crate::is_full_size();
    let (rounds, pause) = if full { (36, 5000) } else { (15, 1000) };
    let mut authority = Authority { made: Vec::new() };
    authority.next();
    let mut volume = Volume::new(stage.dir.path().join("volume"), &authority.sign());
    let certificates = Certificates::at(&volume.path);
    let replicas = ["a", "b"].map(|name| {
        stage
            .replica_with(name, &certificates)
            .with("--max-connection-age", "500ms")
    });
    let all: Vec<_> = replicas.iter().collect();
    let proxy = Proxy::over(&all);
    let register = async |authority: &Authority| {
        stage
            .register(proxy.port, authority.bundle().as_bytes())
            .await;
    };
    register(&authority).await;
    for replica in &replicas {
        replica.start().await;
    }
    load::calls_go_through(stage).await;
    let (before, load) = (stage.faults_from(0).len(), Load::begin(stage).await);
    for round in 1..=rounds {
        if round % (rounds / 6) == 0 {
            authority.next();
            register(&authority).await;
            // Until the API server goes by it.
            sleep(Duration::from_millis(pause / 2)).await;
        }
        let pair = authority.sign();
        volume.swap(&pair);
        sleep(Duration::from_millis(pause)).await;
    }
    for replica in &all {
        let read_again = || {
            let log = replica.log_lines();
            let told = log
                .iter()
                .filter(|line| line.contains("serving certificate read again"));
            told.count()
        };
        eventually("each swap was seen", async || {
            let seen = read_again();
            (seen == rounds)
                .then_some(())
                .ok_or_else(|| format!("{seen} of {rounds}"))
        })
        .await;
    }
    let (written, faults) = load.end().await;
    let failed = failed_handshakes(&all);
    say(&format!(
        "  {written} writes: {} CAs and {rounds} certificates took over, {failed} handshakes failed",
        authority.made.len() - 1,
    ));
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(stage.faults_from(before), Vec::<String>::new());
    assert!(failed.abs() < 0.5);
}
