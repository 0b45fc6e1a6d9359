//! The parts of the memory store by themselves; what it does as a store is tested from outside.

mod slot;
mod table;

#[cfg(not(feature = "model-check"))]
mod last_place;
