//! The one rule of what a reader sees: at a snapshot, of every key the newest version with a number at or below the
//! snapshot's, and nothing where that version is a tombstone, or a range tombstone that the snapshot has is newer. Where the
//! version is a merge operand, the older ones down to the first that is none, or is hidden so, are gathered with it.
//!
//! A cursor belongs to one thread at a time.
//!
//! Invariants, while the cursor is valid:
//! 1. `key` is the key it stands on, within [lower, upper).
//! 2. Going forward the inner cursor stands on the version that is seen, and `entry` borrows it from there; but where that is
//!    an operand, gathering took it to some older version of `key`, to an entry of a greater key, or nowhere.
//! 3. Going backward, and where operands were gathered, what is seen is copied to `value`, `number`, `kind` and `operands`.
//!    Going backward, finding it took the inner cursor past it: to some entry of a smaller key, or nowhere.
//! 4. Where keys alone are wanted (`Values::Left`), `value` stays empty, and `operands` says only whether there are any.
//! 5. A key with many versions costs a bounded number of steps, then a seek; with operands, one step for each.

use super::cursor::{Cursor, EntryRef};
use super::pinned_value::PinnedValue;
use crate::util::{Error, Kind, Result, SequenceNumber};
use std::path::Path;

/// Versions that are passed one by one before a seek passes the rest. A seek costs as much as some tens of steps.
const STEPS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nowhere,
    /// On the version that is seen.
    Forward,
    /// As `Forward`, but operands were gathered.
    Gathered,
    Backward,
}

/// What a cursor's user wants of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Their bytes, until the cursor moves.
    #[default]
    Shown,
    /// The same, and those of puts longer than that, without a copy: `hold`.
    Pinned,
    /// Nothing.
    Left,
}

/// A cursor over the live keys of a snapshot.
#[derive(Debug)]
pub struct VisibleCursor<C> {
    inner: C,
    at: SequenceNumber,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    state: State,
    key: Vec<u8>,
    value: Vec<u8>,
    number: SequenceNumber,
    kind: Kind,
    /// The operands to fold into `value`, oldest first. Empty but where the version that is seen is one.
    operands: Vec<Vec<u8>>,
    /// Whether any source has range tombstones.
    masked: bool,
    values: Values,
    /// Going backward, the value that is seen, in place of a copy in `value`.
    held: Option<PinnedValue>,
}

impl<C: Cursor> VisibleCursor<C> {
    /// A cursor over what `inner` shows at snapshot `at` of the encoded keys from `lower` on, below `upper` if there is
    /// one. It stands nowhere.
    pub fn new(inner: C, at: SequenceNumber, lower: Vec<u8>, upper: Option<Vec<u8>>) -> Self {
        let (key, value, operands) = (Vec::new(), Vec::new(), Vec::new());
        let (state, number, kind) = (State::Nowhere, at, Kind::Void);
        let (masked, values, held) = (false, Values::Shown, None);
        Self { inner, at, lower, upper, state, key, value, number, kind, operands, masked, values, held }
    }

    /// The same, which asks `inner` for range tombstones if `masked`: where no source has any, no key pays for asking.
    pub fn masked(mut self, masked: bool) -> Self {
        self.masked = masked;
        self
    }

    /// The same, for a user who wants this of the values.
    pub fn wanting(mut self, values: Values) -> Self {
        self.values = values;
        self
    }

    /// Moves to the first live key at or behind `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.state = State::Nowhere;
        let from = if key > &self.lower[..] { key } else { &self.lower };
        self.inner.seek(from, self.at)?;
        self.find_forward(false)
    }

    /// Moves to the last live key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.upper.as_deref().is_some_and(|upper| key >= upper) {
            return self.seek_last();
        }
        self.state = State::Nowhere;
        self.inner.seek_for_prev(key, SequenceNumber::ZERO)?;
        self.find_backward()
    }

    /// Moves to the first live key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.state = State::Nowhere;
        self.inner.seek(&self.lower, self.at)?;
        self.find_forward(false)
    }

    /// Moves to the last live key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.state = State::Nowhere;
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
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Forward => self.inner.next()?,
            // The inner cursor stands where `find_forward` goes on from.
            State::Gathered => {}
            State::Backward => self.inner.seek(&self.key, SequenceNumber::ZERO)?,
            State::Nowhere => debug_assert!(false, "stepped from nowhere"),
        }
        self.find_forward(true)
    }

    /// Moves to the live key before. Requires `valid()`.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Forward => self.leave_key_backward()?,
            State::Gathered => {
                self.inner.seek_for_prev(&self.key, SequenceNumber::MAX)?;
                self.leave_key_backward()?;
            }
            State::Backward => {}
            State::Nowhere => debug_assert!(false, "stepped from nowhere"),
        }
        self.find_backward()
    }

    /// The cursor that it reads from, for its statistics.
    #[cfg(test)]
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// Whether the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.state != State::Nowhere
    }

    /// What of the key is seen: `Kind::Put` or `Kind::ValueReference`; where there are `operands`, what they are to be folded
    /// into, which may also be nothing: `Kind::Delete`. Requires `valid()`.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        debug_assert!(self.valid());
        match self.state {
            State::Forward => self.inner.entry(),
            _ => EntryRef { key: &self.key, number: self.number, kind: self.kind, value: &self.value },
        }
    }

    /// The value of `entry`, kept for longer than the cursor stands there; `None` where only a copy can be: then `entry` has it.
    /// Requires `valid()`, and a put.
    pub fn pin_value(&self) -> Option<PinnedValue> {
        match self.state {
            State::Forward => self.inner.pin_value(),
            _ => self.held.clone(),
        }
    }

    /// The operands that make the key's value of `entry`, oldest first; mostly none. Requires `valid()`.
    pub fn operands(&self) -> &[Vec<u8>] {
        &self.operands
    }

    /// The newest number of a range tombstone over `key` that the snapshot has: versions with lower numbers are gone.
    fn floor(&self) -> SequenceNumber {
        if self.masked { self.inner.covering(&self.key, self.at) } else { SequenceNumber::ZERO }
    }

    /// From where the inner cursor stands, finds the first live key; `passed` if versions of `key` are to be passed over.
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
            if !self.masked || number >= self.floor() {
                if kind == Kind::Merge {
                    self.gather()?;
                    self.state = State::Gathered;
                    return Ok(());
                }
                if is_live(kind)? {
                    self.state = State::Forward;
                    return Ok(());
                }
            }
            passed = true;
            self.inner.next()?;
        }
        Ok(())
    }

    /// From the operand that is seen, gathers it and what it is folded into.
    fn gather(&mut self) -> Result<()> {
        let floor = self.floor();
        self.number = self.inner.entry().number;
        self.begin_key();
        if self.values == Values::Left {
            // An operand makes a value of whatever is below it.
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

    /// Nothing is known of the key yet: it has no value.
    fn begin_key(&mut self) {
        self.kind = Kind::Delete;
        self.value.clear();
        self.held = None;
        self.operands.clear();
    }

    /// After a seek to the very last place of `key`: steps off it.
    fn pass_last_version(&mut self) -> Result<()> {
        while self.inner.valid() && self.inner.entry().key == &self.key[..] {
            self.inner.next()?;
        }
        Ok(())
    }

    /// From where the inner cursor stands, on the oldest version of some key, finds the last live key.
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

    /// Walks back over the versions of `key`, oldest first, and keeps the newest that is seen; true if it is live.
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

    /// Whether the inner cursor stands on a version of `key` that the snapshot has and no range tombstone hides from it.
    fn shows(&self, floor: SequenceNumber) -> bool {
        self.inner.valid() && {
            let entry = self.inner.entry();
            entry.key == &self.key[..] && entry.number <= self.at && entry.number >= floor
        }
    }

    /// Copies the version that the inner cursor stands on, if it shows: an operand goes on top of what older versions came to,
    /// anything else takes its place.
    fn copy_seen(&mut self, floor: SequenceNumber) {
        if !self.shows(floor) {
            return;
        }
        let entry = self.inner.entry();
        self.number = entry.number;
        if entry.kind == Kind::Merge {
            if let Some(base) = self.held.take() {
                self.value.extend_from_slice(&base);
            }
            self.operands.push(if self.values == Values::Left { Vec::new() } else { entry.value.to_vec() });
            return;
        }
        self.kind = entry.kind;
        self.operands.clear();
        self.value.clear();
        self.held =
            if self.values == Values::Pinned && entry.kind == Kind::Put { self.inner.pin_value() } else { None };
        if self.held.is_none() && self.values != Values::Left {
            self.value.extend_from_slice(entry.value);
        }
    }

    /// Moves the inner cursor, which stands on a version of `key` or nowhere, to the last entry of a smaller key.
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

/// Whether a version of this kind, no operand, gives its key a value. Kinds that do not stand among entries are refused, never
/// passed over: what is ignored is a wrong answer.
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
