//! What every disk component shares: sorted runs of branch files, the output of merges, and the plain types that cross
//! the seam. It knows nothing of a component's structure.

pub mod figures;
pub mod from_memory;
pub mod garbage;
pub mod ingest;
pub mod jobs;
pub mod load;
pub mod merged_run;
pub mod output;
pub mod pass;
pub mod requested_range;
pub mod reuse;
pub mod run;
pub mod run_cursor;
pub mod section;
pub mod sink;
#[cfg(test)]
pub mod testing;
