//! The trunk over real branches on the simulated disk, against `BTreeMap` models.

mod amplification;
mod density;
mod describe;
mod folding;
mod goldens;
mod jobs;
mod join;
mod kept;
mod maplets;
mod model;
mod reclaim;
mod reshape;
mod rig;
mod runs;
mod scans;
mod space;
mod verify;

pub use verify::unsound;
