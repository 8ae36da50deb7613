//! Invalidates the keys of an incorporation in the item cache (`cache/item_cache.rs`, invariant 1).

use crate::cache::ItemCache;
use crate::merge::{Cursor, EntryRef, RangeTombstones};
use crate::util::hash::encoded_key_hash;
use crate::util::{Result, SequenceNumber};

/// Wraps the cursor of a sealed Memtable. The returned cursor invalidates each key that it reaches. The keys that the
/// range tombstones cover are invalidated at once.
pub(crate) fn begin<'a>(
    items: &'a ItemCache,
    cursor: Box<dyn Cursor>,
    tombstones: &RangeTombstones,
) -> InvalidatingCursor<'a> {
    items.begin_change();
    if !tombstones.is_empty() {
        items.invalidate_where(|key| !tombstones.over(key).is_empty());
    }
    InvalidatingCursor { cursor, items }
}

/// Invalidates each key that it reaches; see `begin`.
pub(crate) struct InvalidatingCursor<'a> {
    cursor: Box<dyn Cursor>,
    items: &'a ItemCache,
}

impl InvalidatingCursor<'_> {
    fn invalidate(&self, moved: Result<()>) -> Result<()> {
        if self.cursor.valid() {
            self.items.invalidate(encoded_key_hash(self.cursor.entry().key));
        }
        moved
    }
}

impl Cursor for InvalidatingCursor<'_> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let moved = self.cursor.seek(key, number);
        self.invalidate(moved)
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let moved = self.cursor.seek_for_prev(key, number);
        self.invalidate(moved)
    }

    fn seek_first(&mut self) -> Result<()> {
        let moved = self.cursor.seek_first();
        self.invalidate(moved)
    }

    fn seek_last(&mut self) -> Result<()> {
        let moved = self.cursor.seek_last();
        self.invalidate(moved)
    }

    fn next(&mut self) -> Result<()> {
        let moved = self.cursor.next();
        self.invalidate(moved)
    }

    fn prev(&mut self) -> Result<()> {
        let moved = self.cursor.prev();
        self.invalidate(moved)
    }

    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn entry(&self) -> EntryRef<'_> {
        self.cursor.entry()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.cursor.covering(key, at)
    }
}
