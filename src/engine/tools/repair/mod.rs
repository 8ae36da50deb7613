//! Repair: a store from whatever files are left (`docs/recovery.md`, Repair). One thread, alone with the store's files.
//!
//! Two ways. Where the manifest is readable, its tree stays: sound branch files are kept as they are, damaged ones are
//! replaced, each in its place, by a new file with the entries of its good pages, and the log stays as well unless it is
//! damaged. Where the manifest is lost, all branch files and the log are merged by sequence number into a new tree.
//!
//! Invariants:
//! 1. Until the new manifest has its name, nothing changes but that new files and second names of damaged ones appear, of
//!    which the old manifest knows nothing; a crash leaves the store as it was. The rename is the one step that matters.
//! 2. What could not be used whole is kept under another name (`aside`).
//! 3. Of a readable manifest no other file counts than those that it names, and of the log nothing that is incorporated or was
//!    thrown away: nothing deleted comes back.
//! 4. Memory is bounded by a fixed number of open files and pages, not by the store.

mod chain;
mod log;
mod manifest_state;
mod merge;
mod other_stores;
mod ranges;
mod repair_mark;
mod run;
mod set_aside;
mod values;

pub(crate) use repair_mark::end as remove_mark;
pub(crate) use run::repair;
