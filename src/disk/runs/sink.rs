//! Where passes write to. One thread.

use super::run::Key;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::Result;

/// Where a pass writes what it retains, in entry order.
pub trait Sink {
    /// What it has written.
    type Parts;

    /// Adds the next entry.
    fn add(&mut self, entry: EntryRef<'_>) -> Result<()>;

    /// Adds range tombstones, which lie after all that were added before.
    fn add_range_tombstones(&mut self, tombstones: RangeTombstones);

    /// A reused file begins at `key` (`OutputWriter::add_reused`).
    fn add_reused(&mut self, key: Key);

    /// Bytes so far.
    fn bytes(&self) -> u64;

    /// Ends all files: what was written, and its bytes.
    fn finish(self) -> Result<(Self::Parts, u64)>;
}
