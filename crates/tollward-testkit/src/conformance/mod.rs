//! What every store must do, whatever it is built on.
//!
//! Each case is an `async fn(&dyn Store)` that panics if the store breaks its promise. A case brings its
//! own keys, which no other case and no other run uses, so all of them can share one store or one server.
//! Time is passed in: nothing sleeps, nothing reads the clock.
//!
//! A new store plugs in with one function that makes a store and runs a case on it, on whatever runtime
//! it needs; the macro makes a test of every case:
//!
//! ```
//! use tollward_store::{MemoryStore, Store};
//! use tollward_testkit::conformance;
//!
//! fn on_memory(case: impl AsyncFnOnce(&dyn Store)) {
//!     conformance::at_once(case(&MemoryStore::new(100_000)));
//! }
//!
//! tollward_testkit::store_conformance!(on_memory);
//! ```
//!
//! The store must have room for every bucket of a case (a few thousand): what happens when there is
//! none is the business of that store's own tests.

#![expect(
    clippy::panic,
    reason = "a case fails as a test does, and only tests run it"
)]

mod dice;
mod model;
mod till;

pub mod change;
pub mod clock;
pub mod credit;
pub mod random;
pub mod reset;
pub mod shadow;
pub mod single;
pub mod together;
pub mod windows;

pub use dice::Dice;
pub use model::Model;
pub use till::{Answer, Pay, START, Till, bucket, sliding};

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future that has nothing to wait for: that of a store which answers at once.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("this store does not answer at once: run the case on a runtime"),
    }
}

/// Makes a test of every case. The argument names a function that takes a case, an
/// `impl AsyncFnOnce(&dyn Store)`, makes a store and runs the one on the other.
///
/// With `NAME: FIXTURE => RUN` all cases are one test of that name, and `RUN` is given the fixture too:
/// for stores that need servers which take a while to start.
#[macro_export]
macro_rules! store_conformance {
    ($run:path) => {
        $crate::store_conformance! { @cases [tests $run] }
    };
    ($test:ident: $fixture:expr => $run:path) => {
        $crate::store_conformance! { @cases [test $test $fixture => $run] }
    };
    (@cases $how:tt) => {
        $crate::store_conformance! { @make $how
            single:
                new_bucket_is_full,
                drains_exactly,
                refills_exactly,
                polling_gains_nothing,
                cost_zero_is_free,
                cost_of_the_whole_capacity,
                cost_beyond_capacity_is_never,
                widest_numbers,
                peek_writes_nothing,
                refusal_writes_nothing,
                keys_are_told_apart;
            together:
                no_charges_are_admitted,
                second_limit_refuses,
                never_among_others_changes_nothing,
                order_does_not_matter,
                same_bucket_twice,
                same_bucket_twice_untouched_when_refused,
                twelve_charges,
                many_charges_refused_by_the_last;
            shadow:
                never_refuses,
                charged_only_with_the_request,
                charged_only_if_it_admits,
                never_cost_in_shadow;
            change:
                capacity_raised_and_lowered,
                rate_changed,
                window_changed,
                algorithm_changed;
            clock:
                small_steps_back_are_the_same_moment,
                an_hour_back_refills_nothing_and_goes_on,
                refusal_after_a_step_back_goes_on_too,
                peek_after_a_step_back_writes_nothing;
            windows:
                admits_its_rate_in_a_window,
                older_window_fades,
                wait_is_exact,
                full_after_two_windows;
            credit:
                gives_back_what_was_taken,
                never_more_than_was_spent,
                of_a_faded_window_gives_nothing,
                creates_no_bucket;
            reset:
                makes_a_bucket_full,
                leaves_other_buckets_alone,
                of_an_unknown_bucket_does_nothing;
            random:
                serial_run_agrees_with_the_model;
        }
    };
    (@make [tests $run:path] $($file:ident: $($case:ident),+;)+) => {
        $($(
            #[test]
            fn $case() {
                $run($crate::conformance::$file::$case);
            }
        )+)+
    };
    (@make [test $test:ident $fixture:expr => $run:path] $($file:ident: $($case:ident),+;)+) => {
        #[test]
        fn $test() {
            let fixture = $fixture;
            $($(
                println!(concat!(stringify!($file), "::", stringify!($case)));
                $run(&fixture, $crate::conformance::$file::$case);
            )+)+
        }
    };
}
