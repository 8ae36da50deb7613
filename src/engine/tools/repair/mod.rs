//! Repair: rebuilds a store from the files that are left (`docs/recovery.md`, Repair). One thread, which has the store
//! to itself.
//!
//! There are two ways. If the manifest is readable, its tree stays. Valid branch files are kept unchanged. Each damaged
//! branch file is replaced, in its place, by a new file with the entries of its valid pages. The log is kept unless it
//! is damaged. If the manifest is lost, all branch files and the log are merged by sequence number into a new tree.
//!
//! Invariants:
//! 1. Until the new manifest is renamed to its final name, repair only adds new files and `.damaged` names of damaged
//!    files. The old manifest refers to none of them, so a crash leaves the store as it was. The rename is the commit
//!    point.
//! 2. Files that could not be used completely are kept under another name (`set_aside`).
//! 3. With a readable manifest, repair uses only the files that the manifest names, and of the log only records that
//!    were neither incorporated nor discarded. So nothing that was deleted comes back.
//! 4. Memory is bounded by a fixed number of open files and pages. It does not grow with the store.

mod chain;
mod log;
mod manifest_state;
mod merge;
mod number_ranges;
mod other_stores;
mod run;
mod set_aside;
mod value_check;

pub(crate) use run::repair;
