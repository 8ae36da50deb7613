//! Opening: which change files are of use, and going on with them (`docs/concurrency.md`, J5). One thread.

use super::change_log::{CatalogNames, ChangeLog, Copying};
use super::kept_files::{KeptFile, KeptFiles, KeptIngest};
use super::source::ChangeSource;
use crate::changes::{ChangeReader, ChangeWriter, Names, change_file_name, parse_change_file_name};
use crate::engine::directory::owners;
use crate::engine::directory::store_files::StoreFile;
use crate::engine::types::options::ChangeRetention;
use crate::format::change_file::ChangeFileHeader;
use crate::log::LogContents;
use crate::manifest::ManifestState;
use crate::util::planted::planted;
use crate::util::sync::MutexGuard;
use crate::util::{Result, SequenceNumber};
use std::time::Duration;

/// The change files that an opening finds.
struct Found {
    files: KeptFiles,
    /// The newest one of writes, not read yet, and the names of keyspaces at its beginning.
    newest: Option<(ChangeReader, Names)>,
}

impl ChangeLog {
    /// Opening, before the contents of the log are incorporated: goes on with the files that are there, and copies what the log
    /// has beyond them (rule J5). `state` is that of the manifest, `last` the last number. After an error the stream begins anew.
    pub(crate) fn resume(&self, contents: &LogContents, state: &ManifestState, last: SequenceNumber) {
        let mut copying = self.copying.lock();
        if let Err(error) = self.try_resume(&mut copying, contents, state, last) {
            copying.writer = None;
            copying.retention = self.wanted.filter(|retention| retention.bytes > 0);
            let mut kept = self.kept.lock();
            kept.files = KeptFiles::default();
            kept.copied = copying.retention.map(|_| last);
            drop(kept);
            self.note_lost(error.to_string());
        }
    }

    fn try_resume(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        contents: &LogContents,
        state: &ManifestState,
        last: SequenceNumber,
    ) -> Result<()> {
        let Found { files, newest } = self.find_files(state.ingested)?;
        let stored = newest.as_ref().map(|(reader, _)| retention_of(reader.header()));
        let retention = self.wanted.or(stored).filter(|retention| retention.bytes > 0);
        self.kept.lock().files = files;
        copying.retention = retention;
        let (Some(_), Some((mut reader, names))) = (retention, newest) else { return self.remove_all() };
        let names = read_through(&mut reader, names)?;
        let through = reader.through();
        let knows_ingests = state.ingested <= through || self.kept.lock().files.ingest(state.ingested).is_some();
        // A forced cut after damage may leave out what was copied.
        let is_cut = contents.cut().is_some_and(|cut| through > cut);
        if !knows_ingests || is_cut || !(state.incorporated..=last).contains(&through) {
            self.note_lost(format!("what is kept ends with number {through}, and the log cannot go on from there"));
            return self.remove_all();
        }
        let resumed = self.go_on(copying, reader, names, stored != retention);
        let copied = resumed.and_then(|()| self.copy_with_ingests(copying, contents, last));
        self.or_lose(copying, last, copied)
    }

    /// Copies what the log has, and what stands for the ingests in between.
    fn copy_with_ingests(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        contents: &LogContents,
        last: SequenceNumber,
    ) -> Result<()> {
        let copied = self.copied();
        let ingests = self.kept.lock().files.ingests_after(copied);
        for number in ingests.into_iter().filter(|number| *number <= last) {
            self.copy(copying, contents, SequenceNumber(number.0 - 1))?;
            self.append_ingest(copying, number)?;
        }
        self.copy(copying, contents, last)
    }

    /// Finds the change files of the store, and removes those that are of no use.
    fn find_files(&self, ingested: SequenceNumber) -> Result<Found> {
        let names = self.storage().list()?;
        let mut numbers: Vec<_> = names.iter().filter_map(|name| parse_change_file_name(name)).collect();
        numbers.sort_unstable();
        let (mut files, mut newest, mut useless) = (KeptFiles::default(), None, Vec::new());
        for number in numbers {
            let (reader, names) = match ChangeReader::open(self.storage(), self.database, number) {
                Ok(opened) => opened,
                // Of another store, damaged, or not finished. A reader finds the gap.
                Err(error) if error.is_damage() => {
                    useless.push(number);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let &ChangeFileHeader { after, date, ingest, .. } = reader.header();
            let bytes = reader.length()?;
            match ingest {
                // It never took effect (rule J7).
                Some(of) if planted!(of > ingested, Bug::IngestCountedEarly => of == SequenceNumber::MAX) => {
                    useless.push(number)
                }
                Some(of) => files.push_ingest(KeptIngest { file: number, number: of, bytes }),
                None => {
                    files.push(KeptFile { file: number, after, date, bytes });
                    newest = Some((reader, names));
                }
            }
        }
        useless.extend(files.expire_ingests(files.oldest().unwrap_or(SequenceNumber::MAX)));
        for number in useless {
            let (name, file) = (change_file_name(number), StoreFile::Changes(number));
            if !owners::may_belong_to_another_store(self.storage(), &name, file, self.database) {
                self.storage().remove(&name)?;
            }
        }
        Ok(Found { files, newest })
    }

    /// Continues the newest file, or with another one if the retention is to be remembered.
    fn go_on(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        reader: ChangeReader,
        names: Names,
        has_changed: bool,
    ) -> Result<()> {
        let writer = ChangeWriter::resume(self.storage(), &reader)?;
        {
            let mut kept = self.kept.lock();
            kept.copied = Some(writer.through());
            kept.files.newest_mut().into_iter().for_each(|file| file.bytes = writer.bytes());
        }
        copying.names = names;
        let through = writer.through();
        copying.writer = Some(writer);
        if has_changed { self.begin_file(copying, through) } else { Ok(()) }
    }

    /// Opening, after `resume`, when reads work: the first file, if writes are to be kept from now on.
    pub(crate) fn start(&self, catalog: CatalogNames) -> Result<()> {
        let mut copying = self.copying.lock();
        copying.catalog = Some(catalog);
        if copying.retention.is_none() {
            return Ok(());
        }
        if copying.writer.is_some() {
            // What is kept may be less than it was.
            return self.expire(&mut copying);
        }
        let last = self.read.sequencer.last();
        let begun = self.begin(&mut copying, last);
        self.or_lose(&mut copying, last, begun)
    }
}

/// The retention in the header of a file.
fn retention_of(header: &ChangeFileHeader) -> ChangeRetention {
    let age = Some(header.retained_millis).filter(|millis| *millis > 0).map(Duration::from_millis);
    ChangeRetention::new(header.retained_bytes).age(age)
}

/// Reads a file up to its last valid frame. Returns the names there.
fn read_through(reader: &mut ChangeReader, mut names: Names) -> Result<Names> {
    let length = reader.length()?;
    loop {
        match reader.next_frame(length) {
            Ok(Some(mut frame)) => {
                while let Some((_, body)) = frame.next_write() {
                    names.follow(body);
                }
            }
            Ok(None) => return Ok(names),
            Err(error) if error.is_damage() => return Ok(names),
            Err(error) => return Err(error),
        }
    }
}
