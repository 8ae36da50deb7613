//! Tests with many threads, several openers and random settings, most of whose recorded histories a checker verifies.

mod background;
mod closing;
mod deterministic;
pub mod linearizability;
mod metamorphic;
pub mod openers;
mod races;
mod serializability;
pub mod shared_threads;
