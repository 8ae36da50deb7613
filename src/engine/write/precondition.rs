//! What a conditional write rests on: that nobody has written since what its caller has read (cLSM §3.3, optimistic concurrency
//! control; `docs/concurrency.md`, P).
//!
//! One thread. Points that were read are looked at under their latches; ranges, and points that are too many for that, are watched
//! (`range_conflicts`).

use super::range_conflicts::RegisteredRanges;
use crate::branch::BlockingPages;
use crate::engine::state::view::View;
use crate::util::key::with_encoded;
use crate::util::planted::planted;
use crate::util::{KeyspaceId, Result, SequenceNumber, hash};

/// A key that was read.
#[derive(Debug)]
pub(crate) struct ReadKey<'a> {
    key: &'a [u8],
    hash: u64,
    /// The caller knows of everything that was written to it up to this number; nothing later may have been.
    through: SequenceNumber,
}

impl<'a> ReadKey<'a> {
    pub(crate) fn new(key: &'a [u8], through: SequenceNumber) -> Self {
        Self { key, hash: hash::key_hash(KeyspaceId::DEFAULT, key), through }
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The number of its newest version in the tree, or of a range tombstone over it there; `ZERO` where it has none. Not by the item
    /// cache, which wants to be asked before the view is taken. `value` is for what comes with it.
    pub(crate) fn newest_in_tree(&self, view: &View, value: &mut Vec<u8>) -> Result<SequenceNumber> {
        let newest = with_encoded(KeyspaceId::DEFAULT, self.key, |encoded| {
            view.disk.get(encoded, self.hash, SequenceNumber::MAX, &mut BlockingPages::new(), value)
        })?;
        Ok(newest.map_or(SequenceNumber::ZERO, |(number, _)| number))
    }

    /// Whether memory has something newer.
    pub(crate) fn has_newer_in_memory(&self, view: &View) -> bool {
        view.newest_in_memory(KeyspaceId::DEFAULT, self.key, self.hash) > self.through
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Precondition<'a> {
    /// The writer holds the latches of all of these.
    pub(crate) reads: &'a [ReadKey<'a>],
    /// Of these reads everything in the tree is known if no generation with numbers above this has gone there.
    pub(crate) tree_known_through: SequenceNumber,
    /// What else must stay as it is.
    pub(crate) registered: Option<&'a RegisteredRanges>,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum WriteOutcome {
    /// It was written with this number; `ZERO` if there was nothing to write.
    Written(SequenceNumber),
    /// Nothing was written, because the precondition does not hold.
    Conflict(Conflict),
}

/// Why a conditional write did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// This one of the reads was overtaken by a write.
    NewerVersion(usize),
    /// What overtook a read may have left memory for the tree; look there.
    GenerationIncorporated,
    /// Somebody writes what is watched.
    RangeWritten,
}

impl Precondition<'_> {
    /// Hashes of the keys whose latches the writer takes.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.reads.iter().map(|read| read.hash)
    }

    /// Rule P1. The caller holds the latches of all reads.
    pub(crate) fn conflict(&self, view: &View) -> Option<Conflict> {
        if planted!(self.reads.is_empty(), Bug::UpdateUnchecked => true) {
            return None;
        }
        if planted!(view.retired_through() > self.tree_known_through, Bug::IncorporationUnchecked => false) {
            return Some(Conflict::GenerationIncorporated);
        }
        self.reads.iter().position(|read| read.has_newer_in_memory(view)).map(Conflict::NewerVersion)
    }
}
