//! A scan of a transaction as a stream of pairs in key order.

use super::{AsyncTransaction, Part};
use crate::aio::rounds::{Pair, Round, Rounds, Source, take_round};
use crate::util::Result;
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::marker::PhantomData;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};

type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The pairs of a range in key order as an [`AsyncTransaction`] sees them, as a `Stream`. Other threads read the pairs in
/// rounds, as for a [`Scan`](crate::Scan).
///
/// What the rounds have read counts as read, a little more than what the stream has returned. What the transaction itself
/// writes during the scan shows if it is in a later round.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use futures_lite::StreamExt;
/// db.put("a", "1").await?;
/// let transaction = db.transaction().await?;
/// transaction.put("b", "2")?;
/// let mut pairs = transaction.iter().backward();
/// let mut keys = Vec::new();
/// while let Some(pair) = pairs.next().await {
///     keys.push(pair?.0);
/// }
/// assert_eq!(keys, [b"b".to_vec(), b"a".to_vec()]);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[must_use = "a scan does nothing until it is polled"]
pub struct TransactionScan<'t> {
    part: Part,
    range: Range,
    rounds: Rounds<Rest>,
    /// The transaction cannot be committed as long as there is a scan of it.
    transaction: PhantomData<&'t AsyncTransaction>,
}

/// What was not read yet.
struct Rest {
    part: Part,
    range: Range,
    backward: bool,
}

impl Source for Rest {
    fn read(mut self, count: usize) -> Round<Self> {
        let read = self.part.with(|within| {
            let mut iter = within.range(&self.range)?;
            Ok(take_round(|| if self.backward { iter.next_back() } else { iter.next() }, count))
        });
        let (pairs, more) = match read {
            Ok(read) => read,
            Err(error) => return Round { pairs: Default::default(), rest: Err(error) },
        };
        if let Some((key, _)) = pairs.back() {
            let bound = if self.backward { &mut self.range.1 } else { &mut self.range.0 };
            *bound = Bound::Excluded(key.clone());
        }
        Round { pairs, rest: more.map(|more| more.then_some(self)) }
    }
}

impl TransactionScan<'_> {
    /// Requires that `part` is one of a transaction that lives for the lifetime of the scan.
    pub(super) fn new(part: Part, range: Range) -> Self {
        Self::of(part, range, false)
    }

    /// The same range from its last pair to its first.
    pub fn backward(self) -> Self {
        Self::of(self.part, self.range, true)
    }

    fn of(part: Part, range: Range, backward: bool) -> Self {
        let rest = Rest { part: part.clone(), range: range.clone(), backward };
        Self { part, range, rounds: Rounds::new(rest), transaction: PhantomData }
    }
}

impl Stream for TransactionScan<'_> {
    type Item = Result<Pair>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rounds.poll_next(context)
    }
}

impl FusedStream for TransactionScan<'_> {
    fn is_terminated(&self) -> bool {
        self.rounds.is_terminated()
    }
}

impl std::fmt::Debug for TransactionScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionScan").field("read", &self.rounds.read_ahead()).finish_non_exhaustive()
    }
}
