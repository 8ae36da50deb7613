//! The one binary of integration tests: the real store, on real and simulated disks.

mod bad_input;
mod bounds;
mod concurrency;
mod corruption;
mod crash;
mod disks;
mod full_disk;
mod iterators;
mod kept_versions;
mod kill;
mod linearizability;
mod log_memory;
mod model;
mod multi_get;
mod openers;
mod power_cut;
mod real_errors;
mod recovery;
mod reopen;
mod repair;
mod shared;
mod snapshots;
mod stepped;
mod support;
mod tidy;
mod time;
