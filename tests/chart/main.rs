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

mod alerts;
mod arguments;
mod dashboard;
mod helm;
mod names;
mod notes;
mod permissions;
#[path = "../support/program.rs"]
mod program;
mod readme;
mod refusals;
mod render;
mod switched;
mod switches;
mod tools;
mod umbrella;
mod validation;
mod values;
