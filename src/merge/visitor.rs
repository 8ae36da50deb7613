//! What takes the entries that a cursor passes (`Cursor::pass`): one after the other, or many of one page at once. One
//! thread at a time.

use super::entry::EntryRef;
use crate::format::sorted_page::{SortedPage, tag_kind, tag_number};
use std::ops::{ControlFlow, Range};

/// See the module. A function from an entry to a `ControlFlow` is one.
pub trait Visitor {
    /// Takes the entry, or refuses it by breaking.
    fn visit(&mut self, entry: EntryRef<'_>) -> ControlFlow<()>;

    /// Takes these entries of a page, in order, up to the first one that it refuses. Returns how many it took. The
    /// result is as if `visit` had been called for each.
    fn visit_page(&mut self, page: &SortedPage<'_>, entries: Range<usize>) -> usize {
        let mut key = Vec::new();
        let is_taken = |at: &usize| self.visit(entry_of(page, *at, &mut key)).is_continue();
        entries.take_while(is_taken).count()
    }

    /// The most entries that it will still take, if it knows that: what comes after them need not be prefetched.
    fn wants(&self) -> usize {
        usize::MAX
    }
}

impl<F: FnMut(EntryRef<'_>) -> ControlFlow<()>> Visitor for F {
    fn visit(&mut self, entry: EntryRef<'_>) -> ControlFlow<()> {
        self(entry)
    }
}

/// Entry `at` of the page. Its key replaces the contents of `key`. Requires `at < page.count()`.
pub fn entry_of<'e>(page: &SortedPage<'e>, at: usize, key: &'e mut Vec<u8>) -> EntryRef<'e> {
    let parts = page.parts(at);
    key.clear();
    page.append_key(at, &parts, key);
    EntryRef { key, number: tag_number(parts.tag), kind: tag_kind(parts.tag), value: page.value(&parts) }
}
