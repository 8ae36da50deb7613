//! Many threads, openers and settings: histories that checkers judge.

mod background;
mod deterministic;
pub mod linearizability;
mod metamorphic;
pub mod openers;
mod races;
mod serializability;
