//! What `aio` needs to know to keep its threads from waiting.

use super::keyspace::Keyspace;
use super::snapshot::Snapshot;
use crate::engine::types::options::WriteOptions;
use crate::engine::types::user_key::UserKey;
use crate::util::{Result, SequenceNumber};

impl Keyspace {
    /// Like `get`; `None` if the disk would have to be read for the answer.
    pub(crate) fn get_nonblocking(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        self.checked(self.engine.read.get_nonblocking(self.key(key), SequenceNumber::MAX))
    }

    /// Like `contains_key`; `None` if the disk would have to be read for the answer.
    pub(crate) fn contains_key_nonblocking(&self, key: &[u8]) -> Result<Option<bool>> {
        self.checked(self.engine.read.contains_nonblocking(self.key(key), SequenceNumber::MAX))
    }

    /// Whether a write of this many bytes of keys and values, with the largest value of `largest_value` bytes, would
    /// not wait.
    pub(crate) fn writes_without_waiting(&self, bytes: usize, largest_value: usize, options: WriteOptions) -> bool {
        self.engine.write.writes_without_waiting(bytes, largest_value, self.durability(options))
    }
}

impl Snapshot {
    /// Like `get`; `None` if the disk would have to be read for the answer.
    pub(crate) fn get_nonblocking(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        self.value_nonblocking(self.key(key))
    }

    /// Like `contains_key`; `None` if the disk would have to be read for the answer.
    pub(crate) fn contains_key_nonblocking(&self, key: &[u8]) -> Result<Option<bool>> {
        self.has_value_nonblocking(self.key(key))
    }

    /// `get_nonblocking` for a key of any keyspace.
    pub(super) fn value_nonblocking(&self, key: UserKey<&[u8]>) -> Result<Option<Option<Vec<u8>>>> {
        let _inside = self.pin().begin_read()?;
        self.read_path().get_nonblocking(key, self.pin().number())
    }

    /// `contains_key_nonblocking` for a key of any keyspace.
    pub(super) fn has_value_nonblocking(&self, key: UserKey<&[u8]>) -> Result<Option<bool>> {
        let _inside = self.pin().begin_read()?;
        self.read_path().contains_nonblocking(key, self.pin().number())
    }
}
