//! The pairs that `scan` and `dump` print. A key whose operands cannot be merged has no value to print: it is reported on
//! standard error, and the rest is printed.

use super::key_range::Range;
use crate::failure::{Failure, message_of};
use alluvium::{Error, Iter, Snapshot};
use std::ops::Bound;

/// Most keys that are reported one by one.
const REPORTED_MAX: u64 = 10;

/// The order in which pairs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// The pairs of a range. Keys without a value are passed, and counted.
pub struct Pairs {
    contents: Snapshot,
    range: Range,
    order: Order,
    iter: Iter,
    unmerged: u64,
}

impl Pairs {
    /// At the first pair in this order.
    pub fn new(contents: Snapshot, range: Range, order: Order) -> Result<Self, Failure> {
        let iter = contents.range(range.clone())?;
        let mut pairs = Self { contents, range, order, iter, unmerged: 0 };
        let moved = pairs.seek();
        pairs.pass_unmerged(moved)?;
        Ok(pairs)
    }

    /// The current pair; `None` after the last one.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.iter.pair()
    }

    /// Goes on to the next pair.
    pub fn step(&mut self) -> Result<(), Failure> {
        let moved = match self.order {
            Order::Ascending => self.iter.step(),
            Order::Descending => self.iter.step_back(),
        };
        self.pass_unmerged(moved)
    }

    /// A failure if keys were left out.
    pub fn finish(self) -> Result<(), Failure> {
        if self.unmerged == 0 { Ok(()) } else { Err(Failure::Unmerged { keys: self.unmerged }) }
    }

    fn seek(&mut self) -> Result<(), Error> {
        match self.order {
            Order::Ascending => self.iter.seek_first(),
            Order::Descending => self.iter.seek_last(),
        }
    }

    /// As long as a move met a key whose operands cannot be merged, reports the key and goes on behind it. After an error the
    /// iterator has no position, so the rest of the range is opened anew, in the same snapshot.
    fn pass_unmerged(&mut self, mut moved: Result<(), Error>) -> Result<(), Failure> {
        while let Err(error) = moved {
            let Error::MergeOperands { key, .. } = &error else { return Err(error.into()) };
            self.unmerged += 1;
            if self.unmerged <= REPORTED_MAX {
                eprintln!("alluvium: left out: {}", message_of(&error));
            }
            match self.order {
                Order::Ascending => self.range.0 = Bound::Excluded(key.clone()),
                Order::Descending => self.range.1 = Bound::Excluded(key.clone()),
            }
            self.iter = self.contents.range(self.range.clone())?;
            moved = self.seek();
        }
        Ok(())
    }
}
