//! Properties, tried on many random values: the same ones in every run.

use proptest::prelude::{ProptestConfig, Strategy};
use proptest::test_runner::{RngSeed, TestCaseResult, TestRunner};

/// Checks so many values of a strategy; where one fails, the test tells the smallest that it finds to fail.
pub fn for_all<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if let Err(failure) = TestRunner::new(config).run(&strategy, check) {
        panic!("{failure}");
    }
}
