//! The source of an iterator's pairs: scans of the store in either direction, each from a gap. Used by one thread at a
//! time, detached from the interpreter.

use crate::errors::Outcome;
use crate::gap::{Direction, Gap};
use crate::keys::Range;
use crate::staged_batch::Part;
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
    /// Pairs or keys of a staged batch.
    Staged(StagedScan),
}

/// A scan of a staged batch, which others may change between any two calls. So each call seeks, under the lock of the batch.
pub struct StagedScan {
    part: Part,
    range: Range,
    with_values: bool,
    /// The number of changes before the last call.
    changes: u64,
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

    /// Creates a source from a staged batch.
    pub fn of_staged_batch(part: Part, range: Range, with_values: bool) -> Self {
        Self::Staged(StagedScan { changes: part.changes(), part, range, with_values })
    }

    /// Passes pairs to a function until it returns false: those behind a gap. If the last call left off there, and succeeded,
    /// this one may go on.
    pub fn read(
        &mut self,
        gap: &Gap,
        goes_on: bool,
        direction: Direction,
        give: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let positioned: &mut dyn Positioned = match self {
            Self::Pairs(steps) => steps,
            Self::Keys(scan) => scan,
            Self::InTransaction(steps) => steps,
            Self::Staged(scan) => return scan.read(gap, direction, give),
        };
        if !goes_on {
            positioned.begin(gap, direction)?;
        }
        let mut wants_more = true;
        while wants_more && positioned.next(direction, &mut |key, value| wants_more = give(key, value))? {}
        Ok(())
    }

    /// Whether what was read ahead may be no longer true.
    pub fn has_changed(&self) -> bool {
        match self {
            Self::Staged(scan) => scan.part.changes() != scan.changes,
            _ => false,
        }
    }

    /// Whether reads are recorded (for conflicts), so that nothing may be read ahead.
    pub fn records_reads(&self) -> bool {
        matches!(self, Self::InTransaction(_))
    }
}

/// A scan that has a position.
trait Positioned {
    /// Moves to a gap and prepares to scan from there.
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()>;
    /// Passes the next pair to a function. Returns false if there is none.
    fn next(&mut self, direction: Direction, give: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool>;
}

/// The part of a range that a scan from a gap reads; `None` if it reads nothing.
fn rest((first, last): Range, gap: &Gap, direction: Direction) -> Option<Range> {
    Some(match (gap, direction) {
        (Gap::Start, Direction::Forward) | (Gap::Stop, Direction::Backward) => (first, last),
        // A seek to an excluded start.
        (Gap::Before(key), Direction::Forward) if matches!(&first, End::Excluded(start) if start == key) => {
            (first, last)
        }
        (Gap::Before(key), Direction::Forward) => (End::Included(key.clone()), last),
        (Gap::After(key), Direction::Forward) => (End::Excluded(key.clone()), last),
        (Gap::Before(key), Direction::Backward) => (first, End::Excluded(key.clone())),
        (Gap::After(key), Direction::Backward) => (first, End::Included(key.clone())),
        (Gap::Stop, Direction::Forward) | (Gap::Start, Direction::Backward) => return None,
    })
}

impl StagedScan {
    fn read(&mut self, gap: &Gap, direction: Direction, give: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        self.changes = self.part.changes();
        match rest(self.range.clone(), gap, direction) {
            Some(rest) => self.part.scan(rest, direction, self.with_values, give),
            None => Ok(()),
        }
    }
}

impl Positioned for KeyScan {
    fn begin(&mut self, gap: &Gap, direction: Direction) -> Result<()> {
        let rest = rest(self.range.clone(), gap, direction);
        self.keys = rest.map(|rest| self.snapshot.range(rest)).transpose()?.map(Iter::keys);
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

impl<C: Cursor> Positioned for Steps<C> {
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
