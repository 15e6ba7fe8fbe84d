//! Faults of a Namespace's annotations.

use super::annotations::annotation_faults;
use super::{Fault, NotJudged};
use crate::cluster::annotations::misplaced_on_namespace;
use crate::cluster::namespace::NamespaceRecord;
use crate::cluster::wire::{Namespace, Wire as _};
use crate::decide::mode;
use crate::settings::{Mode, Settings};

/// Validates a Namespace, given its text and the stored one's. What its Services come to is not evaluated: a Namespace may
/// have thousands.
pub(super) fn faults(
    [object, stored]: [&str; 2],
    settings: &Settings,
) -> Result<Vec<Fault>, NotJudged> {
    let read = |text: &str| serde_json::from_str::<Namespace<Box<str>>>(text).ok();
    let object = read(object).ok_or(NotJudged("UnreadableObject"))?;
    let stored = read(stored);
    let record = NamespaceRecord::read(&object);
    if mode(Some(&record), settings) == Ok(Mode::Off) {
        return Err(NotJudged("ModeOff"));
    }
    let stored = stored.as_ref().and_then(|stored| stored.metadata());
    let mistakes = record.annotations.mistakes_on_namespace();
    Ok(annotation_faults(
        mistakes,
        misplaced_on_namespace,
        [object.metadata(), stored],
    ))
}
