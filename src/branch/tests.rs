//! Branch files against `BTreeMap` models on the simulated disk, and what damage does to them.

mod damage;
mod faults;
mod harness;
mod large;
mod model;
mod range_tombstones;
mod read_ahead;
