//! The Helm chart in `charts/zonewise`, by the real helm. The real API server judges it in the cluster program.
//!
//! Needs helm 4 (`make chart-tools`). Tests that need helm 3, promtool or helm-docs are ignored; `make ci` runs them too.

#[path = "chart/alerts.rs"]
mod alerts;
#[path = "chart/arguments.rs"]
mod arguments;
#[path = "chart/dashboard.rs"]
mod dashboard;
#[path = "chart/helm.rs"]
mod helm;
#[path = "chart/names.rs"]
mod names;
#[path = "chart/notes.rs"]
mod notes;
#[path = "chart/permissions.rs"]
mod permissions;
#[path = "support/program.rs"]
mod program;
#[path = "chart/readme.rs"]
mod readme;
#[path = "chart/refusals.rs"]
mod refusals;
#[path = "chart/render.rs"]
mod render;
#[path = "chart/switched.rs"]
mod switched;
#[path = "chart/switches.rs"]
mod switches;
#[path = "chart/tools.rs"]
mod tools;
#[path = "chart/umbrella.rs"]
mod umbrella;
#[path = "chart/validation.rs"]
mod validation;
#[path = "chart/values.rs"]
mod values;
