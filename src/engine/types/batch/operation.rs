//! The operations of a batch, as its users see them.

use super::steps::{Step, StepIter};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::keyspace_info::{DEFAULT_NAME, KeyspaceInfo};
use crate::engine::types::user_key::UserKey;
use crate::util::KeyspaceId;
use crate::util::sync::Arc;

/// One operation of a batch. There may be more kinds in later versions.
///
/// ```
/// use alluvium::{Operation, WriteBatch};
/// let mut batch = WriteBatch::new();
/// batch.put("elbe", "North Sea").delete_prefix("old/");
/// for operation in batch.iter() {
///     match operation {
///         Operation::Put { key, value, .. } => println!("{} bytes under {}", value.len(), key.escape_ascii()),
///         Operation::Delete { key, .. } => println!("without {}", key.escape_ascii()),
///         other => println!("{other:?}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation<'b> {
    /// Sets a key.
    Put {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
        /// Its value.
        value: &'b [u8],
    },
    /// Deletes a key.
    Delete {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
    },
    /// Merges an operand into the value of a key.
    Merge {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
        /// The operand.
        operand: &'b [u8],
    },
    /// Deletes all keys from `start` up to, but without, `end`.
    DeleteRange {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The first key of the range.
        start: &'b [u8],
        /// The first key after the range; `None` if nothing bounds it.
        end: Option<&'b [u8]>,
    },
}

impl<'b> Operation<'b> {
    fn of(step: Step<'b>, keyspaces: &'b [Arc<KeyspaceInfo>]) -> Self {
        let name = |id: KeyspaceId| {
            let found = keyspaces.iter().find(|keyspace| keyspace.id == id);
            found.map_or(DEFAULT_NAME, |keyspace| &keyspace.name)
        };
        match step {
            Step::Write(UserKey { keyspace, bytes: key }, change) => {
                let keyspace = name(keyspace);
                match change {
                    KeyChange::Put(value) => Self::Put { keyspace, key, value },
                    KeyChange::Delete => Self::Delete { keyspace, key },
                    KeyChange::Merge(operand) => Self::Merge { keyspace, key, operand },
                }
            }
            Step::DeleteRange(UserKey { keyspace, bytes: start }, end) => {
                Self::DeleteRange { keyspace: name(keyspace), start, end }
            }
        }
    }
}

/// The operations of a batch, in the order in which they were added: the result of `WriteBatch::iter`.
#[derive(Clone, Debug)]
pub struct Operations<'b> {
    pub(super) steps: StepIter<'b>,
    pub(super) keyspaces: &'b [Arc<KeyspaceInfo>],
}

impl<'b> Iterator for Operations<'b> {
    type Item = Operation<'b>;

    fn next(&mut self) -> Option<Self::Item> {
        self.steps.next().map(|step| Operation::of(step, self.keyspaces))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}

impl DoubleEndedIterator for Operations<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.steps.next_back().map(|step| Operation::of(step, self.keyspaces))
    }
}

impl ExactSizeIterator for Operations<'_> {}

impl std::iter::FusedIterator for Operations<'_> {}
