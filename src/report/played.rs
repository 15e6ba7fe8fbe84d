//! The slices of one Service as its decisions leave them.

use std::sync::Arc;

use serde_json::Value;

use super::{Placed, SliceReport, slice_name};
use crate::cluster::files::typed_slice;
use crate::cluster::key::Key;
use crate::cluster::slice::{AddressType, Manager, SliceRecord};
use crate::decide::{Decision, Snapshot, Verdict, decide};
use crate::planner::reason::Reason;
use crate::settings::Settings;
use crate::webhook::mutate::patch_for;

/// The slices of one Service and address type, decided on one by one, each seeing what was decided for those before
/// it, as writes one after the other would.
pub(super) struct Played {
    /// The decision that says most: the first that is not to hint, of slices that are not ignored where there are any. A
    /// Service without slices is decided on with an empty one.
    pub deciding: Decision,
    /// The slices as they were read, in the order of their names.
    pub before: Vec<Arc<SliceRecord>>,
    /// The same once the decisions are carried out.
    pub after: Vec<Arc<SliceRecord>>,
    pub reports: Vec<SliceReport>,
    /// The slices as they were read, whole.
    pub read: Vec<Value>,
    /// The slices as they would be stored.
    pub stored: Vec<Value>,
}

impl Played {
    pub fn new(
        snapshot: &Snapshot<'_>,
        settings: &Settings,
        service: Option<&str>,
        address_type: AddressType,
        slices: &[Placed<'_>],
    ) -> Self {
        let others = of_other_types(snapshot, address_type);
        let before: Vec<_> = slices
            .iter()
            .filter_map(|(_, slice)| record(slice))
            .collect();
        let mut after = before.clone();
        let (mut reports, mut stored) = (Vec::new(), Vec::new());
        let mut deciding: Option<Decision> = None;
        for (i, (_, slice)) in slices.iter().enumerate() {
            let snapshot = snapshot.with_slices([&others[..], &after].concat());
            let decision = decide(&snapshot, service, &after[i], settings);
            let (next, patch) = carry_out(&decision, slice);
            if let Some(record) = record(&next) {
                after[i] = record;
            }
            reports.push(SliceReport::new(&next, patch));
            stored.push(next);
            let says_more = |known: &Decision| weight(&decision) > weight(known);
            if deciding.as_ref().is_none_or(says_more) {
                deciding = Some(decision);
            }
        }
        let on_nothing = || decide(snapshot, service, &empty_slice(address_type), settings);
        Self {
            deciding: deciding.unwrap_or_else(on_nothing),
            before,
            after,
            reports,
            read: slices.iter().map(|(_, slice)| (*slice).clone()).collect(),
            stored,
        }
    }
}

/// How much a decision says of its Service: that hints are given less than that they are not, and of a slice that is ignored
/// the least.
fn weight(decision: &Decision) -> u8 {
    match (decision.verdict, &decision.reason) {
        (_, Some(Reason::IgnoredManager { .. })) => 0,
        (Verdict::Hints, _) => 1,
        _ => 2,
    }
}

/// The slices of the Service that have another address type, which decisions look at too.
fn of_other_types(snapshot: &Snapshot<'_>, address_type: AddressType) -> Vec<Arc<SliceRecord>> {
    let slices = snapshot
        .service()
        .into_iter()
        .flat_map(|state| state.slices.iter());
    slices
        .filter(|slice| slice.address_type != address_type)
        .cloned()
        .collect()
}

fn record(slice: &Value) -> Option<Arc<SliceRecord>> {
    typed_slice(slice).map(|wire| Arc::new(SliceRecord::read(&wire)))
}

fn empty_slice(address_type: AddressType) -> SliceRecord {
    SliceRecord {
        name: "".into(),
        address_type,
        ports: Box::default(),
        port_numbers: Box::default(),
        endpoints: Box::default(),
        labels: Box::default(),
        version: Key::of(""),
        manager: Manager::default(),
        has_node_hints: false,
        odd_field: None,
    }
}

/// The slice as the API server would store it, and the patch that makes it so.
fn carry_out(decision: &Decision, slice: &Value) -> (Value, Value) {
    let typed = typed_slice(slice);
    let patch = typed.and_then(|typed| patch_for(decision, &typed, Some(&typed), || None));
    let patch: json_patch::Patch = patch
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let mut next = slice.clone();
    if let Err(error) = json_patch::patch(&mut next, &patch) {
        tracing::error!(slice = slice_name(slice), %error, "the patch does not fit the slice it was made for");
    }
    (next, serde_json::to_value(&patch).unwrap_or_default())
}
