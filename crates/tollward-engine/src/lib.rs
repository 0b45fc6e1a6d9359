//! Policy, store and clock behind one `check`.
//!
//! ```
//! use std::sync::Arc;
//! use tollward_engine::{Engine, Mode, SystemClock};
//! use tollward_policy::{Facts, compile};
//! use tollward_store::MemoryStore;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let text = b"plans: { free: { rate_limit: { sustained: { rate: 10 }, scope: user } } }";
//! let compiled = compile(text).map_err(|faults| faults[0].to_string())?;
//! let store = Arc::new(MemoryStore::new(1_000_000));
//! let engine = Engine::new(compiled.policy, store, Arc::new(SystemClock::new()));
//!
//! let active = engine.active();
//! let facts = Facts { plan: Some("free"), user: Some("alice"), ..Facts::default() };
//! let decision = engine.check(&active, &facts, Mode::Charge).await?;
//! assert!(decision.allowed);
//! # Ok(())
//! # }
//! # std::future::Future::poll(std::pin::pin!(run()), &mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready();
//! ```
//!
//! The engine speaks no protocol: a door reads facts from whatever it serves, and renders the
//! [`Decision`] that comes back.

mod buckets;
mod clock;
mod counters;
mod decision;
mod engine;
mod judged;
mod observer;
mod receipt;

pub use buckets::{BucketError, BucketLevel, BucketStatus};
pub use clock::{Clock, SystemClock};
pub use counters::{Count, Tally};
pub use decision::{Action, Decision, LimitStatus, Reason, Source};
pub use engine::{Active, Engine};
pub use observer::Observer;
pub use receipt::{Change, Receipt};
pub use tollward_store::{Mode, StoreError};
