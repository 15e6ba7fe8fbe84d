//! The Helm chart in `charts/zonewise`, by the real helm (4 and 3), and what it renders by the real API server.
//!
//! Needs the tools of `make chart-tools` and the test control plane (`make controlplane`).

#[path = "chart/alerts.rs"]
mod alerts;
#[path = "chart/api_server.rs"]
mod api_server;
#[path = "chart/arguments.rs"]
mod arguments;
#[path = "chart/chosen.rs"]
mod chosen;
#[path = "chart/cluster.rs"]
mod cluster;
#[path = "cluster/support/control_plane.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod control_plane;
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
#[path = "chart/releases.rs"]
mod releases;
#[path = "chart/remains.rs"]
mod remains;
#[path = "chart/render.rs"]
mod render;
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
#[path = "support/wait.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod wait;
