//! The repair mark: an empty file that exists while a repair or a conversion runs. Its number is below the numbers of
//! all files that these create. One thread.
//!
//! Invariants:
//! 1. The mark is durable before the first of these files is created.
//! 2. While the mark exists, all files that were read still exist: whoever removes the mark does so before removing the
//!    first of them. So a branch file with a higher number that no manifest names holds no data of its own.

use super::store_files::{StoreFile, repair_mark_name};
use crate::io::{OpenMode, Storage};
use crate::util::{FileNumber, FileNumbers, Result};

fn marks(storage: &dyn Storage) -> Result<Vec<FileNumber>> {
    let parsed = storage.list()?.into_iter().filter_map(|name| StoreFile::parse(&name));
    Ok(parsed.filter_map(|file| if let StoreFile::RepairMark(number) = file { Some(number) } else { None }).collect())
}

/// The mark of an interrupted repair or conversion, if there is one.
pub(crate) fn find(storage: &dyn Storage) -> Result<Option<FileNumber>> {
    Ok(marks(storage)?.into_iter().min())
}

/// Creates the mark.
pub(crate) fn create(storage: &dyn Storage, numbers: &FileNumbers) -> Result<()> {
    storage.open(&repair_mark_name(numbers.take()), OpenMode::Create)?.sync()?;
    storage.sync_directory()
}

/// Removes the mark. Requires that the new manifest is installed, and that no file that was read was
/// removed yet.
pub(crate) fn remove(storage: &dyn Storage) -> Result<()> {
    let marks = marks(storage)?;
    if marks.is_empty() {
        return Ok(());
    }
    for mark in marks {
        storage.remove(&repair_mark_name(mark))?;
    }
    storage.sync_directory()
}
