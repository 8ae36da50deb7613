//! The change files of a store that another process may have open for writing. Any thread.
//!
//! An ingest counts as soon as something was copied at or above its number: its writer copies nothing in between (rule J7). So nothing
//! here needs to know which ingests took effect.

use super::kept_files::{ChangeStats, Kept, KeptFile, KeptFiles, KeptIngest};
use super::source::ChangeSource;
use crate::changes::{ChangeReader, parse_change_file_name};
use crate::engine::read::read_path::ReadPath;
use crate::format::change_file::ChangeFileHeader;
use crate::io::Storage;
use crate::util::sync::{Arc, Mutex, MutexGuard};
use crate::util::{DatabaseId, Error, Result, SequenceNumber};
use std::io::ErrorKind;

/// See the module.
pub(crate) struct ForeignChanges {
    read: Arc<ReadPath>,
    kept: Mutex<Kept>,
}

impl ForeignChanges {
    pub(crate) fn new(read: &Arc<ReadPath>) -> Result<Self> {
        let changes = Self { read: Arc::clone(read), kept: Mutex::default() };
        changes.look_again()?;
        Ok(changes)
    }

    pub(crate) fn stats(&self) -> ChangeStats {
        self.kept.lock().stats()
    }

    fn files(&self) -> Result<KeptFiles> {
        let mut files = KeptFiles::default();
        self.visit(&mut |header, bytes| {
            let &ChangeFileHeader { file, after, date, .. } = header;
            if header.ingest.is_none() {
                files.push(KeptFile { file, after, date, bytes });
            }
        })?;
        // Afterwards, so that each ingest has its number that comes before the end of what is there. Those that have none yet
        // are behind everything.
        self.visit(&mut |header, bytes| {
            if let Some(number) = header.ingest {
                files.push_ingest(KeptIngest { file: header.file, number, bytes });
            }
        })?;
        Ok(files)
    }

    /// Visits the files that there are, oldest first, each with its length.
    fn visit(&self, visit: &mut dyn FnMut(&ChangeFileHeader, u64)) -> Result<()> {
        let names = self.storage().list()?;
        let mut numbers: Vec<_> = names.iter().filter_map(|name| parse_change_file_name(name)).collect();
        numbers.sort_unstable();
        for number in numbers {
            match ChangeReader::open(self.storage(), self.database(), number) {
                Ok((reader, _)) => visit(reader.header(), reader.length()?),
                // It is being made, or was removed just now. If it is damaged, a follower finds the gap.
                Err(error) if error.is_damage() || is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ChangeSource for ForeignChanges {
    fn check_open(&self) -> Result<()> {
        self.read.check_open()
    }

    fn storage(&self) -> &dyn Storage {
        &*self.read.storage
    }

    fn database(&self) -> DatabaseId {
        self.read.branches.database
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn look_again(&self) -> Result<()> {
        let files = self.files()?;
        let mut kept = self.kept.lock();
        kept.copied = files.oldest();
        kept.files = files;
        Ok(())
    }

    fn is_foreign(&self) -> bool {
        true
    }

    /// What the files have. A follower has its position from them, whatever the writer has written beyond.
    fn last(&self, since: SequenceNumber) -> Result<SequenceNumber> {
        let Some(newest) = self.kept.lock().files.newest() else { return Ok(SequenceNumber::ZERO) };
        if since <= newest.after {
            return Ok(newest.after);
        }
        let (mut reader, _) = match ChangeReader::open(self.storage(), self.database(), newest.file) {
            Ok(opened) => opened,
            // It was removed just now, or is damaged. The follower finds what that means.
            Err(error) if error.is_damage() || is_missing(&error) => return Ok(since),
            Err(error) => return Err(error),
        };
        let end = reader.length()?;
        while reader.through() < since {
            match reader.next_frame(end) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Its last part is being written.
                Err(error) if error.is_damage() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(reader.through())
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}
