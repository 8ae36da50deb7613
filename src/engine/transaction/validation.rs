//! The commit: whether what was read is as it was, and the write if it is (`docs/concurrency.md`, P1 and P2).
//!
//! A few keys are looked at under their latches. Ranges, and many keys, are watched: from a moment on nobody writes them unseen, what
//! was written before that moment is looked through at leisure, and the write happens if until then nobody came.

use super::read_set::ReadSet;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::state::view::View;
use crate::engine::types::batch::Operation;
use crate::engine::types::options::Durability;
use crate::engine::write::precondition::{Conflict, Precondition, ReadKey, WriteOutcome};
use crate::engine::write::range_conflicts::EncodedRange;
use crate::engine::write::write_path::WritePath;
use crate::merge::Cursor;
use crate::util::planted::planted;
use crate::util::{Error, Result, SequenceNumber, key};

/// Keys that were read and whose latches a commit takes at most; more are watched.
const LATCHED_MAX: usize = 128;

impl WritePath {
    /// Applies the operations if nothing of the reads was written after the snapshot.
    pub(crate) fn commit_transaction(
        &self,
        snapshot: &SnapshotPin,
        operations: &[Operation],
        reads: &ReadSet,
        durability: Durability,
    ) -> Result<()> {
        // A snapshot is one order with everything; what only reads happened then.
        if operations.is_empty() {
            return Ok(());
        }
        if planted!(reads.is_empty(), Bug::ReadsUnchecked => true) {
            return self.write_all(operations, None, durability).map(drop);
        }
        let _inside = snapshot.enter()?;
        let since = snapshot.number();
        let keys: Vec<ReadKey<'_>> = reads.keys.iter().map(|key| ReadKey::new(key, since)).collect();
        if reads.has_stretches() || keys.len() > LATCHED_MAX {
            self.commit_watched(since, operations, &keys, reads, durability)
        } else {
            self.commit_latched(since, operations, &keys, durability)
        }
    }

    /// Rule P1.
    fn commit_latched(
        &self,
        since: SequenceNumber,
        operations: &[Operation],
        keys: &[ReadKey<'_>],
        durability: Durability,
    ) -> Result<()> {
        let mut tree_known_through = since;
        // Ends: a round is repeated only when a whole memory generation went to the tree during it.
        loop {
            let view = self.read.view.load_full();
            if view.retired_through() > tree_known_through {
                find_newer_key(&view, since, keys)?;
                tree_known_through = view.retired_through();
            }
            drop(view);
            let precondition = Precondition { reads: keys, tree_known_through, registered: None };
            match self.write_all(operations, Some(&precondition), durability)? {
                WriteOutcome::Written(_) => return Ok(()),
                WriteOutcome::Conflict(Conflict::NewerVersion(read)) => return Err(conflict(keys[read].key())),
                WriteOutcome::Conflict(Conflict::GenerationIncorporated | Conflict::RangeWritten) => {}
            }
        }
    }

    /// Rule P2.
    fn commit_watched(
        &self,
        since: SequenceNumber,
        operations: &[Operation],
        keys: &[ReadKey<'_>],
        reads: &ReadSet,
        durability: Durability,
    ) -> Result<()> {
        let walked = reads.walked();
        // What may need the disk first, without a watch; what came to the tree meanwhile is little.
        let view = self.read.view.load_full();
        let mut tree_known_through = since;
        if view.retired_through() > since {
            find_newer_key(&view, since, keys)?;
            walked.iter().try_for_each(|range| find_newer_in_tree(&view, since, range))?;
            tree_known_through = view.retired_through();
        }
        drop(view);
        let watching = self.committer.range_conflicts.begin(reads.ranges(), &self.read.sequencer);
        // Everything that was written unseen has a number up to this snapshot's.
        let now = self.read.snapshots.take(&self.read.sequencer);
        let view = self.read.view.load_full();
        if view.retired_through() > tree_known_through {
            find_newer_key(&view, since, keys)?;
            walked.iter().try_for_each(|range| find_newer_in_tree(&view, since, range))?;
        }
        if let Some(newer) = keys.iter().find(|key| key.has_newer_in_memory(&view)) {
            return Err(conflict(newer.key()));
        }
        walked.iter().try_for_each(|range| find_newer_in_memory(&view, since, now.number(), range))?;
        drop(view);
        drop(now);
        let precondition =
            Precondition { reads: &[], tree_known_through: since, registered: Some(watching.registered()) };
        match self.write_all(operations, Some(&precondition), durability)? {
            WriteOutcome::Written(_) => Ok(()),
            WriteOutcome::Conflict(_) => Err(conflict(&watching.marked_by())),
        }
    }
}

/// An error if anything newer of some key has left memory for the tree.
fn find_newer_key(view: &View, since: SequenceNumber, keys: &[ReadKey<'_>]) -> Result<()> {
    let mut value = Vec::new();
    for key in keys {
        value.clear();
        let newest = key.newest_in_tree(view, &mut value)?;
        if newest > since {
            return Err(conflict(key.key()));
        }
    }
    Ok(())
}

/// An error if anything newer in a range has left memory for the tree.
fn find_newer_in_tree(view: &View, since: SequenceNumber, (start, end): &EncodedRange) -> Result<()> {
    let newer = view.disk.written_since(since, start, end.as_deref())?;
    newer.map_or(Ok(()), |key| Err(conflict_at(&key)))
}

/// An error if there is anything newer in a range in memory; `now` bounds what was written unseen.
fn find_newer_in_memory(view: &View, since: SequenceNumber, now: SequenceNumber, range: &EncodedRange) -> Result<()> {
    let (start, end) = range;
    for generation in view.generations.iter().filter(|generation| generation.end().is_none_or(|end| end > since)) {
        let memtable = &generation.memtable;
        let deleted = memtable.range_tombstones().clip(start, end.as_deref());
        if let Some(deletion) = deleted.deletions().find(|deletion| deletion.number > since) {
            return Err(conflict_at(&deletion.start));
        }
        if memtable.is_empty() {
            continue;
        }
        let mut cursor = memtable.cursor_at(now);
        cursor.seek(start, SequenceNumber::MAX)?;
        while cursor.valid() && end.as_deref().is_none_or(|end| cursor.entry().key < end) {
            if cursor.entry().number > since {
                return Err(conflict_at(cursor.entry().key));
            }
            cursor.next()?;
        }
    }
    Ok(())
}

fn conflict_at(encoded: &[u8]) -> Error {
    conflict(key::split(encoded).map_or(encoded, |(_, user_key)| user_key))
}

fn conflict(user_key: &[u8]) -> Error {
    Error::Conflict { key: user_key.to_vec() }
}
