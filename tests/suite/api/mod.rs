//! Tests of each call of the public interface.

mod approximate_size;
mod examples;
mod item_cache;
mod iterators;
mod key_ranges;
mod keyspaces;
mod levels;
pub mod live_stats;
mod merges;
mod model;
mod multi_get;
mod options;
mod range_deletes;
mod read_statistics;
mod reads;
mod refresh;
mod reopen;
pub mod resources;
mod retained_versions;
mod scans;
mod snapshots;
mod takes;
mod temporary;
mod time;
mod transactions;
mod updates;
