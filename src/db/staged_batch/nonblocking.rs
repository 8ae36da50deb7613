//! What `aio` needs to know to keep its threads from waiting. One thread at a time, as the batch.

use super::StagedKeyspace;
use crate::engine::staging::nonblocking::InMemory;
use crate::util::Result;

impl StagedKeyspace<'_> {
    /// Whether the next write fits into memory, so that it does not wait for the disk.
    pub(crate) fn has_room(&self) -> bool {
        self.batch.writes.has_room()
    }

    /// Like `get`; `None` if the disk would have to be read for the answer, or operands folded.
    pub(crate) fn get_nonblocking(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let key = self.key(key);
        match self.batch.writes.value_in_memory(key)? {
            InMemory::Known(value) => Ok(Some(value)),
            InMemory::Unknown => Ok(None),
            InMemory::Nothing => self.batch.snapshot.value_nonblocking(key),
        }
    }

    /// Like `contains_key`; `None` if the disk would have to be read for the answer, or operands folded.
    pub(crate) fn contains_key_nonblocking(&self, key: &[u8]) -> Result<Option<bool>> {
        let key = self.key(key);
        match self.batch.writes.is_value_in_memory(key)? {
            InMemory::Known(found) => Ok(Some(found)),
            InMemory::Unknown => Ok(None),
            InMemory::Nothing => self.batch.snapshot.has_value_nonblocking(key),
        }
    }
}
