//! The layers of a staged batch that are in files. One thread.
//!
//! Each layer has a number, greater than those of older layers, which its entries and its deleted ranges show. So a merge of
//! layers, and a reader of all of them, follows the rules for versions: the newest entry of a key counts, unless a range with a
//! greater number covers it.
//!
//! Layers are merged as in a tiered tree (one of `FANOUT` runs a level), so that a batch of any size has few.

use super::memory_layer::{MemoryCursor, MemoryLayer, Own};
use crate::disk::{Pair, UnnumberedRun};
use crate::engine::engine::Engine;
use crate::engine::ingest::deleted_ranges::DeletedRanges;
use crate::engine::ingest::ingestion::new_writer;
use crate::engine::types::user_key::UserKey;
use crate::format::value_file::ValueReference;
use crate::merge::{Cursor, EntryRef, MergeCursor, RangeTombstones};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{FileNumber, KeyspaceId, Kind, Result, SequenceNumber};
use std::collections::HashSet;

/// So many layers of a level become one of the next.
const FANOUT: usize = 8;

/// The number of what is below a batch; those of layers are greater.
pub(super) const BASE: SequenceNumber = SequenceNumber(1);

/// See the module.
#[derive(Default)]
pub(super) struct SpilledLayers {
    /// Oldest first.
    layers: Vec<Layer>,
    /// The deleted ranges of all layers.
    deleted: RangeTombstones,
}

struct Layer {
    number: SequenceNumber,
    level: u32,
    /// `None` if it has only deleted ranges.
    run: Option<UnnumberedRun>,
}

impl SpilledLayers {
    /// The number of the next layer: that in memory.
    pub(super) fn next_number(&self) -> SequenceNumber {
        self.layers.last().map_or(BASE, |newest| newest.number).next()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Bytes of the files.
    pub(super) fn bytes(&self) -> u64 {
        self.layers.iter().filter_map(|layer| layer.run.as_ref()).map(UnnumberedRun::bytes).sum()
    }

    /// The deleted ranges of all layers.
    pub(super) fn deleted(&self) -> &RangeTombstones {
        &self.deleted
    }

    /// Adds ranges that any layer has deleted.
    pub(super) fn add_deleted_to(&self, ranges: &mut DeletedRanges) {
        for fragment in self.deleted.fragments() {
            ranges.add(fragment.start.clone(), fragment.end.clone());
        }
    }

    /// What the layers say about a key.
    pub(super) fn get(&self, key: UserKey<&[u8]>) -> Result<Own> {
        key.with_encoded(|encoded| {
            let covering = self.deleted.covering(encoded, SequenceNumber::MAX);
            let hash = key.hash();
            let mut value = Vec::new();
            let mut newest_first = self.layers.iter().rev().take_while(|layer| layer.number >= covering);
            let found = planted!(newest_first.find_map(|layer| layer.get(encoded, hash, &mut value)), Bug::StagedOldest => {
                self.layers.iter().find_map(|layer| layer.get(encoded, hash, &mut value))
            });
            Ok(match found.transpose()? {
                Some(kind) => Own::Entry(kind, value),
                None if covering > SequenceNumber::ZERO => Own::Entry(Kind::Delete, Vec::new()),
                None => Own::Nothing,
            })
        })
    }

    /// Adds a layer: the entries that `fill` writes, and these ranges. Nothing has changed after an error.
    pub(super) fn push(
        &mut self,
        engine: &Arc<Engine>,
        deleted: &DeletedRanges,
        fill: impl FnOnce(&mut dyn FnMut(Pair<'_>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let number = self.next_number();
        let run = write_run(engine, number, fill)?;
        self.layers.push(Layer { number, level: 0, run });
        self.deleted = RangeTombstones::union([&self.deleted, &deleted.tombstones(number)]);
        Ok(())
    }

    /// The value files of all layers.
    pub(super) fn value_files(&self) -> HashSet<FileNumber> {
        self.layers.iter().filter_map(|layer| layer.run.as_ref()).flat_map(UnnumberedRun::value_files).collect()
    }

    /// Merges layers while there are many of one level; returns whether it did. Nothing is lost after an error, and the next call
    /// tries again. Without space it does nothing.
    pub(super) fn merge(&mut self, engine: &Arc<Engine>) -> Result<bool> {
        match self.merge_all(engine) {
            Err(error) if error.is_disk_full() => Ok(false),
            merged => merged,
        }
    }

    fn merge_all(&mut self, engine: &Arc<Engine>) -> Result<bool> {
        let mut has_merged = false;
        while let Some(newest) = self.layers.last() {
            let (number, level) = (newest.number, newest.level);
            let count = self.layers.iter().rev().take_while(|layer| layer.level == level).count();
            if count < FANOUT {
                break;
            }
            let from = self.layers.len() - count;
            let oldest = self.layers[from].number;
            let run = write_run(engine, number, |add| {
                newest_entries(&self.layers[from..], None, &self.deleted, |entry| add(pair_of(entry)))
            })?;
            self.layers.truncate(from);
            self.layers.push(Layer { number, level: level + 1, run });
            // What they hide of the merged layers is gone, and the rest is older than all of these.
            let renumbered = self.deleted.deletions().map(|mut deletion| {
                if deletion.number >= oldest {
                    deletion.number = number;
                }
                deletion
            });
            self.deleted = RangeTombstones::new(renumbered);
            has_merged = true;
        }
        Ok(has_merged)
    }

    /// Shows the newest entry of each key of all layers and of the one in memory, except what deleted ranges hide.
    pub(super) fn newest_entries(
        &self,
        memory: &MemoryLayer,
        take: impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        newest_entries(&self.layers, Some(memory.cursor(self.next_number())), &self.deleted, take)
    }

    /// A cursor over each layer, newest first.
    pub(super) fn cursors(&self) -> impl Iterator<Item = Box<dyn Cursor + 'static>> {
        let runs = self.layers.iter().rev().filter_map(|layer| layer.run.as_ref());
        runs.map(|run| Box::new(run.cursor(false)) as Box<dyn Cursor>)
    }
}

impl Layer {
    fn get(&self, encoded: &[u8], hash: u64, value: &mut Vec<u8>) -> Option<Result<Kind>> {
        self.run.as_ref()?.get(encoded, hash, value).transpose()
    }
}

/// Writes the entries that `fill` adds, in the order of their keys, to files; `None` if there is no entry.
fn write_run(
    engine: &Arc<Engine>,
    number: SequenceNumber,
    fill: impl FnOnce(&mut dyn FnMut(Pair<'_>) -> Result<()>) -> Result<()>,
) -> Result<Option<UnnumberedRun>> {
    let mut writer = new_writer(engine)?;
    fill(&mut |pair| writer.add(pair))?;
    let parts = writer.finish()?;
    Ok((!parts.is_empty()).then(|| UnnumberedRun::new(parts, number)))
}

/// Shows the newest entry of each key of these layers, except what deleted ranges hide, also those of newer layers.
fn newest_entries(
    layers: &[Layer],
    memory: Option<MemoryCursor<'_>>,
    deleted: &RangeTombstones,
    mut take: impl FnMut(EntryRef<'_>) -> Result<()>,
) -> Result<()> {
    let runs = layers.iter().rev().filter_map(|layer| layer.run.as_ref());
    let runs = runs.map(|run| Box::new(run.cursor(true)) as Box<dyn Cursor + '_>);
    let memory = memory.map(|cursor| Box::new(cursor) as Box<dyn Cursor + '_>);
    let mut cursor = MergeCursor::new(memory.into_iter().chain(runs).collect());
    cursor.seek_first()?;
    let mut last = None;
    while cursor.valid() {
        let entry = cursor.entry();
        if last.as_deref() != Some(entry.key) {
            let hidden = deleted.covering(entry.key, SequenceNumber::MAX);
            if entry.number >= hidden.max(cursor.covering(entry.key, SequenceNumber::MAX)) {
                take(entry)?;
            }
            let key = last.get_or_insert_with(Vec::new);
            key.clear();
            key.extend_from_slice(entry.key);
        }
        cursor.next()?;
    }
    Ok(())
}

/// The entry for a file, with the bytes that its user has written.
pub(super) fn pair_of(entry: EntryRef<'_>) -> Pair<'_> {
    let EntryRef { key, kind, value, .. } = entry;
    let length = match kind {
        Kind::ValueReference => ValueReference::decode(value).map_or(0, |reference| reference.length),
        _ => value.len() as u64,
    };
    Pair { key, kind, value, user_bytes: (key.len() - KeyspaceId::BYTES) as u64 + length }
}
