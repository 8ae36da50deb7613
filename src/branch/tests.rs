//! Tests of branch files: against `BTreeMap` models on the simulated disk, and with damage.

mod damage;
mod faults;
mod fences;
mod harness;
mod large;
mod model;
mod range_tombstones;
mod read_ahead;
mod whole_filter;
mod write_behind;
