//! The arithmetic of rate limits, and nothing else.
//!
//! A [`Limit`] says how much may be spent; a [`State`] is what one key has spent. [`Limit::level`]
//! brings a state up to a moment, and the [`Level`] it gives answers what a request wants to know:
//! is this cost admitted, when would it be, how much is left, what is the state afterwards.
//!
//! ```
//! use tollward_core::{Judgement, Limit, Timestamp, Window};
//!
//! let limit = Limit::token_bucket(10, Window::SECOND, 100).unwrap();
//! let now = Timestamp::from_micros(1_766_000_000_000_000);
//! let level = limit.level(None, now);
//! assert_eq!(level.judge(5), Judgement::Admit);
//! let state = level.charge(5).state();
//! assert_eq!(limit.level(state, now).remaining(), 95);
//! ```
//!
//! Everything is exact integer arithmetic: a refill is a fraction over the limit's window and is kept
//! as one, so nothing drifts and nothing is truncated. Time is always an argument. This crate does no
//! I/O, reads no clock, allocates nothing and depends on nothing.

mod charge;
mod level;
mod limit;
mod narrow;
mod state;
mod time;

pub use charge::{Charge, Key, OnFailure};
pub use level::{Judgement, Level};
pub use limit::{Algorithm, InvalidLimit, Limit};
pub use narrow::NarrowLevel;
pub use state::{Spending, State};
pub use time::{CLOCK_SLACK_US, Timestamp, Window};
