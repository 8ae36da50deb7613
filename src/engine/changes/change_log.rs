//! The change files of a store that is open for writing: copying from the log, and which files are kept.
//!
//! Any thread. Rules J1 to J8 of `docs/concurrency.md`. Two locks: `copying` is held during I/O, `kept` never; writers take
//! neither. `copying` comes before the locks of the log, the gate for snapshots and the edit mutex: a thread that holds one of
//! those never waits for it.

use super::kept_files::{ChangeStats, Kept, KeptFile};
use super::source::ChangeSource;
use super::writes::Writes;
use crate::changes::{ChangeWriter, Names, change_file_name};
use crate::engine::durable_log::DurableLog;
use crate::engine::events::Events;
use crate::engine::read::read_path::ReadPath;
use crate::engine::shared_components::SharedComponents;
use crate::engine::types::events::Event;
use crate::engine::types::options::ChangeRetention;
use crate::format::change_file::{ChangeFileHeader, push_write};
use crate::format::log_record::Operations;
use crate::io::{Clock, Storage};
use crate::log::{LogContents, Tail};
use crate::util::planted::planted;
use crate::util::sync::{Arc, Mutex, MutexGuard};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, KeyspaceId, Result, SequenceNumber};
use std::fmt::Display;

/// Writes that are sorted at once, about, in bytes of memory.
const WINDOW_BYTES: u64 = 8 << 20;
/// Up to so many bytes of memory, writes are collected while their records are looked for.
const COLLECTED_BYTES_MAX: usize = 32 << 20;
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
    pub(super) database: DatabaseId,
    log: Arc<DurableLog>,
    events: Events,
    numbers: Arc<FileNumbers>,
    clock: Arc<dyn Clock>,
    /// `Options::change_retention`.
    pub(super) wanted: Option<ChangeRetention>,
    pub(super) copying: Mutex<Copying>,
    pub(super) kept: Mutex<Kept>,
}

/// What the thread that copies needs.
#[derive(Default)]
pub(super) struct Copying {
    /// `None`: nothing is kept.
    pub(super) retention: Option<ChangeRetention>,
    pub(super) writer: Option<ChangeWriter>,
    /// The names of keyspaces after what was copied.
    pub(super) names: Names,
    pub(super) catalog: Option<CatalogNames>,
    tail: Tail,
    is_closed: bool,
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

    /// Begins a file behind a gap. The names of keyspaces may be younger than `after`: a keyspace that is missing was dropped by
    /// then, and its writes are left out.
    pub(super) fn begin(&self, copying: &mut MutexGuard<'_, Copying>, after: SequenceNumber) -> Result<()> {
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

    pub(super) fn copy_live(&self, copying: &mut MutexGuard<'_, Copying>, through: SequenceNumber) -> Result<()> {
        let copied = self.copied();
        if through <= copied {
            return Ok(());
        }
        if copying.writer.is_none() {
            // After the stream was lost.
            self.begin(copying, copied)?;
        }
        let (mut writes, tail) = (Writes::default(), &mut copying.tail);
        // So that they need not be read again, if there are not too many.
        let mut collect = |number: SequenceNumber, operations: Operations<'_>| {
            if number <= through && writes.bytes() <= COLLECTED_BYTES_MAX {
                writes.add(number, operations);
            }
        };
        let contents = self.log.log.records_after(&self.read.sequencer, tail, copied, through, &mut collect)?;
        if writes.bytes() <= COLLECTED_BYTES_MAX {
            self.append_writes(copying, &mut writes, through)?;
        } else {
            drop(writes);
            self.copy(copying, &contents, through)?;
        }
        self.expire(copying)
    }

    /// Copies what was not copied yet of the writes up to a number.
    pub(super) fn copy(
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
            self.append_writes(copying, &mut writes, *range.end())?;
        }
        if self.copied() < through { self.append(copying, through, &[]) } else { Ok(()) }
    }

    /// Appends all writes that were not copied yet up to a number.
    fn append_writes(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        writes: &mut Writes,
        through: SequenceNumber,
    ) -> Result<()> {
        let (mut payload, mut before) = (Vec::new(), self.copied());
        writes.drain(&self.read.values, |number, body, names_keyspaces| {
            if names_keyspaces {
                copying.names.follow(body);
            }
            push_write(before, number, body, &mut payload);
            before = number;
            if payload.len() < FRAME_BYTES {
                return Ok(());
            }
            let appended = self.append(copying, number, &payload);
            payload.clear();
            appended
        })?;
        if self.copied() < through { self.append(copying, through, &payload) } else { Ok(()) }
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
    pub(super) fn append_ingest(&self, copying: &mut MutexGuard<'_, Copying>, number: SequenceNumber) -> Result<()> {
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
    pub(super) fn begin_file(&self, copying: &mut MutexGuard<'_, Copying>, after: SequenceNumber) -> Result<()> {
        if let Some(full) = &mut copying.writer {
            // No later sync covers it.
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
    pub(super) fn expire(&self, copying: &mut MutexGuard<'_, Copying>) -> Result<()> {
        let Some(retention) = copying.retention else { return Ok(()) };
        let expired = self.kept.lock().files.expire(&retention, self.date());
        expired.iter().try_for_each(|file| self.storage().remove(&change_file_name(*file)))
    }

    /// After an error the stream goes on behind what could not be copied, without anything before (rule J6): nothing else of the
    /// store may fail for it.
    pub(super) fn or_lose(
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

    pub(super) fn note_lost(&self, reason: String) {
        self.kept.lock().lost += 1;
        self.events.add(|| Event::ChangesLost { reason });
    }

    pub(super) fn lose(
        &self,
        copying: &mut MutexGuard<'_, Copying>,
        through: SequenceNumber,
        why: &dyn Display,
    ) -> bool {
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

    pub(super) fn remove_all(&self) -> Result<()> {
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

    fn last(&self, _since: SequenceNumber) -> Result<SequenceNumber> {
        Ok(self.read.sequencer.last())
    }
}
