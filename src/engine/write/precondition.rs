//! The precondition of a conditional write: what its caller has read is unchanged (cLSM §3.3, optimistic concurrency
//! control; `docs/concurrency.md`, P).
//!
//! One thread. Single keys are checked under their latches. Ranges, and keys that are too many for that, are registered
//! as range conflicts (`range_conflicts`).

use super::range_conflicts::RegisteredRanges;
use crate::branch::BlockingPages;
use crate::engine::state::view::{TreeMark, View};
use crate::engine::types::user_key::UserKey;
use crate::util::planted::planted;
use crate::util::{Result, SequenceNumber};

/// A key that was read.
#[derive(Debug)]
pub(crate) struct ReadKey<'a> {
    key: UserKey<&'a [u8]>,
    hash: u64,
    /// The caller knows all versions up to this number; the key must have no newer one.
    known_through: SequenceNumber,
}

impl<'a> ReadKey<'a> {
    pub(crate) fn new(key: UserKey<&'a [u8]>, known_through: SequenceNumber) -> Self {
        Self { key, hash: key.hash(), known_through }
    }

    pub(crate) fn key(&self) -> UserKey<&'a [u8]> {
        self.key
    }

    /// The number of the key's newest version in the tree, or of a range tombstone over it there; `ZERO` if there is
    /// none. Does not use the item cache, because that requires a stamp from before the view was loaded. Appends the
    /// version's value to `value`.
    pub(crate) fn newest_in_tree(&self, view: &View, value: &mut Vec<u8>) -> Result<SequenceNumber> {
        let newest = self.key.with_encoded(|encoded| {
            view.disk.get(encoded, self.hash, SequenceNumber::MAX, &mut BlockingPages::new(), value)
        })?;
        Ok(newest.map_or(SequenceNumber::ZERO, |(number, _)| number))
    }

    /// Whether memory has a version that the caller does not know.
    pub(crate) fn has_newer_in_memory(&self, view: &View) -> bool {
        view.newest_in_memory(self.key, self.hash) > self.known_through
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Precondition<'a> {
    /// Keys that must have no newer version. The writer holds their latches.
    pub(crate) reads: &'a [ReadKey<'a>],
    /// All versions of these keys in the tree up to this mark are known.
    pub(crate) tree_checked: TreeMark,
    /// `View::filtered` of the view in which the values were read; `u64::MAX` if a snapshot protects them (rule F5).
    pub(crate) filtered: u64,
    /// Ranges that no other writer may have marked.
    pub(crate) registered: Option<&'a RegisteredRanges>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum WriteOutcome {
    /// The write has this number; `ZERO` if there was nothing to write.
    Written(SequenceNumber),
    /// Nothing was written, because the precondition does not hold.
    Conflict(Conflict),
}

/// Why the precondition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Another write has changed the key at this index of the reads.
    NewerVersion(usize),
    /// A generation with unknown versions, or an ingest, may have come to the tree, so the caller must look there.
    TreeChanged,
    /// A compaction filter may have changed what was read.
    Filtered,
    /// Another writer has marked the registered ranges.
    RangeWritten,
    /// There is no memory for the write, which must not wait (`WriteMode::tick`).
    NoRoom,
}

impl Precondition<'_> {
    /// Hashes of the keys whose latches the writer takes.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.reads.iter().map(|read| read.hash)
    }

    /// The keys that were read.
    pub(crate) fn keys(&self) -> impl Iterator<Item = UserKey<&[u8]>> {
        self.reads.iter().map(|read| read.key)
    }

    /// Checks the reads (rule P1). The caller holds their latches.
    pub(crate) fn conflict(&self, view: &View) -> Option<Conflict> {
        if planted!(self.reads.is_empty(), Bug::UpdateUnchecked => true) {
            return None;
        }
        if planted!(view.filtered > self.filtered, Bug::FilterUnchecked => false) {
            return Some(Conflict::Filtered);
        }
        if planted!(view.has_more_than(self.tree_checked), Bug::IncorporationUnchecked => false) {
            return Some(Conflict::TreeChanged);
        }
        self.reads.iter().position(|read| read.has_newer_in_memory(view)).map(Conflict::NewerVersion)
    }
}
