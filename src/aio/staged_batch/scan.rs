//! A scan of a staged batch as a stream of pairs in key order.

use super::{AsyncStagedBatch, Part};
use crate::aio::range_scan::{Iter, Pairs, Range, RangeScan};
use crate::aio::rounds::Pair;
use crate::engine::types::key_range::KeyRange;
use crate::util::Result;
use futures_core::Stream;
use futures_core::stream::FusedStream;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The pairs of a range in key order as the owner of an [`AsyncStagedBatch`] sees them, as a `Stream`. Other threads read the pairs
/// in rounds, as for a [`Scan`](crate::Scan). The batch cannot be changed while it lives.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use futures_lite::StreamExt;
/// db.put("a", "1").await?;
/// let mut batch = db.staged_batch()?;
/// batch.put("b", "2").await?;
/// let mut pairs = batch.iter().backward();
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
pub struct StagedScan<'b> {
    scan: RangeScan<Part>,
    /// The batch cannot be changed as long as there is a scan of it.
    batch: PhantomData<&'b AsyncStagedBatch>,
}

impl Pairs for Part {
    fn iterate<T>(&self, range: &Range, read: impl FnOnce(&mut Iter<'_>) -> T) -> Result<T> {
        self.with(|within| Ok(read(&mut within.range(range)?)))
    }
}

impl StagedScan<'_> {
    /// Requires that `part` is one of a batch that lives for the lifetime of the scan.
    pub(super) fn of_range(part: Part, range: &impl KeyRange) -> Self {
        Self::new(RangeScan::of_range(part, range))
    }

    /// The pairs whose keys start with a prefix. Requires what `of_range` does.
    pub(super) fn of_prefix(part: Part, prefix: &[u8]) -> Self {
        Self::new(RangeScan::of_prefix(part, prefix))
    }

    /// The same range from its last pair to its first.
    pub fn backward(self) -> Self {
        Self::new(self.scan.backward())
    }

    fn new(scan: RangeScan<Part>) -> Self {
        Self { scan, batch: PhantomData }
    }
}

impl Stream for StagedScan<'_> {
    type Item = Result<Pair>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.scan.poll_next(context)
    }
}

impl FusedStream for StagedScan<'_> {
    fn is_terminated(&self) -> bool {
        self.scan.is_terminated()
    }
}

impl std::fmt::Debug for StagedScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedScan").field("read", &self.scan.read_ahead()).finish_non_exhaustive()
    }
}
