//! The repair mark: an empty file that exists while a repair runs. Its number is below the numbers of all files that the repair
//! creates. One thread.
//!
//! Invariants:
//! 1. The mark is durable before the repair creates its first file.
//! 2. While the mark exists, all files that the repair read still exist: the mark is removed before the first of them, here and by an
//!    opening. So a branch file with a higher number that no manifest names holds no data of its own.

use super::other_stores::OtherStores;
use crate::branch;
use crate::engine::directory::listing::Directory;
use crate::engine::directory::store_files::{StoreFile, repair_mark_name};
use crate::io::{OpenMode, Storage};
use crate::manifest::ManifestState;
use crate::util::{FileNumber, FileNumbers, Result};

fn marks(storage: &dyn Storage) -> Result<Vec<FileNumber>> {
    let parsed = storage.list()?.into_iter().filter_map(|name| StoreFile::parse(&name));
    Ok(parsed.filter_map(|file| if let StoreFile::RepairMark(number) = file { Some(number) } else { None }).collect())
}

/// Creates the mark.
pub(crate) fn begin(storage: &dyn Storage, numbers: &FileNumbers) -> Result<()> {
    storage.open(&repair_mark_name(numbers.take()), OpenMode::Create)?.sync()?;
    storage.sync_directory()
}

/// Removes the mark once the new manifest is installed. Must be called before any other file is removed.
pub(crate) fn end(storage: &dyn Storage) -> Result<()> {
    let marks = marks(storage)?;
    if marks.is_empty() {
        return Ok(());
    }
    for mark in marks {
        storage.remove(&repair_mark_name(mark))?;
    }
    storage.sync_directory()
}

/// Removes the files that an interrupted repair created. Returns whether there was one. Its mark stays and is used again.
pub(crate) fn discard_unfinished(
    storage: &dyn Storage,
    directory: &mut Directory,
    state: Option<&ManifestState>,
    other_stores: &OtherStores,
) -> Result<bool> {
    let Some(mark) = marks(storage)?.into_iter().min() else { return Ok(false) };
    let is_named = |file: &FileNumber| state.is_some_and(|state| state.branches.contains_key(file));
    let stays = |file: &FileNumber| *file < mark || is_named(file) || other_stores.has(&branch::file_name(*file));
    let (kept, unfinished): (Vec<_>, Vec<_>) = std::mem::take(&mut directory.branches).into_iter().partition(stays);
    directory.branches = kept;
    for file in unfinished {
        storage.remove(&branch::file_name(file))?;
    }
    Ok(true)
}
