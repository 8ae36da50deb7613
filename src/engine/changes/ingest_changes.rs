//! The pairs of an ingest, for followers: a change file of its own, written while they arrive (rule J7). The thread of the ingest.
//!
//! A follower gets a frame at a time, and a follower that was stopped gets all of them again. All that an ingest does to keys may
//! be done twice, but for merges. So these are together in the last frame, with which a follower has the whole ingest.

use super::change_log::ChangeLog;
use super::paused::Paused;
use crate::changes::{ChangeWriter, Names};
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::format::log_record::Operation;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber, limits, varint};

/// A frame ends with the pair that reaches this length.
const FRAME_BYTES: usize = 256 << 10;

/// More merges than this are not kept: a follower applies them as one batch, together with its position.
const MERGES_BYTES_MAX: usize = limits::BATCH_BYTES_MAX / 2;

/// See the module. If it is dropped before `finish`, the file is removed.
pub(crate) struct IngestChanges {
    changes: Arc<ChangeLog>,
    /// `None`: nothing is kept, or the file could not be written. Then the stream is lost when the ingest takes effect.
    writer: Option<ChangeWriter>,
    /// What is not in the file yet.
    pending: Pending,
    /// Merges.
    merges: Pending,
}

/// Operations of a batch.
#[derive(Default)]
struct Pending {
    operations: Vec<u8>,
    count: u64,
}

/// The end of an ingest, while nothing is copied.
pub(crate) struct IngestEnd<'a> {
    /// `None` if nothing is kept.
    paused: Option<Paused<'a>>,
    file: &'a mut Option<ChangeWriter>,
}

impl IngestChanges {
    /// Of an ingest into these keyspaces.
    pub(crate) fn new(changes: &Arc<ChangeLog>, keyspaces: &[Arc<KeyspaceInfo>]) -> Self {
        let named = keyspaces.iter().filter(|keyspace| keyspace.id != KeyspaceId::DEFAULT);
        let names = Names::new(named.map(|keyspace| (keyspace.id, keyspace.name.to_string())));
        let writer = changes.create_for_ingest(&names).and_then(Result::ok);
        Self { changes: Arc::clone(changes), writer, pending: Pending::default(), merges: Pending::default() }
    }

    /// Whether anything is kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.writer.is_some()
    }

    /// Adds what is done to a key or a range. Deleted ranges come before all else.
    pub(crate) fn add(&mut self, operation: Operation<'_>) {
        if self.writer.is_none() {
            return;
        }
        if operation.kind == Kind::Merge {
            self.merges.push(operation);
            let of_each = limits::OPERATION_MEMORY_BYTES * self.merges.count as usize;
            if self.merges.operations.len() + of_each > MERGES_BYTES_MAX {
                self.remove();
            }
            return;
        }
        self.pending.push(operation);
        if self.pending.operations.len() >= FRAME_BYTES {
            let pending = std::mem::take(&mut self.pending);
            self.write_frame(pending);
        }
    }

    fn write_frame(&mut self, pending: Pending) {
        let Pending { mut operations, count } = pending;
        let Some(writer) = self.writer.as_mut().filter(|_| count > 0) else { return };
        let mut body = Vec::with_capacity(operations.len() + 10);
        varint::write(count, &mut body);
        body.append(&mut operations);
        // One that is larger than what is kept would go at once.
        if writer.append_pairs(&body).is_err() || writer.bytes() > writer.header().retained_bytes {
            self.remove();
        }
    }

    /// All pairs are there.
    pub(crate) fn finish_pairs(&mut self) {
        for pending in [std::mem::take(&mut self.pending), std::mem::take(&mut self.merges)] {
            self.write_frame(pending);
        }
        if self.writer.as_mut().is_some_and(|writer| writer.sync().is_err()) {
            self.remove();
        }
    }

    /// Before the ingest takes its number. Nothing is copied until the end is dropped.
    pub(crate) fn end(&mut self) -> IngestEnd<'_> {
        IngestEnd { paused: self.changes.pause(), file: &mut self.writer }
    }

    fn remove(&mut self) {
        let writer = self.writer.take().filter(|_| self.changes.read.check_process().is_ok());
        if let Some(writer) = writer {
            self.changes.remove_for_ingest(writer.header().file);
        }
    }
}

impl Pending {
    fn push(&mut self, operation: Operation<'_>) {
        self.operations.push(operation.kind as u8);
        let start = self.operations.len();
        self.operations.resize(start + operation.encoded_length(), 0);
        operation.encode(&mut self.operations[start..]);
        self.count += 1;
    }
}

impl IngestEnd<'_> {
    /// Before the edit that publishes the ingest.
    pub(crate) fn give_number(&mut self, number: SequenceNumber) {
        let Some(paused) = &mut self.paused else { return };
        let is_there = match self.file {
            Some(file) if paused.can_go_on() => file.give_number(number).is_ok(),
            _ => false,
        };
        if !is_there {
            self.remove();
            self.paused.iter_mut().for_each(|paused| paused.lose(number));
        }
    }

    /// After it.
    pub(crate) fn published(mut self, number: SequenceNumber) -> Result<()> {
        match (self.paused.take(), self.file.take()) {
            (Some(paused), Some(file)) => paused.add_ingest(number, &file),
            _ => Ok(()),
        }
    }

    fn remove(&mut self) {
        if let (Some(paused), Some(file)) = (&mut self.paused, self.file.take()) {
            paused.remove(file.header().file);
        }
    }
}

impl Drop for IngestEnd<'_> {
    /// The ingest has failed.
    fn drop(&mut self) {
        self.remove();
    }
}

impl Drop for IngestChanges {
    fn drop(&mut self) {
        self.remove();
    }
}
