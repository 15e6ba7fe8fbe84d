//! What each path answers.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::answer::{self, Webhook};
use super::clients;
pub use super::request::Bodies;
use super::request::Refused;
use crate::cluster::store::{Cluster, Resource};
use crate::settings::Settings;
use crate::telemetry::{Metrics, Readiness};
use crate::webhook::{MUTATE_PATH, VALIDATE_PATH};

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

/// The paths of the webhook server.
pub fn webhook(app: App) -> Router {
    Router::new()
        .route(MUTATE_PATH, post(serve_mutate))
        .route(VALIDATE_PATH, post(serve_validate))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(not_found)
        .with_state(app)
}

/// That the process answers.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it should be asked: synced, trusted, and not about to end.
pub async fn readyz(State(app): State<App>) -> Response {
    let waiting: Vec<&str> = Resource::ALL
        .into_iter()
        .filter(|resource| !app.cluster.has_synced(*resource))
        .map(Resource::word)
        .collect();
    if app.readiness.is_shutting_down() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    let mut text = String::new();
    if !waiting.is_empty() {
        let _ = writeln!(text, "waiting for the first list of {}", waiting.join(", "));
    }
    if let Some(what) = app.readiness.waits_for() {
        let _ = writeln!(text, "waiting: {what}");
    }
    if text.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn not_found() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "there is /mutate and /validate for reviews, /healthz and /readyz\n",
    )
}

/// What the API server adds to the webhook's address.
#[derive(Debug, Deserialize)]
struct Parameters {
    timeout: Option<String>,
}

impl Parameters {
    /// How long the API server waits, from its `?timeout=`; ten seconds, its default, where it does not say.
    fn patience(&self) -> Duration {
        let text = self.timeout.as_deref().unwrap_or("10s");
        let parsed = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok());
        parsed
            .filter(|patience| !patience.is_zero())
            .unwrap_or(Duration::from_secs(10))
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

async fn serve_mutate(
    State(app): State<App>,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Response {
    serve(app, Webhook::Mutate, &parameters, request).await
}

async fn serve_validate(
    State(app): State<App>,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Response {
    serve(app, Webhook::Validate, &parameters, request).await
}

async fn serve(app: App, webhook: Webhook, parameters: &Parameters, request: Request) -> Response {
    if let Err(refused) = clients::admit(request.extensions()) {
        return refuse(&app, refused);
    }
    let deadline = app.bodies.deadline(parameters.patience());
    match answer::answer(&app, webhook, request, deadline).await {
        Ok(answer) => ([(header::CONTENT_TYPE, JSON)], answer).into_response(),
        Err(refused) => refuse(&app, refused),
    }
}

fn refuse(app: &App, refused: Refused) -> Response {
    app.metrics.count_rejected_request(refused.limit());
    tracing::debug!(status = %refused.status(), "refused: {}", refused.to_string().trim_end());
    refused.into_response()
}
