//! What `aio` needs to know to keep its threads from waiting. Any thread.
//!
//! Invariant: a key counts as read exactly if it does after the blocking read, whether there is an answer or not.

use super::TransactionKeyspace;
use crate::engine::types::key_change::KeyChange;
use crate::util::Result;

impl TransactionKeyspace<'_> {
    /// Like `get`; `None` if the disk would have to be read for the answer, or operands folded.
    pub(crate) fn get_nonblocking(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        match self.own(key) {
            Some(KeyChange::Put(value)) => Ok(Some(Some(value))),
            Some(KeyChange::Delete) => Ok(Some(None)),
            Some(KeyChange::Merge(_)) => Ok(None),
            None => self.transaction.snapshot.value_nonblocking(self.key(key)),
        }
    }

    /// Like `contains_key`; `None` if the disk would have to be read for the answer, or operands folded.
    pub(crate) fn contains_key_nonblocking(&self, key: &[u8]) -> Result<Option<bool>> {
        match self.own(key) {
            Some(written) => Ok(Some(!matches!(written, KeyChange::Delete))),
            None => self.transaction.snapshot.has_value_nonblocking(self.key(key)),
        }
    }
}
