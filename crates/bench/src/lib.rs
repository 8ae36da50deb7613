//! Benchmarks: the same generated work for any engine behind one trait, measured in the same way.
//!
//! An engine implements `Engine` and `Factory` (`engine.rs`). `Settings` says how large and how long, `catalogue::named` gives
//! workloads, and a `Session` runs them one after the other on one store and measures each: an `Outcome`, which is one JSON
//! object.

pub mod alluvium_engine;
mod calibrate;
pub mod catalogue;
mod checkpoints;
pub mod choice;
mod control;
pub mod counter;
mod crash_copy;
mod device;
pub mod engine;
mod field;
pub mod figures;
mod fill;
mod full_scan;
pub mod keys;
mod latency;
mod measure;
mod mix;
pub mod outcome;
mod partitioned;
pub mod process;
mod progress;
pub mod random;
mod run;
pub mod scaling;
mod series;
mod session;
pub mod settings;
mod space;
mod space_samples;
pub mod striped;
mod tally;
pub mod values;
pub mod workload;
mod zipfian;

pub use alluvium_engine::{Alluvium, AlluviumStriped, SingleLevel, Unlogged};
pub use engine::{
    Buffered, Component, Direction, Engine, EngineOptions, Factory, Figures, Level, LevelKnobs, Partitions,
};
pub use outcome::Outcome;
pub use progress::Progress;
pub use session::{Session, Step};
pub use settings::{Control, Settings};
pub use striped::{Increments, Striped};
pub use workload::Workload;

#[cfg(test)]
mod tests;
