//! Folding in memory: a new operand is folded with the version below it, which it then replaces. So a counter in memory
//! is one version, however often it is added to. (Operands are the update messages of SplinterDB §2.)
//!
//! A fold is made in two steps. `fold` (`read/folding.rs`) calls the operator, outside any latch, and remembers which version it has read.
//! `place` (`placing.rs`), under the key's latch, takes the fold if that version is still the newest, and the operand
//! itself otherwise. Any thread.
//!
//! Invariants (`docs/concurrency.md`, O):
//! 1. A fold of operands contains the older ones, so it takes their place in the chain, with one store. It is taken only if
//!    no snapshot needs any of them. A fold with a value is a value, and stands above everything.
//! 2. What lies below an operand in a chain stays there as long as the operand does.

use super::memtable::{Memtable, NewVersion, Prepared};
use super::writer::{MemtableWriter, add_spare};
use crate::memory::entry::version::Version;
use crate::util::arena::Offset;
use crate::util::planted::planted;
use crate::util::{Kind, SequenceNumber};

/// The longest result of a fold, and what a write may copy for one.
pub const FOLD_BYTES_MAX: usize = 4 << 10;
/// A chain of this many operands makes reads slow enough that replacing it by its value is worth a read.
pub const OPERANDS_MAX: usize = 16;

/// What an operand and versions below it make together.
#[derive(Debug)]
pub struct Fold {
    /// The block and number of the newest version below. A block never has a number twice, and a number may be in two
    /// blocks, one after the other: that of a batch's operand and that of its fold.
    pub(crate) onto: (Offset, SequenceNumber),
    /// The number of the oldest operand that it contains.
    pub(crate) through: SequenceNumber,
    pub(crate) kind: Kind,
    pub(crate) value: Vec<u8>,
}

impl Fold {
    /// Length of the result.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }
}

impl Memtable {
    /// Writes a fold into memory that no other thread sees yet, beside the prepared operand.
    pub fn prepare_fold(&self, writer: &mut MemtableWriter, prepared: &mut Prepared, fold: &Fold) {
        // It has one, since it had a version when it was folded.
        if prepared.has_node {
            prepared.folded = self.block(writer, NewVersion::new(fold.kind, &fold.value));
            prepared.folded_onto = fold.onto;
            prepared.folded_through = fold.through;
        }
    }

    /// Whether the prepared fold may take the place of the operand: `newest` is still the version that it was folded
    /// with, and the operands that it contains may be removed. The key's latch is held.
    pub(super) fn fold_holds(&self, prepared: &Prepared, newest: Version<'_>, newest_snapshot: SequenceNumber) -> bool {
        let is_newest = (newest.place(), newest.number()) == prepared.folded_onto;
        if prepared.folded.is_null() || !planted!(is_newest, Bug::FoldUnchecked => true) {
            return false;
        }
        let replaces = self.version(prepared.folded).kind() == Kind::Merge;
        !replaces || (prepared.folded_through > newest_snapshot && self.removes_versions())
    }

    /// The version below the operands that a fold contains, of which `newest` is the newest one. The key's latch is held.
    pub(super) fn below_folded(&self, newest: Version<'_>, through: SequenceNumber) -> Offset {
        let mut version = newest;
        while version.number() > through {
            let Some(older) = self.older(version) else { break };
            version = older;
        }
        version.previous()
    }

    /// Removes the operands that a fold contains, which stands in their place. Returns how many there were.
    pub(super) fn remove_folded(&self, writer: &mut MemtableWriter, newest: Version<'_>, below: Offset) -> i64 {
        let (mut place, mut removed) = (newest.place(), 0);
        while place != below {
            let version = self.version(place);
            place = version.previous();
            add_spare(writer, version);
            removed += 1;
        }
        removed
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
