//! The end of an ingest: nothing is copied until it has taken effect or failed (`docs/concurrency.md`, J7).

use super::change_log::{ChangeLog, Copying};
use super::kept_files::KeptIngest;
use super::source::ChangeSource;
use crate::changes::{ChangeWriter, change_file_name};
use crate::util::sync::MutexGuard;
use crate::util::{FileNumber, Result, SequenceNumber};

/// While it lives, nothing is copied.
pub(super) struct Paused<'a> {
    pub(super) changes: &'a ChangeLog,
    pub(super) copying: MutexGuard<'a, Copying>,
}

impl Paused<'_> {
    /// Gives up what is kept: it goes on behind an ingest whose pairs are not there. If a power loss brings files back, the manifest
    /// knows an ingest that they lack (rule J7).
    pub(super) fn lose(&mut self, ingest: SequenceNumber) {
        self.changes.lose(&mut self.copying, ingest, &"the pairs of an ingest could not be kept");
    }

    /// Removes the file of an ingest that has not taken effect, before anything with a greater number is copied.
    pub(super) fn remove(&mut self, file: FileNumber) {
        let removed = self.changes.storage().remove(&change_file_name(file));
        // What cannot be removed could count once there is a later ingest.
        if removed.and_then(|()| self.changes.storage().sync_directory()).is_err() {
            let copied = self.changes.copied();
            self.changes.lose(&mut self.copying, copied, &"the pairs of an ingest could not be removed");
        }
    }

    /// Whether there is a file for what follows an ingest.
    pub(super) fn can_go_on(&self) -> bool {
        self.copying.writer.is_some()
    }

    /// After an ingest has taken effect, whose pairs are in this file. The log is synced through its number.
    pub(super) fn add_ingest(mut self, number: SequenceNumber, file: &ChangeWriter) -> Result<()> {
        let (changes, copying) = (self.changes, &mut self.copying);
        let ingest = KeptIngest { file: file.header().file, number, bytes: file.bytes() };
        // Before anything with a greater number can be read.
        changes.kept.lock().files.push_ingest(ingest);
        let copied = changes.copy_live(copying, SequenceNumber(number.0 - 1));
        let copied = copied.and_then(|()| changes.append_ingest(copying, number));
        // A file of its own for what follows, so that a large ingest may go without it.
        let copied = copied.and_then(|()| changes.begin_file(copying, number));
        let copied = copied.and_then(|()| changes.expire(copying));
        changes.or_lose(copying, number, copied)
    }
}

impl ChangeLog {
    /// Before an ingest takes its number, and before it closes the gate for snapshots: until it has taken effect, nothing is copied
    /// (rule J7). `None` if nothing is kept.
    pub(super) fn pause(&self) -> Option<Paused<'_>> {
        let mut copying = self.copying.lock();
        copying.retention?;
        if copying.writer.is_none() {
            // It takes a snapshot. *Otherwise,* later: that would wait for the gate, which the ingest itself has closed.
            let copied = self.copied();
            let begun = self.begin(&mut copying, copied);
            if let Err(error) = begun {
                self.lose(&mut copying, copied, &error);
            }
        }
        Some(Paused { changes: self, copying })
    }
}
