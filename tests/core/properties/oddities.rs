//! Objects with anything in them.

use std::cell::Cell;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zonewise::cluster::node::{NodeRecord, NodeRules};
use zonewise::cluster::service::ServiceRecord;
use zonewise::cluster::slice::{SliceRecord, service_of};
use zonewise::cluster::store::Writer;
use zonewise::cluster::wire::{EndpointSlice, Node, Service, Wire};
use zonewise::decide::Verdict;
use zonewise::webhook::review;

use super::cluster::{SERVICE, World, endpoint, http_slice, two_equal_nodes};
use super::odd_json::{Kind, odd_objects};
use crate::for_all::{for_all, is_often};
use crate::now;

/// The name that stands in an object.
fn name_in(json: &Value) -> Option<&str> {
    json.pointer("/metadata/name").and_then(Value::as_str)
}

fn name_of<W: Wire>(object: &W) -> Option<&str> {
    object.metadata().and_then(|metadata| metadata.name.text())
}

/// The object, which has the name that stands there whether it is read from text or from a value.
fn read<W: Wire + DeserializeOwned>(json: &Value) -> Result<W, TestCaseError> {
    let odd = |error: serde_json::Error| TestCaseError::fail(format!("{}: {error}", W::KIND));
    let from_value = W::deserialize(json).map_err(odd)?;
    prop_assert_eq!(name_of(&from_value), name_in(json));
    let from_text: W = serde_json::from_str(&json.to_string()).map_err(odd)?;
    prop_assert_eq!(name_of(&from_text), name_in(json));
    Ok(from_text)
}

#[test]
fn anything_anywhere_in_an_object_leaves_it_its_name() {
    for_all(10_000, odd_objects(), |(kind, json)| {
        match kind {
            Kind::Node => {
                let node: Node<Box<str>> = read(&json)?;
                let record = NodeRecord::read(&node, &NodeRules::default(), now());
                prop_assert_eq!(&*record.node.name, name_in(&json).unwrap_or_default());
            }
            Kind::Service => {
                let service: Service<Box<str>> = read(&json)?;
                prop_assert_eq!(ServiceRecord::read(&service).odd_field, service.odd_field());
            }
            Kind::EndpointSlice => {
                let slice: EndpointSlice<Box<str>> = read(&json)?;
                let record = SliceRecord::read(&slice);
                prop_assert_eq!(&*record.name, name_in(&json).unwrap_or_default());
                let endpoints = json["endpoints"].as_array().map_or(0, Vec::len);
                prop_assert_eq!(
                    record.endpoints.len(),
                    endpoints,
                    "a record for each endpoint"
                );
                let body = json!({"request": {"uid": "u", "object": json}}).to_string();
                let request = review::parse(body.as_bytes()).expect("it is a review");
                let sent = request.object.slice.get().expect("it is an object");
                prop_assert_eq!(SliceRecord::read(sent), record);
            }
        }
        Ok(())
    });
}

/// Takes in an object; whether it belongs to the Service of the world and is not understood.
fn take_in(writer: &mut Writer, kind: Kind, json: &Value) -> Result<bool, TestCaseError> {
    Ok(match kind {
        Kind::Node => {
            writer.apply_node(&read(json)?, now());
            writer.settle(now());
            false
        }
        Kind::Service => {
            let service: Service<Box<str>> = read(json)?;
            writer.apply_service(&service);
            service.odd_field().is_some() && service.full_name() == SERVICE
        }
        Kind::EndpointSlice => {
            let slice: EndpointSlice<Box<str>> = read(json)?;
            writer.apply_slice(&slice);
            let may_be_ipv4 = match &json["addressType"] {
                Value::String(word) => word == "IPv4",
                other => !other.is_null(),
            };
            slice.odd_field().is_some()
                && service_of(&slice).as_deref() == Some(SERVICE)
                && may_be_ipv4
        }
    })
}

#[test]
fn a_service_with_an_object_that_is_not_understood_keeps_its_hints() {
    let kept = Cell::new(0);
    for_all(4000, odd_objects(), |(kind, json)| {
        let slice = http_slice(1, vec![endpoint(1, "zone-a"), endpoint(2, "zone-b")]);
        let mut writer = World {
            nodes: two_equal_nodes(),
            slices: vec![slice.clone()],
        }
        .load();
        prop_assert_eq!(slice.decide(&writer.cluster()).verdict, Verdict::Hints);
        let is_odd = take_in(&mut writer, kind, &json)?;
        let decision = slice.decide(&writer.cluster());
        if is_odd {
            kept.set(kept.get() + 1);
            prop_assert_eq!(decision.verdict, Verdict::Kept, "{:?}", decision.reason);
        }
        Ok(())
    });
    assert!(
        is_often(kept.get(), 1000),
        "only {} objects were not understood",
        kept.get()
    );
}
