//! Which store each file belongs to, by what its own header or footer says. One thread.
//!
//! Invariants:
//! 1. An id counts only where the checksum of its page holds. A file without such a page has no owner that anybody could know.

use super::listing::Directory;
use super::store_files::StoreFile;
use crate::branch;
use crate::format::branch_footer;
use crate::format::page::PAGE_BYTES;
use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::log::salvage::FoundSegment;
use crate::util::{DatabaseId, Result};
use crate::value;
use std::collections::BTreeMap;

/// The files that say whose they are, by name.
#[derive(Debug, Default)]
pub(crate) struct Owners(BTreeMap<String, DatabaseId>);

impl Owners {
    /// Asks the log segments and all branch and value files.
    pub(crate) fn look(storage: &dyn Storage, directory: &Directory, segments: &[FoundSegment]) -> Result<Self> {
        let mut owners = Self::default();
        for segment in segments {
            owners.add(segment.name(), segment.stated.map(|header| header.database));
        }
        let branches = directory.branches.iter().map(|file| (branch::file_name(*file), StoreFile::Branch(*file)));
        let values = directory.values.iter().map(|file| (value::value_file_name(*file), StoreFile::Value(*file)));
        for (name, file) in branches.chain(values) {
            let owner = owner_of(storage, &name, file)?;
            owners.add(name, owner);
        }
        Ok(owners)
    }

    pub(crate) fn add(&mut self, name: String, owner: Option<DatabaseId>) {
        self.0.extend(owner.map(|owner| (name, owner)));
    }

    /// Whose file this is, where it says so.
    pub(crate) fn of(&self, name: &str) -> Option<DatabaseId> {
        self.0.get(name).copied()
    }

    /// The id that most files have; of two that as many have, the one that `preferred` has.
    pub(crate) fn majority(&self, preferred: &str) -> Option<DatabaseId> {
        let mut votes: BTreeMap<DatabaseId, u64> = BTreeMap::new();
        self.0.values().for_each(|database| *votes.entry(*database).or_default() += 1);
        let preferred = self.of(preferred);
        let most = votes.into_iter().max_by_key(|(database, count)| (*count, Some(*database) == preferred));
        most.map(|(database, _)| database)
    }

    /// The files of other stores than this one, with their ids.
    pub(crate) fn of_other_stores(&self, database: DatabaseId) -> impl Iterator<Item = (&str, DatabaseId)> {
        self.0.iter().filter(move |(_, owner)| **owner != database).map(|(name, owner)| (name.as_str(), *owner))
    }
}

/// How a file of another store is told of.
pub(crate) fn describe(owner: DatabaseId) -> String {
    format!("belongs to another store (id {owner})")
}

/// Whose branch or value file this is; `None` where it does not say.
pub(crate) fn owner_of(storage: &dyn Storage, name: &str, file: StoreFile) -> Result<Option<DatabaseId>> {
    let is_branch = matches!(file, StoreFile::Branch(_));
    let Some((page, at)) = page_of(storage, name, is_branch)? else { return Ok(None) };
    Ok(match file {
        StoreFile::Branch(_) => branch_footer::claimed_owner(&page, at, storage.path()).map(|owner| owner.database),
        StoreFile::Value(number) => value::claimed_owner(&page, number),
        _ => None,
    })
}

/// Whether this log segment, branch or value file is another store's, or nobody can tell now because it cannot be opened.
pub(crate) fn may_belong_to_another_store(
    storage: &dyn Storage,
    name: &str,
    file: StoreFile,
    database: DatabaseId,
) -> bool {
    let owner = match file {
        StoreFile::Log(number) => {
            FoundSegment::open(storage, number).map(|segment| segment.stated.map(|header| header.database))
        }
        StoreFile::Branch(_) | StoreFile::Value(_) => owner_of(storage, name, file),
        _ => Ok(None),
    };
    owner.map_or(true, |owner| owner.is_some_and(|owner| owner != database))
}

/// The first or the last page of a file and its offset; `None` where it cannot be read.
fn page_of(storage: &dyn Storage, name: &str, last: bool) -> Result<Option<(AlignedBuffer, u64)>> {
    let file = storage.open(name, OpenMode::ReadDirect)?;
    let pages = file.length()? / PAGE_BYTES as u64;
    if pages == 0 {
        return Ok(None);
    }
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    let at = if last { (pages - 1) * PAGE_BYTES as u64 } else { 0 };
    match file.read_exact_at(&mut page, at) {
        Ok(()) => Ok(Some((page, at))),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
