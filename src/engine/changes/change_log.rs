//! The change files of a store that is open for writing: copying from the log, and which files are kept.
//!
//! Any thread. Rules J1 to J8 of `docs/concurrency.md`. Two locks: `copying` is held during I/O, `kept` never; writers take
//! neither. `copying` comes before the locks of the log, the gate for snapshots and the edit mutex: a thread that holds one of
//! those never waits for it.

use super::kept_files::{ChangeStats, Kept, KeptFile, KeptFiles, KeptIngest};
use super::source::ChangeSource;
use super::writes::Writes;
use crate::changes::{ChangeReader, ChangeWriter, Names, change_file_name, parse_change_file_name};
use crate::engine::directory::owners;
use crate::engine::directory::store_files::StoreFile;
use crate::engine::durable_log::DurableLog;
use crate::engine::events::Events;
use crate::engine::read::read_path::ReadPath;
use crate::engine::shared_components::SharedComponents;
use crate::engine::types::events::Event;
use crate::engine::types::options::ChangeRetention;
use crate::format::change_file::{ChangeFileHeader, push_write};
use crate::io::{Clock, Storage};
use crate::log::{LogContents, Tail};
use crate::manifest::ManifestState;
use crate::util::planted::planted;
use crate::util::sync::{Arc, Mutex, MutexGuard};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, KeyspaceId, Result, SequenceNumber};
use std::fmt::Display;
use std::time::Duration;

/// Writes that are sorted at once, about, in bytes of memory.
const WINDOW_BYTES: u64 = 8 << 20;
/// A frame ends with the write that reaches this length.
const FRAME_BYTES: usize = 256 << 10;
/// A file that is this long is the last but one; shorter if little is kept, since whole files go.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FILE_BYTES_MIN: u64 = 16 << 10;
/// The files that the retained bytes are spread over, at least.
const FILES_MIN: u64 = 8;

/// Reads the names of all keyspaces.
pub(crate) type CatalogNames = fn(&Arc<ReadPath>) -> Result<Vec<(KeyspaceId, String)>>;

/// See the module.
pub(crate) struct ChangeLog {
    pub(super) read: Arc<ReadPath>,
    database: DatabaseId,
    log: Arc<DurableLog>,
    events: Events,
    numbers: Arc<FileNumbers>,
    clock: Arc<dyn Clock>,
    /// `Options::change_retention`.
    wanted: Option<ChangeRetention>,
    copying: Mutex<Copying>,
    kept: Mutex<Kept>,
}

/// What the thread that copies needs.
#[derive(Default)]
struct Copying {
    /// `None`: nothing is kept.
    retention: Option<ChangeRetention>,
    writer: Option<ChangeWriter>,
    /// The names of keyspaces after what was copied.
    names: Names,
    catalog: Option<CatalogNames>,
    tail: Tail,
    is_closed: bool,
}

/// The change files that an opening finds.
struct Found {
    files: KeptFiles,
    /// The newest one of writes, not read yet, and the names of keyspaces at its beginning.
    newest: Option<(ChangeReader, Names)>,
}

impl ChangeLog {
    pub(crate) fn new(
        shared: &SharedComponents,
        log: &Arc<DurableLog>,
        numbers: &Arc<FileNumbers>,
        database: DatabaseId,
        wanted: Option<ChangeRetention>,
    ) -> Arc<Self> {
        Arc::new(Self {
            read: Arc::clone(&shared.read),
            database,
            log: Arc::clone(log),
            events: shared.events.clone(),
            numbers: Arc::clone(numbers),
            clock: Arc::clone(&shared.scheduler.clock),
            wanted,
            copying: Mutex::default(),
            kept: Mutex::default(),
        })
    }

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

    /// Begins a file behind a gap. The names of keyspaces may be younger than `after`: a keyspace that is missing was dropped by
    /// then, and its writes are left out.
    fn begin(&self, copying: &mut MutexGuard<'_, Copying>, after: SequenceNumber) -> Result<()> {
        let names = copying.catalog.map_or(Ok(Vec::new()), |catalog| catalog(&self.read))?;
        copying.names = Names::new(names);
        self.begin_file(copying, after)
    }

    /// Every write up to this one is in a change file or need not be; segments of the log with greater numbers must stay.
    pub(crate) fn copied(&self) -> SequenceNumber {
        self.kept.lock().copied.unwrap_or(SequenceNumber::MAX)
    }

    /// Copies all writes up to a number; durably, if the log is going to drop them (rule J2).
    pub(crate) fn copy_through(&self, through: SequenceNumber, is_durable: bool) -> Result<()> {
        if self.copied() == SequenceNumber::MAX {
            return Ok(());
        }
        self.log.sync_through(through)?;
        let mut copying = self.copying.lock();
        if copying.is_closed {
            return Err(Error::Closed);
        }
        let copied = self.copy_live(&mut copying, through);
        let durable = copied.and_then(|()| {
            let is_synced = planted!(is_durable, Bug::ChangesUnsynced => false);
            let writer = copying.writer.as_mut().filter(|_| is_synced);
            writer.map_or(Ok(()), ChangeWriter::sync)
        });
        self.or_lose(&mut copying, through, durable)
    }

    fn copy_live(&self, copying: &mut MutexGuard<'_, Copying>, through: SequenceNumber) -> Result<()> {
        let copied = self.copied();
        if through <= copied {
            return Ok(());
        }
        if copying.writer.is_none() {
            // After the stream was lost.
            self.begin(copying, copied)?;
        }
        let tail = &mut copying.tail;
        let contents = self.log.log.records_after(&self.read.sequencer, tail, copied, through)?;
        self.copy(copying, &contents, through)?;
        self.expire(copying)
    }

    /// Copies what was not copied yet of the writes up to a number.
    fn copy(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        contents: &LogContents,
        through: SequenceNumber,
    ) -> Result<()> {
        let mut writes = Writes::default();
        for range in contents.ranges(WINDOW_BYTES) {
            let range = self.copied().next().max(*range.start())..=through.min(*range.end());
            if range.is_empty() {
                continue;
            }
            contents.read(&range, &mut |number, operations| {
                writes.add(number, operations);
                Ok(())
            })?;
            let (mut payload, mut before) = (Vec::new(), self.copied());
            writes.drain(&self.read.values, |number, body| {
                copying.names.follow(body);
                push_write(before, number, body, &mut payload);
                before = number;
                if payload.len() < FRAME_BYTES {
                    return Ok(());
                }
                let appended = self.append(copying, number, &payload);
                payload.clear();
                appended
            })?;
            if self.copied() < *range.end() {
                self.append(copying, *range.end(), &payload)?;
            }
        }
        if self.copied() < through { self.append(copying, through, &[]) } else { Ok(()) }
    }

    /// Appends a frame; begins another file if this one is full.
    fn append(&self, copying: &mut MutexGuard<'_, Copying>, through: SequenceNumber, payload: &[u8]) -> Result<()> {
        let Some(writer) = &mut copying.writer else { unreachable!("a stream that goes on has a file") };
        writer.append(through, payload)?;
        let bytes = writer.bytes();
        self.note_appended(bytes, through);
        let retained = copying.retention.map_or(0, |retention| retention.bytes);
        if bytes >= (retained / FILES_MIN).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX) {
            self.begin_file(copying, through)?;
        }
        Ok(())
    }

    /// Appends what stands for an ingest, the next write.
    fn append_ingest(&self, copying: &mut MutexGuard<'_, Copying>, number: SequenceNumber) -> Result<()> {
        let Some(writer) = &mut copying.writer else { unreachable!("a stream that goes on has a file") };
        writer.append_ingest(number)?;
        let bytes = writer.bytes();
        self.note_appended(bytes, number);
        Ok(())
    }

    fn note_appended(&self, bytes: u64, through: SequenceNumber) {
        let mut kept = self.kept.lock();
        kept.files.newest_mut().into_iter().for_each(|file| file.bytes = bytes);
        kept.copied = Some(through);
    }

    /// Begins another file, with the writes after a number.
    fn begin_file(&self, copying: &mut MutexGuard<'_, Copying>, after: SequenceNumber) -> Result<()> {
        if let Some(full) = &mut copying.writer {
            // Nobody syncs it later.
            full.sync()?;
        }
        let header = self.new_header(copying.retention, after);
        let writer = self.create(header, &copying.names)?;
        let file = KeptFile { file: header.file, after, date: header.date, bytes: writer.bytes() };
        copying.writer = Some(writer);
        let mut kept = self.kept.lock();
        kept.files.push(file);
        kept.copied = Some(after);
        Ok(())
    }

    /// The header of a new file of writes.
    fn new_header(&self, retention: Option<ChangeRetention>, after: SequenceNumber) -> ChangeFileHeader {
        let ChangeRetention { bytes, age } = retention.unwrap_or(ChangeRetention::OFF);
        ChangeFileHeader {
            database: self.database,
            file: self.numbers.take(),
            after,
            date: self.date(),
            retained_bytes: bytes,
            retained_millis: age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            ingest: None,
        }
    }

    fn create(&self, header: ChangeFileHeader, names: &Names) -> Result<ChangeWriter> {
        self.log.check_lock()?;
        ChangeWriter::create(self.storage(), header, names)
    }

    fn date(&self) -> u64 {
        u64::try_from(self.clock.date().as_millis()).unwrap_or(u64::MAX)
    }

    /// Removes what need not be kept.
    fn expire(&self, copying: &mut MutexGuard<'_, Copying>) -> Result<()> {
        let Some(retention) = copying.retention else { return Ok(()) };
        let expired = self.kept.lock().files.expire(&retention, self.date());
        expired.iter().try_for_each(|file| self.storage().remove(&change_file_name(*file)))
    }

    /// After an error the stream goes on behind what could not be copied, without anything before (rule J6): nothing else of the
    /// store may fail for it.
    fn or_lose(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        through: SequenceNumber,
        copied: Result<()>,
    ) -> Result<()> {
        match copied {
            Ok(()) => Ok(()),
            Err(Error::Closed) => Err(Error::Closed),
            Err(error) => {
                self.lose(copying, through, &error);
                Ok(())
            }
        }
    }

    fn note_lost(&self, reason: String) {
        self.kept.lock().lost += 1;
        self.events.add(|| Event::ChangesLost { reason });
    }

    fn lose(&self, copying: &mut MutexGuard<'_, Copying>, through: SequenceNumber, why: &dyn Display) -> bool {
        copying.writer = None;
        let had_any = {
            let mut kept = self.kept.lock();
            kept.copied = kept.copied.map(|copied| copied.max(through)).or(Some(through));
            !kept.files.is_empty()
        };
        if had_any {
            self.note_lost(why.to_string());
        }
        // Files that cannot be removed now are found at the next opening: either the stream goes on where they end, or there is a gap.
        let _ = self.remove_all();
        had_any
    }

    fn remove_all(&self) -> Result<()> {
        let files = std::mem::take(&mut self.kept.lock().files);
        // All of them, also after an error.
        let mut removed = Ok(());
        for file in files.files() {
            removed = removed.and(self.storage().remove(&change_file_name(file)));
        }
        removed
    }

    /// A full disk: removes all files. Returns whether there were any.
    pub(crate) fn give_up(&self) -> bool {
        let copied = self.copied();
        // A thread that copies finds out by itself.
        let copying = self.copying.try_lock().filter(|copying| copied != SequenceNumber::MAX && !copying.is_closed);
        copying.is_some_and(|mut copying| self.lose(&mut copying, copied, &"the disk is full"))
    }

    /// Closing: copies all writes, if all of them are durable in the log. Afterwards no file is made or removed (rule J8).
    pub(crate) fn close(&self, durable: Option<SequenceNumber>) {
        if let Some(last) = durable {
            // If it fails, the stream ends earlier, or is lost; the store is not.
            let _ = self.copy_through(last, true);
        }
        let mut copying = self.copying.lock();
        if durable.is_some() && copying.retention.is_some() && copying.writer.is_none() {
            // So that the next opening knows what is to be kept.
            let copied = self.copied();
            let _ = self.begin(&mut copying, copied);
        }
        copying.is_closed = true;
    }

    /// A file for the pairs of an ingest into a keyspace; `None` if nothing is kept.
    pub(super) fn create_for_ingest(&self, names: &Names) -> Option<Result<ChangeWriter>> {
        let copying = self.copying.lock();
        let retention = copying.retention.filter(|_| !copying.is_closed)?;
        let pending = Some(SequenceNumber::MAX);
        let header = ChangeFileHeader { ingest: pending, ..self.new_header(Some(retention), SequenceNumber::ZERO) };
        Some(self.create(header, names))
    }

    /// Removes the file of an ingest that has not taken effect. *Otherwise,* if the store is closed by then: its number may be that
    /// of another file by now.
    pub(super) fn remove_for_ingest(&self, file: FileNumber) {
        let copying = self.copying.lock();
        if !copying.is_closed {
            // What stays does not count, and the next opening removes it.
            let _ = self.storage().remove(&change_file_name(file));
        }
    }

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

    pub(crate) fn stats(&self) -> ChangeStats {
        self.kept.lock().stats()
    }
}

impl ChangeSource for ChangeLog {
    fn check_open(&self) -> Result<()> {
        self.read.check_open()
    }

    fn storage(&self) -> &dyn Storage {
        &*self.read.storage
    }

    fn database(&self) -> DatabaseId {
        self.database
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn look_again(&self) -> Result<()> {
        self.copy_through(self.read.sequencer.last(), false)
    }

    fn is_foreign(&self) -> bool {
        false
    }

    fn last(&self) -> SequenceNumber {
        self.read.sequencer.last()
    }
}

/// While it lives, nothing is copied.
pub(super) struct Paused<'a> {
    changes: &'a ChangeLog,
    copying: MutexGuard<'a, Copying>,
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
