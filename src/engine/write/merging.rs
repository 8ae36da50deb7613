//! Merges: operands that are checked before they are written, those that cannot be joined, and chains that have become
//! long. Any thread.
//!
//! An operand is written without a read, like a put. In memory it is folded with what is there
//! (`memory/table/folding.rs`).

use super::commit::Write;
use super::mode::WriteMode;
use super::precondition::{Precondition, ReadKey, WriteOutcome};
use super::sizes::{check_operand, check_sizes};
use super::write_path::WritePath;
use crate::engine::state::view::TreeMark;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::effects::{Effects, KeyWrite, UnjoinedOperands};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::options::Durability;
use crate::engine::types::user_key::UserKey;
use crate::merge::MergeOperator;
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result};

impl WritePath {
    /// The merge operator of a keyspace.
    pub(crate) fn merge_operator(&self, keyspace: KeyspaceId) -> Result<Arc<dyn MergeOperator>> {
        self.read.merge_operators.get(keyspace).ok_or_else(|| self.no_operator(keyspace))
    }

    /// Checks an operand of a key.
    pub(crate) fn check_operand(&self, key: UserKey<&[u8]>, operand: &[u8]) -> Result<()> {
        let checked = self
            .read
            .merge_operators
            .with(key.keyspace, |operator| operator.map(|operator| check_operand(operator, key.bytes, operand)));
        checked.unwrap_or_else(|| Err(self.no_operator(key.keyspace)))
    }

    /// The error of a merge in a keyspace without an operator.
    fn no_operator(&self, keyspace: KeyspaceId) -> Error {
        Error::InvalidArgument(match keyspace {
            KeyspaceId::DEFAULT => "the store has no merge operator; open it with `Options::merge_operator`".into(),
            keyspace if self.read.expiry.has(keyspace) => NO_MERGES_WITH_EXPIRY.into(),
            _ => "the keyspace has no merge operator; create it with `KeyspaceOptions::merge_operator`".into(),
        })
    }

    /// Applies a batch with merges.
    pub(super) fn write_merges(&self, batch: WriteBatch, mode: WriteMode<'_>) -> Result<()> {
        batch.operands().try_for_each(|(key, operand)| self.check_operand(key, operand))?;
        let (effects, unjoined) = batch.resolve(&self.read.merge_operators)?;
        if unjoined.is_empty() {
            return self.write_all(&effects, None, mode).map(drop);
        }
        // Ends as `update` does: a round is repeated only if another write of one of the keys came first, or a whole
        // generation has moved to the tree.
        while !self.write_with_values(effects.clone(), &unjoined, mode)? {
            self.note_retry();
        }
        Ok(())
    }

    /// Reads the values of the keys whose operands cannot be joined, and writes what they make together with the other
    /// effects, if no other write has changed those keys. Returns whether it did.
    fn write_with_values(
        &self,
        mut effects: Effects,
        unjoined: &[UnjoinedOperands],
        mode: WriteMode<'_>,
    ) -> Result<bool> {
        let mut reads = Vec::with_capacity(unjoined.len());
        let (mut tree_checked, mut filtered) = (TreeMark::ALL, u64::MAX);
        for UnjoinedOperands { key, operands } in unjoined {
            let mut value = Vec::new();
            let newest = self.read.get_newest(key.as_bytes(), &mut value)?;
            self.read.fold(key.as_bytes(), newest.is_live, operands, &mut value)?;
            effects.writes.push(KeyWrite { key: key.clone(), change: KeyChange::Put(value) });
            reads.push(ReadKey::new(key.as_bytes(), newest.number));
            tree_checked = tree_checked.common(newest.tree_checked);
            filtered = filtered.min(newest.filtered);
        }
        effects.writes.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let precondition = Precondition { reads: &reads, tree_checked, filtered, registered: None };
        Ok(match self.write_all(&effects, Some(&precondition), mode)? {
            WriteOutcome::Written(_) => true,
            WriteOutcome::Conflict(_) => false,
        })
    }

    /// Puts the values of keys with long chains of operands in memory, which every read folds, in their place: where
    /// snapshots prevent that operands are folded, or where the operator cannot join them. `long_chains` has their places
    /// in the write.
    pub(super) fn shorten_chains(&self, long_chains: &[usize], write: &Write<'_>) {
        let durability = match write.mode.durability {
            Durability::Unlogged => Durability::Unlogged,
            Durability::Buffered | Durability::Sync => Durability::Buffered,
        };
        let mode = WriteMode { durability, ..write.mode };
        for key in long_chains.iter().filter_map(|at| write.entries.get(*at)).map(|entry| entry.key) {
            // The write is done. What fails here leaves the chain as it is, and the next read says what is wrong.
            let _ = self.shorten_chain(key, mode);
        }
    }

    /// Writes the value of a key again, unless another write comes first.
    fn shorten_chain(&self, key: UserKey<&[u8]>, mode: WriteMode<'_>) -> Result<()> {
        let mut value = Vec::new();
        if let Some(newest) = self.read.get_chain(key, &mut value)? {
            check_sizes(key.bytes, Some(&value))?;
            self.write_if_unchanged(key, Some(&value), &newest, mode)?;
        }
        Ok(())
    }
}

/// Why there are no merges in a keyspace with an expiry, and what there is instead.
const NO_MERGES_WITH_EXPIRY: &str = "a keyspace with an expiry has no merges, because an operand has no age of its own once it \
                                     is folded; `update` reads and writes a value in one step";
