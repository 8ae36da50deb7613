//! Whether a key has a value, without the value: nothing is copied out of memory or of a page, and no value file is read.
//! Any thread.

use super::Lookup;
use crate::branch::{BlockingPages, ValuelessPages};
use crate::engine::read::read_path::ReadPath;
use crate::engine::state::view::View;
use crate::engine::types::user_key::UserKey;
use crate::util::{Kind, Result, SequenceNumber};

impl ReadPath {
    /// Whether a key has a value at or below `at`.
    pub(crate) fn contains_at(&self, key: UserKey<&[u8]>, at: SequenceNumber) -> Result<bool> {
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        let newest = match newest_kind_in_memory(&view, lookup) {
            None => self.newest_kind_in_tree(&view, lookup)?,
            in_memory => in_memory,
        };
        match newest {
            None | Some((_, Kind::Delete | Kind::RangeDelete)) => Ok(false),
            Some((number, _)) if number <= lookup.expired => Ok(false),
            Some((_, Kind::Put | Kind::ValueReference)) => Ok(true),
            // Operands are folded, so that the answer is that of a get, errors included.
            Some(_) => self.find(&view, lookup, &mut BlockingPages::new(), &mut Vec::new()),
        }
    }

    fn newest_kind_in_tree(&self, view: &View, lookup: Lookup<'_>) -> Result<Option<(SequenceNumber, Kind)>> {
        let Lookup { key, hash, at, .. } = lookup;
        key.with_encoded(|key| {
            let mut value = Vec::new();
            // An item is a small value.
            if let Some(number) = self.cache.items().get(key, hash, at, &mut value) {
                return Ok(Some((number, Kind::Put)));
            }
            view.disk.get(key, hash, at, &mut ValuelessPages::new(), &mut value)
        })
    }
}

/// As the part of `ReadPath::newest` that searches memory.
fn newest_kind_in_memory(view: &View, lookup: Lookup<'_>) -> Option<(SequenceNumber, Kind)> {
    let Lookup { key, hash, at, .. } = lookup;
    view.generations.iter().find_map(|generation| {
        let memtable = &generation.memtable;
        // Before the entry (rule D3).
        let covering = if memtable.has_range_tombstones() {
            key.with_encoded(|encoded| memtable.covering(encoded, at))
        } else {
            SequenceNumber::ZERO
        };
        let hit = memtable.newest_kind(key.keyspace, key.bytes, hash, at);
        if hit.map_or(SequenceNumber::ZERO, |(number, _)| number) < covering {
            return Some((covering, Kind::RangeDelete));
        }
        hit
    })
}
