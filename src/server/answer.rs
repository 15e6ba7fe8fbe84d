//! From a request to its answer: on the spot for a body of usual size, aside for a large one.

use std::panic::AssertUnwindSafe;

use axum::body::Bytes;
use axum::extract::Request;
use tokio::time::{Instant, timeout_at};

use super::request::Refused;
use super::room::{LARGE, Room};
use super::routes::App;
use crate::telemetry::AdmissionLabels;
use crate::webhook::mutate::{self, Answer};

/// Reads a review and answers it before `deadline`.
pub(super) async fn answer(
    app: &App,
    request: Request,
    deadline: Instant,
) -> Result<Bytes, Refused> {
    let (body, room) = app.bodies.read(request, deadline).await?;
    let start = Instant::now();
    let reviewed = if body.len() > LARGE {
        review_aside(app.clone(), body, room, deadline).await
    } else {
        review(app, body, room, deadline)
    }?;
    app.metrics
        .count_admission(&reviewed.labels, start.elapsed());
    Ok(reviewed.answer)
}

struct Reviewed {
    labels: AdmissionLabels,
    answer: Bytes,
}

/// Reviews where that holds up nobody: the largest bodies take a tenth of a second and more, and there are as few workers
/// as processors.
async fn review_aside(
    app: App,
    body: Bytes,
    room: Room,
    deadline: Instant,
) -> Result<Reviewed, Refused> {
    let place = app.bodies.places.clone().acquire_owned();
    let place = timeout_at(deadline, place)
        .await
        .map_err(|_| Refused::Overdue)?;
    let work = tokio::task::spawn_blocking(move || {
        let reviewed = review(&app, body, room, deadline);
        drop(place);
        reviewed
    });
    timeout_at(deadline, work)
        .await
        .map_err(|_| Refused::Overdue)?
        .map_err(|_| Refused::Panicked)?
}

fn review(app: &App, body: Bytes, mut room: Room, deadline: Instant) -> Result<Reviewed, Refused> {
    if Instant::now() >= deadline {
        return Err(Refused::Overdue);
    }
    let (labels, answer) = decide(app, &body)?;
    drop(body);
    room.resize(answer.len())?;
    Ok(Reviewed {
        labels,
        answer: Bytes::from_owner(Charged {
            answer,
            _room: room,
        }),
    })
}

/// An answer with the room that it takes, for as long as the connection holds any of it.
struct Charged {
    answer: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

fn decide(app: &App, body: &[u8]) -> Result<(AdmissionLabels, Vec<u8>), Refused> {
    // A panic must cost its own answer and no more; nothing that it could leave half done is shared.
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| {
        mutate::mutate(body, &app.cluster, &app.settings)
    }));
    let Ok(decided) = decided else {
        return allow_untouched(body);
    };
    let Answer {
        body,
        operation,
        decision,
        reason,
    } = decided?;
    let labels = AdmissionLabels {
        webhook: "mutate",
        operation: operation.word(),
        decision,
        reason,
    };
    Ok((labels, body))
}

fn allow_untouched(body: &[u8]) -> Result<(AdmissionLabels, Vec<u8>), Refused> {
    let allowed = std::panic::catch_unwind(|| mutate::allow_untouched(body));
    let answer = allowed.ok().flatten().ok_or(Refused::Panicked)?;
    let labels = AdmissionLabels {
        webhook: "mutate",
        operation: "OTHER",
        decision: "Untouched",
        reason: "Panic",
    };
    Ok((labels, answer))
}
