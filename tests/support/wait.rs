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
    let patience = Patience::of(limit);
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(missing) => patience.lasts(what, &missing),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A time limit that is running.
struct Patience {
    limit: Duration,
    started: Instant,
}

impl Patience {
    fn of(limit: Duration) -> Self {
        Self {
            limit,
            started: Instant::now(),
        }
    }

    fn lasts(&self, what: &str, missing: &str) {
        let limit = self.limit;
        assert!(
            self.started.elapsed() <= limit,
            "{what}: not within {limit:?}; {missing}"
        );
    }
}

/// The same for tests without a runtime.
#[allow(
    dead_code,
    reason = "only the process program has tests without a runtime"
)]
pub mod blocking {
    use super::{LONG_ENOUGH, PAUSE, Patience};

    /// Tries until there is a value.
    ///
    /// # Panics
    /// After [`LONG_ENOUGH`], with the last complaint.
    pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Result<T, String>) -> T {
        let patience = Patience::of(LONG_ENOUGH);
        loop {
            match probe() {
                Ok(value) => return value,
                Err(missing) => patience.lasts(what, &missing),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until a condition holds.
    ///
    /// # Panics
    /// After [`LONG_ENOUGH`].
    pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
        eventually(what, || {
            holds()
                .then_some(())
                .ok_or_else(|| "it does not hold".to_owned())
        });
    }
}
