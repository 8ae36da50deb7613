//! The one rule of what a reader sees: at a snapshot, of every key the newest version with a number at or below the
//! snapshot's, and nothing where that version is a tombstone.
//!
//! A cursor belongs to one thread at a time.
//!
//! Invariants, while the cursor is valid:
//! 1. `key` is the key it stands on, within [lower, upper).
//! 2. Going forward the inner cursor stands on the version that is seen, and `entry` borrows it from there.
//! 3. Going backward the version that is seen is copied to `value`, `number` and `kind`, since finding it took the inner
//!    cursor past it: to some entry of a smaller key, or nowhere.
//! 4. A key with many versions costs a bounded number of steps, then a seek.

use super::cursor::{Cursor, EntryRef};
use crate::base::{Error, Kind, Result, SequenceNumber};
use std::path::Path;

/// Versions that are passed one by one before a seek passes the rest. A seek costs as much as some tens of steps.
const STEPS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nowhere,
    Forward,
    Backward,
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
}

impl<C: Cursor> VisibleCursor<C> {
    /// A cursor over what `inner` shows at snapshot `at` of the encoded keys from `lower` on, below `upper` if there is
    /// one. It stands nowhere.
    pub fn new(inner: C, at: SequenceNumber, lower: Vec<u8>, upper: Option<Vec<u8>>) -> Self {
        let (key, value) = (Vec::new(), Vec::new());
        Self { inner, at, lower, upper, state: State::Nowhere, key, value, number: at, kind: Kind::Void }
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
            State::Backward => self.inner.seek(&self.key, SequenceNumber::ZERO)?,
            State::Nowhere => debug_assert!(false, "stepped from nowhere"),
        }
        self.find_forward(true)
    }

    /// Moves to the live key before. Requires `valid()`.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Forward => self.leave_key_backward()?,
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

    /// The version that is seen: `Kind::Put` or `Kind::ValueReference`. Requires `valid()`.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        debug_assert!(self.valid());
        match self.state {
            State::Forward => self.inner.entry(),
            _ => EntryRef { key: &self.key, number: self.number, kind: self.kind, value: &self.value },
        }
    }

    /// From where the inner cursor stands, finds the first live key; `passed` if versions of `key` are to be passed over.
    #[inline]
    fn find_forward(&mut self, mut passed: bool) -> Result<()> {
        let mut steps = 0;
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
            if is_live(entry.kind)? {
                self.state = State::Forward;
                return Ok(());
            }
            passed = true;
            self.inner.next()?;
        }
        Ok(())
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
        let mut seen = false;
        let mut steps = 0;
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
                seen |= self.copy_seen();
                self.inner.seek_for_prev(&self.key, SequenceNumber::MAX)?;
                self.leave_key_backward()?;
                break;
            }
            seen |= self.copy_seen();
            self.inner.prev()?;
        }
        Ok(seen && is_live(self.kind)?)
    }

    /// Copies the version that the inner cursor stands on, if it is one of `key`.
    fn copy_seen(&mut self) -> bool {
        if !self.inner.valid() {
            return false;
        }
        let entry = self.inner.entry();
        if entry.key != &self.key[..] || entry.number > self.at {
            return false;
        }
        self.number = entry.number;
        self.kind = entry.kind;
        self.value.clear();
        self.value.extend_from_slice(entry.value);
        true
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

/// Whether a version of this kind gives its key a value. Kinds that no writer of this format version makes are refused,
/// never passed over: a range tombstone or an operand that is ignored is a wrong answer.
fn is_live(kind: Kind) -> Result<bool> {
    match kind {
        Kind::Put | Kind::ValueReference => Ok(true),
        Kind::Delete => Ok(false),
        Kind::RangeDelete | Kind::Merge | Kind::Void | Kind::Batch => Err(Error::corruption(
            Path::new("(merged entries)"),
            0,
            "kind of an entry",
            "a put, delete or value reference",
            format!("{kind:?}"),
        )),
    }
}
