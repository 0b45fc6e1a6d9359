//! The promise of a decision, tested: the core against the oracle, and against its own words.
//!
//! One test binary, so that its tests run beside each other. The random ones take about a million
//! steps in all; `TOLLWARD_STEPS=20000000 cargo test -p tollward-core --test promise` takes more (and
//! fewer with a smaller number). A random test that fails prints the failing step with its limit,
//! state, cost and time, and leaves its seed in `proptest-regressions/`: keep that file, every later run
//! begins with it.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod clock;
mod credit;
mod dice;
mod extremes;
mod narrow;
mod pair;
mod rates;
mod runs;
mod spans;
