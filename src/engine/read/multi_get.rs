//! Many gets in one call, whose disk reads overlap. Any thread.

use super::get::Lookup;
use super::read_path::ReadPath;
use crate::branch::{BatchedPages, Stopped};
use crate::engine::state::view::View;
use crate::engine::types::user_key::UserKey;
use crate::util::{KeyspaceId, Result, SequenceNumber};

/// Gets of one group. About this many reads in flight saturate a device; each get holds a few pages.
const GROUP_KEYS: usize = 64;

impl ReadPath {
    /// The values of keys of a keyspace at a snapshot, in the order of the keys.
    pub(crate) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keyspace: KeyspaceId,
        keys: &[K],
        at: SequenceNumber,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_open()?;
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(GROUP_KEYS) {
            let lookup = |key| Lookup::new(self, UserKey::new(keyspace, key), at);
            let lookups: Vec<Lookup<'_>> = keys.iter().map(lookup).collect();
            // The snapshot retains the versions, so each group reads the newest view, and no view is held for long.
            self.get_group(&self.view.load_full(), &lookups, &mut values)?;
        }
        Ok(values)
    }

    fn get_group(&self, view: &View, lookups: &[Lookup<'_>], values: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        let first = values.len();
        values.resize(first + lookups.len(), None);
        let mut pages = BatchedPages::new();
        let mut waiting: Vec<usize> = (0..lookups.len()).collect();
        // Terminates: every round reads and holds the page that each waiting get missed.
        while !waiting.is_empty() {
            let mut missing = Vec::new();
            for index in waiting {
                let mut value = Vec::new();
                match self.find(view, lookups[index], &mut pages, &mut value) {
                    Ok(found) => values[first + index] = found.then_some(value),
                    Err(Stopped::Missing) => missing.push(index),
                    Err(Stopped::Failed(error)) => return Err(error),
                }
            }
            pages.read()?;
            waiting = missing;
        }
        Ok(())
    }
}
