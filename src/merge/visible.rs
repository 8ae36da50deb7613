//! The one rule of what a reader sees: at a snapshot, of every key, the newest version with a number at or below that
//! of the snapshot. Nothing is seen if that version is a tombstone, if it has expired, or if a range tombstone of the snapshot
//! is newer.
//! If the version is a merge operand, it is gathered with the older versions, down to the first one that is not an
//! operand or that a range tombstone hides.
//!
//! A cursor belongs to one thread at a time.
//!
//! Invariants while the cursor is valid:
//! 1. `key` is the current key, within [lower, upper).
//! 2. Going forward, the inner cursor is on the version that is seen, and `entry` borrows it from there. If that
//!    version is an operand, gathering has moved the inner cursor to an older version of `key`, to an entry of a
//!    greater key, or beyond the end.
//! 3. Going backward, and if operands were gathered, the version that is seen is copied to `value`, `number`, `kind`
//!    and `operands`. Going backward, finding it has moved the inner cursor past it: to an entry of a smaller key, or
//!    beyond the end.
//! 4. If only keys are wanted (`Values::Skipped`), `value` stays empty, and `operands` says only whether there are any.
//! 5. A key with many versions costs a bounded number of steps, then a seek; with operands, one step for each operand.
//! 6. After `read_ahead` has given rows, the inner cursor is behind the last of them. `key` is that of the last entry
//!    that it has passed, so `next` finds the key after the rows. There is no current key.

use super::cursor::Cursor;
use super::entry::{EntryRef, Limit};
use super::pinned_value::PinnedValue;
use super::row_reader::{RowReader, STEPS_MAX};
use super::rows::Rows;
use crate::util::{Error, Kind, Result, SequenceNumber};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unpositioned,
    /// On the version that is seen.
    Forward,
    /// As `Forward`, but operands were gathered.
    Gathered,
    Backward,
    /// Behind the rows that were read ahead.
    Ahead,
}

/// What the user of a cursor needs of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Their bytes, until the cursor moves.
    #[default]
    Borrowed,
    /// As `Borrowed`, and the values of puts also beyond that without a copy (`pin_value`).
    Pinned,
    /// Nothing: only keys are needed.
    Skipped,
}

/// A cursor over the live keys of a snapshot.
#[derive(Debug)]
pub struct VisibleCursor<C> {
    inner: C,
    at: SequenceNumber,
    /// Versions up to this number have expired.
    expired: SequenceNumber,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    state: State,
    key: Vec<u8>,
    value: Vec<u8>,
    number: SequenceNumber,
    kind: Kind,
    /// The operands to fold onto `value`, oldest first. Empty unless the version that is seen is an operand.
    operands: Vec<Vec<u8>>,
    /// Whether any source has range tombstones.
    masked: bool,
    values: Values,
    /// Going backward, the value that is seen, if it is pinned and not copied to `value`.
    pinned: Option<PinnedValue>,
}

impl<C: Cursor> VisibleCursor<C> {
    /// An unpositioned cursor over what `inner` shows at snapshot `at` of the encoded keys from `lower` on, below
    /// `upper` if there is one.
    pub fn new(inner: C, at: SequenceNumber, lower: Vec<u8>, upper: Option<Vec<u8>>) -> Self {
        let (key, value, operands) = (Vec::new(), Vec::new(), Vec::new());
        let (state, number, kind) = (State::Unpositioned, at, Kind::Void);
        let (masked, values, pinned) = (false, Values::Borrowed, None);
        Self {
            inner,
            at,
            expired: SequenceNumber::ZERO,
            lower,
            upper,
            state,
            key,
            value,
            number,
            kind,
            operands,
            masked,
            values,
            pinned,
        }
    }

    /// Sets whether to ask `inner` for range tombstones. If no source has any, no key pays for the question.
    pub fn masked(mut self, masked: bool) -> Self {
        self.masked = masked;
        self
    }

    /// Sets up to which number versions have expired for the snapshot.
    pub fn expiring(mut self, expired: SequenceNumber) -> Self {
        self.expired = expired;
        self
    }

    /// Sets what the user needs of the values.
    pub fn wanting(mut self, values: Values) -> Self {
        self.values = values;
        self
    }

    /// Leaves its position, and gives up pages and buffers of files.
    pub fn rest(&mut self) {
        self.state = State::Unpositioned;
        self.begin_key();
        self.inner.rest();
    }

    /// As a new cursor over the same source: at snapshot `at`, to which versions up to `expired` have expired, from `lower` on,
    /// below `upper`. `masked` and `values` as in the methods with these names.
    pub fn renew(
        &mut self,
        (at, expired): (SequenceNumber, SequenceNumber),
        (lower, upper): (&[u8], Option<&[u8]>),
        masked: bool,
        values: Values,
    ) {
        (self.masked, self.values, self.expired) = (masked, values, expired);
        self.state = State::Unpositioned;
        self.begin_key();
        self.inner.renew(at);
        self.at = at;
        self.lower.clear();
        self.lower.extend_from_slice(lower);
        match (&mut self.upper, upper) {
            (Some(own), Some(upper)) => {
                own.clear();
                own.extend_from_slice(upper);
            }
            (own, upper) => *own = upper.map(<[u8]>::to_vec),
        }
    }

    /// Moves to the first live key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.state = State::Unpositioned;
        let from = if key > &self.lower[..] { key } else { &self.lower };
        self.inner.seek(from, self.at)?;
        self.find_forward(false)
    }

    /// Moves to the last live key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.upper.as_deref().is_some_and(|upper| key >= upper) {
            return self.seek_last();
        }
        self.state = State::Unpositioned;
        self.inner.seek_for_prev(key, SequenceNumber::ZERO)?;
        self.find_backward()
    }

    /// Moves to the first live key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.state = State::Unpositioned;
        self.inner.seek(&self.lower, self.at)?;
        self.find_forward(false)
    }

    /// Moves to the last live key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.state = State::Unpositioned;
        match &self.upper {
            Some(upper) => {
                self.inner.seek_for_prev(upper, SequenceNumber::MAX)?;
                while self.inner.valid() && self.inner.entry().key >= &upper[..] {
                    self.inner.prev()?;
                }
            }
            None => self.inner.seek_last()?,
        }
        self.find_backward()
    }

    /// Moves to the next live key. Requires `valid()`.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Unpositioned) {
            State::Forward => self.inner.next()?,
            // The inner cursor is where `find_forward` continues.
            State::Gathered | State::Ahead => {}
            State::Backward => self.inner.seek(&self.key, SequenceNumber::ZERO)?,
            State::Unpositioned => debug_assert!(false, "a step of an unpositioned cursor"),
        }
        self.find_forward(true)
    }

    /// Moves to the previous live key. Requires `valid()`.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Unpositioned) {
            State::Forward => self.leave_key_backward()?,
            State::Gathered => {
                self.inner.seek_for_prev(&self.key, SequenceNumber::MAX)?;
                self.leave_key_backward()?;
            }
            State::Backward => {}
            State::Ahead | State::Unpositioned => debug_assert!(false, "a step back without a current key"),
        }
        self.find_backward()
    }

    /// Reads up to `count` pairs behind the current one into `rows`, and moves behind them: then `next` or a seek must
    /// follow. It gives fewer at the end of the range and before keys that need more work than a copy (operands,
    /// references, many versions), and none after a move other than `next` or a forward seek. After an error the rows
    /// so far are valid, and the cursor must seek.
    pub fn read_ahead(&mut self, count: usize, rows: &mut Rows) -> Result<()> {
        rows.clear();
        if self.state != State::Forward || self.values == Values::Pinned || count == 0 {
            return Ok(());
        }
        // Rows are not compared with range tombstones, so they end where the first of these begins.
        let deleted = if self.masked { self.inner.next_deleted(&self.key) } else { None };
        if deleted.as_ref().is_some_and(|deleted| *deleted <= self.key) {
            return Ok(());
        }
        // Going forward, `value` is not in use.
        let with_values = self.values != Values::Skipped;
        let mut reader =
            RowReader::new((rows, count), (self.at, self.expired), with_values, &mut self.key, &mut self.value);
        let limit = self.upper.as_deref().map_or(Limit::NONE, Limit::at);
        let limit = limit.min(deleted.as_deref().map_or(Limit::NONE, Limit::at));
        self.state = State::Unpositioned;
        let passed = self.inner.pass(limit, &mut reader);
        reader.end();
        let flow = passed?;
        debug_assert!(flow.is_break() || !self.inner.valid() || limit.is_reached(self.inner.entry().key));
        self.state = State::Ahead;
        Ok(())
    }

    /// Of the rows that were read ahead, the user did not take so many. For statistics of scans.
    pub fn note_untaken(&mut self, rows: u64) {
        self.inner.note_untaken(rows);
    }

    /// The inner cursor, for its statistics.
    #[cfg(test)]
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// Whether the cursor is on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        !matches!(self.state, State::Unpositioned | State::Ahead)
    }

    /// The version of the key that is seen: `Kind::Put` or `Kind::ValueReference`. If there are `operands`, the version
    /// that they are folded onto, which may also be none (`Kind::Delete`). Requires `valid()`.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        debug_assert!(self.valid());
        match self.state {
            State::Forward => self.inner.entry(),
            _ => EntryRef { key: &self.key, number: self.number, kind: self.kind, value: &self.value },
        }
    }

    /// The value of `entry`, pinned so that it outlives the cursor's position. `None` if only a copy is possible; then
    /// `entry` has it. Requires `valid()` and a put.
    pub fn pin_value(&self) -> Option<PinnedValue> {
        match self.state {
            State::Forward => self.inner.pin_value(),
            _ => self.pinned.clone(),
        }
    }

    /// The operands to fold onto the value of `entry`, oldest first; usually none. Requires `valid()`.
    pub fn operands(&self) -> &[Vec<u8>] {
        &self.operands
    }

    /// The newest number of a range tombstone of the snapshot over `key`: versions with lower numbers are hidden.
    fn covering(&self) -> SequenceNumber {
        if self.masked { self.inner.covering(&self.key, self.at) } else { SequenceNumber::ZERO }
    }

    /// Versions of `key` with lower numbers are deleted by a range tombstone, or have expired.
    fn floor(&self) -> SequenceNumber {
        self.covering().max(SequenceNumber(self.expired.0 + 1))
    }

    /// Finds the first live key from the inner cursor's position on. `passed`: versions of `key` are to be skipped.
    #[inline]
    fn find_forward(&mut self, mut passed: bool) -> Result<()> {
        let mut steps = 0;
        self.operands.clear();
        while self.inner.valid() {
            let entry = self.inner.entry();
            if passed && entry.key == &self.key[..] {
                steps += 1;
                if steps < STEPS_MAX {
                    self.inner.next()?;
                    continue;
                }
                self.inner.seek(&self.key, SequenceNumber::ZERO)?;
                self.pass_last_version()?;
                steps = 0;
                continue;
            }
            if self.upper.as_deref().is_some_and(|upper| entry.key >= upper) {
                return Ok(());
            }
            if entry.number > self.at {
                steps += 1;
                if steps < STEPS_MAX {
                    self.inner.next()?;
                    continue;
                }
                steps = 0;
                passed = false;
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.inner.seek(&self.key, self.at)?;
                continue;
            }
            steps = 0;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let (number, kind) = (entry.number, entry.kind);
            if self.masked && number < self.covering() {
                passed = false;
                self.inner.leave_deleted(self.at)?;
                continue;
            }
            if kind == Kind::Merge && number > self.expired {
                self.gather()?;
                self.state = State::Gathered;
                return Ok(());
            }
            if number > self.expired && is_live(kind)? {
                self.state = State::Forward;
                return Ok(());
            }
            passed = true;
            self.inner.next()?;
        }
        Ok(())
    }

    /// Gathers the operand that is seen and the versions that it is folded onto.
    fn gather(&mut self) -> Result<()> {
        let floor = self.floor();
        self.number = self.inner.entry().number;
        self.begin_key();
        if self.values == Values::Skipped {
            // An operand gives the key a value, whatever is below it.
            self.operands.push(Vec::new());
            return Ok(());
        }
        while self.inner.valid() {
            let entry = self.inner.entry();
            if entry.key != &self.key[..] || entry.number < floor {
                break;
            }
            if entry.kind != Kind::Merge {
                (self.kind, _) = (entry.kind, is_live(entry.kind)?);
                self.value.extend_from_slice(entry.value);
                break;
            }
            self.operands.push(entry.value.to_vec());
            self.inner.next()?;
        }
        self.operands.reverse();
        Ok(())
    }

    /// Resets the state for a new key: it has no value yet.
    fn begin_key(&mut self) {
        self.kind = Kind::Delete;
        self.value.clear();
        self.pinned = None;
        self.operands.clear();
    }

    /// After a seek to the very last place of `key`: steps off it.
    fn pass_last_version(&mut self) -> Result<()> {
        while self.inner.valid() && self.inner.entry().key == &self.key[..] {
            self.inner.next()?;
        }
        Ok(())
    }

    /// Finds the last live key from the inner cursor's position on. The inner cursor is on the oldest version of some
    /// key.
    fn find_backward(&mut self) -> Result<()> {
        while self.inner.valid() {
            let entry = self.inner.entry();
            if entry.key < &self.lower[..] {
                return Ok(());
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            if self.take_key_backward()? {
                self.state = State::Backward;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Steps back over the versions of `key`, oldest first, and keeps the newest one that is seen. Returns true if it
    /// is live.
    fn take_key_backward(&mut self) -> Result<bool> {
        let floor = self.floor();
        let mut steps = 0;
        self.begin_key();
        while self.inner.valid() {
            let entry = self.inner.entry();
            if entry.key != &self.key[..] {
                break;
            }
            if entry.number > self.at {
                self.leave_key_backward()?;
                break;
            }
            steps += 1;
            if steps == STEPS_MAX {
                self.inner.seek(&self.key, self.at)?;
                if self.inner.valid() && self.inner.entry().kind == Kind::Merge && self.shows(floor) {
                    self.gather()?;
                } else {
                    self.copy_seen(floor);
                }
                self.inner.seek_for_prev(&self.key, SequenceNumber::MAX)?;
                self.leave_key_backward()?;
                break;
            }
            self.copy_seen(floor);
            self.inner.prev()?;
        }
        Ok(is_live(self.kind)? || !self.operands.is_empty())
    }

    /// Whether the inner cursor is on a version of `key` that the snapshot has and no range tombstone hides.
    fn shows(&self, floor: SequenceNumber) -> bool {
        self.inner.valid() && {
            let entry = self.inner.entry();
            entry.key == &self.key[..] && entry.number <= self.at && entry.number >= floor
        }
    }

    /// Copies the inner cursor's version, if it is visible. An operand is added to the result of the older versions;
    /// any other kind replaces it.
    fn copy_seen(&mut self, floor: SequenceNumber) {
        if !self.shows(floor) {
            return;
        }
        let entry = self.inner.entry();
        self.number = entry.number;
        if entry.kind == Kind::Merge {
            if let Some(base) = self.pinned.take() {
                self.value.extend_from_slice(&base);
            }
            self.operands.push(if self.values == Values::Skipped { Vec::new() } else { entry.value.to_vec() });
            return;
        }
        self.kind = entry.kind;
        self.operands.clear();
        self.value.clear();
        self.pinned =
            if self.values == Values::Pinned && entry.kind == Kind::Put { self.inner.pin_value() } else { None };
        if self.pinned.is_none() && self.values != Values::Skipped {
            self.value.extend_from_slice(entry.value);
        }
    }

    /// Moves the inner cursor, which is on a version of `key` or unpositioned, to the last entry of a smaller key.
    fn leave_key_backward(&mut self) -> Result<()> {
        let mut steps = 0;
        while self.inner.valid() && self.inner.entry().key == &self.key[..] {
            steps += 1;
            if steps == STEPS_MAX {
                self.inner.seek_for_prev(&self.key, SequenceNumber::MAX)?;
            } else {
                self.inner.prev()?;
            }
        }
        Ok(())
    }
}

/// Whether a version of this kind, which is not an operand, gives its key a value. Kinds that cannot occur among
/// entries are an error and never skipped: an ignored entry could be a wrong answer.
fn is_live(kind: Kind) -> Result<bool> {
    match kind {
        Kind::Put | Kind::ValueReference => Ok(true),
        Kind::Delete => Ok(false),
        Kind::RangeDelete | Kind::Merge | Kind::Void | Kind::Batch => Err(Error::corruption(
            Path::new("(merged entries)"),
            0,
            "kind of an entry",
            "a put, delete, merge operand or value reference",
            format!("{kind:?}"),
        )),
    }
}
