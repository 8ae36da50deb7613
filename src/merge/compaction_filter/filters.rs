//! The compaction filters of a store. Any thread.

use super::CompactionFilter;
use crate::util::sync::{Arc, Mutex};
use crate::util::{KeyspaceId, key};
use std::collections::BTreeMap;

/// The filters of one moment, by keyspace.
#[derive(Clone, Debug, Default)]
pub struct FilterMap(BTreeMap<KeyspaceId, Arc<dyn CompactionFilter>>);

impl FilterMap {
    /// The filter of a keyspace.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<&Arc<dyn CompactionFilter>> {
        self.0.get(&keyspace)
    }

    /// Whether a keyspace with encoded keys from `first` to `last` has a filter.
    pub fn is_any_within(&self, first: &[u8], last: &[u8]) -> bool {
        self.0.range(key::keyspace(first)..=key::keyspace(last)).next().is_some()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct CompactionFilters(Mutex<Arc<FilterMap>>);

impl CompactionFilters {
    /// With this filter for the default keyspace.
    pub fn new(default: Option<Arc<dyn CompactionFilter>>) -> Self {
        let filters = Self::default();
        filters.set(KeyspaceId::DEFAULT, default);
        filters
    }

    /// Sets or removes the filter of a keyspace, for jobs that begin later.
    pub fn set(&self, keyspace: KeyspaceId, filter: Option<Arc<dyn CompactionFilter>>) {
        let mut filters = self.0.lock();
        let changed = Arc::make_mut(&mut filters);
        match filter {
            Some(filter) => changed.0.insert(keyspace, filter),
            None => changed.0.remove(&keyspace),
        };
    }

    /// The filter of a keyspace.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<Arc<dyn CompactionFilter>> {
        self.0.lock().get(keyspace).cloned()
    }

    /// The filters of this moment; `None` if there are none.
    pub fn current(&self) -> Option<Arc<FilterMap>> {
        let filters = self.0.lock();
        (!filters.0.is_empty()).then(|| Arc::clone(&filters))
    }
}
