//! The change files that there are, and which of them has the writes after a number. Plain data.

use crate::engine::types::options::ChangeRetention;
use crate::util::{Error, FileNumber, Result, SequenceNumber};
use std::collections::VecDeque;

/// The least that a file takes on the disk.
const BLOCK_BYTES: u64 = 4096;

/// A change file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptFile {
    pub(super) file: FileNumber,
    /// It has the writes after this number, up to where the next one begins.
    pub(super) after: SequenceNumber,
    /// When it was made, milliseconds since 1970.
    pub(super) date: u64,
    /// What may be read of it.
    pub(super) bytes: u64,
}

/// What followers and statistics look at.
#[derive(Default)]
pub(crate) struct Kept {
    pub(super) files: KeptFiles,
    /// Every write up to this one was copied, or is not kept. `None`: nothing is kept.
    pub(super) copied: Option<SequenceNumber>,
    /// How often all files were removed because the stream could not go on.
    pub(super) lost: u64,
}

/// What the statistics have of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeStats {
    pub(crate) bytes: u64,
    pub(crate) oldest: u64,
    pub(crate) lost: u64,
}

impl Kept {
    pub(super) fn stats(&self) -> ChangeStats {
        let oldest = self.files.oldest().unwrap_or_default().0;
        ChangeStats { bytes: self.files.bytes(), oldest, lost: self.lost }
    }

    /// An error if the writes after a number are not kept.
    pub(super) fn check(&self, since: SequenceNumber) -> Result<()> {
        match self.files.oldest().or(self.copied).filter(|oldest| since < *oldest) {
            Some(oldest) => Err(Error::ChangesTooOld { since: since.0, oldest: oldest.0 }),
            None => Ok(()),
        }
    }
}

/// The file with the pairs of an ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptIngest {
    pub(super) file: FileNumber,
    pub(super) number: SequenceNumber,
    pub(super) bytes: u64,
}

/// What comes after a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Next(KeptFile),
    /// It is the newest one.
    None,
    /// It was removed.
    Gone,
}

/// All of them, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptFiles {
    writes: VecDeque<KeptFile>,
    ingests: VecDeque<KeptIngest>,
}

impl KeptFiles {
    pub(super) fn push(&mut self, file: KeptFile) {
        self.writes.push_back(file);
    }

    pub(super) fn push_ingest(&mut self, file: KeptIngest) {
        // Their files may have been begun in another order.
        let at = self.ingests.partition_point(|other| other.number < file.number);
        self.ingests.insert(at, file);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.ingests.is_empty()
    }

    /// The numbers of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = FileNumber> {
        self.writes.iter().map(|file| file.file).chain(self.ingests.iter().map(|file| file.file))
    }

    pub(super) fn get(&self, file: FileNumber) -> Option<&KeptFile> {
        self.writes.iter().find(|kept| kept.file == file)
    }

    /// What comes after a file.
    pub(super) fn following(&self, file: FileNumber) -> Following {
        match self.writes.iter().position(|kept| kept.file == file) {
            None => Following::Gone,
            Some(at) => self.writes.get(at + 1).map_or(Following::None, |next| Following::Next(*next)),
        }
    }

    pub(super) fn newest_mut(&mut self) -> Option<&mut KeptFile> {
        self.writes.back_mut()
    }

    pub(super) fn bytes(&self) -> u64 {
        let writes = self.writes.iter().map(|file| file.bytes);
        // A small file takes a block. *Otherwise,* ingests of a few pairs could leave millions of files.
        writes.chain(self.ingests.iter().map(|file| file.bytes)).map(|bytes| bytes.max(BLOCK_BYTES)).sum()
    }

    /// The number after which the writes are kept.
    pub(super) fn newest(&self) -> Option<KeptFile> {
        self.writes.back().copied()
    }

    pub(super) fn oldest(&self) -> Option<SequenceNumber> {
        self.writes.front().map(|file| file.after)
    }

    /// The file of an ingest.
    pub(super) fn ingest(&self, number: SequenceNumber) -> Option<KeptIngest> {
        self.ingests.iter().find(|file| file.number == number).copied()
    }

    /// The numbers of the ingests after a number, ascending.
    pub(super) fn ingests_after(&self, after: SequenceNumber) -> Vec<SequenceNumber> {
        self.ingests.iter().map(|file| file.number).filter(|number| *number > after).collect()
    }

    /// The file in which the writes after a number begin.
    pub(super) fn of(&self, since: SequenceNumber) -> Option<&KeptFile> {
        self.writes.iter().rev().find(|file| file.after <= since)
    }

    /// Takes off the files that need not be kept. The newest one of writes stays. Returns their numbers.
    pub(super) fn expire(&mut self, retention: &ChangeRetention, date: u64) -> Vec<FileNumber> {
        let mut expired = Vec::new();
        let millis = retention.age.map_or(u64::MAX, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        // All writes of a file are older than the next one.
        while let Some(next) = self.writes.get(1)
            && (self.bytes() > retention.bytes || date.saturating_sub(next.date) > millis)
        {
            let after = next.after;
            expired.extend(self.writes.pop_front().map(|file| file.file));
            expired.extend(self.expire_ingests(after));
        }
        expired
    }

    /// Takes off the ingests in front of the writes that are kept. Returns the numbers of their files.
    pub(super) fn expire_ingests(&mut self, through: SequenceNumber) -> Vec<FileNumber> {
        let mut expired = Vec::new();
        while let Some(file) = self.ingests.pop_front_if(|file| file.number <= through) {
            expired.push(file.file);
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn files(of: &[(u64, u64, u64)]) -> KeptFiles {
        let mut files = KeptFiles::default();
        for (file, (after, date, bytes)) in of.iter().copied().enumerate() {
            files.push(KeptFile { file: FileNumber(file as u64), after: SequenceNumber(after), date, bytes });
        }
        files
    }

    #[test]
    fn a_number_is_in_the_last_file_that_begins_before_it() {
        let files = files(&[(10, 0, 1), (20, 0, 1), (30, 0, 1)]);
        let file_of = |since: u64| files.of(SequenceNumber(since)).map(|file| file.file.0);
        for (since, expected) in [(9, None), (10, Some(0)), (19, Some(0)), (20, Some(1)), (30, Some(2)), (99, Some(2))]
        {
            assert_eq!(file_of(since), expected, "since {since}");
        }
    }

    #[test]
    fn files_expire_by_bytes_and_by_age_and_the_newest_stays() {
        let all = [(10, 1_000, 50_000), (20, 2_000, 50_000), (30, 3_000, 50_000)];
        let left = |bytes: u64, age: Option<u64>, date: u64| {
            let mut files = files(&all);
            let retention = ChangeRetention::new(bytes).age(age.map(Duration::from_millis));
            let expired = files.expire(&retention, date);
            assert_eq!(expired.len() + files.files().count(), all.len());
            files.files().map(|file| file.0).collect::<Vec<_>>()
        };
        assert_eq!(left(150_000, None, 9_000), [0, 1, 2]);
        assert_eq!(left(149_999, None, 9_000), [1, 2]);
        assert_eq!(left(1, None, 9_000), [2]);
        // The writes of the first file are at most as old as the second one.
        assert_eq!(left(150_000, Some(1_000), 3_000), [0, 1, 2]);
        assert_eq!(left(150_000, Some(1_000), 3_001), [1, 2]);
        assert_eq!(left(150_000, Some(1_000), 9_000), [2]);
    }

    #[test]
    fn ingests_go_with_the_writes_before_them() {
        let mut files = files(&[(10, 0, 50_000), (20, 0, 50_000), (30, 0, 50_000)]);
        for (file, number) in [(7, 15), (10, 40), (8, 20), (9, 25)] {
            files.push_ingest(KeptIngest { file: FileNumber(file), number: SequenceNumber(number), bytes: 10_000 });
        }
        let after = |files: &KeptFiles, after: u64| {
            files.ingests_after(SequenceNumber(after)).into_iter().map(|number| number.0).collect::<Vec<_>>()
        };
        assert_eq!((after(&files, 10), after(&files, 20)), (vec![15, 20, 25, 40], vec![25, 40]));
        assert_eq!(files.ingest(SequenceNumber(25)).map(|file| file.file), Some(FileNumber(9)));
        assert_eq!(files.bytes(), 190_000);
        let expired = files.expire(&ChangeRetention::new(150_000), 0);
        assert_eq!(expired, [0, 7, 8].map(FileNumber));
        assert!(files.ingest(SequenceNumber(25)).is_some() && files.ingest(SequenceNumber(20)).is_none());
        // A small file counts as a block.
        files.push_ingest(KeptIngest { file: FileNumber(11), number: SequenceNumber(41), bytes: 1 });
        assert_eq!(files.bytes(), 124_096);
        assert_eq!(files.expire(&ChangeRetention::new(1), 0), [1, 9].map(FileNumber));
    }
}
