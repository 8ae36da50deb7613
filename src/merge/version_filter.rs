//! One pass over sorted entries: hands on what the rule in `retention.rs` keeps, operands folded where that loses nothing.
//! One thread.
//!
//! Folding, with a merge operator: an operand takes the next older version into itself where nobody sees that one by itself and
//! no range tombstone stands between. Onto a put or a tombstone it becomes a put of the operand's number; onto another
//! operand, one operand; onto nothing, at the bottom or over a range tombstone, a put. What the operator refuses, what would be
//! large, and what lies in a value file stays as it is, with everything that it is folded into when it is read.
//!
//! Invariants:
//! 1. While `held` has operands, they are the newest versions of `key` that were not handed on yet, newest first, and nobody
//!    but the first one's readers sees any of them by itself.
//! 2. `chained` if and only if the version before is an operand that is kept, so that the next one is needed.
//! 3. An entry that needs no folding is handed on as it came, without a copy.

use super::cursor::EntryRef;
use super::operator::{FOLDED_BYTES_MAX, MergeOperator};
use super::range_tombstones::{NO_RANGE_TOMBSTONES, RangeTombstones};
use super::retention::Retention;
use crate::util::{Kind, Result, SequenceNumber, key};

/// An operand that waits for what it may be folded into.
#[derive(Debug)]
struct Held {
    number: SequenceNumber,
    operand: Vec<u8>,
}

/// Decides version by version; see the module.
#[derive(Debug)]
pub struct VersionFilter<'a> {
    retention: &'a Retention,
    bottom: bool,
    tombstones: &'a RangeTombstones,
    operator: Option<&'a dyn MergeOperator>,
    /// The key of the entry before, in a buffer that is used again.
    key: Vec<u8>,
    /// The number of the entry before; `None` before the first.
    newer: Option<SequenceNumber>,
    /// The range tombstones over `key`, newest first.
    over: &'a [SequenceNumber],
    chained: bool,
    held: Vec<Held>,
    /// Everything else of this key is kept: a kind was met that no writer makes.
    keep_rest: bool,
}

impl<'a> VersionFilter<'a> {
    /// A filter for one pass. `bottom`: the input has the oldest data of its key range.
    pub fn new(retention: &'a Retention, bottom: bool) -> Self {
        Self {
            retention,
            bottom,
            tombstones: &NO_RANGE_TOMBSTONES,
            operator: None,
            key: Vec::new(),
            newer: None,
            over: &[],
            chained: false,
            held: Vec::new(),
            keep_rest: false,
        }
    }

    /// With the range tombstones of the input, before the pass keeps some of them (`RangeTombstones::retained`).
    pub fn with_tombstones(mut self, tombstones: &'a RangeTombstones) -> Self {
        self.tombstones = tombstones;
        self
    }

    /// With what folds operands; without it they are kept as they are.
    pub fn with_operator(mut self, operator: Option<&'a dyn MergeOperator>) -> Self {
        self.operator = operator;
        self
    }

    /// Takes the next entry and hands on what is kept, which may be entries before it. Requires entries in their order: key
    /// ascending, number descending.
    pub fn push(&mut self, entry: EntryRef<'_>, kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        let newer = match self.newer {
            Some(newer) if entry.key == &self.key[..] => {
                debug_assert!(entry.number <= newer, "versions came out of order");
                Some(newer)
            }
            _ => {
                debug_assert!(self.key.is_empty() || entry.key > &self.key[..], "keys came out of order");
                self.finish(kept)?;
                self.begin_key(entry.key);
                None
            }
        };
        if newer == Some(entry.number) {
            // The same entry from a second source.
            return Ok(());
        }
        self.newer = Some(entry.number);
        let mut hidden_by = newer;
        if !self.over.is_empty() {
            let covered_by = self.over.iter().rev().copied().find(|number| *number > entry.number);
            // Between this version and the newer one: whoever folds the newer one finds nothing here.
            if covered_by.is_some_and(|by| newer.is_some_and(|newer| by <= newer)) {
                self.fold_onto(None, kept)?;
                self.chained = false;
            }
            hidden_by = match (newer, covered_by) {
                (Some(newer), Some(by)) => Some(newer.min(by)),
                (one, other) => one.or(other),
            };
        }
        self.keep_rest |= matches!(entry.kind, Kind::RangeDelete | Kind::Void | Kind::Batch);
        let seen = self.keep_rest || self.retention.sees(entry.number, hidden_by);
        if !seen && !self.chained {
            return Ok(());
        }
        self.keep(entry, seen, kept)
    }

    /// Hands on a version that is seen or that a kept operand needs, or folds it into that operand.
    fn keep(
        &mut self,
        entry: EntryRef<'_>,
        seen: bool,
        kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut needed = seen || self.held.is_empty();
        match entry.kind {
            Kind::Merge => {
                self.chained = true;
                return self.hold(entry, seen, kept);
            }
            // Nobody who reads below a tombstone at the bottom is left to need it.
            Kind::Delete => {
                needed |= !self.fold_onto(None, kept)?;
                needed &= !self.bottom || self.retention.pinned_below(entry.number) || self.keep_rest;
            }
            // What is seen by itself stays, so a fold would only hold its value twice.
            Kind::Put if !seen => needed |= !self.fold_onto(Some(entry.value), kept)?,
            Kind::Put => self.hand_on_held(kept)?,
            Kind::ValueReference => {
                needed = true;
                self.hand_on_held(kept)?;
            }
            // Dropping anything on a rule made for other kinds would be a wrong answer. Readers refuse these.
            Kind::RangeDelete | Kind::Void | Kind::Batch => self.hand_on_held(kept)?,
        }
        self.chained = false;
        if needed { kept(entry) } else { Ok(()) }
    }

    fn hold(
        &mut self,
        entry: EntryRef<'_>,
        seen: bool,
        kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(operator) = self.operator.filter(|_| !self.retention.keeps_all() && !self.keep_rest) else {
            return kept(entry);
        };
        if seen {
            self.hand_on_held(kept)?;
        }
        if let Some(newer) = self.held.last_mut()
            && newer.operand.len() + entry.value.len() <= FOLDED_BYTES_MAX
        {
            // At once, so that a counter of a million operands holds one.
            let mut joined = Vec::new();
            if operator.partial_merge(user_key(&self.key), entry.value, &newer.operand, &mut joined)
                && joined.len() <= FOLDED_BYTES_MAX
            {
                newer.operand = joined;
                return Ok(());
            }
        }
        self.held.push(Held { number: entry.number, operand: entry.value.to_vec() });
        Ok(())
    }

    /// Hands on what is held as a put over this value (`None`: over nothing); as it is, and says false, where that fails. True
    /// where nothing is held.
    fn fold_onto(&mut self, base: Option<&[u8]>, kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<bool> {
        let (Some(operator), Some(newest)) = (self.operator, self.held.first()) else { return Ok(true) };
        let operands: Vec<&[u8]> = self.held.iter().rev().map(|held| &held.operand[..]).collect();
        let mut value = Vec::new();
        let folded = operator.full_merge(user_key(&self.key), base, &operands, &mut value);
        if folded.is_err() || value.len() >= FOLDED_BYTES_MAX {
            self.hand_on_held(kept)?;
            return Ok(false);
        }
        let number = newest.number;
        self.held.clear();
        kept(EntryRef { key: &self.key, number, kind: Kind::Put, value: &value })?;
        Ok(true)
    }

    /// Hands on the operands that are held.
    fn hand_on_held(&mut self, kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        for Held { number, operand } in self.held.drain(..) {
            kept(EntryRef { key: &self.key, number, kind: Kind::Merge, value: &operand })?;
        }
        Ok(())
    }

    fn begin_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.over = if self.tombstones.is_empty() { &[] } else { self.tombstones.over(key) };
        (self.chained, self.keep_rest) = (false, false);
    }

    /// Hands on what is left once the last entry was pushed.
    pub fn finish(&mut self, kept: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        let Some(oldest) = self.held.last() else { return Ok(()) };
        // No older version came: there is none anywhere, or none that a range tombstone does not hide.
        if self.bottom || self.over.last().is_some_and(|number| *number <= oldest.number) {
            self.fold_onto(None, kept)?;
            return Ok(());
        }
        self.hand_on_held(kept)
    }
}

/// The user's part of an encoded key.
fn user_key(encoded: &[u8]) -> &[u8] {
    key::split(encoded).map_or(encoded, |(_, user_key)| user_key)
}
