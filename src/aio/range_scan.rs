//! A stream of the pairs of a key range that each round looks up anew, after the last key of the round before it. For scans of
//! what other threads share, such as a transaction.

use super::keyspace::owned;
use super::rounds::{Pair, Round, Rounds, Source, take_round};
use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_range::KeyRange;
use crate::util::{KeyspaceId, Result};
use std::collections::VecDeque;
use std::ops::Bound;
use std::task::{Context, Poll};

pub(super) type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What has the pairs.
pub(super) trait Pairs: Clone + Send + Unpin + 'static {
    /// Calls a function with an iterator over the pairs of a range.
    fn iterate<T>(&self, range: &Range, read: impl FnOnce(&mut Iter<'_>) -> T) -> Result<T>;
}

/// An iterator over pairs.
pub(super) type Iter<'i> = dyn DoubleEndedIterator<Item = Result<Pair>> + 'i;

/// The stream.
pub(super) struct RangeScan<P> {
    pairs: P,
    range: Range,
    rounds: Rounds<Rest<P>>,
}

/// What was not read yet.
struct Rest<P> {
    pairs: P,
    range: Range,
    backward: bool,
}

impl<P: Pairs> Source for Rest<P> {
    fn read(mut self, count: usize) -> Round<Self> {
        let backward = self.backward;
        let read = self
            .pairs
            .iterate(&self.range, |iter| take_round(|| if backward { iter.next_back() } else { iter.next() }, count));
        let (pairs, more) = match read {
            Ok(read) => read,
            Err(error) => return Round { pairs: VecDeque::new(), rest: Err(error) },
        };
        if let Some((key, _)) = pairs.back() {
            let bound = if backward { &mut self.range.1 } else { &mut self.range.0 };
            *bound = Bound::Excluded(key.clone());
        }
        Round { pairs, rest: more.map(|more| more.then_some(self)) }
    }
}

impl<P: Pairs> RangeScan<P> {
    pub(super) fn of_range(pairs: P, range: &impl KeyRange) -> Self {
        Self::new(pairs, owned(range), false)
    }

    pub(super) fn of_prefix(pairs: P, prefix: &[u8]) -> Self {
        // The bounds are the same in any keyspace.
        let UserRange { start, end, .. } = UserRange::of_prefix(KeyspaceId::DEFAULT, prefix);
        Self::new(pairs, (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded)), false)
    }

    /// The same range from its last pair to its first.
    pub(super) fn backward(self) -> Self {
        Self::new(self.pairs, self.range, true)
    }

    fn new(pairs: P, range: Range, backward: bool) -> Self {
        let rest = Rest { pairs: pairs.clone(), range: range.clone(), backward };
        Self { pairs, range, rounds: Rounds::new(rest) }
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Pair>>> {
        self.rounds.poll_next(context)
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.rounds.is_terminated()
    }

    /// The number of pairs that were read but not returned yet.
    pub(super) fn read_ahead(&self) -> usize {
        self.rounds.read_ahead()
    }
}
