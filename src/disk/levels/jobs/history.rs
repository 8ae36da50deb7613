//! What the levels remember of their jobs while the store is open: which found no disk space, and under which snapshots
//! files were written. Pickers consult it. Any thread.

use crate::disk::levels::plan::compaction::Compaction;
use crate::disk::levels::state::version::{Level, LevelsVersion};
use crate::disk::runs::garbage::Garbage;
use crate::disk::runs::jobs::space_backoff::{Failed, FullDiskFailures, SpaceBackoff};
use crate::util::FileNumber;
use std::collections::BTreeSet;

/// What names a job on a full disk: the first of its files, and how many there are. *Otherwise,* with the first file
/// alone: after a merge of many runs no merge of fewer was tried.
pub type Place = (FileNumber, usize);

/// See the module. A job that finds no space makes all work of its level wait. On a full disk only that work is left out.
#[derive(Debug, Default)]
pub struct History {
    pub failures: FullDiskFailures<Place>,
    pub backoff: SpaceBackoff<usize>,
    pub garbage: Garbage,
}

impl History {
    /// Whether the work does not wait for disk space. Moves need none.
    pub fn allows(&self, compaction: &Compaction) -> bool {
        compaction.is_move() || !self.backoff.waits(compaction.level())
    }

    /// Whether the work failed on the full disk.
    pub fn has_failed(&self, compaction: &Compaction) -> bool {
        self.failures.of(place(compaction)).is_some()
    }

    /// The work found no space while the disk was known to be full.
    pub fn note_failed_on_full_disk(&self, compaction: &Compaction) {
        self.failures.note(place(compaction), Failed::Whole);
    }

    /// The work found no space, and the disk was not known to be full.
    pub fn note_found_no_space(&self, compaction: &Compaction) {
        self.backoff.note(compaction.level(), compaction.load().bytes);
    }

    /// Removes branches that no run of the version has.
    pub fn forget_unreferenced(&self, version: &LevelsVersion) {
        let branches = version.levels().iter().flat_map(Level::branches);
        let files: BTreeSet<FileNumber> = branches.map(|branch| branch.meta().file).collect();
        self.garbage.retain_files(&files);
    }
}

/// A compaction has at least one file.
fn place(compaction: &Compaction) -> Place {
    (compaction.inputs[0].parts[0].meta().file, compaction.parts().count())
}
