//! What stops the log: a failure of unknown effect, or closing. Any thread.
//!
//! A failed sync may have dropped any page that was not durable, and the next sync would say nothing of it. So the
//! log takes no more writes, and a file `POISON` tells the next recovery not to trust what is in the page cache,
//! although the machine's life has not changed (`protocol.md`, The log).

use super::Log;
use super::files::POISON;
use super::maintenance::Due;
use crate::format::log_segment::{decode_poison, encode_poison};
use crate::io::{OpenMode, Storage};
use crate::util::planted::planted;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};

/// Longest `POISON` file that is read.
const POISON_BYTES_MAX: u64 = 64 << 10;

/// Why the log takes no more writes.
#[derive(Clone, Debug)]
pub enum Halt {
    /// A failure.
    Poisoned(String),
    /// The store was closed.
    Closed,
}

impl Log {
    /// An error where the log takes no more writes.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.halted.load(Ordering::Relaxed) { Err(self.halt_error()) } else { Ok(()) }
    }

    #[cold]
    fn halt_error(&self) -> Error {
        match &*self.halt.lock() {
            Some(Halt::Poisoned(reason)) => Error::ReadOnly { reason: reason.clone() },
            _ => Error::Closed,
        }
    }

    /// Stops the log for good and leaves the poison mark, as well as the disk still lets it. The first reason stays.
    pub fn poison(&self, reason: &str) {
        if self.stop(Halt::Poisoned(reason.to_string())) {
            // The disk has failed already; nobody is left to whom another failure would be news.
            let _ = leave_poison(&*self.storage, self.identity.epoch, reason);
        }
    }

    /// Stops the log for good without the poison mark: what was written before is still in the kernel's hands, so the next
    /// opening in this life may rely on it.
    pub fn halt(&self, reason: &str) {
        self.stop(Halt::Poisoned(reason.to_string()));
    }

    /// Whether the log was poisoned.
    #[cfg(test)]
    pub fn is_poisoned(&self) -> bool {
        matches!(&*self.halt.lock(), Some(Halt::Poisoned(_)))
    }

    /// Wakes everybody who waits, to find the log stopped. Returns whether this call stopped it.
    pub(super) fn stop(&self, why: Halt) -> bool {
        planted!(Bug::FailureIgnored => {
            if matches!(why, Halt::Poisoned(_)) {
                return false;
            }
        });
        {
            let mut halt = self.halt.lock();
            if halt.is_some() {
                return false;
            }
            *halt = Some(why);
            self.halted.store(true, Ordering::Release);
        }
        drop(self.sync.lock());
        self.sync_ended.notify_all();
        self.state.lock().due = Due::ALL;
        self.next_changed.notify_all();
        self.work.notify_all();
        true
    }
}

/// Leaves the mark that a sync of this generation's log has failed.
pub(super) fn leave_poison(storage: &dyn Storage, epoch: u64, reason: &str) -> Result<()> {
    let _ = storage.remove(POISON);
    let file = storage.open(POISON, OpenMode::Create)?;
    file.write_all_at(&encode_poison(epoch, reason), 0)?;
    file.sync()?;
    storage.sync_directory()
}

/// The generation that is poisoned: `None` where there is no mark, `Some(None)` where the mark is damaged, so that it
/// may mean any.
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

/// Removes the mark of a generation before, which is recovered by now.
pub fn forget_poison(storage: &dyn Storage) -> Result<()> {
    if storage.list()?.iter().any(|name| name == POISON) {
        storage.remove(POISON)?;
    }
    Ok(())
}
