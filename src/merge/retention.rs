//! The one rule of which versions incorporation and compaction keep (cLSM §3.2.2 has its simplest form).
//!
//! A `Retention` is taken once, before an input is read, and shared; a `VersionFilter` belongs to one pass over it.
//!
//! The rule, for the versions of one key in the input, newest first:
//! - the newest is kept;
//! - a version v whose next newer version is w is kept if and only if some pin p has v <= p < w;
//! - at the bottom (nothing older of this key range exists anywhere), a tombstone t, even the newest, is dropped if
//!   and only if no pin is < t;
//! - if ZERO is a pin, a snapshot is being taken and its number is not known yet: everything is kept.
//!
//! Why every reader sees the same before and after. Readers are at a pin, or at a number not below any in the input: a
//! snapshot is pinned with ZERO before its number is read, so a number that was not pinned when the retention was taken
//! is read afterwards.
//! 1. A reader at p sees the newest version v <= p of the input. Either v is the newest of all and kept, or its next newer
//!    w has v <= p < w, and it is kept. Dropping versions never shows an older one to p in v's place, as v stays.
//! 2. If v is a tombstone dropped at the bottom, p must find nothing. No pin is below v, so each version u older than v,
//!    with a next newer w' <= v, has no pin in [u, w') and was dropped in the same pass; and nothing older lies elsewhere.
//!    A tombstone above v is unaffected. So p finds nothing.
//! 3. The same holds pass after pass: a later pass has an input in which every reader that then exists sees what it saw,
//!    and its pins are pins of the pass before or newer than that pass's input. A pass over some of a key's versions
//!    (a bundle of adjacent age) only takes away versions that lie behind a kept one for all readers, so a reader that
//!    finds its version there or below still does. A tombstone is dropped only with everything below it.
//! 4. Reserved kinds (range tombstones, operands) keep themselves and everything of their key that is older: dropping on
//!    a rule made for puts would be a wrong answer. Readers refuse them (`visible.rs`).

use super::cursor::EntryRef;
use crate::base::{Kind, SequenceNumber};

/// The numbers at which somebody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pins: Vec<SequenceNumber>,
}

impl Retention {
    /// A retention for these pins, ascending (sorted here if they are not).
    pub fn new(mut pins: Vec<SequenceNumber>) -> Self {
        pins.sort_unstable();
        pins.dedup();
        Self { pins }
    }

    fn keeps_all(&self) -> bool {
        self.pins.first() == Some(&SequenceNumber::ZERO)
    }

    /// Whether some pin p has `from <= p < to`.
    fn pinned_in(&self, from: SequenceNumber, to: SequenceNumber) -> bool {
        let first = self.pins.partition_point(|pin| *pin < from);
        self.pins.get(first).is_some_and(|pin| *pin < to)
    }

    fn pinned_below(&self, number: SequenceNumber) -> bool {
        self.pins.first().is_some_and(|pin| *pin < number)
    }
}

/// Decides version by version; see the module's rule.
#[derive(Debug)]
pub struct VersionFilter<'a> {
    retention: &'a Retention,
    bottom: bool,
    /// The key of the entry before, in a buffer that is used again.
    key: Vec<u8>,
    /// The number of the entry before; `None` before the first.
    newer: Option<SequenceNumber>,
    /// Everything else of this key is kept: a reserved kind was met.
    keep_rest: bool,
}

impl<'a> VersionFilter<'a> {
    /// A filter for one pass. `bottom`: the input has the oldest data of its key range.
    pub fn new(retention: &'a Retention, bottom: bool) -> Self {
        Self { retention, bottom, key: Vec::new(), newer: None, keep_rest: false }
    }

    /// Whether to keep `entry`. Requires entries in their order: key ascending, number descending.
    pub fn keep(&mut self, entry: EntryRef<'_>) -> bool {
        let newer = match self.newer.replace(entry.number) {
            Some(newer) if entry.key == &self.key[..] => {
                debug_assert!(entry.number <= newer, "versions came out of order");
                Some(newer)
            }
            _ => {
                debug_assert!(self.key.is_empty() || entry.key > &self.key[..], "keys came out of order");
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.keep_rest = false;
                None
            }
        };
        match entry.kind {
            Kind::Put | Kind::ValueReference => {}
            Kind::Delete if !self.bottom || self.retention.pinned_below(entry.number) => {}
            Kind::Delete => return self.keep_rest,
            Kind::RangeDelete | Kind::Merge | Kind::Void | Kind::Batch => self.keep_rest = true,
        }
        match newer {
            None => true,
            Some(newer) => {
                self.keep_rest || self.retention.keeps_all() || self.retention.pinned_in(entry.number, newer)
            }
        }
    }
}
