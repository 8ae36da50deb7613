//! Folding in memory: a new operand is folded with the version below it, which it then replaces. So a counter in memory
//! is one version, however often it is added to (SplinterDB §2.2 folds update messages in its memtable in the same way).
//!
//! A fold is made in two steps. `fold` calls the operator, outside any latch, and remembers which version it has read.
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
use crate::memory::read::lookup::{Seen, Visit};
use crate::merge::MergeOperator;
use crate::util::arena::Offset;
use crate::util::key::with_encoded;
use crate::util::planted::planted;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

/// The longest result of a fold, and what a write may copy for one.
pub const FOLD_BYTES_MAX: usize = 4 << 10;
/// A chain of this many operands makes reads slow enough that replacing it by its value is worth a read.
pub const OPERANDS_MAX: usize = 16;

/// Most operands that a fold takes up at once.
const OPERANDS_FOLDED_MAX: usize = 64;

/// What an operand and versions below it make together.
#[derive(Debug)]
pub struct Fold {
    /// The block and number of the newest version below. A block never has a number twice, and a number may be in two
    /// blocks, one after the other: that of a batch's operand and that of its fold.
    onto: (Offset, SequenceNumber),
    /// The number of the oldest operand that it contains.
    through: SequenceNumber,
    kind: Kind,
    value: Vec<u8>,
}

impl Fold {
    /// Length of the result.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }
}

/// The newest versions of a key, down to the first one that is no operand.
#[derive(Default)]
struct Chain {
    newest: Option<(Offset, SequenceNumber)>,
    /// Newest first, and the number of the oldest one.
    operands: Vec<Vec<u8>>,
    through: SequenceNumber,
    base: Vec<u8>,
    bytes: usize,
}

impl Chain {
    /// Takes up a version. Ends at the first one that is no operand, with its kind, and where there is too much, with a
    /// kind that is none.
    fn visit(&mut self, seen: Seen<'_>, floor: SequenceNumber, room: usize) -> Visit<Kind> {
        let Seen::Version(version, look) = seen else {
            *self = Self::default();
            return Visit::Below;
        };
        if self.newest.is_none() {
            if look.number() < floor {
                // The operand stands over the range tombstone.
                return Visit::Found(Kind::Void);
            }
            self.newest = Some((version.place(), look.number()));
        } else if look.number() < floor {
            return Visit::Found(Kind::Delete);
        }
        self.bytes += look.value_bytes();
        let is_operand = look.kind() == Kind::Merge;
        if self.bytes > room || (is_operand && self.operands.len() == OPERANDS_FOLDED_MAX) {
            return Visit::Found(Kind::Void);
        }
        if !is_operand {
            self.base.clear();
            return Visit::of(version.copy_value(look, &mut self.base).then(|| look.kind()));
        }
        let mut operand = Vec::new();
        if !version.copy_value(look, &mut operand) {
            return Visit::Changed;
        }
        self.operands.push(operand);
        self.through = look.number();
        Visit::Below
    }
}

impl Memtable {
    /// Folds an operand with the newest version of its key, and if that is an operand, too, with those below it. So a chain
    /// that other writers have left becomes one version. `None` if there is nothing here, or much, or if the operator
    /// refuses. Calls the operator, so it is called outside any latch.
    pub fn fold(
        &self,
        key @ (keyspace, user_key, _): (KeyspaceId, &[u8], u64),
        operand: &[u8],
        operator: &dyn MergeOperator,
    ) -> Option<Fold> {
        let room = FOLD_BYTES_MAX.checked_sub(operand.len())?;
        let floor = if self.has_range_tombstones() {
            with_encoded(keyspace, user_key, |encoded| self.covering(encoded, SequenceNumber::MAX))
        } else {
            SequenceNumber::ZERO
        };
        let mut chain = Chain::default();
        let base = self.walk_operands(key, SequenceNumber::MAX, |seen| chain.visit(seen, floor, room));
        let onto = chain.newest?;
        let mut value = Vec::new();
        let kind = match base {
            Some(kind @ (Kind::Put | Kind::Delete)) => {
                let base = (kind == Kind::Put).then_some(&chain.base[..]);
                let operands: Vec<&[u8]> = chain.operands.iter().rev().map(Vec::as_slice).chain([operand]).collect();
                operator.full_merge(user_key, base, &operands, &mut value).ok()?;
                Kind::Put
            }
            // Nothing below the operands is here.
            None if !chain.operands.is_empty() => {
                value = chain.operands.pop()?;
                let newer = chain.operands.iter().rev().map(Vec::as_slice);
                for newer in newer.chain([operand]) {
                    let mut joined = Vec::new();
                    if !operator.partial_merge(user_key, &value, newer, &mut joined) {
                        return None;
                    }
                    value = joined;
                }
                Kind::Merge
            }
            _ => return None,
        };
        (value.len() <= FOLD_BYTES_MAX).then_some(Fold { onto, through: chain.through, kind, value })
    }

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
