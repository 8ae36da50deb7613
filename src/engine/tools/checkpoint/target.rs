//! The directory of a checkpoint, or of a restored backup, while it is made. One thread.
//!
//! Invariants:
//! 1. The directory was empty, and is locked as by a writer, so everything in it belongs to this checkpoint.
//! 2. While it has no manifest, it has the mark, so nothing takes it for a store or for what is left of one.

use crate::engine::directory::locks::{self, WriterLocks};
use crate::engine::directory::store_files::{CHECKPOINT_MARK, LOCK, StoreFile};
use crate::format::manifest_edit::LogRecovered;
use crate::io::{OpenMode, Storage};
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{Error, Result, SequenceNumber};

/// See the module.
pub(in crate::engine::tools) struct Target {
    storage: Arc<dyn Storage>,
    locks: WriterLocks,
    /// Whether the directory was created for this checkpoint.
    is_new: bool,
}

impl Target {
    /// Creates the directory if it is missing, locks it and marks it.
    pub(in crate::engine::tools) fn create(storage: Arc<dyn Storage>) -> Result<Self> {
        let is_new = !storage.directory_exists()?;
        if !is_new {
            require_empty(&*storage, |_| false)?;
        }
        storage.create_directory()?;
        let locks = locks::for_writing(&*storage, &*storage.clock())?;
        let target = Self { storage, locks, is_new };
        match target.mark() {
            Ok(()) => Ok(target),
            Err((error, is_ours)) => {
                if is_ours {
                    target.discard();
                }
                Err(error)
            }
        }
    }

    /// Marks the directory. An error says whether all that is in it belongs to this checkpoint.
    fn mark(&self) -> Result<(), (Error, bool)> {
        // Somebody else may have created a file there before the lock was taken.
        require_empty(&*self.storage, |name| name == LOCK).map_err(|error| (error, false))?;
        let made = self.storage.open(CHECKPOINT_MARK, OpenMode::Create).and_then(|mark| mark.sync());
        made.and_then(|()| self.storage.sync_directory()).map_err(|error| (error, true))
    }

    pub(in crate::engine::tools) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Makes a store of the directory: makes the names of all files durable, and then gives it its manifest.
    pub(in crate::engine::tools) fn publish(&self, state: &ManifestState) -> Result<()> {
        self.storage.sync_directory()?;
        let mut state = state.clone();
        planted!(leave_numbers(&mut state, self.storage.random()), Bug::CopyReusesNumbers => ());
        manifest::replace(&*self.storage, &state)
    }

    /// Removes the mark. It means nothing beside a manifest; what stays of it is removed by the next opening.
    pub(in crate::engine::tools) fn finish(self) {
        let removed = self.storage.remove(CHECKPOINT_MARK);
        let _ = removed.and_then(|()| self.storage.sync_directory());
    }

    /// Removes everything, as far as that is possible, the mark last.
    pub(in crate::engine::tools) fn discard(self) {
        let storage = &*self.storage;
        let is_published = storage.remove(MANIFEST_NAME).is_ok();
        if is_published && storage.sync_directory().is_err() {
            return;
        }
        let mut names = storage.list().unwrap_or_default();
        names.retain(|name| StoreFile::parse(name).is_some() && name != LOCK);
        names.sort_by_key(|name| name == CHECKPOINT_MARK);
        if names.iter().all(|name| storage.remove(name).is_ok()) && storage.remove(LOCK).is_ok() {
            let _ = storage.sync_directory();
            drop(self.locks);
            if self.is_new {
                // Another process may have put a file there.
                let _ = storage.remove_directory();
            }
        }
    }
}

/// Numbers that a copy leaves out, at least: more than a store takes in a week.
const NUMBERS_LEFT_OUT: u64 = 1 << 40;

/// Lets the copy take other numbers than the store that it is made of has taken since, and than other copies take: its next number is
/// a random one far ahead (rule P8).
fn leave_numbers(state: &mut ManifestState, random: u64) {
    let last = state.recovered.last();
    let epoch = last.map_or(0, |last| last.epoch) + 1;
    let free = last.map_or(SequenceNumber::ZERO, |last| last.next_number).max(state.incorporated.next());
    let next_number = SequenceNumber(free.0 + NUMBERS_LEFT_OUT + random % NUMBERS_LEFT_OUT);
    // After copies of copies of copies, some 40,000 times, there are none left for this.
    if next_number < SequenceNumber::MAX {
        state.recovered.push(LogRecovered { epoch, cut: state.incorporated, skipped: Vec::new(), next_number });
    }
}

/// An error if the directory has a file other than those for which `is_known` returns true.
fn require_empty(storage: &dyn Storage, is_known: impl Fn(&str) -> bool) -> Result<()> {
    match storage.list()?.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let path = storage.path().display();
            let text =
                format!("{path} is not empty, it has {name:?}; a second store needs a new or an empty directory");
            Err(Error::InvalidArgument(text))
        }
    }
}
