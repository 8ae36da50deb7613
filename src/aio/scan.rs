//! A scan as a stream of pairs in key order.

use super::rounds::{Pair, Round, Rounds, Source, take_round};
use crate::db::iter::Iter;
use crate::util::Result;
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A scan: the pairs of a range in key order, as a `Stream`. Other threads read the pairs in rounds, on demand. The
/// first rounds are small, so that a short scan reads little; a round holds at most one MiB and one pair. After an
/// error the stream ends.
///
/// Like an `Iter`, an idle scan retains the versions of its snapshot, and holds nothing else.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use futures_lite::StreamExt;
/// for year in ["2024", "2025", "2026"] {
///     db.put(year, "").await?;
/// }
/// let mut years = db.range("2025"..)?;
/// let first = years.next().await.expect("a pair")?;
/// assert_eq!(first.0, b"2025");
/// assert_eq!(years.count().await, 1);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[must_use = "a scan does nothing until it is polled"]
pub struct Scan {
    rounds: Rounds<Cursor>,
    backward: bool,
}

/// An iterator, and which end of it is read.
struct Cursor {
    iter: Box<Iter>,
    backward: bool,
}

impl Source for Cursor {
    fn read(mut self, count: usize) -> Round<Self> {
        let next = || if self.backward { self.iter.next_back() } else { self.iter.next() };
        let (pairs, more) = take_round(next, count);
        Round { pairs, rest: more.map(|more| more.then_some(self)) }
    }
}

impl Scan {
    /// Scans the remaining pairs of an iterator in order.
    pub fn new(iter: Iter) -> Self {
        Self::of(iter, false)
    }

    /// Scans the remaining pairs of an iterator from the last to the first.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use futures_lite::{StreamExt, future::block_on};
    /// db.put("2025", "dry")?;
    /// db.put("2026", "wet")?;
    /// let newest = block_on(alluvium::Scan::backward(db.prefix("20")?).next()).expect("a pair")?;
    /// assert_eq!(newest.0, b"2026");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn backward(iter: Iter) -> Self {
        Self::of(iter, true)
    }

    fn of(iter: Iter, backward: bool) -> Self {
        Self { rounds: Rounds::new(Cursor { iter: Box::new(iter), backward }), backward }
    }
}

impl Stream for Scan {
    type Item = Result<Pair>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rounds.poll_next(context)
    }
}

impl FusedStream for Scan {
    fn is_terminated(&self) -> bool {
        self.rounds.is_terminated()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("backward", &self.backward)
            .field("read", &self.rounds.read_ahead())
            .finish_non_exhaustive()
    }
}
