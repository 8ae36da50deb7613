//! The number of an ingest, and what must wait for it (`docs/concurrency.md`, I). Any thread.

use super::commit::{Committer, Unplaced};
use super::mode::WriteMode;
use super::range_conflicts::Touched;
use super::write_path::WritePath;
use super::writer_threads::{ThreadState, WriteCounters};
use crate::engine::types::bounds::EncodedRange;
use crate::engine::types::user_key::UserKey;
use crate::util::planted::planted;
use crate::util::{Kind, Result, SequenceNumber};
use std::iter;

/// An ingest whose files are complete.
pub(crate) struct Ingested<'a> {
    /// Of each keyspace, from its first key to its last: ascending and disjoint.
    pub(crate) ranges: &'a [EncodedRange],
    pub(crate) pairs: u64,
    pub(crate) user_bytes: u64,
    pub(crate) mode: WriteMode<'a>,
}

impl WritePath {
    /// Gives an ingest its number and lets `publish` make it part of the tree. `clear_memory` must see to it that memory has
    /// nothing of the ranges; no key of them is written meanwhile. Returns the number, and what `publish` has returned.
    pub(crate) fn ingest<T>(
        &self,
        ingested: &Ingested<'_>,
        clear_memory: impl FnOnce() -> Result<()>,
        publish: impl FnOnce(SequenceNumber) -> Result<T>,
    ) -> Result<(SequenceNumber, T)> {
        let read = &*self.read;
        let mut borrowed = self.begin(ingested.mode)?;
        let thread = borrowed.state();
        // Rule I1.
        let _turn = read.range_deletes.take_turn();
        let announce = || self.committer.range_conflicts.announce_delete(ingested.ranges.to_vec(), &read.sequencer);
        let _announced = planted!(Some(announce()), Bug::IngestUnannounced => None);
        clear_memory()?;
        // With the bug: time for a writer of the ranges.
        planted!(Bug::IngestUnannounced => { (0..1_000).for_each(|_| std::thread::yield_now()) });
        // So that the sync below, for which snapshots wait, finds little to do.
        self.sync_log_through(read.sequencer.last())?;
        // Rule I3.
        let _gate = read.snapshots.close_filter_gate();
        let number = self.committer.take_ingest_number(thread, ingested)?;
        // Rule I4.
        self.sync_log_through(number)?;
        let published = publish(number)?;
        WriteCounters::add(&thread.counters.writes, ingested.pairs);
        WriteCounters::add(&thread.counters.user_bytes, ingested.user_bytes);
        Ok((number, published))
    }
}

impl Committer {
    /// The number of an ingest whose ranges are announced, with a record that says nothing (rule W4).
    fn take_ingest_number(&self, thread: &mut ThreadState, ingested: &Ingested<'_>) -> Result<SequenceNumber> {
        let sequencer = &self.read.sequencer;
        let touched = || Touched {
            keys: iter::empty::<UserKey<&[u8]>>(),
            reads: iter::empty::<UserKey<&[u8]>>(),
            deleted: ingested.ranges.to_vec(),
        };
        // Ends: it is repeated only if a log segment was retired meanwhile.
        loop {
            self.health.check()?;
            self.log.prepare(&mut thread.writer, Kind::Void, 0, |_| ())?;
            sequencer.announce(&thread.slot);
            // Rule D7.
            let dropped = ingested.mode.dropped();
            if dropped.is_none() && self.log.is_current(&thread.writer) && self.range_conflicts.pass(touched, None) {
                let unplaced = Unplaced { committer: self, slot: &thread.slot };
                let number = sequencer.take(&thread.slot);
                self.log.seal(&mut thread.writer, number);
                std::mem::forget(unplaced);
                sequencer.leave(&thread.slot);
                self.durable_log.note_write();
                if ingested.mode.expires() && self.read.expiry.note_write() {
                    self.scheduler.ask_for_workers();
                }
                return Ok(number);
            }
            sequencer.leave(&thread.slot);
            self.log.cancel(&mut thread.writer);
            if let Some(dropped) = dropped {
                return Err(dropped.dropped());
            }
        }
    }
}
