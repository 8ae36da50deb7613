//! The checker: reads what is in a store once and reports what contradicts the format. Any thread; the file system may
//! be in use, because the scan is of one moment and every request is one batch.
//!
//! Memory grows with the number of inodes and names, not with content.

mod gather;
mod judge;
mod paths;
mod report;

pub use report::Report;

use crate::error::FsResult;
use crate::store::Store;

/// Checks the file system in a store. One scan of everything.
///
/// # Errors
/// Those of the store. What is wrong with the file system is no error, but in the report.
pub fn check(store: &impl Store) -> FsResult<Report> {
    check_with(store, &mut |_| {})
}

/// The same. Calls `progress` with the number of keys that were read, after each.
///
/// # Errors
/// As for `check`.
pub fn check_with(store: &impl Store, progress: &mut dyn FnMut(u64)) -> FsResult<Report> {
    let gathered = gather::gather(store, progress)?;
    Ok(judge::judge(gathered))
}
