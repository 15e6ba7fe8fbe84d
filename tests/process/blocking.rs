//! Waiting in tests without a runtime.

use crate::wait;

/// As [`wait::eventually`].
///
/// # Panics
/// After [`wait::LONG_ENOUGH`], with the last answer.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime starts");
    runtime.block_on(wait::eventually(what, async || probe()))
}

/// Waits until a condition holds.
///
/// # Panics
/// As [`eventually`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || {
        holds().then_some(()).ok_or_else(|| "it is not so".into())
    });
}
