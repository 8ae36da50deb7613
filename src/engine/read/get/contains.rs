//! Whether a key has a value, without the value: nothing is copied out of memory or of a page, and no value file is read.
//! Any thread.

use super::Lookup;
use crate::branch::{BlockingPages, Pages, ValuelessPages};
use crate::engine::latency::Call;
use crate::engine::read::read_path::ReadPath;
use crate::engine::state::view::View;
use crate::engine::types::user_key::UserKey;
use crate::util::{Kind, Result, SequenceNumber};

impl ReadPath {
    /// Whether a key has a value at or below `at`.
    pub(crate) fn contains_at(&self, key: UserKey<&[u8]>, at: SequenceNumber) -> Result<bool> {
        let _timed = self.latencies.time(Call::Get);
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        match is_value(self.newest_kind(&view, lookup, BlockingPages::new)?) {
            Some(is_value) => Ok(is_value),
            // Operands are folded, so that the answer is that of a get, errors included.
            None => self.find(&view, lookup, &mut BlockingPages::new(), &mut Vec::new()),
        }
    }

    /// The kind of the newest version at or below `at`, or that of the range tombstone that hides it; `Delete` if it
    /// has expired. `pages` makes the page source, if memory does not suffice.
    pub(in crate::engine::read) fn newest_kind<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: impl FnOnce() -> P,
    ) -> Result<Option<Kind>, P::Stop> {
        let newest = match newest_kind_in_memory(view, lookup) {
            None => self.newest_kind_in_tree(view, lookup, pages)?,
            in_memory => in_memory,
        };
        Ok(newest.map(|(number, kind)| if number <= lookup.expired { Kind::Delete } else { kind }))
    }

    fn newest_kind_in_tree<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: impl FnOnce() -> P,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let Lookup { key, hash, at, .. } = lookup;
        key.with_encoded(|key| {
            let mut value = Vec::new();
            // An item is a small value.
            if let Some(number) = self.cache.items().get(key, hash, at, &mut value) {
                return Ok(Some((number, Kind::Put)));
            }
            view.disk.get(key, hash, at, &mut ValuelessPages::new(pages()), &mut value)
        })
    }
}

/// Whether a key has a value whose newest version has this kind; `None` if operands would have to be folded for the answer.
pub(in crate::engine::read) fn is_value(newest: Option<Kind>) -> Option<bool> {
    match newest {
        None | Some(Kind::Delete | Kind::RangeDelete) => Some(false),
        Some(Kind::Put | Kind::ValueReference) => Some(true),
        Some(_) => None,
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
