//! `/validate`: checks the annotations and hints that a person writes. It changes nothing and calls nothing.
//!
//! A fault is a warning, or with `--validation enforce` a refusal if this write makes it. Writes of programs are not checked.

mod annotations;
mod namespace;
mod service;
mod slice;

use super::mutate::Answer;
use super::review::{self, BadReview, Request};
use super::warnings::warning;
use crate::cluster::store::Cluster;
use crate::decide::{Snapshot, mode};
use crate::settings::{Mode, Settings, Validation};

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// Its word in metrics.
    word: &'static str,
    /// What is wrong, without a full stop.
    sentence: String,
    /// Whether this write makes it, and does not find it there.
    made_now: bool,
}

/// Why an object is not judged: a word for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NotJudged(&'static str);

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The write goes on.
    Allowed,
    /// It goes on, and whoever sent it is warned.
    Warned,
    /// It is refused.
    Denied,
}

impl Verdict {
    /// Its word in metrics and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "Allowed",
            Self::Warned => "Warned",
            Self::Denied => "Denied",
        }
    }
}

/// A person who was warned or refused something, for the log.
#[derive(Debug)]
pub struct Told {
    verdict: Verdict,
    user: String,
    object: String,
    reason: &'static str,
    sentence: String,
}

impl Told {
    /// Tells the log: of refusals always, of warnings where it is to tell everything.
    pub fn tell(&self) {
        let Self {
            user,
            object,
            reason,
            sentence,
            ..
        } = self;
        if self.verdict == Verdict::Denied {
            tracing::info!(user, object, reason, "refused: {sentence}");
        } else {
            tracing::debug!(user, object, reason, "warned: {sentence}");
        }
    }
}

/// Answers a review.
///
/// # Errors
/// [`BadReview`] for a body that is none.
///
/// # Panics
/// Never on purpose; the caller catches what happens all the same.
pub fn validate(body: &[u8], cluster: &Cluster, settings: &Settings) -> Result<Answer, BadReview> {
    let request = review::parse(body)?;
    let faults = match judge(&request, cluster, settings) {
        Ok(faults) => faults,
        Err(NotJudged(reason)) => return Ok(answer(&request, Verdict::Allowed, reason, &[])),
    };
    let enforces = settings.validation == Validation::Enforce;
    let denying = |fault: &&Fault| enforces && fault.made_now;
    let denied = faults.iter().find(denying);
    let (verdict, first) = match denied {
        Some(fault) => (Verdict::Denied, Some(fault)),
        None if faults.is_empty() => (Verdict::Allowed, None),
        None => (Verdict::Warned, faults.first()),
    };
    let reason = first.map_or("", |fault| fault.word);
    Ok(answer(&request, verdict, reason, &faults))
}

/// The answer when judging failed in a way that should never be: allowed.
#[must_use]
pub fn allow_unjudged(body: &[u8]) -> Option<Answer> {
    let request = review::parse(body).ok()?;
    Some(answer(&request, Verdict::Allowed, "Panic", &[]))
}

/// What is wrong with the object that is written.
fn judge(
    request: &Request<'_>,
    cluster: &Cluster,
    settings: &Settings,
) -> Result<Vec<Fault>, NotJudged> {
    if settings.validation == Validation::Off {
        return Err(NotJudged("ValidationOff"));
    }
    if !request.user.is_person() {
        return Err(NotJudged("NotAPerson"));
    }
    if request.is_of_deleted() {
        return Err(NotJudged("BeingDeleted"));
    }
    if let Some(texts) = request.core("Service") {
        return service::faults(request, texts, cluster, settings);
    }
    if let Some(texts) = request.core("Namespace") {
        return namespace::faults(texts, settings);
    }
    let slice = request.slice().ok_or(NotJudged("OtherKind"))?;
    slice::faults(request, slice, cluster, settings)
}

/// What is known of a Service (`namespace/name`), where that is enough to judge by and zonewise has a say.
fn snapshot<'a>(
    cluster: &'a Cluster,
    service: &str,
    settings: &Settings,
) -> Result<Snapshot<'a>, NotJudged> {
    let snapshot = Snapshot::take(cluster, Some(service));
    if settings.is_reserved(service) {
        return Err(NotJudged("ReservedService"));
    }
    if mode(snapshot.namespace(), settings) == Ok(Mode::Off) {
        return Err(NotJudged("ModeOff"));
    }
    if !snapshot.is_synced() {
        return Err(NotJudged("NotSynced"));
    }
    Ok(snapshot)
}

/// The answer. One that refuses says what it refuses for; what else is wrong stays a warning.
fn answer(
    request: &Request<'_>,
    verdict: Verdict,
    reason: &'static str,
    faults: &[Fault],
) -> Answer {
    let (refused, warned): (Vec<&Fault>, Vec<&Fault>) = faults
        .iter()
        .partition(|fault| verdict == Verdict::Denied && fault.made_now);
    let warnings = warned.iter().map(|fault| warning(&fault.sentence));
    let warnings: Vec<String> = warnings.collect();
    let body = if refused.is_empty() {
        review::allow(request, None, &warnings)
    } else {
        let message = sentences(&refused) + ENFORCED;
        review::deny(request, &message, &warnings)
    };
    let tells = verdict != Verdict::Allowed && !request.is_dry_run();
    Answer {
        body,
        operation: request.operation(),
        decision: verdict.word(),
        reason,
        decided: None,
        told: tells.then(|| Told {
            verdict,
            user: request.user.name.to_string(),
            object: request.object_name(),
            reason,
            sentence: sentences(&faults.iter().collect::<Vec<_>>()),
        }),
    }
}

/// Whoever is refused something may want to know who decided that.
const ENFORCED: &str = " (zonewise refuses this since it runs with --validation enforce)";

fn sentences(faults: &[&Fault]) -> String {
    let sentences: Vec<&str> = faults.iter().map(|fault| &*fault.sentence).collect();
    sentences.join("; ")
}

#[cfg(test)]
mod tests;
