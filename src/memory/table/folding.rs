//! Folding in memory: a new operand is folded with the version below it, which it then replaces. So a counter in memory
//! is one version, however often it is added to (SplinterDB §2.2 folds update messages in its memtable in the same way).
//!
//! A fold is made in two steps. `fold` calls the operator, outside any latch, and remembers which version it has read.
//! `place` (`placing.rs`), under the key's latch, takes the fold if that version is still the newest, and the operand
//! itself otherwise. Any thread.
//!
//! Invariants (`docs/concurrency.md`, O):
//! 1. A fold of an operand with an operand contains the older one, so it takes that one's place in the chain, with one
//!    store. It is taken only if no snapshot needs the older one. A fold with a value is a value, and stands above it.
//! 2. What lies below an operand in a chain stays there as long as the operand does.

use super::memtable::{Memtable, NewVersion, Prepared};
use super::writer::MemtableWriter;
use crate::memory::entry::version::Version;
use crate::merge::MergeOperator;
use crate::util::key::with_encoded;
use crate::util::planted::planted;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

/// The longest result of a fold, and what a write may copy for one.
pub const FOLD_BYTES_MAX: usize = 4 << 10;
/// A chain of this many operands makes reads slow enough that replacing it by its value is worth a read.
pub const OPERANDS_MAX: usize = 16;

/// What an operand and the version below it make together.
#[derive(Debug)]
pub struct Fold {
    /// The number of the version below.
    onto: SequenceNumber,
    kind: Kind,
    value: Vec<u8>,
}

impl Fold {
    /// Length of the result.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }
}

impl Memtable {
    /// Folds an operand with the newest version of its key. `None` if that is not here, or not small, or if the operator
    /// refuses. Calls the operator, so it is called outside any latch.
    pub fn fold(
        &self,
        (keyspace, user_key, hash): (KeyspaceId, &[u8], u64),
        operand: &[u8],
        operator: &dyn MergeOperator,
    ) -> Option<Fold> {
        let mut older = Vec::new();
        let room = FOLD_BYTES_MAX.checked_sub(operand.len())?;
        let (onto, kind) = self.get_up_to(room, (keyspace, user_key, hash), &mut older)?;
        if self.has_range_tombstones()
            && with_encoded(keyspace, user_key, |encoded| self.covering(encoded, SequenceNumber::MAX)) > onto
        {
            return None;
        }
        let mut value = Vec::new();
        let (kind, is_folded) = match kind {
            Kind::Put => (Kind::Put, operator.full_merge(user_key, Some(&older), &[operand], &mut value).is_ok()),
            Kind::Delete => (Kind::Put, operator.full_merge(user_key, None, &[operand], &mut value).is_ok()),
            Kind::Merge => (Kind::Merge, operator.partial_merge(user_key, &older, operand, &mut value)),
            Kind::ValueReference | Kind::RangeDelete | Kind::Void | Kind::Batch => return None,
        };
        (is_folded && value.len() <= FOLD_BYTES_MAX).then_some(Fold { onto, kind, value })
    }

    /// Writes a fold into memory that no other thread sees yet, beside the prepared operand.
    pub fn prepare_fold(&self, writer: &mut MemtableWriter, prepared: &mut Prepared, fold: &Fold) {
        // It has one, since it had a version when it was folded.
        if prepared.has_node {
            prepared.folded = self.block(writer, NewVersion::new(fold.kind, &fold.value));
            prepared.folded_onto = fold.onto;
        }
    }

    /// Whether the prepared fold may take the place of the operand: `newest` is still the version that it was folded
    /// with, and may be replaced if it has to be. The key's latch is held.
    pub(crate) fn fold_holds(&self, prepared: &Prepared, newest: Version<'_>, newest_snapshot: SequenceNumber) -> bool {
        let is_newest = newest.number() == prepared.folded_onto;
        if prepared.folded.is_null() || !planted!(is_newest, Bug::FoldUnchecked => true) {
            return false;
        }
        let replaces = self.version(prepared.folded).kind() == Kind::Merge;
        !replaces || (newest.number() > newest_snapshot && self.removes_versions())
    }

    /// Whether an operand is at the end of a chain of `OPERANDS_MAX` operands or more. The key's latch is held.
    pub(crate) fn ends_long_chain(&self, operand: Version<'_>) -> bool {
        std::iter::successors(Some(operand), |version| self.older(*version))
            .take(OPERANDS_MAX)
            .take_while(|version| version.kind() == Kind::Merge)
            .count()
            == OPERANDS_MAX
    }
}
