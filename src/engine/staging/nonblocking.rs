//! Answers of a staged batch that need no disk, for callers that must not wait (`aio`). One thread changes the batch.

use super::memory_layer::Own;
use super::staged_writes::StagedWrites;
use crate::engine::types::user_key::UserKey;
use crate::util::{Kind, Result};

/// What the batch itself says about a key, as far as memory shows.
pub(crate) enum InMemory<T> {
    /// This.
    Known(T),
    /// What memory does not show: files have to be read, or operands folded.
    Unknown,
    /// Nothing.
    Nothing,
}

impl StagedWrites {
    /// Whether the next write does not spill.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full()
    }

    /// The value that the batch itself gives a key.
    pub(crate) fn value_in_memory(&self, key: UserKey<&[u8]>) -> Result<InMemory<Option<Vec<u8>>>> {
        Ok(match self.in_memory(key)? {
            Own::Entry(Kind::Put, value) => InMemory::Known(Some(value)),
            Own::Entry(Kind::Delete, _) => InMemory::Known(None),
            Own::Entry(..) => InMemory::Unknown,
            Own::Nothing => self.not_in_memory(),
        })
    }

    /// Whether the batch itself gives a key a value.
    pub(crate) fn is_value_in_memory(&self, key: UserKey<&[u8]>) -> Result<InMemory<bool>> {
        Ok(match self.in_memory(key)? {
            Own::Entry(kind, _) => InMemory::Known(kind != Kind::Delete),
            Own::Nothing => self.not_in_memory(),
        })
    }

    fn in_memory(&self, key: UserKey<&[u8]>) -> Result<Own> {
        self.engine.read.check_open()?;
        Ok(key.with_encoded(|encoded| self.memory.get(encoded)))
    }

    fn not_in_memory<T>(&self) -> InMemory<T> {
        if self.spilled.is_empty() { InMemory::Nothing } else { InMemory::Unknown }
    }
}
