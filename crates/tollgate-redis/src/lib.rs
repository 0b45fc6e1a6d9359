//! Tollgate's counters in Redis or Valkey.
//!
//! All limits of a request are decided by one script call, all or nothing; requests that arrive while a
//! call is under way travel together in the next one.

mod key;
mod part;
mod script;
