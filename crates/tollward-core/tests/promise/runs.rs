//! Random runs: how many, and what is done with one that fails.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

/// Steps of all random tests together, unless `TOLLWARD_STEPS` says otherwise.
const STEPS: u64 = 1_100_000;

const LONGEST_RUN: usize = 255;

/// Runs `run` on random lists of words until this test has taken its `percent` of all steps.
///
/// `regressions` is the file of seeds that once failed; they are tried first.
pub(crate) fn check(
    percent: u64,
    regressions: &'static str,
    run: impl Fn(&[u64]) -> Result<(), String>,
) {
    let all = match std::env::var("TOLLWARD_STEPS") {
        Ok(steps) => steps.parse().expect("TOLLWARD_STEPS is a number"),
        Err(_) => STEPS,
    };
    let wanted = all * percent / 100;
    let words = prop::collection::vec(any::<u64>().no_shrink(), 1..=LONGEST_RUN);
    let taken = Cell::new(0);
    while taken.get() < wanted {
        let mut runner = TestRunner::new(Config {
            cases: 500,
            failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
            ..Config::default()
        });
        let outcome = runner.run(&words, |words| {
            taken.set(taken.get() + words.len() as u64);
            run(&words).map_err(TestCaseError::fail)
        });
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
    }
}

/// The path of a file of regressions, next to the crate's Cargo.toml.
macro_rules! regressions {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/", $name)
    };
}
pub(crate) use regressions;
