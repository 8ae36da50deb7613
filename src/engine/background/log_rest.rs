//! Makes the log small after a while without writes: a store that is only read, or not used at all, keeps no large
//! segments, shadows and spare files, and no descriptor of the manifest. The thread that finishes segments, or a thread
//! that steps.

use super::background::Background;
use crate::engine::directory::locks;
use crate::util::{Error, Result};

/// A quiet store keeps this much log, and this part of its tree's size besides.
const LOG_BYTES_FREE: u64 = 512 << 10;
/// See `LOG_BYTES_FREE`.
const LOG_PART: u64 = 40;

impl Background {
    /// Makes the log small if it is time to. Returns whether it did something.
    pub(super) fn rest_log_when_quiet(&self) -> bool {
        let (last, incorporated) = (self.read.sequencer.last_relaxed(), self.generations.incorporated());
        if self.health.check().is_err() || !self.quiet.is_over(last, incorporated, self.scheduler.clock.now()) {
            return false;
        }
        let rested = self.rest_log();
        self.publisher.release_manifest_file();
        match rested {
            // The next quiet time tries again.
            Err(error) if error.is_disk_full() => false,
            Err(Error::Closed) => false,
            Err(error) => {
                self.log.poison(&error);
                false
            }
            Ok(has_rested) => has_rested,
        }
    }

    fn rest_log(&self) -> Result<bool> {
        let has_rested = self.log.log.rest(&self.read.sequencer)?;
        if self.has_much_log()
            && !self.health.is_full()
            && let Some(switching) = self.generations.try_lock()
            && !self.read.view.load().newest().memtable.is_empty()
        {
            self.generations.switch(&switching)?;
        }
        Ok(self.trim_log()? || has_rested)
    }

    /// Whether the log takes so much space beside the tree that a quiet or closing store should incorporate memory.
    pub(crate) fn has_much_log(&self) -> bool {
        self.log.log.bytes() > LOG_BYTES_FREE + self.read.view.load().disk.bytes() / LOG_PART
    }

    /// Removes the segments of which nothing is needed, and spare files. Returns whether there were any.
    pub(crate) fn trim_log(&self) -> Result<bool> {
        let log = &self.log.log;
        let unneeded = log.recyclable(self.generations.incorporated().min(self.changes.copied()));
        if self.publisher.note_log_end(&unneeded)?
            && let Some(_alone) = locks::to_recycle(&*self.read.storage)?
        {
            // If a read-only opener reads the log now, a later call or the next opening removes them.
            log.recycle(&unneeded)?;
            log.drop_spares();
            return Ok(!unneeded.is_empty());
        }
        Ok(false)
    }
}
