//! Where counters live.
//!
//! A [`Store`] applies the charges of one request: all of them, or none. [`MemoryStore`] keeps its
//! buckets in this process, in bounded memory, and answers at once.
//!
//! A store keeps no policy, reads no clock and names nobody: it is given limits, keys and a moment.

mod memory;
mod store;
mod sync;

pub use memory::{MemoryStore, Usage};
pub use store::{Mode, Outcome, Reply, Source, Store, StoreError, Verdict};
