//! A request's body, read within limits, or the reason why a request is refused.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::clients::NotAdmitted;
use super::room::{NoRoom, Room, Rooms};
use crate::webhook::review::BadReview;

/// Limits on bodies.
#[derive(Debug, Clone)]
pub struct Bodies {
    most: usize,
    time: Duration,
    rooms: Rooms,
    /// Places to work on large ones.
    pub(super) places: Arc<Semaphore>,
}

impl Bodies {
    /// `most` bytes a body, `in_flight` bytes over all bodies and answers at once, and `time` for each request.
    #[must_use]
    pub fn new(most: usize, in_flight: usize, time: Duration) -> Self {
        // The other half of the processors is for everybody else.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            most,
            time,
            rooms: Rooms::new(in_flight, most),
            places: Arc::new(Semaphore::new(processors.div_ceil(2))),
        }
    }

    /// When a request that begins now, and whose client waits for `patience`, has to be answered.
    #[must_use]
    pub fn deadline(&self, patience: Duration) -> Instant {
        const FAR: Duration = Duration::from_hours(24);
        Instant::now() + patience.min(self.time).min(FAR)
    }

    /// Reads a body, with the room that it takes.
    pub(super) async fn read(
        &self,
        request: Request,
        deadline: Instant,
    ) -> Result<(Bytes, Room), Refused> {
        let length = content_length(&request)?;
        if length > self.most {
            return Err(Refused::TooLarge {
                length,
                most: self.most,
            });
        }
        let mut room = self.rooms.enter(length);
        let body = collect(request.into_body(), length, &mut room);
        let body = tokio::time::timeout_at(deadline, body).await;
        Ok((body.map_err(|_| Refused::TooSlow)??, room))
    }
}

fn content_length(request: &Request) -> Result<usize, Refused> {
    let header = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .ok_or(Refused::NoLength)?;
    header
        .to_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Refused::NoLength)
}

async fn collect(body: Body, length: usize, room: &mut Room) -> Result<Bytes, Refused> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| Refused::Broken(error.to_string()))?;
        if chunk.len() == length {
            room.resize(length)?;
            return Ok(chunk);
        }
        make_space(&mut bytes, chunk.len(), length, room)?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

/// Makes space for a chunk of a body, and ahead of the rest in proportion to what has come.
fn make_space(
    bytes: &mut Vec<u8>,
    chunk: usize,
    length: usize,
    room: &mut Room,
) -> Result<(), NoRoom> {
    /// Up to here by four times, so that a body of usual length is moved once at most.
    const QUICK: usize = 64 * 1024;
    let needed = bytes.len() + chunk;
    if needed <= bytes.capacity() {
        return Ok(());
    }
    let ahead = (4 * needed).min(QUICK).max(2 * bytes.capacity());
    let capacity = ahead.min(length).max(needed);
    room.resize(capacity)?;
    bytes.reserve_exact(capacity - bytes.len());
    Ok(())
}

/// Why a request is not answered with a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0}\n")]
    BadReview(#[from] BadReview),
    #[error("the body has {length} bytes and may have {most}; see --max-body-bytes\n")]
    TooLarge { length: usize, most: usize },
    #[error("a Content-Length is needed, which every API server sends\n")]
    NoLength,
    #[error("other requests and answers use up what --max-in-flight-bytes allows; try again\n")]
    Busy,
    #[error("the body did not come in time\n")]
    TooSlow,
    #[error("the body came, but there is no time left to answer in; try again\n")]
    Overdue,
    #[error("the body broke off: {0}\n")]
    Broken(String),
    #[error("{0}\n")]
    Client(NotAdmitted),
    #[error("deciding failed in a way that should never be; the log has a line about it\n")]
    Panicked,
}

impl From<NoRoom> for Refused {
    fn from(NoRoom: NoRoom) -> Self {
        Self::Busy
    }
}

impl Refused {
    /// The status of the answer.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::BadReview(_) | Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::Client(_) => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoLength => StatusCode::LENGTH_REQUIRED,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Overdue => StatusCode::GATEWAY_TIMEOUT,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What it is in metrics.
    pub(super) fn limit(&self) -> &'static str {
        match self {
            Self::BadReview(_) => "review",
            Self::Client(_) => "client-certificate",
            Self::TooLarge { .. } => "body-bytes",
            Self::NoLength => "content-length",
            Self::Busy => "in-flight-bytes",
            Self::TooSlow => "body-time",
            Self::Overdue => "deadline",
            Self::Broken(_) => "broken-body",
            Self::Panicked => "panic",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}
