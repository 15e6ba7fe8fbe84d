//! Properties, tried on many random values: the same ones in every run.
//!
//! The environment variable `CASES` scales how many: `CASES=1` tries all that the tests name, and the default is a quarter.

use std::fmt;

use proptest::prelude::{ProptestConfig, Strategy};
use proptest::test_runner::{RngSeed, TestCaseResult, TestRunner};

const VARIABLE: &str = "CASES";
const DEFAULT: f64 = 0.25;
const MOST: f64 = 1000.0;

/// Below this, chance decides how often something comes up.
const CHANCE: u32 = 5;

/// Checks so many values of a strategy, scaled by `CASES`. A failure names the smallest value found to fail, and how to run the
/// test alone.
///
/// # Panics
/// Where a value fails, or `CASES` is malformed.
pub fn for_all<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig {
        cases: scaled(cases),
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(failure) = TestRunner::new(config).run(&strategy, check) {
        panic!("{failure}\n{Alone}");
    }
}

/// Counts so many cases, scaled by `CASES`, for loops that make up their own. One that panics has the loop say how to run the
/// test alone.
pub fn cases(cases: u32) -> Cases {
    Cases {
        next: 0,
        end: scaled(cases),
    }
}

/// See [`cases`].
pub struct Cases {
    next: u32,
    end: u32,
}

impl Iterator for Cases {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let case = self.next;
        self.next += 1;
        (case < self.end).then_some(case)
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("case {} of {} failed\n{Alone}", self.next, self.end);
        }
    }
}

/// A number of cases scaled by `CASES`, at least one.
pub fn scaled(cases: u32) -> u32 {
    part_of(cases).max(1)
}

/// Whether something came up more than so many times, scaled by `CASES`. A number below [`CHANCE`] demands nothing.
pub fn is_often(times: impl TryInto<u64>, more_than: u32) -> bool {
    let least = part_of(more_than);
    least < CHANCE || times.try_into().is_ok_and(|times| times > u64::from(least))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float stops at the bounds of the integer"
)]
fn part_of(cases: u32) -> u32 {
    (f64::from(cases) * factor()) as u32
}

fn factor() -> f64 {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return DEFAULT;
    };
    let value = value.to_string_lossy();
    let factor = value.parse().ok();
    let factor = factor.filter(|&factor: &f64| factor > 0.0 && factor <= MOST);
    factor.unwrap_or_else(|| {
        panic!("{VARIABLE}={value:?} must be a number above 0 and up to {MOST}, such as 0.25 or 1")
    })
}

/// The command that runs the current test alone, with as many cases.
struct Alone;

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (factor, program) = (factor(), env!("CARGO_CRATE_NAME"));
        // libtest names the thread after the test.
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        write!(
            f,
            "to run it alone: {VARIABLE}={factor} cargo test --test {program} -- --exact {test}"
        )
    }
}
