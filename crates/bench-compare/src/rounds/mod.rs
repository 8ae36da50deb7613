//! Measurements in rounds, in which the engines take turns. Each engine has a child process of its own (`host`), which
//! measures figures by name (`gathered`); a report (`report`) has their medians.

pub mod disk;
pub mod figure;
pub mod gathered;
pub mod host;
pub mod pairs;
pub mod process;
pub mod report;
pub mod serve;
pub mod turns;
