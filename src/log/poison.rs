//! The mark that a failed sync leaves, and the reason why a log takes no more writes. Any thread.

use super::basics::names::POISON;
use crate::format::log_segment::{decode_poison, encode_poison};
use crate::io::{OpenMode, Storage};
use crate::util::Result;

/// Most bytes of a `POISON` file that are read.
const POISON_BYTES_MAX: u64 = 64 << 10;

/// Why the log takes no more writes.
#[derive(Clone, Debug)]
pub enum Halt {
    /// A failure.
    Poisoned(String),
    /// The store was closed.
    Closed,
}

/// Leaves the mark that a sync of this log epoch has failed.
pub(super) fn leave_poison(storage: &dyn Storage, epoch: u64, reason: &str) -> Result<()> {
    let _ = storage.remove(POISON);
    let file = storage.open(POISON, OpenMode::Create)?;
    file.write_all_at(&encode_poison(epoch, reason), 0)?;
    file.sync()?;
    storage.sync_directory()
}

/// The poisoned log epoch. `None` if there is no mark, `Some(None)` if the mark is damaged, so that it may mean any
/// epoch.
pub fn read_poison(storage: &dyn Storage) -> Result<Option<Option<u64>>> {
    if !storage.list()?.iter().any(|name| name == POISON) {
        return Ok(None);
    }
    let file = storage.open(POISON, OpenMode::Read)?;
    let length = file.length()?.min(POISON_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(decode_poison(&bytes)))
}

/// Removes the mark of an earlier log epoch, which has been recovered.
pub fn remove_poison(storage: &dyn Storage) -> Result<()> {
    if storage.list()?.iter().any(|name| name == POISON) {
        storage.remove(POISON)?;
    }
    Ok(())
}
