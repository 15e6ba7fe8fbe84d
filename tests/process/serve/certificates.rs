//! The serving certificate: read again when its files change, however they change.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::binary::{Serve, Setup, generate_certificates, replace, write};
use crate::client::{Connection, Tls, certificate_in};
use crate::cluster::{ZONES, balanced, hinted};
use crate::wait::blocking::eventually;

const ERRORS: &str = "zonewise_certificate_reload_errors_total";
const EXPIRATION: &str = "zonewise_certificate_expiration_timestamp_seconds";

fn assert_serves(connection: &mut Connection) {
    let slice = balanced();
    assert_eq!(
        write(connection, "CREATE", &slice, None).stored,
        hinted(&slice, &ZONES)
    );
}

/// When the certificate of a file ends, in seconds since 1970.
fn end_of(certificate: &Path) -> u64 {
    let der = certificate_in(certificate);
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).unwrap();
    u64::try_from(parsed.validity().not_after.timestamp()).unwrap()
}

/// When the certificate ends by the metrics.
fn told_end(serve: &Serve) -> u64 {
    serve.count(EXPIRATION, &[("usage", "serving")])
}

/// Waits until new connections get the certificate of a folder, which its CA vouches for.
fn wait_until_served(serve: &Serve, folder: &Path) {
    let tls = Tls::trusting(&folder.join("ca.crt"));
    let mut connection = eventually("the new certificate is served", || {
        tls.connect(serve.webhook)
            .map_err(|error| error.to_string())
    });
    assert_eq!(
        connection.server_certificate(),
        certificate_in(&folder.join("tls.crt"))
    );
    assert_serves(&mut connection);
    assert_eq!(told_end(serve), end_of(&folder.join("tls.crt")));
}

/// Moves a pair over the one that is served: two renames, with a moment of a mismatch between them.
fn move_pair(from: &Path, to: &Path) {
    for name in ["tls.crt", "tls.key"] {
        replace(&to.join(name), std::fs::read(from.join(name)).unwrap());
    }
}

fn refusal(line: &Value) -> Option<&str> {
    let refused = "the new serving certificate is refused, the one before goes on";
    (line["message"] == refused).then(|| line["error"].as_str().unwrap())
}

#[test]
fn a_pair_that_is_renamed_into_place_is_served_and_open_connections_go_on() {
    let serve = Serve::sample();
    let certs = serve.path("certs");
    let mut before = serve.connect();
    assert_serves(&mut before);
    let old = before.server_certificate();
    assert_eq!(old, certificate_in(&certs.join("tls.crt")));
    let old_end = told_end(&serve);
    assert_eq!(old_end, end_of(&certs.join("tls.crt")));

    let next = serve.path("next");
    generate_certificates(&next, "48h");
    move_pair(&next, &certs);
    wait_until_served(&serve, &next);
    assert!(told_end(&serve) > old_end);
    assert_serves(&mut before);
    assert_eq!(before.server_certificate(), old);
}

/// A folder as a Secret volume is: files are links into `..data`, which is a link to a folder.
fn lay_out_as_volume(volume: &Path, version: &str, lifetime: &str) {
    generate_certificates(&volume.join(version), lifetime);
    symlink(version, volume.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        symlink(format!("..data/{name}"), volume.join(name)).unwrap();
    }
}

/// What a kubelet does when the Secret changes.
fn swap(volume: &Path, from: &str, to: &str) {
    symlink(to, volume.join("..data_tmp")).unwrap();
    std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    std::fs::remove_dir_all(volume.join(from)).unwrap();
}

#[test]
fn a_secret_volume_whose_link_is_swapped_is_read_again_each_time() {
    let setup = Setup::new();
    let volume = setup.path("volume");
    std::fs::create_dir(&volume).unwrap();
    lay_out_as_volume(&volume, "..2026_01_01", "24h");
    let file = |name: &str| volume.join(name).display().to_string();
    let serve = setup
        .flag("--tls-cert-file", file("tls.crt"))
        .flag("--tls-private-key-file", file("tls.key"))
        .start();
    let mut before = Tls::trusting(&volume.join("ca.crt"))
        .connect(serve.webhook)
        .unwrap();
    assert_serves(&mut before);
    for (from, to, lifetime) in [
        ("..2026_01_01", "..2026_01_02", "48h"),
        ("..2026_01_02", "..2026_01_03", "72h"),
    ] {
        generate_certificates(&volume.join(to), lifetime);
        swap(&volume, from, to);
        wait_until_served(&serve, &volume);
    }
    assert_serves(&mut before);
}

#[test]
fn a_file_that_is_missing_for_a_while_leaves_the_certificate_as_it_was() {
    let serve = Serve::sample();
    let certs = serve.path("certs");
    let mut before = serve.connect();
    assert_serves(&mut before);
    std::fs::remove_file(certs.join("tls.key")).unwrap();
    let line = serve.wait_for_log("of the missing file", |line| refusal(line).is_some());
    let key = certs.join("tls.key").display().to_string();
    assert!(refusal(&line).unwrap().starts_with(&key), "{line}");
    serve.wait_for_count(ERRORS, &[], 1);
    let mut during = serve.connect();
    assert_eq!(
        during.server_certificate(),
        certificate_in(&certs.join("tls.crt"))
    );
    assert_serves(&mut during);

    let next = serve.path("next");
    generate_certificates(&next, "48h");
    move_pair(&next, &certs);
    wait_until_served(&serve, &next);
    assert_serves(&mut before);
}

#[test]
fn a_file_that_holds_no_certificate_is_refused_with_a_sentence() {
    let serve = Serve::sample();
    let certificate = serve.path("certs/tls.crt");
    let good = std::fs::read(&certificate).unwrap();
    let end = told_end(&serve);
    replace(&certificate, "-----BEGIN NONSENSE-----\n");
    let line = serve.wait_for_log("of the refused file", |line| refusal(line).is_some());
    assert_eq!(line["level"], "WARN");
    let sentence = refusal(&line).unwrap();
    assert!(
        sentence.starts_with(&certificate.display().to_string()),
        "{sentence}"
    );
    serve.wait_for_count(ERRORS, &[], 1);
    assert_serves(&mut serve.connect());
    assert_eq!(told_end(&serve), end);

    replace(&certificate, good);
    serve.wait_for_log("that it is well again", |line| {
        line["message"] == "serving certificate read again"
    });
    assert_eq!(serve.count(ERRORS, &[]), 1);
    assert_serves(&mut serve.connect());
}

#[test]
fn a_key_of_another_certificate_is_refused_with_a_sentence() {
    let serve = Serve::sample();
    let next = serve.path("next");
    generate_certificates(&next, "48h");
    replace(
        &serve.path("certs/tls.key"),
        std::fs::read(next.join("tls.key")).unwrap(),
    );
    let line = serve.wait_for_log("of the refused key", |line| refusal(line).is_some());
    let sentence = refusal(&line).unwrap();
    let path = |name: &str| serve.path("certs").join(name).display().to_string();
    let beginning = format!(
        "{} and {} do not go together: ",
        path("tls.crt"),
        path("tls.key")
    );
    assert!(sentence.starts_with(&beginning), "{sentence}");
    serve.wait_for_count(ERRORS, &[], 1);
    let mut during = serve.connect();
    assert_eq!(
        during.server_certificate(),
        certificate_in(&serve.path("certs/tls.crt"))
    );
    assert_serves(&mut during);

    replace(
        &serve.path("certs/tls.crt"),
        std::fs::read(next.join("tls.crt")).unwrap(),
    );
    wait_until_served(&serve, &next);
}

/// A pipe holds the start back for as long as wanted, as a slow API server does.
#[test]
fn a_certificate_that_changes_while_zonewise_starts_is_not_missed() {
    let setup = Setup::new();
    let pipe = setup.path("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
    let serve = setup
        .flag("--from-files", pipe.display().to_string())
        .spawn();
    // This waits until the other side reads, for which the certificate has been read before.
    let mut held = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    replace(&pipe, crate::cluster::sample());
    let next = serve.path("next");
    generate_certificates(&next, "48h");
    move_pair(&next, &serve.path("certs"));
    std::io::Write::write_all(&mut held, crate::cluster::sample().as_bytes()).unwrap();
    drop(held);
    let tls = Tls::trusting(&next.join("ca.crt"));
    eventually("the new certificate is served", || {
        tls.connect(serve.webhook)
            .map(drop)
            .map_err(|error| error.to_string())
    });
}
