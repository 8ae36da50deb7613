//! The commit of a transaction: checks that what was read is unchanged, and applies the writes (`docs/concurrency.md`,
//! P1 and P2).
//!
//! A few keys are checked under their latches. Ranges, and many keys, are registered as range conflicts: from then on,
//! writers mark them. The commit then searches older writes without latches, and applies its own writes if no writer
//! has marked a range until then.

use super::read_set::ReadSet;
use crate::engine::latency::Call;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::state::view::{TreeMark, View};
use crate::engine::types::bounds::EncodedRange;
use crate::engine::types::effects::Effects;
use crate::engine::types::keyspace_info::DEFAULT_NAME;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::precondition::{Conflict, Precondition, ReadKey, WriteOutcome};
use crate::engine::write::write_path::WritePath;
use crate::merge::Cursor;
use crate::util::planted::planted;
use crate::util::{Error, Result, SequenceNumber};

/// A commit takes the latches of at most this many keys that were read. More keys are registered as ranges.
const LATCHED_MAX: usize = 128;

impl WritePath {
    /// Applies the writes if nothing that was read has been written since the snapshot.
    pub(crate) fn commit_transaction(
        &self,
        snapshot: &SnapshotPin,
        effects: &Effects,
        reads: &ReadSet,
        mode: WriteMode<'_>,
    ) -> Result<()> {
        // A read-only transaction takes effect at the moment of its snapshot.
        if effects.is_empty() {
            return Ok(());
        }
        let _timed = self.read.latencies.time(Call::Commit);
        if planted!(reads.is_empty(), Bug::ReadsUnchecked => true) {
            return self.write_all(effects, None, mode).map(drop);
        }
        let _inside = snapshot.begin_read()?;
        let since = snapshot.number();
        let keys: Vec<ReadKey<'_>> = reads.keys().map(|key| ReadKey::new(key, since)).collect();
        if reads.has_scans() || keys.len() > LATCHED_MAX {
            self.commit_with_registered_ranges(since, effects, &keys, reads, mode)
        } else {
            self.commit_latched(since, effects, &keys, mode)
        }
    }

    /// Checks the keys under their latches (rule P1).
    fn commit_latched(
        &self,
        since: SequenceNumber,
        effects: &Effects,
        keys: &[ReadKey<'_>],
        mode: WriteMode<'_>,
    ) -> Result<()> {
        let mut tree_checked = TreeMark::of_snapshot(since);
        // Ends: a round is repeated only when a whole memory generation or an ingest came to the tree during it.
        loop {
            let view = self.read.view.load_full();
            if view.has_more_than(tree_checked) {
                check_keys_in_tree(&view, since, keys, mode)?;
                tree_checked = view.tree_mark();
            }
            drop(view);
            let precondition = Precondition { reads: keys, tree_checked, filtered: u64::MAX, registered: None };
            match self.write_all(effects, Some(&precondition), mode)? {
                WriteOutcome::Written(_) => return Ok(()),
                WriteOutcome::Conflict(Conflict::NewerVersion(read)) => return Err(conflict(keys[read].key(), mode)),
                WriteOutcome::Conflict(
                    Conflict::TreeChanged | Conflict::Filtered | Conflict::RangeWritten | Conflict::NoRoom,
                ) => {}
            }
        }
    }

    /// Checks ranges and keys that are registered as range conflicts (rule P2).
    fn commit_with_registered_ranges(
        &self,
        since: SequenceNumber,
        effects: &Effects,
        keys: &[ReadKey<'_>],
        reads: &ReadSet,
        mode: WriteMode<'_>,
    ) -> Result<()> {
        let scanned_ranges = reads.scanned_ranges();
        // The search that may read the disk comes first, before the registration. Few versions enter the tree after it.
        let view = self.read.view.load_full();
        let mut tree_checked = TreeMark::of_snapshot(since);
        if view.has_more_than(tree_checked) {
            check_keys_in_tree(&view, since, keys, mode)?;
            scanned_ranges.iter().try_for_each(|range| check_range_in_tree(&view, since, range, mode))?;
            tree_checked = view.tree_mark();
        }
        drop(view);
        let range_guard = self.committer.range_conflicts.register(reads.all_ranges(), &self.read.sequencer);
        // Every write that has not seen the registration has a number up to this snapshot's.
        let now = self.read.snapshots.take(&self.read.sequencer);
        let view = self.read.view.load_full();
        if view.has_more_than(tree_checked) {
            check_keys_in_tree(&view, since, keys, mode)?;
            scanned_ranges.iter().try_for_each(|range| check_range_in_tree(&view, since, range, mode))?;
        }
        if let Some(newer) = keys.iter().find(|key| key.has_newer_in_memory(&view)) {
            return Err(conflict(newer.key(), mode));
        }
        scanned_ranges.iter().try_for_each(|range| check_range_in_memory(&view, (since, now.number()), range, mode))?;
        drop(view);
        drop(now);
        let precondition =
            Precondition { reads: &[], tree_checked, filtered: u64::MAX, registered: Some(range_guard.registered()) };
        match self.write_all(effects, Some(&precondition), mode)? {
            WriteOutcome::Written(_) => Ok(()),
            WriteOutcome::Conflict(_) => Err(conflict_at(&range_guard.marked_by(), mode)),
        }
    }
}

/// Returns `Conflict` if the tree has a newer version of one of the keys.
fn check_keys_in_tree(view: &View, since: SequenceNumber, keys: &[ReadKey<'_>], mode: WriteMode<'_>) -> Result<()> {
    let mut value = Vec::new();
    for key in keys {
        value.clear();
        let newest = key.newest_in_tree(view, &mut value)?;
        if newest > since {
            return Err(conflict(key.key(), mode));
        }
    }
    Ok(())
}

/// Returns `Conflict` if the tree has a newer version of a key in a range.
fn check_range_in_tree(
    view: &View,
    since: SequenceNumber,
    (start, end): &EncodedRange,
    mode: WriteMode<'_>,
) -> Result<()> {
    let newer = view.disk.written_since(since, start, end.as_deref())?;
    newer.map_or(Ok(()), |key| Err(conflict_at(&key, mode)))
}

/// Returns `Conflict` if memory has a newer version of a key in a range. `now` bounds the writes that have not seen the
/// registration.
fn check_range_in_memory(
    view: &View,
    (since, now): (SequenceNumber, SequenceNumber),
    (start, end): &EncodedRange,
    mode: WriteMode<'_>,
) -> Result<()> {
    for generation in view.generations.iter().filter(|generation| generation.end().is_none_or(|end| end > since)) {
        let memtable = &generation.memtable;
        let deleted = memtable.range_tombstones().clip(start, end.as_deref());
        if let Some(deletion) = deleted.deletions().find(|deletion| deletion.number > since) {
            return Err(conflict_at(&deletion.start, mode));
        }
        if memtable.is_empty() {
            continue;
        }
        let mut cursor = memtable.cursor_at(now);
        cursor.seek(start, SequenceNumber::MAX)?;
        while cursor.valid() && end.as_deref().is_none_or(|end| cursor.entry().key < end) {
            if cursor.entry().number > since {
                return Err(conflict_at(cursor.entry().key, mode));
            }
            cursor.next()?;
        }
    }
    Ok(())
}

fn conflict_at(encoded: &[u8], mode: WriteMode<'_>) -> Error {
    conflict(UserKey::of_encoded(encoded).unwrap_or(UserKey::of_default(encoded)), mode)
}

fn conflict(key: UserKey<&[u8]>, mode: WriteMode<'_>) -> Error {
    let found = mode.keyspaces.iter().find(|keyspace| keyspace.id == key.keyspace);
    let keyspace = found.map_or(DEFAULT_NAME, |keyspace| &keyspace.name).to_owned();
    Error::Conflict { keyspace, key: key.bytes.to_vec() }
}
