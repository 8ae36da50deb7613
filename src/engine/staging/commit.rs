//! The commit of a staged batch: an ordinary batch if it fits into one, or else an ingest. The caller's thread.

use super::memory_layer::MemoryLayer;
use super::spilled_layers::pair_of;
use super::staged_writes::StagedWrites;
use crate::disk::Pair;
use crate::engine::ingest::deleted_ranges::DeletedRanges;
use crate::engine::ingest::ingestion::Ingestion;
use crate::engine::latency::Call;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::options::WriteOptions;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::merge::EntryRef;
use crate::util::sync::Arc;
use crate::util::{Error, Kind, Result, limits};

impl StagedWrites {
    /// Makes all writes part of the store, at one number.
    pub(crate) fn commit(mut self, options: WriteOptions) -> Result<()> {
        let engine = Arc::clone(&self.engine);
        // Before the lock: in a forked child a thread that is not there may hold it.
        engine.read.check_open()?;
        let _timed = engine.read.latencies.time(Call::Write);
        if self.spilled.is_empty() && self.memory.bytes() <= limits::BATCH_BYTES_MAX {
            self.commit_as_batch(options)
        } else {
            self.commit_as_ingest().map_err(Error::into_disk_full)
        }
    }

    fn commit_as_batch(&mut self, options: WriteOptions) -> Result<()> {
        let write = &self.engine.write;
        // Closing the store waits for this.
        let _call = write.begin_call()?;
        let memory = std::mem::take(&mut self.memory);
        let deleted = memory.deleted().user_ranges();
        let write_of = |(key, change): (Vec<u8>, _)| {
            let key = UserKey::of_encoded(&key)?.to_owned();
            Some(KeyWrite { key, change })
        };
        let effects = Effects { writes: memory.into_changes().into_iter().filter_map(write_of).collect(), deleted };
        let durability = write.durability_of(options.durability, self.is_in_default, &self.keyspaces);
        let mode = WriteMode::with(options, durability, &self.keyspaces);
        write.write_all(&effects, None, mode).map(drop)
    }

    fn commit_as_ingest(&mut self) -> Result<()> {
        let Self { engine, memory, spilled, keyspaces, values, .. } = self;
        let mut deleted = DeletedRanges::default();
        spilled.add_deleted_to(&mut deleted);
        for (start, end) in memory.deleted().iter() {
            deleted.add(start.clone(), end.clone());
        }
        let mut ingestion = Ingestion::begin_deleting(engine, keyspaces.clone(), &deleted)?;
        spilled.newest_entries(memory, |entry| {
            let EntryRef { kind, value, .. } = entry;
            let pair = pair_of(entry);
            // One that was in memory until now.
            if kind == Kind::Put && value.len() >= limits::VALUE_FILE_BYTES_MIN {
                let reference = engine.write.begin_call().and_then(|_call| engine.write.write_value(value))?;
                values.push(reference.file);
                let pair = Pair { kind: Kind::ValueReference, value: &reference.encode(), ..pair };
                return ingestion.add(pair, Some(value));
            }
            ingestion.add(pair, None)
        })?;
        // It is in the files of the ingest now.
        *memory = MemoryLayer::default();
        ingestion.commit().map(drop)
    }
}
