//! What is wrong with the hints of a slice, as they will be stored.

use super::{Fault, NotJudged, snapshot};
use crate::cluster::loose::{Loose, Text};
use crate::cluster::slice::{self, AddressType, SliceRecord};
use crate::cluster::store::Cluster;
use crate::cluster::wire::{EndpointSlice, Hints};
use crate::decide::asked_for;
use crate::decide::judged::{HintFault, judge};
use crate::settings::Settings;
use crate::webhook::review::{Operation, Request};
use crate::words;

/// Judges a slice of a Service that asks for hints.
pub(super) fn faults(
    request: &Request<'_>,
    object: &EndpointSlice<Text<'_>>,
    cluster: &Cluster,
    settings: &Settings,
) -> Result<Vec<Fault>, NotJudged> {
    let not_opted_in = NotJudged("NotOptedIn");
    let service = slice::service_in(request.namespace(), object).ok_or(not_opted_in)?;
    let snapshot = snapshot(cluster, &service, settings)?;
    let asked = asked_for(&snapshot, &service, settings).ok_or(not_opted_in)?;
    let slice = SliceRecord::read(object);
    if slice.address_type == AddressType::Other {
        return Err(NotJudged("UnsupportedAddressType"));
    }
    // Who brings a slice back from a backup makes no hints, and who changes endpoints can't know what hints they need.
    let made_now = request.operation() == Operation::Update
        && request.object.changes_only_hints_of(&request.old_object);
    let faults = judge(&snapshot, &slice, &asked, settings);
    let fault = |(word, sentence)| Fault {
        word,
        sentence,
        made_now,
    };
    let faults = faults
        .into_iter()
        .map(|fault| (word(&fault), sentence(&fault, object)));
    let for_nodes = hinted_for_nodes(object).map(|sentence| ("NodeHints", sentence));
    Ok(faults.chain(for_nodes).map(fault).collect())
}

/// Hints for nodes, which kube-proxy there follows before those for zones.
fn hinted_for_nodes(object: &EndpointSlice<Text<'_>>) -> Option<String> {
    let mut endpoints = object.endpoints.items().iter().filter_map(Loose::get);
    let is_hinted = |hints: &Hints<Text<'_>>| !hints.for_nodes.items().is_empty();
    let endpoint = endpoints.find(|endpoint| endpoint.hints.get().is_some_and(is_hinted))?;
    let address = endpoint.address().unwrap_or_default();
    Some(format!(
        "endpoint {address} is hinted for nodes: kube-proxy there sends all to it, and what it then carries has no ceiling"
    ))
}

fn word(fault: &HintFault) -> &'static str {
    match fault {
        HintFault::Partial { .. } => "PartialHints",
        HintFault::ZoneWithoutCapacity { .. } => "ZoneWithoutCapacity",
        HintFault::NotReadyAlone { .. } => "NotReadyAlone",
        HintFault::Overloaded(_) => "EndpointOverloaded",
    }
}

fn sentence(fault: &HintFault, object: &EndpointSlice<Text<'_>>) -> String {
    match fault {
        HintFault::Partial { bare, ready } => {
            let verb = if *bare == 1 { "has" } else { "have" };
            let ready = words::count(*ready, "ready endpoint");
            format!(
                "{bare} of {ready} {verb} no zone hint, so kube-proxy follows none of the hints"
            )
        }
        HintFault::ZoneWithoutCapacity { endpoint, hint } => {
            let (address, zone) = named(object, *endpoint, *hint);
            format!("endpoint {address} is hinted for zone {zone}, in which no node counts")
        }
        HintFault::NotReadyAlone { endpoint, hint } => {
            let (address, zone) = named(object, *endpoint, *hint);
            format!(
                "endpoint {address} is not ready and hinted for zone {zone}, which no ready endpoint names: Cilium up to \
                 1.20.1 would have no usable endpoint there"
            )
        }
        HintFault::Overloaded(overloaded) => overloaded.message(),
    }
}

/// The address of an endpoint and the zone at a place of its hint.
fn named<'o>(
    object: &'o EndpointSlice<Text<'_>>,
    endpoint: usize,
    hint: usize,
) -> (&'o str, &'o str) {
    let endpoint = object.endpoints.items().get(endpoint).and_then(Loose::get);
    let address = endpoint.and_then(|endpoint| endpoint.address());
    let zone = endpoint.and_then(|endpoint| endpoint.zone_hints().nth(hint));
    (address.unwrap_or_default(), zone.unwrap_or_default())
}
