//! `Db`: compaction of everything, flushes, checkpoints, checks and statistics.

use super::db::Db;
use crate::engine::latency::Latencies;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::state::budget::check_write_limit;
use crate::engine::tools::backup::{self, BackupOptions, BackupReport};
use crate::engine::tools::checkpoint::{self, CheckpointOptions, CheckpointReport};
use crate::engine::tools::verify;
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport};
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
use crate::util::Result;
use std::path::Path;

/// Maintenance.
impl Db {
    /// Incorporates all memory: writes it to branch files and waits until that is done.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{Durability, WriteOptions};
    /// let unlogged = WriteOptions::new().durability(Durability::Unlogged);
    /// for number in 0..1000_u32 {
    ///     db.put_with(number.to_be_bytes(), "imported", unlogged)?;
    /// }
    /// db.flush()?; // from here on the writes survive
    /// assert_eq!(db.stats().memory_entries, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ReadOnly` after an earlier failure.
    pub fn flush(&self) -> Result<()> {
        self.engine.read.check_open()?;
        self.engine.background.generations.incorporate_all()
    }

    /// Makes all writes that returned before the call durable. Concurrent calls share one sync of the disk.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for order in ["7", "8", "9"] {
    ///     db.put(order, "paid")?;
    /// }
    /// db.sync()?; // one sync for all of them
    /// let stats = db.stats();
    /// assert_eq!(stats.synced_number, stats.last_number);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Io`; `ReadOnly` after an earlier failure.
    pub fn sync(&self) -> Result<()> {
        self.engine.write.sync()
    }

    /// Compacts all keys of all keyspaces; see `Keyspace::compact_range`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// db.put("oder", "Baltic Sea")?;
    /// db.delete("oder")?;
    /// db.compact()?; // the deleted pair takes no space any more
    /// assert_eq!(db.branch_files().iter().map(|file| file.entries).sum::<u64>(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn compact(&self) -> Result<()> {
        self.compact_all_with(&CompactOptions::default(), &mut |_| ()).map(drop)
    }

    /// Like `compact`, with the options and the progress of `Keyspace::compact_with`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{CompactOptions, Goal};
    /// db.put("elbe", "North Sea")?;
    /// let report = db.compact_all_with(&CompactOptions::new().goal(Goal::Reads), &mut |progress| {
    ///     println!("{} of about {} bytes", progress.bytes_done, progress.bytes_total);
    /// })?;
    /// println!("{} bytes written", report.bytes_written);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
    /// (`Stats::debt_bytes`), and many runs in one node of a trunk, slow writers more and more, but never stop them, and
    /// reads meet more and more runs, also more than in a store whose merges run. A write limit (`set_background_write_limit`), with which merges continue slowly, is often the better choice.
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
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for number in 0..1000_u32 {
    ///     db.put(number.to_be_bytes(), "silt")?;
    /// }
    /// db.flush()?;
    /// db.settle()?;
    /// println!("{} bytes of files", db.stats().branch_bytes);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that blocks background work.
    pub fn settle(&self) -> Result<()> {
        self.engine.read.check_open()?;
        self.engine.background.wait_until_idle()
    }

    /// Makes a checkpoint: a second store, in the directory at `path`, with the contents of this one at one moment, of all
    /// keyspaces. It has every write that returned before the call, and others up to one sequence number
    /// (`CheckpointReport::number`): batches and transactions are there as a whole or not at all. Writers continue meanwhile.
    /// The directory must be empty, or not exist yet.
    ///
    /// What is in memory is written to branch files first, as by `flush`. Then the files are shared with the checkpoint by hard
    /// links, which takes some microseconds and no space for each. Files that cannot be linked, above all because the
    /// directory is on another file system, are copied. Each store later writes and removes only its own names; a shared file
    /// takes space until both have removed it.
    ///
    /// When the call returns, the checkpoint is durable. Until then the directory is no store: if the process is killed, or the
    /// power fails, opening it is an error that says so, and it may be removed. Old versions for snapshots of this store are
    /// in it, too, until they are merged away; the snapshots are not. Both stores have the same identity, so files must not
    /// be moved from one to the other.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    /// use alluvium::{Db, Options};
    /// let db = Db::open(path, Options::default())?;
    /// db.put("river", "silt")?;
    /// let report = db.checkpoint(&copy)?;
    /// println!("all writes up to {}, in {} shared files", report.number, report.files_linked);
    /// db.put("river", "sand")?;
    /// let copy = Db::open(copy, Options::default())?; // or ReadOnlyDb::open
    /// assert_eq!(copy.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` if the directory is not empty, or lies in the directory of this store.
    /// - `AlreadyOpen` if another checkpoint is being made there.
    /// - `DiskFull`, `Io`; `ReadOnly` after an earlier failure; `Closed` if the store is closed meanwhile.
    ///
    /// After an error nothing is left of the checkpoint, as far as it could be removed.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(path, &CheckpointOptions::default(), &mut |_| ())
    }

    /// Like `checkpoint`, with options. `progress` is called for each file.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    /// # let db = alluvium::Db::open(path, alluvium::Options::default())?;
    /// use alluvium::CheckpointOptions;
    /// let report = db.checkpoint_with(copy, &CheckpointOptions::new().links_only(true), &mut |progress| {
    ///     println!("{}: {} of {} bytes", progress.file, progress.bytes_done, progress.bytes_total);
    /// })?;
    /// assert_eq!(report.files_copied, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `checkpoint`; `Cancelled`; with `links_only` also `Io` of the kind `CrossesDevices` if a file cannot be linked.
    pub fn checkpoint_with(
        &self,
        path: impl AsRef<Path>,
        options: &CheckpointOptions,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<CheckpointReport> {
        checkpoint::checkpoint(&self.engine, path.as_ref(), options, progress)
    }

    /// Makes a backup of the store, with all keyspaces, in a directory of backups, which is created if it does not exist yet. Like
    /// `checkpoint`, it has the contents of one moment (`BackupReport::number`), and writers continue meanwhile. Unlike one, it
    /// shares nothing with the store: files are copied, but for those that an earlier backup in the directory has. [`Backups`]
    /// lists, verifies, restores and removes backups.
    ///
    /// The directory has backups of one store, and of its checkpoints and restored backups, which have the same identity. To find
    /// out whether a file is there already, it is read, unless this open store has read it for an earlier backup.
    ///
    /// When the call returns, the backup is durable. If the process is killed before, or the power fails, there is no backup, and
    /// the earlier ones are as before; what was copied is removed by the next one.
    ///
    /// [`Backups`]: crate::Backups
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, safe) = (directory.path().join("store"), directory.path().join("safe"));
    /// # let db = alluvium::Db::open(path, alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// let first = db.backup(&safe)?;
    /// let second = db.backup(&safe)?;
    /// assert_eq!((first.id, second.id), (1, 2));
    /// assert_eq!((second.files_new, second.files_shared), (0, first.files_new));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` if the directory has other files, or backups of another store, or lies in the directory of this store.
    /// - `AlreadyOpen` while another backup is made there, or one is removed.
    /// - `Corruption` if a file of the store has another length than it should have.
    /// - `DiskFull`, `Io`; `ReadOnly` after an earlier failure; `Closed` if the store is closed meanwhile.
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(directory, &BackupOptions::default(), &mut |_| ())
    }

    /// Like `backup`, with options. `progress` is called for each file.
    ///
    /// # Errors
    /// As `backup`; `Cancelled`. After that, too, the earlier backups are as before, and nothing is left of this one.
    pub fn backup_with(
        &self,
        directory: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<BackupReport> {
        backup::backup(&self.engine, directory.as_ref(), options, progress)
    }

    /// Checks the whole store: reads all files and checks checksums, order, counts and the structure of the tree.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// db.flush()?;
    /// assert_eq!(db.verify()?.entries, 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first damage that was found, with file and offset. `verify_with` lists all damage.
    pub fn verify(&self) -> Result<VerifyReport> {
        let found = self.verify_with(Depth::Deep, &mut |_| ())?;
        found.damage.into_iter().next().map_or(Ok(found.checked), Err)
    }

    /// Checks the store while others read and write it, and lists all damage. `progress` is called for each file.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Depth;
    /// let found = db.verify_with(Depth::Quick, &mut |progress| println!("checking {}", progress.file))?;
    /// for damage in &found.damage {
    ///     println!("{damage}");
    /// }
    /// assert!(found.is_valid());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let stats = db.stats();
    /// println!("about {} keys, {} bytes in files", stats.approximate_keys(), stats.branch_bytes);
    /// println!("{stats}"); // all figures, a line for each group
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.engine.background.statistics.gather()
    }

    /// How long calls took since the store was opened, or since the last `reset_latencies`; `None` without
    /// `Options::latencies`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Call, Db, Options};
    /// let db = Db::open(directory.path(), Options::new().latencies(true))?;
    /// db.put("elbe", "North Sea")?;
    /// db.get("elbe")?;
    /// let latencies = db.latencies().expect("they are measured");
    /// let gets = latencies.get(Call::Get).expect("there was one");
    /// println!("{} gets, 99% took at most {:?}", gets.count, gets.p99);
    /// println!("{latencies}"); // a table
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn latencies(&self) -> Option<Latencies> {
        self.engine.read.latencies.latencies()
    }

    /// Forgets the latencies of all calls so far, for instance at the end of an interval.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options};
    /// let db = Db::open(directory.path(), Options::new().latencies(true))?;
    /// db.put("elbe", "North Sea")?;
    /// db.reset_latencies();
    /// assert!(db.latencies().expect("they are measured").is_empty());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn reset_latencies(&self) {
        self.engine.read.latencies.reset();
    }

    /// Lists the branch files of the tree from the root down: newer data before older.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// db.put("oder", "Baltic Sea")?;
    /// db.flush()?;
    /// let files = db.branch_files();
    /// assert_eq!((&files[0].first_key[..], &files[0].last_key[..]), (&b"elbe"[..], &b"oder"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.engine.read.branch_files()
    }
}
