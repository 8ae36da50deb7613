//! What a write does, after its operations were resolved against each other.

use super::bounds::UserRange;
use super::key_change::{KeyChange, OPERAND_BYTES_END, refused};
use super::user_key::UserKey;
use crate::merge::MergeOperators;
use crate::merge::operator::join_operands;
use crate::util::{KeyspaceId, Result};

/// A write of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyWrite {
    pub(crate) key: UserKey<Vec<u8>>,
    pub(crate) change: KeyChange<Vec<u8>>,
}

/// What a write does, after its operations were resolved against each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Each key once, in the order (keyspace, key).
    pub(crate) writes: Vec<KeyWrite>,
    /// Ascending and disjoint. They hide what the store has, but not `writes`.
    pub(crate) deleted: Vec<UserRange>,
}

/// A key with operands, oldest first, that could not be joined, so that its value must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnjoinedOperands {
    pub(crate) key: UserKey<Vec<u8>>,
    pub(crate) operands: Vec<Vec<u8>>,
}

impl Effects {
    /// Whether it changes the default keyspace, which comes first.
    pub(crate) fn is_in_default(&self) -> bool {
        self.writes.first().is_some_and(|write| write.key.keyspace == KeyspaceId::DEFAULT)
            || self.deleted.first().is_some_and(|range| range.keyspace == KeyspaceId::DEFAULT)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.is_empty()
    }
}

/// A write with its place in the batch.
pub(super) type Placed = (usize, KeyWrite);

/// Folds the operands of each key with each other and into the put or delete before them; a range delete counts as a
/// delete. The operations are sorted by key and come with their places in the batch.
pub(super) fn fold_operands(
    writes: Vec<Placed>,
    deleted: &[(usize, UserRange)],
    operators: &MergeOperators,
) -> Result<(Vec<Placed>, Vec<UnjoinedOperands>)> {
    let mut folded: Vec<Placed> = Vec::with_capacity(writes.len());
    let mut unjoined = Vec::new();
    let mut writes = writes.into_iter().peekable();
    while let Some((first, KeyWrite { key, change })) = writes.next() {
        let deletions: Vec<usize> =
            deleted.iter().filter(|(_, range)| range.contains(key.as_bytes())).map(|(at, _)| *at).collect();
        // What the operands stand on, if the batch says that, and the operands.
        let (mut base, mut operands, mut last) = (None, Vec::new(), None);
        let mut next = Some((first, change));
        while let Some((at, change)) = next {
            if deletions.iter().any(|deleted| *deleted < at && last.is_none_or(|last| last < *deleted)) {
                (base, operands) = (Some(KeyChange::Delete), Vec::new());
            }
            match change {
                KeyChange::Merge(operand) => operands.push(operand),
                change => (base, operands) = (Some(change), Vec::new()),
            }
            last = Some(at);
            next = writes.next_if(|(_, next)| next.key == key).map(|(at, next)| (at, next.change));
        }
        let last = last.unwrap_or(first);
        if operands.is_empty() {
            folded.extend(base.map(|change| (last, KeyWrite { key, change })));
            continue;
        }
        let operator = operators.get(key.keyspace);
        debug_assert!(operator.is_some(), "operands were checked with their operator");
        let Some(operator) = operator.as_deref() else { continue };
        let Some(base) = base else {
            let tagged = operands.into_iter().map(|operand| ((), operand)).collect();
            let mut joined = join_operands(operator, &key.bytes, tagged, OPERAND_BYTES_END - 1);
            match joined.pop() {
                Some(((), operand)) if joined.is_empty() => {
                    folded.push((last, KeyWrite { key, change: KeyChange::Merge(operand) }));
                }
                // Unless a later range delete hides them.
                newest if !deletions.iter().any(|deleted| *deleted > last) => {
                    let operands = joined.into_iter().chain(newest).map(|((), operand)| operand).collect();
                    unjoined.push(UnjoinedOperands { key, operands });
                }
                _ => {}
            }
            continue;
        };
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let base = if let KeyChange::Put(value) = &base { Some(&value[..]) } else { None };
        let mut value = Vec::new();
        operator
            .full_merge(&key.bytes, base, &operands, &mut value)
            .map_err(|said| refused(&key.bytes, operator, &said))?;
        folded.push((last, KeyWrite { key, change: KeyChange::Put(value) }));
    }
    Ok((folded, unjoined))
}
