//! What `explain` says would help does help.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use zonewise::cluster::files::{Objects, typed_slice};
use zonewise::cluster::slice::SliceRecord;
use zonewise::cluster::store::StoreRules;
use zonewise::decide::{Snapshot, decide};
use zonewise::report::{Filter, RemedyReport, Report, ServiceReport};
use zonewise::settings::Settings;
use zonewise::webhook::mutate::patch_for;

use super::cluster::{CLEAR_TWINS, SERVICE, small_worlds};
use crate::decisions::annotate;
use crate::for_all::{for_all, is_often};
use crate::now;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const THRESHOLD: &str = "zonewise.dev/overload-threshold";

/// How often each kind of remedy was applied.
type Tally = BTreeMap<&'static str, u32>;

#[test]
fn every_remedy_gives_the_hints_that_it_promises() {
    let modes = [
        "Auto",
        "zonewise.dev/Overlap",
        "zonewise.dev/PreferZone",
        "",
    ];
    let thresholds = ["0.2", "0", "0.07"];
    let tally: RefCell<Tally> = RefCell::default();
    let cases = (
        small_worlds(CLEAR_TWINS),
        select(modes.to_vec()),
        select(thresholds.to_vec()),
    );
    for_all(10_000, cases, |(world, mode, threshold)| {
        let mut objects = world.objects();
        let service = &mut objects.services[0];
        annotate(service, THRESHOLD, threshold);
        if mode.is_empty() {
            let metadata = service["metadata"].as_object_mut().expect("metadata");
            metadata.remove("annotations");
        } else {
            annotate(service, TOPOLOGY_MODE, mode);
        }
        for service in report(&objects).services {
            for remedy in &service.remedies {
                let (kind, promised) = promise(remedy);
                *tally.borrow_mut().entry(kind).or_default() += 1;
                let helped = report(&rest(applied(remedy, &service, objects.clone())));
                let of_type = |other: &&ServiceReport| other.address_type == service.address_type;
                let helped = helped.services.iter().find(of_type).expect("it is there");
                prop_assert_eq!(helped.decision, "Hints", "{:?}: {}", remedy, helped.message);
                let in_zone = helped.in_zone_share.unwrap_or_default();
                prop_assert!(
                    in_zone > promised - 1e-9,
                    "{:?} comes to {}",
                    remedy,
                    in_zone
                );
            }
        }
        Ok(())
    });
    let tally = tally.into_inner();
    for kind in ["Endpoints", "Threshold", "Overlap"] {
        let times = tally.get(kind).copied().unwrap_or_default();
        assert!(is_often(times, 500), "{tally:?}");
    }
}

fn report(objects: &Objects) -> Report {
    let cluster = objects.load(StoreRules::default(), now()).cluster();
    Report::new(&cluster, &Settings::default(), objects, &Filter::default())
}

/// The objects once every slice is as decided.
pub fn rest(mut objects: Objects) -> Objects {
    let cluster = objects.load(StoreRules::default(), now()).cluster();
    let settings = Settings::default();
    let read = |slice: &Value| Arc::new(SliceRecord::read(&typed_slice(slice).expect("a slice")));
    let mut records: Vec<Arc<SliceRecord>> = objects.slices.iter().map(read).collect();
    let snapshot = Snapshot::take(&cluster, Some(SERVICE));
    for _ in 0..8 {
        let mut rests = true;
        for (place, slice) in objects.slices.iter_mut().enumerate() {
            let snapshot = snapshot.with_slices(records.clone());
            let decision = decide(&snapshot, Some(SERVICE), &records[place], &settings);
            let typed = typed_slice(slice).expect("a slice");
            if let Some(patch) = patch_for(&decision, &typed, Some(&typed), || None) {
                let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch");
                json_patch::patch(slice, &patch).expect("the patch fits");
                records[place] = read(slice);
                rests = false;
            }
        }
        if rests {
            return objects;
        }
    }
    panic!(
        "the slices do not come to rest: {:#?}",
        objects.services[0]["metadata"]
    );
}

fn promise(remedy: &RemedyReport) -> (&'static str, f64) {
    match *remedy {
        // Which share they keep depends on their addresses too.
        RemedyReport::Endpoints { .. } => ("Endpoints", 0.0),
        RemedyReport::Threshold { in_zone_share, .. } => ("Threshold", in_zone_share),
        RemedyReport::Overlap { in_zone_share, .. } => ("Overlap", in_zone_share),
    }
}

fn applied(remedy: &RemedyReport, service: &ServiceReport, mut objects: Objects) -> Objects {
    match remedy {
        RemedyReport::Endpoints { zones, behind, .. } if behind.is_empty() => {
            add(&mut objects.slices, service, None, zones);
        }
        RemedyReport::Endpoints { behind, .. } => {
            for each in behind {
                add(&mut objects.slices, service, Some(&each.ports), &each.zones);
            }
        }
        RemedyReport::Threshold { threshold, .. } => {
            annotate(&mut objects.services[0], THRESHOLD, &threshold.to_string());
        }
        RemedyReport::Overlap { .. } => {
            annotate(
                &mut objects.services[0],
                TOPOLOGY_MODE,
                "zonewise.dev/Overlap",
            );
        }
    }
    objects
}

/// Adds so many endpoints in each zone to a slice with these ports, or to any.
fn add<Z: std::fmt::Display>(
    slices: &mut [Value],
    service: &ServiceReport,
    ports: Option<&[String]>,
    zones: &BTreeMap<Z, u32>,
) {
    let ports_of = |slice: &Value| -> Vec<String> {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let ports = ports.filter(|port| port["port"].is_number());
        let mut ports: Vec<String> = ports
            .map(|port| {
                let name = port["name"].as_str().unwrap_or_default();
                match port["protocol"].as_str() {
                    None | Some("TCP") => name.to_owned(),
                    Some(protocol) => format!("{name}/{protocol}"),
                }
            })
            .collect();
        ports.sort();
        ports
    };
    let fits = |slice: &&mut Value| {
        let own = ports_of(slice);
        slice["addressType"] == service.address_type
            && !own.is_empty()
            && ports.is_none_or(|ports| own == ports)
    };
    let endpoints_of = |slice: &Value| slice["endpoints"].as_array().map_or(0, Vec::len);
    let mut number: usize = slices.iter().map(endpoints_of).sum();
    let slice = slices.iter_mut().find(fits).expect("a slice has the ports");
    let endpoints = slice["endpoints"].as_array_mut().expect("endpoints");
    for (zone, count) in zones {
        for _ in 0..*count {
            number += 1;
            let address = match service.address_type {
                "IPv4" => format!("10.200.0.{number}"),
                _ => format!("fd99::{number}"),
            };
            endpoints.push(json!({"addresses": [address], "conditions": {"ready": true}, "zone": zone.to_string()}));
        }
    }
}
