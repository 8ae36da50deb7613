//! Where passes write to. One thread.

use super::run::Key;
use crate::branch::Origin;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::Result;

/// Where a pass writes what it retains, in entry order.
pub trait Sink {
    /// What it has written.
    type Parts;
    /// Whether it is told the origins of entries.
    const TAKES_ORIGINS: bool = false;

    /// Adds the next entry. `origin`: where on the disk it is; `None` if that is not known, or if the pass made it.
    fn add(&mut self, entry: EntryRef<'_>, origin: Option<Origin>) -> Result<()>;

    /// Adds range tombstones, which lie after all that were added before.
    fn add_range_tombstones(&mut self, tombstones: RangeTombstones);

    /// A reused file begins at `key` (`OutputWriter::add_reused`).
    fn add_reused(&mut self, key: Key);

    /// Bytes of files so far.
    fn bytes(&self) -> u64;

    /// Ends all files: what was written, and its bytes.
    fn finish(self) -> Result<(Self::Parts, u64)>;
}
