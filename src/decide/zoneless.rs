//! Whether a heuristic hints a set in which some endpoints have no known zone, and why they have none.

use super::Snapshot;
use super::endpoint_set::{EndpointSet, Member, Stand};
use crate::cluster::key::Key;
use crate::cluster::slice::{Manager, Place, SliceRecord};
use crate::planner::heuristic::Heuristic;
use crate::planner::reason::Reason;
use crate::planner::zoneless::{Cause, Zoneless};
use crate::words::NAMED;

/// Refuses ready endpoints of no known zone: each of them with Auto and PreferZone, as Kubernetes does, and all of them with
/// Overlap, which hints the others beside them.
///
/// # Errors
/// [`Reason::NoZoneSpecified`] or [`Reason::NoBetterThanNone`].
pub(super) fn check(
    snapshot: &Snapshot<'_>,
    slices: &[&SliceRecord],
    set: &EndpointSet<'_>,
    heuristic: Heuristic,
) -> Result<(), Reason> {
    let is_zoneless = |member: &&Member<'_>| member.stand == Stand::Unknown;
    let zoneless = || set.members().iter().filter(is_zoneless);
    let count = zoneless().count();
    let all = count == set.members().len();
    if count == 0 || (heuristic == Heuristic::Overlap && !all) {
        return Ok(());
    }
    let named = zoneless().take(NAMED);
    let mut causes = Vec::new();
    for cause in named.clone().map(|member| cause(snapshot, slices, member)) {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    let first = named.map(|member| member.record.address.to_string().into());
    let zoneless = Zoneless {
        first: first.collect(),
        more: count.saturating_sub(NAMED),
        causes: causes.into(),
    };
    Err(match heuristic {
        Heuristic::Auto | Heuristic::PreferZone => Reason::NoZoneSpecified(zoneless),
        Heuristic::Overlap => Reason::NoBetterThanNone {
            zoneless: Some(Box::new(zoneless)),
        },
    })
}

fn cause(snapshot: &Snapshot<'_>, slices: &[&SliceRecord], member: &Member<'_>) -> Cause {
    let slice = slices[member.slice];
    match (member.record.place, &slice.manager) {
        (Place::Node(node), _) => name_of(snapshot, node)
            .map_or(Cause::UnknownNode, |node| Cause::UnlabelledNode { node }),
        (_, Manager::EndpointSliceMirroringController) => Cause::Mirrored,
        (_, manager) => Cause::Slice {
            slice: slice.name.clone(),
            manager: manager.as_str().map(Into::into),
        },
    }
}

/// The name of a Node without a zone: each of these is insufficient or ignored.
fn name_of(snapshot: &Snapshot<'_>, node: Key) -> Option<Box<str>> {
    let capacity = &snapshot.capacity().capacity;
    let ignored = capacity.ignored.iter().map(|(name, _)| name);
    let insufficient = capacity.insufficient.iter().map(|node| &node.name);
    let mut names = ignored.chain(insufficient);
    names.find(|name| Key::of(name) == node).cloned()
}
