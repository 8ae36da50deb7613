//! Copies the pairs that a snapshot sees from the entries that a cursor passes into rows, as long as a copy is all that
//! they need. One thread at a time.
//!
//! Invariant: every entry that was taken has the key `last()` or a smaller one.

use super::entry::EntryRef;
use super::expired::unless_expired;
use super::rows::Rows;
use super::visitor::{Visitor, entry_of};
use crate::format::sorted_page::{SortedPage, UniformPage, tag_kind, tag_number};
use crate::util::{Kind, SequenceNumber};
use std::ops::{ControlFlow, Range};

/// Number of versions that are skipped one by one before a seek skips the rest. A seek costs as much as some tens of
/// steps.
pub const STEPS_MAX: u32 = 16;
/// Bytes after which rows end.
const ROW_BYTES_MAX: usize = 64 << 10;
/// Entries of a page that are prefetched ahead of the one that is copied.
const PREFETCHED: usize = 6;

/// See the module. Range tombstones are not its business.
pub struct RowReader<'r> {
    rows: &'r mut Rows,
    /// Number of rows that are wanted.
    count: usize,
    at: SequenceNumber,
    /// Versions up to this number have expired.
    expired: SequenceNumber,
    with_values: bool,
    /// The key of the last entry that was taken, unless that is the last row.
    key: &'r mut Vec<u8>,
    is_row: bool,
    /// Entries without a row since the last key that was seen.
    steps: u32,
    /// Buffer for the key of an entry.
    scratch: &'r mut Vec<u8>,
}

impl<'r> RowReader<'r> {
    /// Reads up to `count` rows, as the snapshot `at` sees them, to which versions up to `expired` have expired. `key`: the key
    /// before the first row. `scratch`: a buffer.
    pub fn new(
        (rows, count): (&'r mut Rows, usize),
        (at, expired): (SequenceNumber, SequenceNumber),
        with_values: bool,
        key: &'r mut Vec<u8>,
        scratch: &'r mut Vec<u8>,
    ) -> Self {
        Self { rows, count, at, expired, with_values, key, is_row: false, steps: 0, scratch }
    }

    /// Ends: the key that was passed last is in `key`.
    pub fn end(self) {
        if let Some(last) = self.rows.last_key().filter(|_| self.is_row) {
            self.key.clear();
            self.key.extend_from_slice(last);
        }
    }

    fn last(&self) -> &[u8] {
        if self.is_row { self.rows.last_key().unwrap_or_default() } else { self.key }
    }

    /// Copies entries from this one on as long as each is a new row, and the page is uniform. Returns the entry behind
    /// them. Requires an entry before, which was taken.
    fn copy(&mut self, page: &UniformPage<'_>, entries: Range<usize>, wanted: usize) -> usize {
        let (mut before, value) = (page.head(entries.start - 1), page.value_len());
        for at in entries.clone() {
            if at + PREFETCHED < wanted {
                page.prefetch(at + PREFETCHED);
            }
            let head = page.head(at);
            // A key other than that of the entry before it, which was taken, is new.
            if head == before || !self.shows(page.number(at)) || self.is_full(value) {
                return at;
            }
            self.rows.push_whole(|bytes| page.append(at, head, self.with_values, bytes));
            (self.is_row, self.steps, before) = (true, 0, head);
        }
        entries.end
    }

    /// Whether the snapshot has the number, and it has not expired.
    #[inline]
    fn shows(&self, number: SequenceNumber) -> bool {
        // Of `expired < number <= at`, one comparison.
        number.0.wrapping_sub(self.expired.0).wrapping_sub(1) < self.at.0.saturating_sub(self.expired.0)
    }

    #[inline]
    fn is_full(&self, value: usize) -> bool {
        self.rows.len() == self.count || self.rows.bytes() + value > ROW_BYTES_MAX
    }
}

impl Visitor for RowReader<'_> {
    fn visit(&mut self, entry: EntryRef<'_>) -> ControlFlow<()> {
        if entry.key == self.last() || entry.number > self.at {
            self.steps += 1;
            return if self.steps < STEPS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        }
        match unless_expired(entry, self.expired).kind {
            Kind::Put if !self.is_full(entry.value.len()) => {
                self.rows.push(entry.key, if self.with_values { entry.value } else { &[] });
                self.is_row = true;
            }
            Kind::Delete => {
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.is_row = false;
            }
            // The rows are full, or the entry needs more than a copy (an operand, a reference).
            _ => return ControlFlow::Break(()),
        }
        self.steps = 0;
        ControlFlow::Continue(())
    }

    fn visit_page(&mut self, page: &SortedPage<'_>, entries: Range<usize>) -> usize {
        let wanted = entries.end.min(entries.start.saturating_add(self.wants()));
        (entries.start + 1..wanted.min(entries.start + PREFETCHED)).for_each(|at| page.prefetch(at));
        let uniform = page.uniform().filter(|page| page.kind() == Kind::Put);
        let mut at = entries.start;
        loop {
            if let Some(uniform) = uniform.as_ref().filter(|_| at > entries.start) {
                at = self.copy(uniform, at..entries.end, wanted);
            }
            if at >= entries.end {
                return entries.len();
            }
            if at + PREFETCHED < wanted {
                page.prefetch(at + PREFETCHED);
            }
            let parts = page.parts(at);
            // As in `copy`.
            let is_new = at > entries.start && !page.may_repeat_key(at);
            let is_row = is_new
                && tag_kind(parts.tag) == Kind::Put
                && self.shows(tag_number(parts.tag))
                && !self.is_full(parts.value.len());
            if is_row {
                let value = if self.with_values { page.value(&parts) } else { &[] };
                self.rows.push_with(|bytes| page.append_key(at, &parts, bytes), value);
                (self.is_row, self.steps) = (true, 0);
            } else {
                let mut key = std::mem::take(self.scratch);
                let flow = self.visit(entry_of(page, at, &mut key));
                *self.scratch = key;
                if flow.is_break() {
                    return at - entries.start;
                }
            }
            at += 1;
        }
    }

    fn wants(&self) -> usize {
        // The entry at which it stops is looked at, too.
        self.count - self.rows.len() + 1
    }
}
