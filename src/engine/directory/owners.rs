//! Which store each file belongs to, according to the file's own header or footer. One thread.
//!
//! Invariant: an id counts only if the checksum of its page is valid. Without such a page the owner of a file is
//! unknown.

use super::listing::Directory;
use super::store_files::StoreFile;
use crate::branch;
use crate::changes;
use crate::format::branch_footer;
use crate::format::page::PAGE_BYTES;
use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::log::salvage::FoundSegment;
use crate::util::{DatabaseId, Result};
use crate::value;
use std::collections::BTreeMap;

/// The files that state their store, by name.
#[derive(Debug, Default)]
pub(crate) struct Owners(BTreeMap<String, DatabaseId>);

impl Owners {
    /// Reads the owners of the log segments and of all branch and value files.
    pub(crate) fn read(storage: &dyn Storage, directory: &Directory, segments: &[FoundSegment]) -> Result<Self> {
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

    /// The store that a file belongs to, if known.
    pub(crate) fn of(&self, name: &str) -> Option<DatabaseId> {
        self.0.get(name).copied()
    }

    /// The id that most files have. If several ids are equally frequent, the id of the file `preferred` wins.
    pub(crate) fn majority(&self, preferred: &str) -> Option<DatabaseId> {
        let mut votes: BTreeMap<DatabaseId, u64> = BTreeMap::new();
        self.0.values().for_each(|database| *votes.entry(*database).or_default() += 1);
        let preferred = self.of(preferred);
        let most = votes.into_iter().max_by_key(|(database, count)| (*count, Some(*database) == preferred));
        most.map(|(database, _)| database)
    }

    /// The files that belong to other stores than `database`, with their owners.
    pub(crate) fn of_other_stores(&self, database: DatabaseId) -> impl Iterator<Item = (&str, DatabaseId)> {
        self.0.iter().filter(move |(_, owner)| **owner != database).map(|(name, owner)| (name.as_str(), *owner))
    }
}

/// Describes a file of another store, for reports.
pub(crate) fn describe(owner: DatabaseId) -> String {
    format!("belongs to another store (id {owner})")
}

/// The store that a branch or value file belongs to; `None` if unknown.
pub(crate) fn owner_of(storage: &dyn Storage, name: &str, file: StoreFile) -> Result<Option<DatabaseId>> {
    let is_branch = matches!(file, StoreFile::Branch(_));
    let Some((page, at)) = page_of(storage, name, is_branch)? else { return Ok(None) };
    Ok(match file {
        StoreFile::Branch(_) => branch_footer::claimed_owner(&page, at, storage.path()).map(|owner| owner.database),
        StoreFile::Value(number) => value::claimed_owner(&page, number),
        _ => None,
    })
}

/// Whether a log segment, branch, value or change file belongs to another store. Also true if the file cannot be read now.
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
        StoreFile::Changes(_) => changes::claimed_owner(storage, name),
        _ => Ok(None),
    };
    owner.map_or(true, |owner| owner.is_some_and(|owner| owner != database))
}

/// The first or the last page of a file and its offset; `None` if the file has no whole page or the page is damaged.
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
