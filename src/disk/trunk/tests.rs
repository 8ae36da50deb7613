//! The trunk over real branches on the simulated disk, against `BTreeMap` models.

mod amplification;
mod describe;
mod folding;
mod free_space;
mod goldens;
mod jobs;
mod join;
mod key_gaps;
mod maplets;
mod model;
mod quiet;
mod requested;
mod reuse;
mod rig;
mod runs;
mod scans;
mod space;
mod verify;

pub use verify::inconsistent;
