//! What each path answers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cluster::store::{Cluster, Resource};
use crate::settings::Settings;
use crate::telemetry::{AdmissionLabels, Metrics, Readiness};
use crate::webhook::mutate::{self, Answer};
use crate::webhook::review::BadReview;

/// What the handlers share.
#[derive(Debug, Clone)]
pub struct App {
    /// What is known.
    pub cluster: Arc<Cluster>,
    /// How to decide.
    pub settings: Arc<Settings>,
    /// Where to count.
    pub metrics: Metrics,
    /// Whether the process is ready.
    pub readiness: Readiness,
    /// Limits on bodies.
    pub bodies: Bodies,
}

/// Limits on bodies.
#[derive(Debug, Clone)]
pub struct Bodies {
    most: usize,
    in_flight: Arc<Semaphore>,
    time: Duration,
}

/// Permits are for so many bytes, since a semaphore does not count to 4 GiB.
const UNIT: usize = 1024;

impl Bodies {
    /// `most` bytes a body, `in_flight` bytes over all bodies at once, and `time` for each.
    #[must_use]
    pub fn new(most: usize, in_flight: usize, time: Duration) -> Self {
        let units = in_flight.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            most,
            in_flight: Arc::new(Semaphore::new(units)),
            time,
        }
    }

    /// Reads a body, holding its bytes' share of the limit as long as the permit lives.
    async fn read(
        &self,
        request: Request,
        deadline: Duration,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Refused> {
        let length = content_length(&request)?;
        if length > self.most {
            return Err(Refused::TooLarge {
                length,
                most: self.most,
            });
        }
        let units = u32::try_from(length.div_ceil(UNIT)).map_err(|_| Refused::Busy)?;
        let permit = self
            .in_flight
            .clone()
            .try_acquire_many_owned(units)
            .map_err(|_| Refused::Busy)?;
        let body = tokio::time::timeout(
            self.time.min(deadline),
            collect(request.into_body(), length),
        );
        let body = body.await.map_err(|_| Refused::TooSlow)??;
        Ok((body, permit))
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

async fn collect(body: Body, length: usize) -> Result<Bytes, Refused> {
    let mut stream = body.into_data_stream();
    let first = match stream.next().await {
        None => return Ok(Bytes::new()),
        Some(chunk) => chunk.map_err(|error| Refused::Broken(error.to_string()))?,
    };
    if first.len() == length {
        return Ok(first);
    }
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&first);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| Refused::Broken(error.to_string()))?);
    }
    Ok(bytes.into())
}

/// Why a request is not answered with a review.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}\n")]
    BadReview(#[from] BadReview),
    #[error("the body has {length} bytes and may have {most}; see --max-body-bytes\n")]
    TooLarge { length: usize, most: usize },
    #[error("a Content-Length is needed, which every API server sends\n")]
    NoLength,
    #[error("the bodies of other requests use up what --max-in-flight-bytes allows; try again\n")]
    Busy,
    #[error("the body did not come in time\n")]
    TooSlow,
    #[error("the body broke off: {0}\n")]
    Broken(String),
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::BadReview(_) | Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoLength => StatusCode::LENGTH_REQUIRED,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    fn limit(&self) -> &'static str {
        match self {
            Self::BadReview(_) => "review",
            Self::TooLarge { .. } => "body-bytes",
            Self::NoLength => "content-length",
            Self::Busy => "in-flight-bytes",
            Self::TooSlow => "body-time",
            Self::Broken(_) => "broken-body",
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}

/// The paths of the webhook server.
pub fn webhook(app: App) -> Router {
    Router::new()
        .route("/mutate", post(serve_mutate))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(not_found)
        .with_state(app)
}

/// That the process answers.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it should be asked: synced, and not about to end.
pub async fn readyz(State(app): State<App>) -> Response {
    let waiting: Vec<&str> = Resource::ALL
        .into_iter()
        .filter(|resource| !app.cluster.has_synced(*resource))
        .map(Resource::word)
        .collect();
    if app.readiness.is_shutting_down() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    if waiting.is_empty() {
        return "ok\n".into_response();
    }
    let text = format!("waiting for the first list of {}\n", waiting.join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn not_found() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "there is /mutate for reviews, /healthz and /readyz\n",
    )
}

/// What the API server adds to the webhook's address.
#[derive(Debug, Deserialize)]
struct Parameters {
    timeout: Option<String>,
}

impl Parameters {
    /// How long the API server waits, from its `?timeout=`; ten seconds, its default, where it does not say.
    fn deadline(&self) -> Duration {
        let text = self.timeout.as_deref().unwrap_or("10s");
        let parsed = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok());
        parsed
            .filter(|deadline| !deadline.is_zero())
            .unwrap_or(Duration::from_secs(10))
    }
}

async fn serve_mutate(
    State(app): State<App>,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Response {
    match app.bodies.read(request, parameters.deadline()).await {
        Ok((body, _permit)) => answer_review(&app, &body),
        Err(refused) => refuse(&app, refused),
    }
}

fn refuse(app: &App, refused: Refused) -> Response {
    app.metrics.count_rejected_request(refused.limit());
    tracing::debug!(status = %refused.status(), "refused: {}", refused.to_string().trim_end());
    refused.into_response()
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn answer_review(app: &App, body: &[u8]) -> Response {
    let start = Instant::now();
    // A panic must cost its own answer and no more; nothing that it could leave half done is shared.
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| {
        mutate::mutate(body, &app.cluster, &app.settings)
    }));
    let (labels, body) = match decided {
        Ok(Ok(Answer {
            body,
            operation,
            decision,
            reason,
        })) => (
            AdmissionLabels {
                webhook: "mutate",
                operation: operation.word(),
                decision,
                reason,
            },
            body,
        ),
        Ok(Err(bad)) => return refuse(app, bad.into()),
        Err(_) => {
            match std::panic::catch_unwind(|| mutate::allow_untouched(body)).unwrap_or(None) {
                Some(body) => {
                    let labels = AdmissionLabels {
                        webhook: "mutate",
                        operation: "OTHER",
                        decision: "Untouched",
                        reason: "Panic",
                    };
                    (labels, body)
                }
                None => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    };
    app.metrics.count_admission(&labels, start.elapsed());
    ([(header::CONTENT_TYPE, JSON)], body).into_response()
}
