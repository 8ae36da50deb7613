//! The first step of a fold: reads the versions below an operand and calls the operator. Any thread, outside any latch.
//! `table/folding.rs` has the second one.

use super::lookup::{Seen, Visit};
use crate::memory::table::folding::{FOLD_BYTES_MAX, Fold};
use crate::memory::table::memtable::Memtable;
use crate::merge::MergeOperator;
use crate::util::arena::Offset;
use crate::util::key::with_encoded;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

/// Most operands that a fold takes up at once.
const OPERANDS_FOLDED_MAX: usize = 64;

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
}
