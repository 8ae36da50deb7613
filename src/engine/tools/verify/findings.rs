//! What a check found, and how far it is. Plain data.

use crate::branch::BranchReport;
use crate::engine::types::verification::{CheckProgress, Depth, Verification};
use crate::util::{Error, Result};

/// Damages that are listed; more are counted.
const LISTED_MAX: usize = 1000;

/// A check under way.
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

    /// Tells that `bytes` more are to be done.
    pub(crate) fn await_bytes(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Tells which file comes next.
    pub(crate) fn begin(&mut self, file: &str) {
        (self.progress)(CheckProgress { file, bytes_done: self.done, bytes_total: self.total });
    }

    pub(crate) fn done(&mut self, bytes: u64) {
        self.done += bytes;
    }

    /// Lists a damage, but for one that is listed already.
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

    /// Lists an error that tells of damage; gives back any other.
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

    pub(crate) fn count(&mut self, branch: &BranchReport) {
        let checked = &mut self.found.checked;
        checked.branch_files += 1;
        checked.pages += branch.pages;
        checked.entries += branch.entries;
        checked.bytes += if self.depth == Depth::Deep { branch.bytes } else { 0 };
    }
}

/// Whether two errors are about one place of one file. Bounded work: the list is.
fn same_place(one: &Error, other: &Error) -> bool {
    match (one, other) {
        (
            Error::Corruption { path: left, offset: at, what, .. },
            Error::Corruption { path: right, offset, what: found, .. },
        ) => left == right && at == offset && (what == found || *at > 0),
        _ => false,
    }
}
