//! The source of an iterator's pairs: scans of the store in either direction, each from a gap. Used by one thread at a
//! time, detached from the interpreter.

use crate::gap::{Direction, Gap};
use crate::keys::Range;
use crate::transaction::Open;
use alluvium::{Iter, Keys, Result, Snapshot, TransactionIter};
use std::ops::Bound as End;

self_cell::self_cell!(
    /// An iterator of a transaction, together with the transaction.
    pub struct InTransaction {
        owner: Open,
        #[not_covariant]
        dependent: TransactionIter,
    }
);

/// See the module.
pub enum Source {
    /// Pairs of a snapshot.
    Pairs(Steps<Iter>),
    /// Keys of a snapshot.
    Keys(KeyScan),
    /// Pairs of a transaction.
    InTransaction(Steps<InTransaction>),
}

/// A scan over keys, created anew for each start.
pub struct KeyScan {
    snapshot: Snapshot,
    range: Range,
    keys: Option<Keys>,
}

/// The steps of a cursor.
pub struct Steps<C> {
    cursor: C,
    /// Whether the current pair was already returned.
    given: bool,
}

impl Source {
    /// Creates a source from a snapshot.
    pub fn of_snapshot(snapshot: Snapshot, range: Range, with_values: bool) -> Result<Self> {
        Ok(match with_values {
            true => Self::Pairs(Steps { cursor: snapshot.range(range)?, given: false }),
            false => Self::Keys(KeyScan { snapshot, range, keys: None }),
        })
    }

    /// Creates a source from a transaction: its snapshot and the writes that it has made by now.
    pub fn of_transaction(open: Open, range: Range) -> Result<Self> {
        let cursor = InTransaction::try_new(open, |open| open.part()?.range(range))?;
        Ok(Self::InTransaction(Steps { cursor, given: false }))
    }

    /// Moves to a gap and prepares to scan from there.
    pub fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        match self {
            Self::Pairs(steps) => steps.begin(gap, direction),
            Self::Keys(scan) => scan.begin(gap, direction),
            Self::InTransaction(steps) => steps.begin(gap, direction),
        }
    }

    /// Passes the next pair to a function. Returns false if there is none.
    pub fn next(&mut self, direction: Direction, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        match self {
            Self::Pairs(steps) => steps.next(direction, give),
            Self::Keys(scan) => scan.next(direction, give),
            Self::InTransaction(steps) => steps.next(direction, give),
        }
    }

    /// Whether reads are recorded (for conflicts), so that nothing may be read ahead.
    pub fn records_reads(&self) -> bool {
        matches!(self, Self::InTransaction(_))
    }
}

impl KeyScan {
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        let (first, last) = self.range.clone();
        let part = match (gap, direction) {
            (Gap::Start, Direction::Forward) | (Gap::Stop, Direction::Backward) => (first, last),
            // A seek to an excluded start.
            (Gap::Before(key), Direction::Forward) if matches!(&first, End::Excluded(start) if start == key) => {
                (first, last)
            }
            (Gap::Before(key), Direction::Forward) => (End::Included(key.clone()), last),
            (Gap::After(key), Direction::Forward) => (End::Excluded(key.clone()), last),
            (Gap::Before(key), Direction::Backward) => (first, End::Excluded(key.clone())),
            (Gap::After(key), Direction::Backward) => (first, End::Included(key.clone())),
            (Gap::Stop, Direction::Forward) | (Gap::Start, Direction::Backward) => {
                self.keys = None;
                return Ok(());
            }
        };
        self.keys = Some(self.snapshot.range(part)?.keys());
        Ok(())
    }

    fn next(&mut self, direction: Direction, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let Some(keys) = &mut self.keys else { return Ok(false) };
        let key = match direction {
            Direction::Forward => keys.next(),
            Direction::Backward => keys.next_back(),
        };
        match key.transpose()? {
            Some(key) => give(&key, &[]),
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// The common operations of both kinds of cursors.
pub trait Cursor {
    /// Moves to the pair next to a gap.
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()>;
    /// Moves by one pair.
    fn step(&mut self, direction: Direction) -> Result<()>;
    /// Passes the current pair to a function. Returns false if unpositioned.
    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool;
}

/// Both iterator types have methods of the same names, but the library has no common trait.
macro_rules! begin {
    ($cursor:expr, $gap:expr, $direction:expr) => {{
        let cursor = $cursor;
        match ($gap, $direction) {
            (Gap::Start, Direction::Forward) => cursor.seek_first(),
            (Gap::Stop, Direction::Backward) => cursor.seek_last(),
            (Gap::Before(key), Direction::Forward) => cursor.seek(key),
            (Gap::After(key), Direction::Backward) => cursor.seek_for_prev(key),
            (Gap::After(key), Direction::Forward) => {
                cursor.seek(key)?;
                if cursor.key() == Some(key) { cursor.step() } else { Ok(()) }
            }
            (Gap::Before(key), Direction::Backward) => {
                cursor.seek_for_prev(key)?;
                if cursor.key() == Some(key) { cursor.step_back() } else { Ok(()) }
            }
            // Past the end, where no pair is left.
            (Gap::Stop, Direction::Forward) => {
                cursor.seek_last()?;
                cursor.step()
            }
            (Gap::Start, Direction::Backward) => {
                cursor.seek_first()?;
                cursor.step_back()
            }
        }
    }};
}

impl Cursor for Iter {
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        begin!(self, gap, direction)
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => Iter::step(self),
            Direction::Backward => self.step_back(),
        }
    }

    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        self.pair().map(|(key, value)| give(key, value)).is_some()
    }
}

impl Cursor for InTransaction {
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        self.with_dependent_mut(|_, cursor| begin!(cursor, gap, direction))
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        self.with_dependent_mut(|_, cursor| match direction {
            Direction::Forward => cursor.step(),
            Direction::Backward => cursor.step_back(),
        })
    }

    fn look(&self, give: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        self.with_dependent(|_, cursor| cursor.pair().map(|(key, value)| give(key, value)).is_some())
    }
}

impl<C: Cursor> Steps<C> {
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        self.given = false;
        self.cursor.begin(gap, direction)
    }

    fn next(&mut self, direction: Direction, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        if self.given {
            self.cursor.step(direction)?;
        }
        self.given = self.cursor.look(give);
        Ok(self.given)
    }
}
