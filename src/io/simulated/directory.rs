//! The names of a simulated directory, current and durable. Plain data under the disk's lock.
//!
//! Invariants:
//! 1. `current` is `durable` with all of `journal` applied.
//! 2. A rename is one operation: a cut never leaves both names, or neither, of a file that had one.
//!
//! A cut applies some of the journal: none, all, a prefix (as ext4 does), or any subset (stricter than ext4, but POSIX
//! promises no order).

use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};

/// Identifies a file's bytes, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

#[derive(Clone, Debug)]
enum Change {
    Create(String, FileId),
    Remove(String),
    Rename(String, String),
}

/// The directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) exists: bool,
    pub(super) current: BTreeMap<String, FileId>,
    pub(super) durable: BTreeMap<String, FileId>,
    journal: Vec<Change>,
}

impl Directory {
    pub(super) fn new() -> Self {
        Self { exists: true, ..Self::missing() }
    }

    /// One that does not exist yet.
    pub(super) fn missing() -> Self {
        Self { exists: false, current: BTreeMap::new(), durable: BTreeMap::new(), journal: Vec::new() }
    }

    pub(super) fn check_exists(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    pub(super) fn find(&self, name: &str) -> Result<FileId> {
        self.current.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str, id: FileId) -> Result<()> {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?} is not a file name");
        self.check_exists()?;
        if self.current.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.change(Change::Create(name.to_owned(), id));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<()> {
        self.find(name)?;
        self.change(Change::Remove(name.to_owned()));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        assert!(!to.is_empty() && !to.contains('/'), "{to:?} is not a file name");
        self.find(from)?;
        self.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn remove_directory(&mut self) -> Result<()> {
        self.check_exists()?;
        if !self.current.is_empty() {
            return Err(Error::from(ErrorKind::DirectoryNotEmpty));
        }
        *self = Self::missing();
        Ok(())
    }

    /// Everything that was done becomes durable.
    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.current);
        self.journal.clear();
    }

    /// A sync that fails, or a commit by the kernel itself: a prefix of the journal becomes durable.
    pub(super) fn sync_in_part(&mut self, random: &mut Random) {
        let kept = random.below(self.journal.len() as u64 + 1) as usize;
        for change in self.journal.drain(..kept) {
            apply(&mut self.durable, change);
        }
    }

    /// What a power cut leaves.
    pub(super) fn cut(&mut self, random: &mut Random) {
        let length = self.journal.len();
        let prefix = random.below(length as u64 + 1) as usize;
        let percent = [0, 100, 50][random.below(3) as usize];
        let by_prefix = random.chance(50);
        for (at, change) in std::mem::take(&mut self.journal).into_iter().enumerate() {
            let done = if by_prefix { at < prefix } else { random.chance(percent) };
            if done {
                apply(&mut self.durable, change);
            }
        }
        self.current.clone_from(&self.durable);
    }

    /// The files to which any name, now or after a cut, may lead.
    pub(super) fn reachable(&self) -> BTreeSet<FileId> {
        let made = self.journal.iter().filter_map(|change| match change {
            Change::Create(_, made) => Some(made),
            Change::Remove(_) | Change::Rename(..) => None,
        });
        self.current.values().chain(self.durable.values()).chain(made).copied().collect()
    }

    /// Whether all of it is durable.
    pub(super) fn is_settled(&self) -> bool {
        self.journal.is_empty()
    }

    fn change(&mut self, change: Change) {
        self.journal.push(change.clone());
        apply(&mut self.current, change);
    }
}

/// A change whose precondition was lost with an earlier change does nothing. So a file that was created under a name
/// whose earlier file should have been renamed does not replace that one.
fn apply(names: &mut BTreeMap<String, FileId>, change: Change) {
    match change {
        Change::Create(name, id) => {
            names.entry(name).or_insert(id);
        }
        Change::Remove(name) => {
            names.remove(&name);
        }
        Change::Rename(from, to) => {
            if let Some(id) = names.remove(&from) {
                names.insert(to, id);
            }
        }
    }
}
