//! Waiting for what is to come, and not a moment longer.

use std::time::{Duration, Instant};

/// How long a test waits for anything unless it says otherwise: long enough for a machine that is busy with other tests.
pub const LONG_ENOUGH: Duration = Duration::from_mins(1);

/// Between two looks.
pub const PAUSE: Duration = Duration::from_millis(40);

/// Asks again and again until the answer is good. An answer that is not says what is missing.
///
/// # Panics
/// After [`LONG_ENOUGH`], with the last answer.
pub async fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    within(LONG_ENOUGH, what, probe).await
}

/// The same with a time limit.
///
/// # Panics
/// After the time limit, with the last answer.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let started = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(missing) if started.elapsed() > limit => {
                panic!("{what}: not within {limit:?}; {missing}")
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The same for tests without a runtime.
pub mod blocking {
    /// As [`super::eventually`].
    ///
    /// # Panics
    /// After [`super::LONG_ENOUGH`], with the last answer.
    pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime starts");
        runtime.block_on(super::eventually(what, async || probe()))
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
}
