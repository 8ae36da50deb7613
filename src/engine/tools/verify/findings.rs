//! What a check found, and how far it is. Plain data.

use crate::branch::BranchReport;
use crate::engine::types::stats::VerifyReport;
use crate::util::{Error, Result};

/// Damages that are listed; more are counted.
const LISTED_MAX: usize = 1000;

/// How much a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The manifest and the tree's structure; of every file its existence, length, header or footer, and that these agree
    /// with the manifest. No page of data.
    Quick,
    /// Everything: all of `Quick`, every page, value and log record with its checksum, and that the parts of each file agree.
    #[default]
    Deep,
}

/// What a check of a store found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// What was gone through.
    pub checked: VerifyReport,
    /// Everything that is wrong, each with its file and, where there is one, the place in it; at most the first 1000.
    pub damage: Vec<Error>,
    /// Damages beyond those listed.
    pub unlisted: u64,
    /// Files of this store that nothing refers to: branch files and maplets that its manifest does not name, and, after a deep check that
    /// found it sound, value files that no branch and no record names. Left by work that was cut short, or by a manifest that is not the
    /// right one. No damage, but the next opening for writing removes them. Of a store that is open they are not told.
    pub unnamed: Vec<String>,
    /// Files of other stores. No damage; openings leave them alone.
    pub foreign: Vec<String>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// How far a check or a repair is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckProgress<'a> {
    /// The file that comes next.
    pub file: &'a str,
    /// Bytes done.
    pub done: u64,
    /// Bytes to be done; zero where that is not known.
    pub total: u64,
}

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
        (self.progress)(CheckProgress { file, done: self.done, total: self.total });
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
