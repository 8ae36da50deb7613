//! Benchmarks: the same generated work for any engine behind one trait, measured in the same way.

pub mod engine;

pub use engine::{Direction, Engine, Figures};
