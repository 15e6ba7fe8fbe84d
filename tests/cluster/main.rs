//! The binary on a real control plane: kube-apiserver, etcd, the controllers and the scheduler, with KWOK for kubelets. What
//! is asserted is what the API server stored, answered or wrote into its audit log.
//!
//! Needs the test control plane (`make controlplane`) and helm 4 (`make chart-tools`). Every scene is a test of its name:
//! `cargo test --test cluster strip_once_off` runs one alone. Scenes run side by side. Most share one control plane, where
//! each has a namespace, a Lease and webhook configurations of its own; those that change nodes or look at the whole
//! cluster start one for themselves, which takes three seconds and 2.5 s of a core. `ZONEWISE_FULL_SIZE=1` runs long what
//! is short otherwise.

/// Makes each scene a test of its name: one that is given what `play` sets up for it, or one that sets all up itself.
macro_rules! scenes {
    ($($module:ident::$name:ident()),* $(,)?) => {$(
        #[test]
        fn $name() {
            crate::run($module::$name());
        }
    )*};
    ($play:path: $($module:ident::$name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            $play(stringify!($name), |it| Box::pin($module::$name(it)));
        }
    )*};
}

mod admission;
mod certificates;
mod chart;
mod check;
mod controller;
mod events;
mod install;
mod kube_proxy;
mod lease;
mod support;
mod validation;

use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::Runtime;

/// More than any scene takes on a busy machine.
fn limit() -> Duration {
    Duration::from_mins(if is_full_size() { 20 } else { 5 })
}

/// Runs a scene to its end. All scenes share a runtime, as clients of the API server are shared and belong to one.
fn run(scene: impl Future<Output = ()>) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(4).enable_all();
        runtime.build().expect("a runtime starts")
    });
    RUNTIME.block_on(async {
        let ended = tokio::time::timeout(limit(), scene).await;
        ended.unwrap_or_else(|_| panic!("the scene does not end within {:?}", limit()));
    });
}

/// The name of a scene as a namespace.
fn namespace_of(scene: &str) -> String {
    assert!(scene.len() <= 63, "{scene} is too long for a namespace");
    scene.replace('_', "-")
}

/// Whether scenes run at full size, on a machine that is fast enough to be held to times.
fn is_full_size() -> bool {
    std::env::var_os("ZONEWISE_FULL_SIZE").is_some()
}
