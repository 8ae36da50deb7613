//! The pairs of an ingest, for followers: a change file of its own, written while they arrive (rule J7). The thread of the ingest.

use super::change_log::ChangeLog;
use super::paused::Paused;
use crate::changes::{ChangeWriter, Names};
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::format::log_record::Operation;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber, varint};

/// A frame ends with the pair that reaches this length.
const FRAME_BYTES: usize = 256 << 10;

/// See the module. If it is dropped before `finish`, the file is removed.
pub(crate) struct IngestChanges {
    changes: Arc<ChangeLog>,
    keyspace: KeyspaceId,
    /// `None`: nothing is kept, or the file could not be written. Then the stream is lost when the ingest takes effect.
    writer: Option<ChangeWriter>,
    /// Pairs that are not in the file yet, as operations of a batch.
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
    pub(crate) fn new(changes: &Arc<ChangeLog>, keyspace: &KeyspaceInfo) -> Self {
        let name = (keyspace.id != KeyspaceId::DEFAULT).then(|| (keyspace.id, keyspace.name.to_string()));
        let writer = changes.create_for_ingest(&Names::new(name)).and_then(Result::ok);
        let (changes, keyspace) = (Arc::clone(changes), keyspace.id);
        Self { changes, keyspace, writer, operations: Vec::new(), count: 0 }
    }

    /// Adds a pair.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.writer.is_none() {
            return;
        }
        let pair = Operation { kind: Kind::Put, keyspace: self.keyspace, key, value };
        self.operations.push(pair.kind as u8);
        let start = self.operations.len();
        self.operations.resize(start + pair.encoded_length(), 0);
        pair.encode(&mut self.operations[start..]);
        self.count += 1;
        if self.operations.len() >= FRAME_BYTES {
            self.write_frame();
        }
    }

    fn write_frame(&mut self) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.count > 0) else { return };
        let mut body = Vec::with_capacity(self.operations.len() + 10);
        varint::write(self.count, &mut body);
        body.append(&mut self.operations);
        self.count = 0;
        // One that is larger than what is kept would go at once.
        if writer.append_pairs(&body).is_err() || writer.bytes() > writer.header().retained_bytes {
            self.remove();
        }
    }

    /// All pairs are there.
    pub(crate) fn finish_pairs(&mut self) {
        self.write_frame();
        if self.writer.as_mut().is_some_and(|writer| writer.sync().is_err()) {
            self.remove();
        }
    }

    /// Before the ingest takes its number. Nothing is copied until the end is dropped.
    pub(crate) fn end(&mut self) -> IngestEnd<'_> {
        IngestEnd { paused: self.changes.pause(), file: &mut self.writer }
    }

    fn remove(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.changes.remove_for_ingest(writer.header().file);
        }
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
