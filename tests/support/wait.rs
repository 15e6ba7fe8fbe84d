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
