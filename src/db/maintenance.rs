//! `Db`: compaction, flushes, checks and statistics.

use super::db::Db;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::state::budget::check_write_limit;
use crate::engine::tools::verify;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport, Goal};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
use crate::util::{KeyspaceId, Result};

/// Maintenance.
impl Db {
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
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        self.engine.read.approximate_size(&Bounds::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Incorporates all memory: writes it to branch files and waits until that is done.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ReadOnly` after an earlier failure.
    pub fn flush(&self) -> Result<()> {
        self.engine.read.check_open()?;
        self.engine.background.generations.incorporate_all()
    }

    /// Makes all writes that returned before the call durable. Concurrent calls share one sync of the disk.
    ///
    /// # Errors
    /// `Io`; `ReadOnly` after an earlier failure.
    pub fn sync(&self) -> Result<()> {
        self.engine.write.sync()
    }

    /// Compacts all keys; see `compact_range`.
    pub fn compact(&self) -> Result<()> {
        self.compact_range(..)
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
    /// `DiskFull` if there is no space for the rewritten data; `ReadOnly` after an earlier failure.
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
        let options = CompactOptions { goal: Goal::Reads, ..CompactOptions::default() };
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
        self.engine.background.compact(Bounds::of_range(KeyspaceId::DEFAULT, range).into_keys(), options, progress)
    }

    /// Pauses merges and the removal of files until the returned guard is dropped. When the call returns, no merge
    /// reads or writes. Pauses may overlap; merges continue when the last guard is dropped. Use this while something
    /// else needs the disk, and in tests.
    ///
    /// Writes continue, since full Memtables are still incorporated. The merge debt that this leaves
    /// (`Stats::debt_bytes`) slows writers more and more, but never stops them, and reads meet more and more runs. A
    /// write limit (`set_background_write_limit`), with which merges continue slowly, is often the better choice.
    /// `close` does not wait for the end of a pause; `compact` and `optimize` do.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let pause = db.pause_background();
    /// assert!(db.stats().background_paused);
    /// drop(pause);
    /// assert!(!db.stats().background_paused);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn pause_background(&self) -> BackgroundPause {
        BackgroundPause::begin(&self.engine.background.scheduler)
    }

    /// Changes `Options::background_write_limit`. Running background work follows the new limit at once. `None` removes
    /// the limit.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.set_background_write_limit(Some(20 << 20))?;
    /// assert_eq!(db.stats().background_write_limit, Some(20 << 20));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a limit of 0; use `pause_background` to stop merges.
    pub fn set_background_write_limit(&self, limit: Option<u64>) -> Result<()> {
        check_write_limit(limit)?;
        self.engine.read.check_open()?;
        self.engine.background.throttle.write_limits.own().set(limit);
        Ok(())
    }

    /// Waits until the background work is idle. Use this before measurements and before copying files. Work for
    /// quiet times, which only makes reads cheaper, may begin a second later; `pause_background` prevents it.
    ///
    /// # Errors
    /// The failure that blocks background work.
    pub fn settle(&self) -> Result<()> {
        self.engine.read.check_open()?;
        self.engine.background.wait_until_idle()
    }

    /// Checks the whole store: reads all files and checks checksums, order, counts and the structure of the tree.
    ///
    /// # Errors
    /// The first damage that was found, with file and offset. `verify_with` lists all damage.
    pub fn verify(&self) -> Result<VerifyReport> {
        let found = self.verify_with(Depth::Deep, &mut |_| ())?;
        found.damage.into_iter().next().map_or(Ok(found.checked), Err)
    }

    /// Checks the store while others read and write it, and lists all damage. `progress` is called for each file.
    ///
    /// # Errors
    /// `Io` if a file could not be checked. Damage is not an error here.
    pub fn verify_with(&self, depth: Depth, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<Verification> {
        self.engine.read.check_open()?;
        let found = verify::verify_open(&self.engine, depth, progress);
        // Once the store is closed, its files may be removed.
        self.engine.read.check_open()?;
        found
    }

    /// Returns statistics. The cost grows with the number of branch references in the tree.
    pub fn stats(&self) -> Stats {
        self.engine.background.statistics.gather()
    }

    /// Lists the branch files of the tree from the root down: newer data before older.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.engine.read.branch_files()
    }
}
