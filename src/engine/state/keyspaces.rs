//! The keyspaces that are open. Any thread.

use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::util::sync::{Arc, Mutex, MutexGuard};
use std::collections::HashMap;

/// The keyspaces by name, without the default one. A dropped one leaves the map; its handles keep what they share.
pub(crate) type ByName = HashMap<Box<str>, Arc<KeyspaceInfo>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Keyspaces {
    by_name: Mutex<ByName>,
}

impl Keyspaces {
    /// The keyspaces that are open. Keyspaces are created and dropped while this is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ByName> {
        self.by_name.lock()
    }
}
