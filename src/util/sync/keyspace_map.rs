//! A map by keyspace that hot paths read and that hardly ever changes. Any thread; readers never wait.

use super::{Arc, Mutex};
use crate::util::KeyspaceId;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::fmt;

/// A change copies one shard, so that a store with many keyspaces adds one in a short time.
const SHARDS: usize = 64;

/// See the module.
pub struct KeyspaceMap<T> {
    shards: Box<[ArcSwapOption<HashMap<KeyspaceId, T>>]>,
    /// Held by the thread that changes the map.
    changing: Mutex<()>,
}

impl<T: Clone> KeyspaceMap<T> {
    /// Calls `f` with the value of a keyspace.
    pub fn with<R>(&self, keyspace: KeyspaceId, f: impl FnOnce(Option<&T>) -> R) -> R {
        let shard = self.shard(keyspace).load();
        f(shard.as_ref().and_then(|values| values.get(&keyspace)))
    }

    /// A copy of the value of a keyspace.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<T> {
        self.with(keyspace, |value| value.cloned())
    }

    /// Sets the value of a keyspace. O(keyspaces / 64).
    pub fn insert(&self, keyspace: KeyspaceId, value: T) {
        let _changing = self.changing.lock();
        let shard = self.shard(keyspace);
        let mut values = shard.load().as_ref().map_or_else(HashMap::new, |values| HashMap::clone(values));
        values.insert(keyspace, value);
        shard.store(Some(Arc::new(values)));
    }

    fn shard(&self, keyspace: KeyspaceId) -> &ArcSwapOption<HashMap<KeyspaceId, T>> {
        &self.shards[keyspace.0 as usize % SHARDS]
    }
}

impl<T> Default for KeyspaceMap<T> {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| ArcSwapOption::empty()).collect(), changing: Mutex::default() }
    }
}

impl<T> fmt::Debug for KeyspaceMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyspaceMap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keyspace_has_its_value() {
        let map = KeyspaceMap::default();
        let ids = || (0..300).map(KeyspaceId);
        ids().for_each(|id| map.insert(id, id.0));
        map.insert(KeyspaceId(7), 8);
        assert!(ids().all(|id| map.get(id) == Some(if id.0 == 7 { 8 } else { id.0 })));
        assert_eq!(map.with(KeyspaceId(1), |value| value.copied()), Some(1));
        assert_eq!(map.get(KeyspaceId(300)), None);
    }
}
