//! The keyspaces that are open. Any thread.

use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::util::sync::{Arc, Mutex, MutexGuard, OnceLock};
use crate::util::{KeyspaceId, Result};
use std::collections::HashMap;

/// The keyspaces by name, without the default one. A dropped one leaves the map; its handles keep what they share.
pub(crate) type ByName = HashMap<Box<str>, Arc<KeyspaceInfo>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Keyspaces {
    by_name: Mutex<ByName>,
    /// What the first creation has found: no keyspace from this one on has keys.
    first_unused: OnceLock<KeyspaceId>,
}

impl Keyspaces {
    /// The id of a new keyspace: that of the catalog, unless the store has keys of it or of a later one. *Otherwise:* after a
    /// repair of a store that has lost its catalog, a new keyspace has the data of an old one. The caller holds the lock.
    pub(crate) fn at_least_first_unused(
        &self,
        next: KeyspaceId,
        last_used: impl FnOnce() -> Result<KeyspaceId>,
    ) -> Result<KeyspaceId> {
        let first_unused = match self.first_unused.get() {
            Some(first_unused) => *first_unused,
            None => {
                let first_unused = KeyspaceId(last_used()?.0 + 1);
                *self.first_unused.get_or_init(|| first_unused)
            }
        };
        Ok(next.max(first_unused))
    }

    /// The keyspaces that are open. Keyspaces are created and dropped while this is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ByName> {
        self.by_name.lock()
    }
}
