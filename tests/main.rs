//! The one binary of integration tests: the real store, on real and simulated disks.

mod bad_input;
mod concurrency;
mod iterators;
mod kill;
mod model;
mod multi_get;
mod recovery;
mod stepped;
mod support;
mod tidy;
