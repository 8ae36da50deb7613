//! The writes of a staged batch, before they take effect. One thread changes them.
//!
//! Invariants:
//! 1. A change in memory says all that the batch does to its key: operands are folded into the older change of the batch when
//!    they arrive. So of several layers the newest one with the key counts.
//! 2. In each layer, and in what a commit writes, the entries come after the deleted ranges. Together with 1, order matters
//!    only between layers.

use super::memory_layer::{MemoryLayer, Own, parts};
use super::spilled_layers::{SpilledLayers, pair_of};
use crate::disk::Pair;
use crate::engine::engine::Engine;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_change::{KeyChange, OPERAND_BYTES_END};
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::sizes::{check_range, check_sizes};
use crate::merge::EntryRef;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, KeyspaceId, Kind, Result, SequenceNumber, limits};

/// See the module. If it is dropped, nothing of it remains.
pub(crate) struct StagedWrites {
    pub(super) engine: Arc<Engine>,
    /// What memory takes before it is spilled.
    memory_max: usize,
    pub(super) memory: MemoryLayer,
    pub(super) spilled: SpilledLayers,
    /// Those of its keys, without the default one.
    pub(super) keyspaces: Vec<Arc<KeyspaceInfo>>,
    pub(super) is_in_default: bool,
    /// The value files of spilled large values, each with a reference of this batch.
    pub(super) values: Vec<FileNumber>,
}

impl StagedWrites {
    pub(crate) fn new(engine: &Arc<Engine>, memory_max: usize) -> Result<Self> {
        engine.read.check_open()?;
        Ok(Self {
            engine: Arc::clone(engine),
            memory_max,
            memory: MemoryLayer::default(),
            spilled: SpilledLayers::default(),
            keyspaces: Vec::new(),
            is_in_default: false,
            values: Vec::new(),
        })
    }

    pub(crate) fn set_memory_max(&mut self, bytes: usize) {
        self.memory_max = bytes;
    }

    /// Notes that the default keyspace is going to be written.
    pub(crate) fn enter_default(&mut self) {
        self.is_in_default = true;
    }

    /// An error if a keyspace was dropped or is that of another opening.
    pub(crate) fn check(&self, keyspace: &KeyspaceInfo) -> Result<()> {
        keyspace.check_opening(self.engine.read.opening)?;
        keyspace.check()
    }

    /// Notes a keyspace that is going to be written.
    pub(crate) fn enter(&mut self, keyspace: &Arc<KeyspaceInfo>) -> Result<()> {
        self.check(keyspace)?;
        if keyspace.id == KeyspaceId::DEFAULT {
            self.enter_default();
        } else if !self.keyspaces.contains(keyspace) {
            self.keyspaces.push(Arc::clone(keyspace));
        }
        Ok(())
    }

    /// Puts (`Some`) or deletes (`None`) a key.
    pub(crate) fn write(&mut self, key: UserKey<&[u8]>, value: Option<&[u8]>) -> Result<()> {
        check_sizes(key.bytes, value)?;
        self.change(key, KeyChange::to_value(value).to_owned())
    }

    /// Merges an operand into a key.
    pub(crate) fn merge(&mut self, key: UserKey<&[u8]>, operand: &[u8]) -> Result<()> {
        self.engine.read.check_open()?;
        self.engine.write.check_operand(key, operand)?;
        let change = match self.own(key)? {
            Own::Nothing => KeyChange::Merge(operand.to_vec()),
            Own::Entry(kind, mut bytes) => {
                let older = match kind {
                    Kind::Merge => KeyChange::Merge(&bytes[..]),
                    _ if self.engine.read.resolve(kind, &mut bytes)? => KeyChange::Put(&bytes[..]),
                    _ => KeyChange::Delete,
                };
                let operator = self.engine.write.merge_operator(key.keyspace)?;
                let folded = older.followed_by(key.bytes, operand, &*operator)?;
                let folded = folded.ok_or_else(|| Error::MergeOperands {
                    operator: operator.name().to_owned(),
                    key: key.bytes.to_vec(),
                    reason: format!(
                        "it does not join two operands of one key (`partial_merge`) to one of less than {OPERAND_BYTES_END} bytes, \
                         and a staged batch has one change of a key; get the value from the batch, and put the result"
                    ),
                })?;
                if let KeyChange::Put(value) = &folded {
                    check_sizes(key.bytes, Some(value))?;
                }
                folded
            }
        };
        self.change(key, change)
    }

    fn change(&mut self, key: UserKey<&[u8]>, change: KeyChange<Vec<u8>>) -> Result<()> {
        self.make_room()?;
        key.with_encoded(|encoded| self.memory.change(encoded, change));
        Ok(())
    }

    /// Deletes a range of keys.
    pub(crate) fn delete_range(&mut self, range: &UserRange) -> Result<()> {
        check_range(range)?;
        if range.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        if let (start, Some(end)) = range.encoded() {
            self.memory.delete_range(start, end);
        }
        Ok(())
    }

    /// What the batch itself says about a key.
    pub(super) fn own(&self, key: UserKey<&[u8]>) -> Result<Own> {
        match key.with_encoded(|encoded| self.memory.get(encoded)) {
            Own::Nothing => self.spilled.get(key),
            own => Ok(own),
        }
    }

    /// What the batch makes of a key, given how to read what is below it: `below` appends that value, or returns false.
    /// Returns whether there is a value, and appends it.
    pub(crate) fn value(
        &self,
        key: UserKey<&[u8]>,
        out: &mut Vec<u8>,
        below: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
    ) -> Result<bool> {
        let read = &self.engine.read;
        read.check_open()?;
        match self.own(key)? {
            Own::Nothing => below(out),
            Own::Entry(Kind::Merge, operand) => {
                let is_there = below(out)?;
                read.fold(key, is_there, &[operand], out)?;
                Ok(true)
            }
            Own::Entry(kind, value) => {
                *out = value;
                read.resolve(kind, out)
            }
        }
    }

    /// Whether the batch itself gives a key a value; `None` if it says nothing about the key.
    pub(crate) fn has_value(&self, key: UserKey<&[u8]>) -> Result<Option<bool>> {
        self.engine.read.check_open()?;
        Ok(match self.own(key)? {
            Own::Nothing => None,
            Own::Entry(kind, _) => Some(kind != Kind::Delete),
        })
    }

    /// Bytes in memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Bytes of its files, without those of large values.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled.bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.spilled.is_empty()
    }

    /// Before something is added: writes the layer in memory to files if it is full.
    fn make_room(&mut self) -> Result<()> {
        self.engine.read.check_open()?;
        if self.is_full() { self.spill().map_err(Error::into_disk_full) } else { Ok(()) }
    }

    /// Whether the next write spills what is in memory.
    pub(super) fn is_full(&self) -> bool {
        !self.memory.is_empty() && self.memory.bytes() >= self.memory_max
    }

    /// Nothing has changed after an error, except that layers are fewer.
    fn spill(&mut self) -> Result<()> {
        let (engine, memory, mut written) = (&self.engine, &self.memory, Vec::new());
        let values = &mut written;
        let pushed = self.spilled.push(engine, memory.deleted(), |add| {
            for (key, change) in memory.changes() {
                let (kind, value) = parts(change);
                let pair = pair_of(EntryRef { key, number: SequenceNumber::ZERO, kind, value });
                if kind == Kind::Put && value.len() >= limits::VALUE_FILE_BYTES_MIN {
                    let reference = engine.write.begin_call().and_then(|_call| engine.write.write_value(value))?;
                    values.push(reference.file);
                    add(Pair { kind: Kind::ValueReference, value: &reference.encode(), ..pair })?;
                } else {
                    add(pair)?;
                }
            }
            Ok(())
        });
        if let Err(error) = pushed {
            release(engine, written);
            return Err(error);
        }
        self.values.append(&mut written);
        self.memory = MemoryLayer::default();
        let merged = self.spilled.merge(engine);
        if merged? {
            // Values that newer ones have replaced.
            let needed = self.spilled.value_files();
            let replaced = self.values.extract_if(.., |file| !needed.contains(file)).collect();
            release(engine, replaced);
        }
        Ok(())
    }
}

/// Gives up value files that a batch does not need.
fn release(engine: &Engine, files: Vec<FileNumber>) {
    if files.is_empty() || engine.read.check_process().is_err() {
        return;
    }
    files.iter().for_each(|file| engine.read.value_file_refs.release(*file));
    engine.background.scheduler.wake_workers();
}

impl Drop for StagedWrites {
    fn drop(&mut self) {
        // What the store needs has references of its branch files by now.
        let values = std::mem::take(&mut self.values);
        release(&self.engine, values);
    }
}
