//! `Keyspace`: sizes and compaction.

use super::Keyspace;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport, Goal};
use crate::engine::types::key_range::KeyRange;
use crate::util::Result;

/// Sizes and compaction.
impl Keyspace {
    /// Estimates the size of a key range in bytes, in branch files and in memory. Old versions and deleted data count
    /// until they are merged away.
    ///
    /// The estimate uses indexes and a sample of memory, and reads no data. Its resolution is about one leaf of a
    /// branch file and a hundredth of memory. Values of 256 KiB or more, which are stored in value files, do not count.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", vec![7; 5000])?;
    /// assert!(db.approximate_size("a".."f")? > 4000);
    /// assert_eq!(db.approximate_size("f"..)?, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceDropped`; otherwise those of reads.
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        self.checked(self.engine.read.approximate_size(&Bounds::of_range(self.id(), range)))
    }

    /// Compacts a key range so that it takes the least space. When the call returns, all data of the range that was
    /// written before the call is in one run, without versions and deletes that no snapshot needs. Data that is in this
    /// form already is not rewritten, so a second call costs nothing. An empty or inverted range is not an error.
    ///
    /// The call rewrites at most the data of the range, plus one leaf of the tree (up to eight times
    /// `Options::write_buffer`) at each end. It needs free disk space for the leaves that are being rewritten. Reads
    /// and writes continue meanwhile.
    ///
    /// Use this after many deletes or overwrites, if the space is needed soon. `optimize` makes reads as fast with less
    /// work. `compact_with` reports progress and can be cancelled.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("2025-12-31", "old")?;
    /// db.put("2026-01-01", "new")?;
    /// db.delete("2025-12-31")?;
    /// db.compact_range(.."2026")?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `DiskFull` if there is no space for the rewritten data; `ReadOnly` after an earlier failure; `KeyspaceDropped` if the
    /// keyspace was dropped before the call.
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.compact_with(range, &CompactOptions::default(), &mut |_| ()).map(drop)
    }

    /// Makes reads of a key range as fast as possible, with the least rewriting. All data of the range is flushed to
    /// the leaves of the tree, which moves only references, and leaves with several runs are merged. Unlike
    /// `compact_range`, it leaves a leaf with one run unchanged, even if that holds old versions and deletes.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// db.optimize("a".."m")?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `compact_range`.
    pub fn optimize(&self, range: impl KeyRange) -> Result<()> {
        let options = CompactOptions::new().goal(Goal::Reads);
        self.compact_with(range, &options, &mut |_| ()).map(drop)
    }

    /// Like `compact_range` or `optimize`, depending on `CompactOptions::goal`. `progress` is called about twenty times
    /// a second, and another thread can cancel the compaction. While background work is paused, the call waits.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::CompactOptions;
    /// db.put("elbe", "North Sea")?;
    /// let report = db.compact_with(.., &CompactOptions::default(), &mut |progress| {
    ///     println!("{} of about {} bytes", progress.bytes_done, progress.bytes_total);
    /// })?;
    /// println!("{} bytes written", report.bytes_written);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Cancelled` if it was cancelled; otherwise like `compact_range`.
    pub fn compact_with(
        &self,
        range: impl KeyRange,
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<CompactReport> {
        self.info.check()?;
        self.engine.background.compact(Bounds::of_range(self.id(), range).into_keys(), options, progress)
    }
}
