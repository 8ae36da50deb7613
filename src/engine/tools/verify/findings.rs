//! Collects the findings of a check and reports its progress.

use crate::branch::BranchReport;
use crate::engine::types::verification::{CheckProgress, Depth, Verification};
use crate::util::{Error, Result};

/// At most this many damages are listed. Further damages are only counted.
const LISTED_MAX: usize = 1000;

/// The state of a check in progress.
pub(crate) struct Findings<'a> {
    pub(crate) depth: Depth,
    pub(crate) found: Verification,
    progress: &'a mut dyn FnMut(CheckProgress<'_>),
    done: u64,
    total: u64,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(depth: Depth, progress: &'a mut dyn FnMut(CheckProgress<'_>)) -> Self {
        Self { depth, found: Verification::default(), progress, done: 0, total: 0 }
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.depth == Depth::Deep
    }

    /// Adds to the bytes that are to be checked.
    pub(crate) fn add_total(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Reports the file that is checked next.
    pub(crate) fn begin(&mut self, file: &str) {
        (self.progress)(CheckProgress { file, bytes_done: self.done, bytes_total: self.total });
    }

    /// Adds to the bytes that were checked.
    pub(crate) fn add_done(&mut self, bytes: u64) {
        self.done += bytes;
    }

    /// Adds a damage, unless one for the same place is listed already.
    pub(crate) fn damage(&mut self, error: Error) {
        let error = error.of_missing_file();
        if self.found.damage.iter().any(|listed| same_place(listed, &error)) {
            return;
        }
        if self.found.damage.len() < LISTED_MAX {
            self.found.damage.push(error);
        } else {
            self.found.unlisted += 1;
        }
    }

    /// Adds an error that means damage, and returns `None`. Returns any other error.
    pub(crate) fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_damage() || matches!(error, Error::NewerFormat { .. }) => {
                self.damage(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts a checked branch file.
    pub(crate) fn count(&mut self, branch: &BranchReport) {
        let checked = &mut self.found.checked;
        checked.branch_files += 1;
        checked.pages += branch.pages;
        checked.entries += branch.entries;
        checked.bytes += if self.depth == Depth::Deep { branch.bytes } else { 0 };
    }
}

/// Whether two errors concern the same place in the same file.
fn same_place(one: &Error, other: &Error) -> bool {
    match (one, other) {
        (
            Error::Corruption { path: left, offset: at, what, .. },
            Error::Corruption { path: right, offset, what: found, .. },
        ) => left == right && at == offset && (what == found || *at > 0),
        _ => false,
    }
}
