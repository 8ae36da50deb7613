//! An ingest in progress: its files, and how they become part of the store. The caller's thread.
//!
//! The files are written without a number and outside the tree, so readers, writers and snapshots notice nothing. Only the
//! end, which takes a few syncs of the disk whatever the size, touches what others use (`docs/concurrency.md`, I).

use super::deleted_ranges::DeletedRanges;
use super::in_memory;
use super::key_spans::KeySpans;
use super::report::IngestReport;
use crate::disk::{CompleteParts, IngestPipeline, IngestWriter, Pair};
use crate::engine::changes::ingest_changes::IngestChanges;
use crate::engine::engine::Engine;
use crate::engine::scheduler::Driver;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::engine::types::options::Durability;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::ingest::Ingested;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::sizes::check_sizes;
use crate::format::log_record::Operation;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, FileNumber, KeyspaceId, Kind, Result, SequenceNumber, key, limits};

/// How often all of memory is incorporated because it has keys of the range, before writers of the range have to wait.
const FREE_ROUNDS: usize = 2;

/// See the module. If it is dropped, nothing of it remains.
pub(crate) struct Ingestion {
    /// `None` after a failure. Dropped first: its threads use the engine.
    pipeline: Option<IngestPipeline>,
    engine: Arc<Engine>,
    /// Those that it writes. The first one is that of `put`.
    keyspaces: Vec<Arc<KeyspaceInfo>>,
    /// The encoded key of the last pair, and of the first one of its keyspace.
    last: Vec<u8>,
    first: Vec<u8>,
    /// Without those from `first` to `last`.
    spans: KeySpans,
    pairs: u64,
    user_bytes: u64,
    /// The same for followers.
    changes: IngestChanges,
    /// The value files of large values, each with a reference of this ingest.
    values: Vec<FileNumber>,
}

impl Ingestion {
    /// An ingest into a keyspace.
    pub(crate) fn begin(engine: &Arc<Engine>, info: &Arc<KeyspaceInfo>) -> Result<Self> {
        Self::begin_deleting(engine, vec![Arc::clone(info)], &DeletedRanges::default())
    }

    /// An ingest into several keyspaces, which also deletes ranges of what the store has.
    pub(crate) fn begin_deleting(
        engine: &Arc<Engine>,
        keyspaces: Vec<Arc<KeyspaceInfo>>,
        deleted: &DeletedRanges,
    ) -> Result<Self> {
        keyspaces.iter().try_for_each(|keyspace| keyspace.check())?;
        let writer = new_writer(engine)?.deleting(deleted.tombstones(SequenceNumber::ZERO));
        let may_have_threads = engine.background.scheduler.driver() == Driver::Threads;
        let mut spans = KeySpans::default();
        let mut changes = IngestChanges::new(&engine.background.changes, &keyspaces);
        for range in deleted.user_ranges() {
            spans.add_range(&range);
            let end = range.end.as_deref().unwrap_or_default();
            let UserRange { keyspace, start, .. } = &range;
            changes.add(Operation { kind: Kind::RangeDelete, keyspace: *keyspace, key: start, value: end });
        }
        Ok(Self {
            pipeline: Some(IngestPipeline::new(writer, may_have_threads)),
            engine: Arc::clone(engine),
            keyspaces,
            changes,
            last: Vec::new(),
            first: Vec::new(),
            spans,
            pairs: 0,
            user_bytes: 0,
            values: Vec::new(),
        })
    }

    /// Adds a pair, whose key must be greater than all before.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, Some(value))?;
        self.engine.read.check_open()?;
        let Some(keyspace) = self.keyspaces.first().map(|keyspace| keyspace.id) else { return Err(failed()) };
        UserKey::new(keyspace, key).with_encoded(|encoded| self.put_encoded(encoded, key, value))
    }

    fn put_encoded(&mut self, encoded: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
        if self.pairs > 0 && *encoded <= *self.last {
            return Err(self.out_of_order(key));
        }
        if self.pipeline.is_none() {
            return Err(failed());
        }
        let user_bytes = (key.len() + value.len()) as u64;
        let pair = |kind, value| Pair { key: encoded, kind, value, user_bytes };
        if value.len() < limits::VALUE_FILE_BYTES_MIN {
            return self.add(pair(Kind::Put, value), Some(value));
        }
        let written = self.engine.write.begin_call().and_then(|_call| self.engine.write.write_value(value));
        match written {
            Ok(reference) => {
                self.values.push(reference.file);
                self.add(pair(Kind::ValueReference, &reference.encode()), Some(value))
            }
            Err(error) => {
                self.pipeline = None;
                Err(error.into_disk_full())
            }
        }
    }

    /// Adds what is done to a key, which must be greater than all before, in one of the keyspaces. A large value is in its file
    /// already; `whole` is the value for followers, `None` if it must be read.
    pub(crate) fn add(&mut self, pair: Pair<'_>, whole: Option<&[u8]>) -> Result<()> {
        let Some(pipeline) = &mut self.pipeline else { return Err(failed()) };
        let added = pipeline.add(pair).and_then(|()| self.tell_followers(pair, whole));
        if let Err(error) = added {
            // The files may lack a part of the pair.
            self.pipeline = None;
            return Err(error.into_disk_full());
        }
        if self.pairs == 0 || key::keyspace(&self.last) != key::keyspace(pair.key) {
            self.spans.add_keys(&self.first, &self.last);
            self.first.clear();
            self.first.extend_from_slice(pair.key);
        }
        self.last.clear();
        self.last.extend_from_slice(pair.key);
        self.pairs += 1;
        self.user_bytes += pair.user_bytes;
        Ok(())
    }

    fn tell_followers(&mut self, pair: Pair<'_>, whole: Option<&[u8]>) -> Result<()> {
        if !self.changes.is_kept() {
            return Ok(());
        }
        let Some(key) = UserKey::of_encoded(pair.key) else { return Ok(()) };
        let mut operation = Operation { kind: pair.kind, keyspace: key.keyspace, key: key.bytes, value: pair.value };
        let mut read = Vec::new();
        if pair.kind == Kind::ValueReference {
            operation.kind = Kind::Put;
            operation.value = match whole {
                Some(whole) => whole,
                None => {
                    read.extend_from_slice(pair.value);
                    self.engine.read.resolve(pair.kind, &mut read)?;
                    &read
                }
            };
        }
        self.changes.add(operation);
        Ok(())
    }

    fn out_of_order(&self, key: &[u8]) -> Error {
        let last = self.last.get(KeyspaceId::BYTES..).unwrap_or_default();
        let relation = if last == key { "equals" } else { "is less than" };
        Error::InvalidArgument(format!(
            "pair {} of the ingest, with the key \"{}\", is out of order: its key {relation} that of the pair before it, \"{}\"; \
             keys must ascend, byte by byte",
            self.pairs + 1,
            key.escape_ascii(),
            last.escape_ascii()
        ))
    }

    /// Bytes of files so far, without those of large values.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.pipeline.as_ref().map_or(0, IngestPipeline::bytes)
    }

    /// Makes all pairs part of the store, at one number, durably.
    pub(crate) fn commit(mut self) -> Result<IngestReport> {
        let engine = Arc::clone(&self.engine);
        // Before any lock and any thread: a forked child may have neither.
        engine.read.check_open()?;
        let pipeline = self.pipeline.take().ok_or_else(failed)?;
        // Before the call begins: the thread that builds needs calls of its own, which wait behind a thread that closes.
        let parts = pipeline.finish().map_err(Error::into_disk_full)?;
        // Closing waits for the end of this call (rule X2).
        let _call = engine.write.begin_call()?;
        self.keyspaces.iter().try_for_each(|keyspace| keyspace.check())?;
        if parts.is_empty() {
            return engine.health.check().map(|()| IngestReport::default());
        }
        self.changes.finish_pairs();
        let (files, file_bytes) = (parts.count() as u64, parts.bytes());
        let number = self.publish(parts).map_err(Error::into_disk_full)?;
        engine.background.scheduler.wake_workers();
        Ok(IngestReport { number, pairs: self.pairs, user_bytes: self.user_bytes, files, file_bytes })
    }

    fn publish(&mut self, parts: CompleteParts) -> Result<u64> {
        let engine = &*self.engine;
        self.spans.add_keys(&self.first, &self.last);
        let ranges = self.spans.ranges();
        let is_in_memory = || -> Result<bool> {
            for range in &ranges {
                if in_memory::has_any(&engine.read, range)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // While writers of the ranges need not wait.
        let mut rounds = 0;
        while rounds < FREE_ROUNDS && is_in_memory()? {
            engine.background.generations.incorporate_all()?;
            rounds += 1;
        }
        let named = self.keyspaces.iter().filter(|keyspace| keyspace.id != KeyspaceId::DEFAULT).cloned();
        let named: Vec<_> = named.collect();
        let mode = WriteMode::new(Durability::Sync, &named);
        let ingested = Ingested { ranges: &ranges, pairs: self.pairs, user_bytes: self.user_bytes, mode };
        let (changes, mut stream) = (&mut self.changes, None);
        let stream_end = Mutex::new(&mut stream);
        let (number, footers) = engine.write.ingest(
            &ingested,
            // Rule I2. Ends: no key of the ranges can be written meanwhile.
            || {
                while is_in_memory()? {
                    engine.background.generations.incorporate_all()?;
                }
                // Rule J7. Not earlier: an incorporation copies what it writes.
                **stream_end.lock() = Some(changes.end());
                Ok(())
            },
            |number| {
                let mut stream = stream_end.lock().take();
                stream.iter_mut().for_each(|end| end.give_number(number));
                let user_bytes = parts.user_bytes();
                let (parts, footers) = parts.give_number(number)?;
                let outcome = engine.background.disk.ingested(parts, user_bytes);
                engine.background.publisher.publish_ingest(outcome, number, &ranges)?;
                stream.map_or(Ok(()), |end| end.published(number))?;
                Ok(footers)
            },
        )?;
        // No other thread waits for this.
        footers.sync().inspect_err(|error| engine.background.log.poison_disk(error))?;
        Ok(number.0)
    }
}

impl Drop for Ingestion {
    fn drop(&mut self) {
        if self.engine.read.check_process().is_err() {
            return;
        }
        // What the store needs has references of its branch files by now.
        self.values.iter().for_each(|file| self.engine.read.value_file_refs.release(*file));
        if !self.values.is_empty() {
            self.engine.background.scheduler.wake_workers();
        }
    }
}

/// A writer of files that are not part of the store yet.
pub(crate) fn new_writer(engine: &Arc<Engine>) -> Result<IngestWriter> {
    engine.read.check_open()?;
    engine.health.check()?;
    Ok(engine.background.disk.ingest_writer(&engine.read.view.load().disk).admitted({
        let engine = Arc::clone(engine);
        Box::new(move |bytes, make| {
            // *Otherwise:* the store closes, is opened again, and both openings make a file of one number.
            let _call = engine.write.begin_call()?;
            make_room(&engine, bytes)?;
            make()
        })
    }))
}

/// Fails if so many bytes would take what a full disk needs.
fn make_room(engine: &Engine, bytes: u64) -> Result<()> {
    engine.health.check_put()?;
    if engine.background.space.has_room_for_value(bytes) { Ok(()) } else { Err(engine.read.values.no_space()) }
}

fn failed() -> Error {
    Error::InvalidArgument("the ingest has failed before; begin another one".into())
}
