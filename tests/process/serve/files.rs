//! `serve --from-files`: the cluster is what the files say, read again when they change.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::binary::{Serve, Setup, replace};
use crate::client::Connection;
use crate::cluster::{self, ZONES, balanced, endpoints, hinted, nodes, service, web};
use crate::wait::LONG_ENOUGH;
use crate::wait::blocking::eventually;

/// Two zones, and the Service `shop/web`.
fn two_zones() -> String {
    nodes(&[("zone-a", 4), ("zone-b", 4)]) + &service("web", "Auto")
}

/// Two endpoints in each of three zones.
const PAIRS: [&str; 6] = ["zone-a", "zone-a", "zone-b", "zone-b", "zone-c", "zone-c"];

/// Their hints once the third zone has no capacity: its endpoints go where they are needed.
const PAIRS_FOR_TWO_ZONES: [&str; 6] = ["zone-a", "zone-a", "zone-b", "zone-b", "zone-a", "zone-b"];

/// Waits until [`PAIRS`] are hinted so.
fn wait_for_hints(serve: &Serve, zones: &[&str]) {
    let slice = web(endpoints(&PAIRS));
    let expected = hinted(&slice, zones);

    eventually("the decision follows the files", || {
        let stored = serve.create(&slice).stored;
        if stored == expected {
            Ok(())
        } else {
            Err(stored["endpoints"].to_string())
        }
    });
}

#[test]
fn a_changed_file_changes_the_decision() {
    let serve = Serve::sample();
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    replace(&serve.path("cluster.yaml"), two_zones());

    wait_for_hints(&serve, &PAIRS_FOR_TWO_ZONES);
    let zones = serve.metrics();
    assert_eq!(
        zones
            .label_values("zonewise_zone_capacity_ratio", "zone")
            .len(),
        2
    );

    let opted_out = nodes(&[("zone-a", 4), ("zone-b", 4)]) + &service("web", "Disabled");
    replace(&serve.path("cluster.yaml"), opted_out);
    let stale = hinted(&balanced(), &ZONES);
    eventually("the opt-out is heard", || {
        let stored = serve.update(&stale, &stale).stored;
        if stored == balanced() {
            Ok(())
        } else {
            Err(stored["endpoints"].to_string())
        }
    });
}

fn complaint(line: &Value) -> Option<&str> {
    let refused = "the files can't be read; what they said before stays";
    (line["message"] == refused).then(|| line["error"].as_str().unwrap())
}

#[test]
fn a_broken_file_changes_nothing_and_is_named_once_with_its_line() {
    let serve = Serve::sample();
    let file = serve.path("cluster.yaml");
    let broken = cluster::sample() + "---\nkind: Node\nmetadata: {name: [\n";
    replace(&file, &broken);
    let line = serve.wait_for_log("of the broken file", |line| complaint(line).is_some());
    assert_eq!(line["level"], "WARN");
    let beginning = format!("{}:", file.display());
    let told = complaint(&line)
        .unwrap()
        .strip_prefix(&beginning)
        .expect("the file's name comes first");
    let number: usize = told.split(':').next().unwrap().parse().unwrap();
    let lines = broken.lines().count();
    assert!(
        (lines - 1..=lines + 1).contains(&number),
        "line {number} of {lines}: {told}"
    );
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );

    std::fs::remove_file(&file).unwrap();
    serve.wait_for_log("of the missing file", |line| {
        complaint(line).is_some_and(|told| told.contains("No such file"))
    });
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    assert_eq!(serve.get("/readyz").status, 200);

    replace(&file, two_zones());
    serve.wait_for_log("that all is well", |line| {
        line["message"] == "the files are read again"
    });
    wait_for_hints(&serve, &PAIRS_FOR_TWO_ZONES);
    let complaints = serve
        .log()
        .iter()
        .filter(|line| complaint(line).is_some())
        .count();
    assert_eq!(
        complaints, 2,
        "one for each fault, however often it is looked at"
    );
}

#[test]
fn a_file_whose_name_ends_a_line_forges_none_in_the_log() {
    let setup = Setup::new().flag("--log-format", "text");
    let folder = setup.path("cluster");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.yaml"), two_zones()).unwrap();
    let serve = setup
        .flag("--from-files", folder.display().to_string())
        .start();
    replace(&folder.join("b\n ERROR forged.yaml"), "kind: Node\n");
    eventually("the file is refused", || {
        let log = serve.log_text();
        let told = r"b\n ERROR forged.yaml:1: document 1: a Node without metadata.name";
        let line = log.lines().find(|line| line.contains(told));
        line.map(|_| ()).ok_or(log.clone())
    });
    let log = serve.log_text();
    assert!(!log.lines().any(|line| line.starts_with(" ERROR")), "{log}");
}

#[test]
fn a_folder_is_read_with_all_its_files_and_those_that_come() {
    let setup = Setup::new();
    let folder = setup.path("cluster");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(
        folder.join("nodes.yaml"),
        nodes(&[("zone-a", 4), ("zone-b", 4)]),
    )
    .unwrap();
    std::fs::write(folder.join("notes.txt"), "{ not: read").unwrap();
    let serve = setup
        .flag("--from-files", folder.display().to_string())
        .start();
    assert_eq!(
        serve.create(&balanced()).patch,
        None,
        "the Service is not known yet"
    );
    replace(&folder.join("services.yml"), service("web", "Auto"));
    wait_for_hints(&serve, &PAIRS_FOR_TWO_ZONES);
}

#[test]
fn a_config_map_volume_whose_link_is_swapped_is_read_again() {
    let setup = Setup::new();
    let volume = setup.path("volume");
    let version = |name: &str, text: &str| {
        std::fs::create_dir_all(volume.join(name)).unwrap();
        std::fs::write(volume.join(name).join("cluster.yaml"), text).unwrap();
    };
    version("..1", &cluster::sample());
    symlink("..1", volume.join("..data")).unwrap();
    symlink("..data/cluster.yaml", volume.join("cluster.yaml")).unwrap();
    let serve = setup
        .flag(
            "--from-files",
            volume.join("cluster.yaml").display().to_string(),
        )
        .start();
    assert_eq!(
        serve.create(&balanced()).stored,
        hinted(&balanced(), &ZONES)
    );
    version("..2", &two_zones());
    symlink("..2", volume.join("..data_tmp")).unwrap();
    std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    wait_for_hints(&serve, &PAIRS_FOR_TWO_ZONES);
}

#[test]
fn a_file_that_takes_long_to_read_holds_up_no_request() {
    let serve = Serve::sample();
    let pipe = serve.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
    std::fs::rename(&pipe, serve.path("cluster.yaml")).unwrap();
    // This waits until the other side reads, which then waits for this one.
    let _held = std::fs::OpenOptions::new()
        .write(true)
        .open(serve.path("cluster.yaml"))
        .unwrap();
    for _ in 0..10 {
        let mut connection = Connection::plain(serve.metrics).unwrap();
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(connection.has_news(LONG_ENOUGH), "it does not answer");
    }
}
