//! Waiting for what takes a while, with bounds so wide that only a fault reaches them.

use std::time::{Duration, Instant};

/// Far longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Tries until there is a value; panics with the last complaint when patience ends.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(complaint) => assert!(
                start.elapsed() < PATIENCE,
                "never seen that {what}: {complaint}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || {
        if holds() {
            Ok(())
        } else {
            Err("it is not so".to_owned())
        }
    });
}
