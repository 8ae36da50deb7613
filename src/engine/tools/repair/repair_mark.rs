//! The mark of a repair under way: an empty file whose number is below those of all files that the repair makes. One thread.
//!
//! Invariants:
//! 1. It is durable before the first new file is made.
//! 2. While it is there, everything that the repair read is still there: it goes before the first such file does, here and in
//!    opening (`open`). So a branch file with a higher number that no manifest names holds nothing of its own.

use super::other_stores::Foreign;
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

/// Says that a repair is under way.
pub(crate) fn begin(storage: &dyn Storage, numbers: &FileNumbers) -> Result<()> {
    storage.open(&repair_mark_name(numbers.take()), OpenMode::Create)?.sync()?;
    storage.sync_directory()
}

/// Says that it is over: the new manifest has its name. To be called before anything else is removed.
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

/// Removes what a repair made that was cut short. Returns whether there was one; its mark stays and serves for the next.
pub(crate) fn discard(
    storage: &dyn Storage,
    directory: &mut Directory,
    state: Option<&ManifestState>,
    foreign: &Foreign,
) -> Result<bool> {
    let Some(mark) = marks(storage)?.into_iter().min() else { return Ok(false) };
    let is_named = |file: &FileNumber| state.is_some_and(|state| state.branches.contains_key(file));
    let stays = |file: &FileNumber| *file < mark || is_named(file) || foreign.has(&branch::file_name(*file));
    let (stay, go) = std::mem::take(&mut directory.branches).into_iter().partition(stays);
    directory.branches = stay;
    let go: Vec<FileNumber> = go;
    for file in go {
        storage.remove(&branch::file_name(file))?;
    }
    Ok(true)
}
