//! Cilium's selection of backends by zone hints, written after `DefaultSelectBackends` in
//! pkg/loadbalancer/writer/writer.go of its releases: hints leave no zone without a usable backend.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::cluster::worlds;
use super::remedies::rest;
use crate::decisions::annotate;
use crate::for_all::{for_all, is_often};

/// Releases that select in different ways.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Release {
    V1_19_1,
    V1_20_1,
    V1_20_2,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Active,
    /// Not ready, and not terminating.
    Starting,
    Terminating,
}

/// An endpoint behind one port.
#[derive(Debug)]
struct Backend {
    state: State,
    /// Whether it is ready. One that terminates too takes traffic where no other does.
    usable: bool,
    /// None for an endpoint without a zone, whose hints Cilium does not read.
    zones: BTreeSet<String>,
}

impl Release {
    /// Whether the hint of a backend of a frontend is asked for.
    fn counts(self, state: State) -> bool {
        match self {
            Self::V1_19_1 => true,
            Self::V1_20_1 => state != State::Terminating,
            Self::V1_20_2 => state == State::Active,
        }
    }

    /// The backends that a node of `zone` uses.
    fn select<'b>(self, backends: &'b [Backend], zone: &str) -> Vec<&'b Backend> {
        let counted = || backends.iter().filter(|backend| self.counts(backend.state));
        let any_names_it = counted().any(|backend| backend.zones.contains(zone));
        let any_is_bare = counted().any(|backend| backend.zones.is_empty());
        let follows_hints = any_names_it && !any_is_bare;
        let is_used = |backend: &&Backend| !follows_hints || backend.zones.contains(zone);
        backends.iter().filter(is_used).collect()
    }
}

/// The endpoints of the slices of a family that have a port.
fn backends(slices: &[Value], family: &str, port: &Value) -> Vec<Backend> {
    let has_port = |slice: &&Value| {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let key = |port: &Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            (port["name"].clone(), protocol, port["port"].is_null())
        };
        slice["addressType"] == family && ports.any(|other| key(other) == key(port))
    };
    let endpoints = slices.iter().filter(has_port);
    let endpoints = endpoints.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let backend = |endpoint: &Value| {
        let conditions = &endpoint["conditions"];
        let state = match (&conditions["terminating"], &conditions["ready"]) {
            (Value::Bool(true), _) => State::Terminating,
            (_, Value::Bool(false)) => State::Starting,
            _ => State::Active,
        };
        let has_zone = endpoint["zone"]
            .as_str()
            .is_some_and(|zone| !zone.is_empty());
        let hints = endpoint["hints"]["forZones"]
            .as_array()
            .into_iter()
            .flatten();
        let hints = hints
            .filter(|_| has_zone)
            .filter_map(|hint| hint["name"].as_str());
        Backend {
            state,
            usable: conditions["ready"] != Value::Bool(false),
            zones: hints.map(str::to_owned).collect(),
        }
    };
    endpoints.map(backend).collect()
}

#[test]
fn no_zone_is_left_without_a_usable_backend_while_there_is_one() {
    let modes = vec!["Auto", "zonewise.dev/Overlap", "zonewise.dev/PreferZone"];
    let followed: Cell<u32> = Cell::default();
    for_all(20_000, (worlds(&[]), select(modes)), |(world, mode)| {
        let mut objects = world.objects();
        annotate(
            &mut objects.services[0],
            "service.kubernetes.io/topology-mode",
            mode,
        );
        let slices = rest(objects).slices;
        let kinds: BTreeSet<String> = slices
            .iter()
            .map(|slice| format!("{} {}", slice["addressType"], slice["ports"]))
            .collect();
        let zones = world.nodes.iter().filter_map(|node| node.zone.clone());
        let zones: BTreeSet<String> = zones.chain(["zone-gone".to_owned()]).collect();
        for slice in &slices {
            let family = slice["addressType"].as_str().expect("it is text");
            for port in slice["ports"].as_array().into_iter().flatten() {
                let backends = backends(&slices, family, port);
                let any_usable = backends.iter().any(|backend| backend.usable);
                for release in [Release::V1_19_1, Release::V1_20_1, Release::V1_20_2] {
                    // It asks for the hints of all ports and families at once.
                    if release == Release::V1_19_1 && kinds.len() > 1 {
                        continue;
                    }
                    for zone in &zones {
                        let used = release.select(&backends, zone);
                        followed.set(followed.get() + u32::from(used.len() < backends.len()));
                        let is_usable = used.iter().any(|backend| backend.usable);
                        prop_assert!(
                            is_usable || !any_usable,
                            "{:?} in {}: {:?}",
                            release,
                            zone,
                            backends
                        );
                    }
                }
            }
        }
        Ok(())
    });
    assert!(is_often(followed.get(), 20_000), "{}", followed.get());
}
