//! One pass over sorted entries. It emits the versions that the rule in `retention.rs` retains and folds operands where
//! nothing is lost by it. One thread.
//!
//! Folding, with a merge operator: an operand absorbs the next older version if no reader sees that version by itself
//! and no range tombstone is between the two. Folded onto a put or a tombstone it becomes a put with the operand's
//! number; onto another operand, one operand; onto nothing, at the bottom or over a range tombstone, a put. If the
//! operator rejects the operands, if the result would be large, or if the older version is in a value file, all
//! versions that a read would fold are emitted unchanged.
//!
//! Compaction filters, in a merge (`with_filtering`): a put is passed to the filter if it is the newest version of its key in
//! the input, no range tombstone covers it, and no pin is at or above its number. What the filter removes becomes a tombstone
//! with the same number, to which the rule for tombstones applies.
//!
//! Invariants:
//! 1. While `pending` has operands, they are the newest versions of `key` that were not emitted yet, newest first. Only
//!    readers of the first one see any of them, and none of them by itself.
//! 2. `chained` is true if and only if the previous version is a retained operand, so that the next one is needed.
//! 3. An entry that needs no folding, and that no filter changes, is emitted as it came, without a copy.

use super::compaction_filter::{FilterDecision, FilterPass, Filtering};
use super::entry::EntryRef;
use super::expired::unless_expired;
use super::operator::{FOLDED_BYTES_MAX, MergeOperator, MergeOperators};
use super::range_tombstones::{NO_RANGE_TOMBSTONES, RangeTombstones};
use super::retention::Retention;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber, key};

/// An operand that waits for a version to be folded onto.
#[derive(Debug)]
struct PendingOperand {
    number: SequenceNumber,
    operand: Vec<u8>,
}

/// Decides version by version. See the module documentation.
#[derive(Debug)]
pub struct VersionFilter<'a> {
    retention: &'a Retention,
    bottom: bool,
    tombstones: &'a RangeTombstones,
    operators: Option<&'a MergeOperators>,
    /// The last keyspace that had operands, and its operator.
    operator: Option<(KeyspaceId, Option<Arc<dyn MergeOperator>>)>,
    /// The key of the previous entry, in a reused buffer.
    key: Vec<u8>,
    /// The number of the previous entry; `None` before the first.
    newer: Option<SequenceNumber>,
    /// The range tombstones over `key`, newest first.
    over: &'a [SequenceNumber],
    chained: bool,
    pending: Vec<PendingOperand>,
    /// Whether the first of `pending` is the newest version of its key.
    pending_is_newest: bool,
    /// All further versions of this key are retained, because one has a kind that no writer creates.
    retain_rest: bool,
    /// The last keyspace, and the last number of it that has expired. Up to date only if anything has.
    expired: (KeyspaceId, SequenceNumber),
    filter: Option<FilterPass<'a>>,
}

impl<'a> VersionFilter<'a> {
    /// A filter for one pass. `bottom`: the input has the oldest data of its key range.
    pub fn new(retention: &'a Retention, bottom: bool) -> Self {
        Self {
            retention,
            bottom,
            tombstones: &NO_RANGE_TOMBSTONES,
            operators: None,
            operator: None,
            key: Vec::new(),
            newer: None,
            over: &[],
            chained: false,
            pending: Vec::new(),
            pending_is_newest: false,
            retain_rest: false,
            expired: (KeyspaceId::DEFAULT, retention.expired().through(KeyspaceId::DEFAULT)),
            filter: None,
        }
    }

    /// Sets the range tombstones of the input, as they were before the pass drops some of them
    /// (`RangeTombstones::retained`).
    pub fn with_tombstones(mut self, tombstones: &'a RangeTombstones) -> Self {
        self.tombstones = tombstones;
        self
    }

    /// Sets the operators that fold operands. Without them they are emitted unchanged.
    pub fn with_operators(mut self, operators: Option<&'a MergeOperators>) -> Self {
        self.operators = operators;
        self
    }

    /// Asks the compaction filters of the retention, if it has any.
    pub fn with_filtering(mut self) -> Self {
        self.filter = self.retention.filtering().and_then(Filtering::begin);
        self
    }

    /// Takes the next entry and emits retained versions, possibly those of earlier entries. Requires entries in order:
    /// key ascending, number descending.
    pub fn push(&mut self, entry: EntryRef<'_>, emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        let newer = match self.newer {
            Some(newer) if entry.key == &self.key[..] => {
                debug_assert!(entry.number <= newer, "versions came out of order");
                Some(newer)
            }
            _ => {
                debug_assert!(self.key.is_empty() || entry.key > &self.key[..], "keys came out of order");
                self.finish(emit)?;
                self.begin_key(entry.key);
                None
            }
        };
        if newer == Some(entry.number) {
            // The same entry from a second source.
            return Ok(());
        }
        self.newer = Some(entry.number);
        let entry = unless_expired(entry, self.expired.1);
        let mut hidden_by = newer;
        if !self.over.is_empty() {
            let covered_by = self.over.iter().rev().copied().find(|number| *number > entry.number);
            // The tombstone is between this version and the newer one, so the newer one is folded onto nothing.
            if covered_by.is_some_and(|by| newer.is_some_and(|newer| by <= newer)) {
                self.fold_onto(None, emit)?;
                self.chained = false;
            }
            hidden_by = match (newer, covered_by) {
                (Some(newer), Some(by)) => Some(newer.min(by)),
                (one, other) => one.or(other),
            };
        }
        self.retain_rest |= matches!(entry.kind, Kind::RangeDelete | Kind::Void | Kind::Batch);
        let seen = self.retain_rest || self.retention.sees(entry.number, hidden_by);
        if !seen && !self.chained {
            return Ok(());
        }
        self.emit_or_fold(entry, seen, hidden_by.is_none(), emit)
    }

    /// Emits a version that is seen or that a retained operand needs, or folds it into that operand.
    fn emit_or_fold(
        &mut self,
        entry: EntryRef<'_>,
        seen: bool,
        is_newest: bool,
        emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut needed = seen || self.pending.is_empty();
        match entry.kind {
            Kind::Merge => {
                self.chained = true;
                return self.add_pending(entry, seen, is_newest, emit);
            }
            // At the bottom a tombstone is needed only if a reader below it exists.
            Kind::Delete => {
                needed |= !self.fold_onto(None, emit)?;
                needed &= !self.bottom || self.retention.pinned_below(entry.number) || self.retain_rest;
            }
            Kind::Put | Kind::ValueReference if is_newest && self.filter.is_some() => {
                return self.emit_filtered(entry, emit);
            }
            // A version that is seen stays anyway, so a fold would only store its value twice.
            Kind::Put if !seen => needed |= !self.fold_onto(Some(entry.value), emit)?,
            Kind::Put => self.emit_pending(emit)?,
            Kind::ValueReference => {
                needed = true;
                self.emit_pending(emit)?;
            }
            // These kinds are unknown to the rule, so dropping anything could be wrong. Readers report an error for
            // them.
            Kind::RangeDelete | Kind::Void | Kind::Batch => self.emit_pending(emit)?,
        }
        self.chained = false;
        if needed { emit(entry) } else { Ok(()) }
    }

    fn add_pending(
        &mut self,
        entry: EntryRef<'_>,
        seen: bool,
        is_newest: bool,
        emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let folds = !self.retention.retains_all() && !self.retain_rest;
        let Some(operator) = self.operator().filter(|_| folds) else { return emit(entry) };
        if seen {
            self.emit_pending(emit)?;
        }
        if self.pending.is_empty() {
            self.pending_is_newest = is_newest;
        }
        if let Some(newer) = self.pending.last_mut()
            && newer.operand.len() + entry.value.len() <= FOLDED_BYTES_MAX
        {
            // Joined immediately, so that a counter with a million operands needs memory for one.
            let mut joined = Vec::new();
            if operator.partial_merge(user_key(&self.key), entry.value, &newer.operand, &mut joined)
                && joined.len() <= FOLDED_BYTES_MAX
            {
                newer.operand = joined;
                return Ok(());
            }
        }
        self.pending.push(PendingOperand { number: entry.number, operand: entry.value.to_vec() });
        Ok(())
    }

    /// Emits the pending operands as one put onto this base (`None`: onto nothing). If that fails, emits them unchanged
    /// and returns false. Returns true if nothing is pending.
    fn fold_onto(&mut self, base: Option<&[u8]>, emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<bool> {
        let Some(newest) = self.pending.first().map(|pending| pending.number) else { return Ok(true) };
        let Some(operator) = self.operator() else { return Ok(true) };
        let operands: Vec<&[u8]> = self.pending.iter().rev().map(|pending| &pending.operand[..]).collect();
        let mut value = Vec::new();
        let folded = operator.full_merge(user_key(&self.key), base, &operands, &mut value);
        if folded.is_err() || value.len() >= FOLDED_BYTES_MAX {
            self.emit_pending(emit)?;
            return Ok(false);
        }
        self.pending.clear();
        let decision = match self.pending_is_newest {
            true => self.decide(newest, Some(&value)),
            false => FilterDecision::Keep,
        };
        match decision {
            FilterDecision::Keep => emit(EntryRef { key: &self.key, number: newest, kind: Kind::Put, value: &value })?,
            changed => self.emit_changed(newest, changed, emit)?,
        }
        Ok(true)
    }

    /// Emits a put that is the newest version of `key`, or what the compaction filter makes of it.
    fn emit_filtered(&mut self, entry: EntryRef<'_>, emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        match self.decide(entry.number, (entry.kind == Kind::Put).then_some(entry.value)) {
            FilterDecision::Keep => emit(entry),
            changed => self.emit_changed(entry.number, changed, emit),
        }
    }

    /// What the compaction filter decides about a put that is the newest version of `key`.
    fn decide(&mut self, number: SequenceNumber, value: Option<&[u8]>) -> FilterDecision {
        let Some(filter) = &mut self.filter else { return FilterDecision::Keep };
        if planted!(self.retention.pinned_from(number), Bug::FilteredUnderSnapshots => false) {
            return FilterDecision::Keep;
        }
        filter.decide(&self.key, value, number, FOLDED_BYTES_MAX)
    }

    /// Emits what the compaction filter has made of the newest version of `key`. It is a new entry: its bytes are nowhere on
    /// the disk.
    fn emit_changed(
        &self,
        number: SequenceNumber,
        decision: FilterDecision,
        emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let key = &self.key[..];
        match decision {
            FilterDecision::Replace(value) => emit(EntryRef { key, number, kind: Kind::Put, value: &value }),
            // As `Kind::Delete` above.
            _ if planted!(self.bottom, Bug::FilteredWithoutTombstone => true)
                && !self.retention.pinned_below(number) =>
            {
                Ok(())
            }
            _ => emit(EntryRef { key, number, kind: Kind::Delete, value: &[] }),
        }
    }

    /// Emits the pending operands unchanged.
    fn emit_pending(&mut self, emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        for PendingOperand { number, operand } in self.pending.drain(..) {
            emit(EntryRef { key: &self.key, number, kind: Kind::Merge, value: &operand })?;
        }
        Ok(())
    }

    /// The operator of `key`'s keyspace. It stays the same for all operands of a key.
    fn operator(&mut self) -> Option<Arc<dyn MergeOperator>> {
        let keyspace = key::keyspace(&self.key);
        if self.operator.as_ref().is_none_or(|(of, _)| *of != keyspace) {
            self.operator = Some((keyspace, self.operators.and_then(|operators| operators.get(keyspace))));
        }
        self.operator.as_ref().and_then(|(_, operator)| operator.clone())
    }

    fn begin_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.over = if self.tombstones.is_empty() { &[] } else { self.tombstones.over(key) };
        (self.chained, self.retain_rest) = (false, false);
        let expired = self.retention.expired();
        if !expired.is_empty() && key::keyspace(key) != self.expired.0 {
            self.expired = (key::keyspace(key), expired.through(key::keyspace(key)));
        }
    }

    /// Emits the rest after the last entry was pushed.
    pub fn finish(&mut self, emit: &mut impl FnMut(EntryRef<'_>) -> Result<()>) -> Result<()> {
        let Some(oldest) = self.pending.last() else { return Ok(()) };
        // No older version came: there is none anywhere, or a range tombstone hides it.
        if self.bottom || self.over.last().is_some_and(|number| *number <= oldest.number) {
            self.fold_onto(None, emit)?;
            return Ok(());
        }
        self.emit_pending(emit)
    }
}

/// The user key within an encoded key.
fn user_key(encoded: &[u8]) -> &[u8] {
    key::split(encoded).map_or(encoded, |(_, user_key)| user_key)
}
