//! The Helm chart in `charts/zonewise`, rendered by helm. The cluster program gives it to a real API server.
//!
//! Needs helm 4 (`make chart-tools`). Tests that need helm 3, promtool or helm-docs are ignored; `make ci` runs them.

/// Makes each function a test with helm 4, and one with helm 3.
macro_rules! each_helm {
    ($($name:ident),* $(,)?) => {
        mod with_helm_4 {$(
            #[test]
            fn $name() {
                super::$name(&crate::helm::Helm::four());
            }
        )*}
        mod with_helm_3 {$(
            #[test]
            #[ignore = "needs helm 3: make ci"]
            fn $name() {
                super::$name(&crate::helm::Helm::three());
            }
        )*}
    };
}

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
