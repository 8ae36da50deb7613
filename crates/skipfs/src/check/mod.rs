//! The checker: reads what is in a store once and reports what contradicts the format. Any thread; the file system may
//! be in use, because the scan is of one moment and every request is one batch.
//!
//! Memory grows with the number of inodes and names, not with content.

mod gather;
mod judge;

use crate::error::FsResult;
use crate::store::Store;

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, pipes, sockets and devices.
    pub others: u64,
    /// The sum of the sizes of all files.
    pub bytes: u64,
    /// Inodes without names, which were open when the file system was last closed or crashed. The next opening deletes
    /// them.
    pub orphans: Vec<u64>,
    /// What is wrong, a line each: the key, what was expected, what was found.
    pub findings: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Checks the file system in a store. One scan of everything.
///
/// # Errors
/// Those of the store. What is wrong with the file system is no error, but in the report.
pub fn check(store: &impl Store) -> FsResult<Report> {
    let gathered = gather::gather(store)?;
    Ok(judge::judge(gathered))
}
