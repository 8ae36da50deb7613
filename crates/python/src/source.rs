//! Where the pairs of an iterator come from: one walk of the store at a time, either way, from a gap. Used by one thread at a time,
//! detached from the interpreter.

use crate::gap::{Gap, Way};
use crate::keys::Range;
use alluvium::{Iter, Keys, Result, Snapshot, Transaction, TransactionIter};
use std::ops::Bound as End;
use std::sync::Arc;

self_cell::self_cell!(
    /// An iterator of a transaction, and the transaction.
    pub struct InTransaction {
        owner: Arc<Transaction>,
        #[not_covariant]
        dependent: TransactionIter,
    }
);

/// See the module.
pub enum Source {
    /// Of a snapshot.
    Pairs(Steps<Iter>),
    /// Of a snapshot, the keys alone.
    Keys(KeyWalk),
    /// Of a transaction.
    InTransaction(Steps<InTransaction>),
}

/// A walk over keys, made anew for each beginning.
pub struct KeyWalk {
    snapshot: Snapshot,
    range: Range,
    keys: Option<Keys>,
}

/// Steps of a cursor.
pub struct Steps<C> {
    cursor: C,
    /// Whether what it stands on was given already.
    given: bool,
}

impl Source {
    /// Of a snapshot.
    pub fn of_snapshot(snapshot: Snapshot, range: Range, with_values: bool) -> Result<Self> {
        Ok(match with_values {
            true => Self::Pairs(Steps { cursor: snapshot.range(range)?, given: false }),
            false => Self::Keys(KeyWalk { snapshot, range, keys: None }),
        })
    }

    /// Of a transaction: what it had written by now, on top of its snapshot.
    pub fn of_transaction(transaction: Arc<Transaction>, range: Range) -> Result<Self> {
        let cursor = InTransaction::try_new(transaction, |transaction| transaction.range(range))?;
        Ok(Self::InTransaction(Steps { cursor, given: false }))
    }

    /// Goes to a gap, to go on from there.
    pub fn begin(&mut self, gap: &Gap, way: Way) -> Result<()> {
        match self {
            Self::Pairs(steps) => steps.begin(gap, way),
            Self::Keys(walk) => walk.begin(gap, way),
            Self::InTransaction(steps) => steps.begin(gap, way),
        }
    }

    /// Gives the next pair to a function; false where none is left.
    pub fn next(&mut self, way: Way, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        match self {
            Self::Pairs(steps) => steps.next(way, give),
            Self::Keys(walk) => walk.next(way, give),
            Self::InTransaction(steps) => steps.next(way, give),
        }
    }

    /// Whether what is read counts, so that nothing may be read that was not asked for.
    pub fn is_noted(&self) -> bool {
        matches!(self, Self::InTransaction(_))
    }
}

impl KeyWalk {
    fn begin(&mut self, gap: &Gap, way: Way) -> Result<()> {
        let (first, last) = self.range.clone();
        let part = match (gap, way) {
            (Gap::Start, Way::Forward) | (Gap::Stop, Way::Backward) => (first, last),
            (Gap::Before(key), Way::Forward) => (End::Included(key.clone()), last),
            (Gap::After(key), Way::Forward) => (End::Excluded(key.clone()), last),
            (Gap::Before(key), Way::Backward) => (first, End::Excluded(key.clone())),
            (Gap::After(key), Way::Backward) => (first, End::Included(key.clone())),
            (Gap::Stop, Way::Forward) | (Gap::Start, Way::Backward) => {
                self.keys = None;
                return Ok(());
            }
        };
        self.keys = Some(self.snapshot.range(part)?.keys());
        Ok(())
    }

    fn next(&mut self, way: Way, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let Some(keys) = &mut self.keys else { return Ok(false) };
        let key = match way {
            Way::Forward => keys.next(),
            Way::Backward => keys.next_back(),
        };
        match key.transpose()? {
            Some(key) => give(&key, &[]),
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// What both kinds of cursors can.
pub trait Cursor {
    /// Goes to beside a gap.
    fn begin(&mut self, gap: &Gap, way: Way) -> Result<()>;
    /// Goes on by one pair.
    fn step(&mut self, way: Way) -> Result<()>;
    /// Gives the pair that it stands on to a function; false where it stands nowhere.
    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool;
}

/// The two have the same methods by the same names, but no trait of the library.
macro_rules! begin {
    ($cursor:expr, $gap:expr, $way:expr) => {{
        let cursor = $cursor;
        match ($gap, $way) {
            (Gap::Start, Way::Forward) => cursor.seek_first(),
            (Gap::Stop, Way::Backward) => cursor.seek_last(),
            (Gap::Before(key), Way::Forward) => cursor.seek(key),
            (Gap::After(key), Way::Backward) => cursor.seek_for_prev(key),
            (Gap::After(key), Way::Forward) => {
                cursor.seek(key)?;
                if cursor.key() == key { cursor.step() } else { Ok(()) }
            }
            (Gap::Before(key), Way::Backward) => {
                cursor.seek_for_prev(key)?;
                if cursor.key() == key { cursor.step_back() } else { Ok(()) }
            }
            // Off the end, where there is nothing more.
            (Gap::Stop, Way::Forward) => {
                cursor.seek_last()?;
                cursor.step()
            }
            (Gap::Start, Way::Backward) => {
                cursor.seek_first()?;
                cursor.step_back()
            }
        }
    }};
}

impl Cursor for Iter {
    fn begin(&mut self, gap: &Gap, way: Way) -> Result<()> {
        begin!(self, gap, way)
    }

    fn step(&mut self, way: Way) -> Result<()> {
        match way {
            Way::Forward => Iter::step(self),
            Way::Backward => self.step_back(),
        }
    }

    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let valid = self.valid();
        if valid {
            give(self.key(), self.value());
        }
        valid
    }
}

impl Cursor for InTransaction {
    fn begin(&mut self, gap: &Gap, way: Way) -> Result<()> {
        self.with_dependent_mut(|_, cursor| begin!(cursor, gap, way))
    }

    fn step(&mut self, way: Way) -> Result<()> {
        self.with_dependent_mut(|_, cursor| match way {
            Way::Forward => cursor.step(),
            Way::Backward => cursor.step_back(),
        })
    }

    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        self.with_dependent(|_, cursor| {
            let valid = cursor.valid();
            if valid {
                give(cursor.key(), cursor.value());
            }
            valid
        })
    }
}

impl<C: Cursor> Steps<C> {
    fn begin(&mut self, gap: &Gap, way: Way) -> Result<()> {
        self.given = false;
        self.cursor.begin(gap, way)
    }

    fn next(&mut self, way: Way, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        if self.given {
            self.cursor.step(way)?;
        }
        self.given = self.cursor.look(give);
        Ok(self.given)
    }
}
