//! `Db`: compaction of everything, flushes, checks and statistics.

use super::db::Db;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::state::budget::check_write_limit;
use crate::engine::tools::verify;
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport};
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
use crate::util::Result;

/// Maintenance.
impl Db {
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

    /// Compacts all keys of all keyspaces; see `Keyspace::compact_range`.
    pub fn compact(&self) -> Result<()> {
        self.compact_all_with(&CompactOptions::default(), &mut |_| ()).map(drop)
    }

    /// Like `compact`, with the options and the progress of `Keyspace::compact_with`.
    pub fn compact_all_with(
        &self,
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<CompactReport> {
        self.engine.background.compact((Vec::new(), None), options, progress)
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
