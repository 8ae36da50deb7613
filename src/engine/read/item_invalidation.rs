//! What an incorporation brings into the tree, the item cache forgets as it passes by (`cache/item_cache.rs`, invariant 1).

use crate::cache::ItemCache;
use crate::merge::{Cursor, EntryRef, RangeTombstones};
use crate::util::hash::encoded_key_hash;
use crate::util::{Result, SequenceNumber};

/// A cursor over a Memtable that changes no more: whatever it comes by, and whatever the range tombstones cover, the cache has
/// forgotten once it has come by.
pub(crate) fn begin<'a>(
    items: &'a ItemCache,
    cursor: Box<dyn Cursor>,
    tombstones: &RangeTombstones,
) -> ForgettingCursor<'a> {
    items.begin_change();
    if !tombstones.is_empty() {
        items.invalidate_where(|key| !tombstones.over(key).is_empty());
    }
    ForgettingCursor { cursor, items }
}

/// See `begin`. What it stands on is forgotten when it comes there.
pub(crate) struct ForgettingCursor<'a> {
    cursor: Box<dyn Cursor>,
    items: &'a ItemCache,
}

impl ForgettingCursor<'_> {
    fn after(&self, moved: Result<()>) -> Result<()> {
        if self.cursor.valid() {
            self.items.invalidate(encoded_key_hash(self.cursor.entry().key));
        }
        moved
    }
}

impl Cursor for ForgettingCursor<'_> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let moved = self.cursor.seek(key, number);
        self.after(moved)
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let moved = self.cursor.seek_for_prev(key, number);
        self.after(moved)
    }

    fn seek_first(&mut self) -> Result<()> {
        let moved = self.cursor.seek_first();
        self.after(moved)
    }

    fn seek_last(&mut self) -> Result<()> {
        let moved = self.cursor.seek_last();
        self.after(moved)
    }

    fn next(&mut self) -> Result<()> {
        let moved = self.cursor.next();
        self.after(moved)
    }

    fn prev(&mut self) -> Result<()> {
        let moved = self.cursor.prev();
        self.after(moved)
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
