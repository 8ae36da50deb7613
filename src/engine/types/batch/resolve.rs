//! What the operations of a batch make together. Pure.

use super::WriteBatch;
use super::steps::Step;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::effects::{Effects, KeyWrite, UnjoinedOperands, fold_operands};
use crate::engine::types::user_key::UserKey;
use crate::merge::MergeOperators;
use crate::util::Result;

impl WriteBatch {
    /// What the operations make together. Those of one key become one, the last put or delete, with the operands after it
    /// folded into it. Requires an operator for each operand. An error is the operator's.
    pub(crate) fn resolve(&self, operators: &MergeOperators) -> Result<(Effects, Vec<UnjoinedOperands>)> {
        let (mut writes, mut deleted) = (Vec::with_capacity(self.steps.len()), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Write(key, change) => {
                    writes.push((at, KeyWrite { key: key.to_owned(), change: change.to_owned() }));
                }
                Step::DeleteRange(UserKey { keyspace, bytes: start }, end) => {
                    deleted.push((at, UserRange { keyspace, start: start.to_vec(), end: end.map(<[u8]>::to_vec) }));
                }
            }
        }
        // The sort is stable, so the writes of one key keep their order.
        writes.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let mut unjoined = Vec::new();
        if self.merges() {
            (writes, unjoined) = fold_operands(writes, &deleted, operators)?;
        }
        writes.dedup_by(|next, last| {
            let is_same = next.1.key == last.1.key;
            if is_same {
                std::mem::swap(next, last);
            }
            is_same
        });
        let mut hidden = vec![false; if deleted.is_empty() { 0 } else { writes.len() }];
        for (deleted_at, range) in &deleted {
            let from = writes.partition_point(|(_, write)| write.key.as_bytes() < range.first_key());
            let inside = writes[from..].iter().take_while(|(_, write)| range.contains(write.key.as_bytes()));
            inside.zip(&mut hidden[from..]).for_each(|((at, _), hidden)| *hidden |= at < deleted_at);
        }
        let mut hidden = hidden.into_iter();
        let writes = writes.into_iter().filter(|_| !hidden.next().unwrap_or(false)).map(|(_, write)| write).collect();
        let deleted = UserRange::merged(deleted.into_iter().map(|(_, range)| range).collect());
        Ok((Effects { writes, deleted }, unjoined))
    }
}
