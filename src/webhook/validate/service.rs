//! What is wrong with a Service's annotations, and what they will come to.

use super::annotations::{annotation_faults, unusable, value};
use super::{Fault, NotJudged, snapshot};
use crate::cluster::annotations::{Invalid, OWN_PREFIX, misplaced_on_service, own_keys};
use crate::cluster::service::ServiceRecord;
use crate::cluster::store::Cluster;
use crate::cluster::wire::{Metadata, Service, Wire as _};
use crate::decide::Verdict;
use crate::decide::whole::{Whole, decide_whole};
use crate::planner::reason::Reason;
use crate::settings::Settings;
use crate::webhook::review::Request;

/// Judges a Service, given its text and that of the one that is stored.
pub(super) fn faults(
    request: &Request<'_>,
    [object, stored]: [&str; 2],
    cluster: &Cluster,
    settings: &Settings,
) -> Result<Vec<Fault>, NotJudged> {
    let read = |text: &str| serde_json::from_str::<Service<Box<str>>>(text).ok();
    let object = read(object).ok_or(NotJudged("UnreadableObject"))?;
    let stored = read(stored);
    let name = request.object_name();
    let snapshot = snapshot(cluster, &name, settings)?;
    let record = ServiceRecord::read(&object);
    let stored = stored.as_ref().and_then(|stored| stored.metadata());
    let mistakes = record.annotations.mistakes();
    let written = [object.metadata(), stored];
    let mut faults = annotation_faults(mistakes, misplaced_on_service, written);
    let asks = has_own_annotations(&record, object.metadata());
    let snapshot = snapshot.with_service(record);
    let all = decide_whole(&snapshot, &name, settings);
    // Both address types may come to the same, and that an annotation can't be used is told already.
    for fault in all.iter().filter_map(|whole| decision_fault(whole, asks)) {
        if faults.iter().all(|told| told.sentence != fault.sentence) {
            faults.push(fault);
        }
    }
    Ok(faults)
}

fn has_own_annotations(record: &ServiceRecord, metadata: Option<&Metadata<Box<str>>>) -> bool {
    let mode = record.annotations.topology_mode.as_ref();
    let topology_mode = mode.and_then(|(key, _)| value(metadata, key.key()));
    topology_mode.is_some_and(|mode| mode.starts_with(OWN_PREFIX))
        || own_keys(metadata).next().is_some()
}

/// What the Service comes to, where that is no hints.
fn decision_fault(whole: &Whole, asks: bool) -> Option<Fault> {
    let reason = whole.decision.reason.as_ref()?;
    if !is_news(reason, whole.ready) {
        return None;
    }
    let sentence = match (whole.decision.verdict, reason) {
        (_, Reason::InvalidAnnotation { kind, name, .. }) => {
            let invalid = invalid_of(reason)?;
            match *kind {
                "Namespace" => format!("Namespace {name}: {}", unusable(&invalid)),
                _ => unusable(&invalid),
            }
        }
        (Verdict::Kept, _) => format!("hints stay as they are: {}", told(reason)),
        (Verdict::Strip, _) => format!("no hints: {}", told(reason)),
        (Verdict::Untouched, _) if asks => format!("no hints: {}", told(reason)),
        (Verdict::Untouched | Verdict::Hints, _) => return None,
    };
    Some(Fault {
        word: reason.word(),
        sentence,
        made_now: false,
    })
}

fn told(reason: &Reason) -> String {
    let message = reason.message();
    message.trim_end_matches('.').to_owned()
}

fn invalid_of(reason: &Reason) -> Option<Invalid> {
    match reason {
        Reason::InvalidAnnotation {
            key,
            value,
            problem,
            ..
        } => Some(Invalid {
            key,
            value: value.clone(),
            problem: problem.clone(),
        }),
        _ => None,
    }
}

/// Whether a reason is news to whoever writes a Service with so many ready endpoints. That `Disabled` is just that, or that a
/// Service without endpoints has too few, is not.
fn is_news(reason: &Reason, ready: usize) -> bool {
    match reason {
        Reason::OptedOut | Reason::ModeOff | Reason::NoBetterThanNone { .. } => false,
        Reason::Shortfall(_) | Reason::NoOverlap { .. } | Reason::TooManyZones { .. } => ready > 0,
        _ => true,
    }
}
