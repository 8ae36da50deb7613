//! `Db`: a store that is open for writing.

use super::iter::Iter;
use super::snapshot::Snapshot;
use super::transaction::{self, TransactOptions, Transaction};
use crate::engine::engine::Engine;
use crate::engine::open::destroying;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::scheduler::Driver;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::state::budget::{Budget, StoreConfig, check_write_limit};
use crate::engine::statistics::live_stats::{self, LiveStats};
use crate::engine::tools::{repair, verify};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport, Goal};
use crate::engine::types::options::{Durability, Options, WriteOptions};
use crate::engine::types::repair_report::RepairReport;
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
use crate::io::{PosixStorage, Storage};
use crate::util::{Error, Result, SequenceNumber};
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An open store. Share it between threads by reference or in an `Arc`; every method may be called from any thread.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options};
/// let db = Db::open(directory.path(), Options::default())?;
/// db.put("river", "silt")?;
/// assert_eq!(db.get("river")?.as_deref(), Some(&b"silt"[..]));
/// db.delete("river")?;
/// assert_eq!(db.get("river")?, None);
/// db.close()?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct Db {
    pub(crate) engine: Arc<Engine>,
}

impl Db {
    /// Opens the store in a directory, making one where there is none and `Options::create_if_missing` says so.
    ///
    /// # Errors
    /// `NoStore` where the directory holds something else, `AlreadyOpen`, `NewerFormat`, `Corruption` with file and
    /// offset, `Io`. Nothing is written into a directory that is not a store's.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Opens a store on any storage: `open` with another file system below.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let config = StoreConfig::new(Budget::new(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    pub(super) fn with_config(storage: Arc<dyn Storage>, options: Options, config: StoreConfig) -> Result<Self> {
        let clock = storage.clock();
        let (engine, contents) = opening::open(storage, &Host::new(options, config, Driver::Threads, clock))?;
        // From here on a failure closes the store.
        let db = Self { engine };
        db.engine.start_threads()?;
        db.engine.background.refill(&contents)?;
        Ok(db)
    }

    /// Sets a key. When it returns, the write is in the kernel's hands (or what `Options::durability` says).
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 64 KiB or a value over 1 GiB; `DiskFull`, which passes by itself once there is room;
    /// `ReadOnly` after a failure.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Sets a key, with options.
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(key.as_ref(), Some(value.as_ref()), self.durability(options))
    }

    /// Removes a key; no error where it is absent. Goes on where the disk is full, so that data can make room for other data.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Removes a key, with options.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(key.as_ref(), None, self.durability(options))
    }

    /// Applies a batch: every reader sees all of it or none, and so does a crash. It stops no writer of other keys.
    ///
    /// # Errors
    /// As `put`; `InvalidArgument` where keys, values below 256 KiB and 64 bytes an operation come to more than 32 MiB.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Applies a batch, with options.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.engine.write.write_batch(batch, self.durability(options))
    }

    /// Reads a key's value, asks `change` what it shall be (`None`: the key goes), and writes that, all at one instant: no write of others
    /// comes between. Gives the new value. `change` runs while nothing is held, so it may use the store; where the key was written
    /// meanwhile, it is asked again, for ever if it writes the key itself each time.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let count = |old: Option<&[u8]>| old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
    /// let add_one = |old: Option<&[u8]>| Some((count(old) + 1).to_be_bytes().to_vec());
    /// db.update("visits", add_one)?;
    /// assert_eq!(db.update("visits", add_one)?.map(|new| count(Some(&new))), Some(2));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `put`, and as `get`.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.update_with(key, WriteOptions::default(), |old| change(old).map_or(Change::Delete, Change::Put))
    }

    /// `update` with options, by a function that may also leave the key as it is. Gives the value that the key then has.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{Change, WriteOptions};
    /// db.put("highest", "17 m")?;
    /// let now = db.update_with("highest", WriteOptions::sync(), |old| match old {
    ///     Some(old) if old >= b"12 m" => Change::Keep,
    ///     _ => Change::Put(b"12 m".to_vec()),
    /// })?;
    /// assert_eq!(now.as_deref(), Some(&b"17 m"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<Vec<u8>>> {
        self.engine.write.update(key.as_ref(), self.durability(options), change)
    }

    /// Gives a key the value `new`, or none, if it has the value `expected`, or none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Swap;
    /// assert!(db.compare_and_swap("lock", None, Some(b"mine"))?.is_done());
    /// assert_eq!(db.compare_and_swap("lock", None, Some(b"hers"))?, Swap::Differs(Some(b"mine".to_vec())));
    /// assert!(db.compare_and_swap("lock", Some(b"mine"), None)?.is_done());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `update`. A value that differs is no error.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// `compare_and_swap`, with options.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<Swap> {
        self.engine.write.compare_and_swap(key.as_ref(), expected, new, self.durability(options))
    }

    /// Sets a key that has no value; false, and nothing is written, where it has one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert!(db.put_if_absent("name", "Rhine")?);
    /// assert!(!db.put_if_absent("name", "Rhône")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, WriteOptions::default())
    }

    /// `put_if_absent`, with options.
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.engine.write.put_if_absent(key.as_ref(), value.as_ref(), self.durability(options))
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Result<Transaction> {
        Transaction::begin(&self.engine.write)
    }

    /// Runs `work` in a transaction and commits that; where it conflicts with others, runs it again in a new one, after a pause of random
    /// length, up to 100 times. Gives what `work` gave. An error of `work` rolls back and ends it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # db.put("from", [10])?;
    /// # db.put("to", [5])?;
    /// let sent = db.transact(|transaction| {
    ///     let [from, to] = [transaction.get("from")?, transaction.get("to")?].map(|value| value.map_or(0, |value| value[0]));
    ///     if from < 3 {
    ///         return Ok(false);
    ///     }
    ///     transaction.put("from", [from - 3])?;
    ///     transaction.put("to", [to + 3])?;
    ///     Ok::<_, alluvium::Error>(true)
    /// })?;
    /// assert!(sent && db.get("to")? == Some(vec![8]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `work` gave; `Conflict` where no attempt was left; else as `Transaction::commit`.
    pub fn transact<T, E: From<Error>>(&self, work: impl FnMut(&Transaction) -> Result<T, E>) -> Result<T, E> {
        self.transact_with(&TransactOptions::default(), work)
    }

    /// `transact`, with options.
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: &TransactOptions,
        work: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        transaction::transact(&self.engine.write, options, work)
    }

    /// The value of a key, the newest at this moment.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads a value into `out`, replacing what it holds; false where the key is absent. Allocates nothing once `out` has room.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.engine.read.get_at(key.as_ref(), SequenceNumber::MAX, out)
    }

    /// The value of a key without a copy, where it lies in a cached page: see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.engine.read.get_pinned_at(key.as_ref(), SequenceNumber::MAX)
    }

    /// The values of many keys, in their order, all as of one moment. What is not in memory is read from the disk together,
    /// many times as fast as by one `get` after the other.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// assert_eq!(db.multi_get(&["elbe", "styx"])?, [Some(b"North Sea".to_vec()), None]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        Snapshot::take(&self.engine.read).multi_get(keys)
    }

    /// The store as it is now: every write that returned before is in it, none that starts after. Cheap; writers go on.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::take(&self.engine.read))
    }

    /// A snapshot that is at most so old: one that was taken for an earlier call where there is one, a new one else. It may miss the
    /// newest writes, the caller's own included; many scans of it at once ask for order in memory once, and keep fewer versions.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let minute = std::time::Duration::from_secs(60);
    /// let (one, other) = (db.relaxed_snapshot(minute)?, db.relaxed_snapshot(minute)?);
    /// assert_eq!(one.number(), other.number());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn relaxed_snapshot(&self, age: Duration) -> Result<Snapshot> {
        self.engine.read.check_open()?;
        Ok(Snapshot::share(&self.engine.read, age))
    }

    /// All pairs, at a snapshot of their own.
    pub fn iter(&self) -> Result<Iter> {
        Snapshot::take(&self.engine.read).iterate(Bounds::all())
    }

    /// The pairs of a key range, at a snapshot of their own.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        Snapshot::take(&self.engine.read).iterate(Bounds::of_range(range))
    }

    /// The pairs whose keys begin with a prefix, at a snapshot of their own.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Snapshot::take(&self.engine.read).iterate(Bounds::of_prefix(prefix.as_ref()))
    }

    /// About how many bytes the pairs of a key range take, in branch files and in memory, with what is outdated and not merged away yet.
    /// Told from indexes and from a sample of what is in memory, without reading data: a small part of a file counts to about a
    /// leaf of it, and one of less than a hundredth of memory may count as nothing. Of values of 256 KiB or more, which lie in files
    /// of their own, it knows nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", vec![7; 5000])?;
    /// assert!(db.approximate_size("a".."f")? > 4000);
    /// assert_eq!(db.approximate_size("f"..)?, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.engine.read.approximate_size(&Bounds::of_range(range))
    }

    /// Writes everything in memory to branch files and waits until that is done.
    pub fn flush(&self) -> Result<()> {
        self.engine.background.generations.incorporate_all()
    }

    /// Makes everything written before the call durable.
    pub fn sync(&self) -> Result<()> {
        self.engine.background.log.sync()
    }

    /// `compact_range` of all keys.
    pub fn compact(&self) -> Result<()> {
        self.compact_range::<&[u8]>(..)
    }

    /// Brings a key range into its smallest form: when it returns, everything in it that was written before the call lies in one run,
    /// without versions and deletes that no snapshot needs. What is in that form already is not rewritten, so a second call costs
    /// nothing. A call rewrites up to all that the range holds, and a leaf of the tree (up to eight times `Options::write_buffer`)
    /// at either end; it needs room on the disk for the leaves that are being rewritten. Others may read and write meanwhile.
    /// In an empty range, one that ends before it begins included, there is nothing to rewrite, which is no error.
    ///
    /// For after many deletes or overwrites, when the space is wanted now. To read faster for less work: `optimize`. To see how
    /// far it is, or call it off: `compact_with`.
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
    /// `DiskFull` where there is no room for what is rewritten; `ReadOnly` after a failure.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.compact_with(range, &CompactOptions::default(), &mut |_| ()).map(drop)
    }

    /// Brings a key range into the form that reads fastest, for the least rewriting: everything in it goes down to the leaves of the tree,
    /// which moves references only, and leaves where a read meets more than one run are merged as far as that takes. Unlike
    /// `compact_range` it leaves a leaf of one run alone even where old versions and deletes in it could go.
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
    /// As `compact_range`.
    pub fn optimize<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let options = CompactOptions { goal: Goal::Reads, ..CompactOptions::default() };
        self.compact_with(range, &options, &mut |_| ()).map(drop)
    }

    /// `compact_range` or `optimize`, as the options say. `progress` is told some twenty times a second how far it is, and another
    /// thread may call it off. While background work is paused it waits.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::CompactOptions;
    /// db.put("elbe", "North Sea")?;
    /// let report = db.compact_with::<&[u8]>(.., &CompactOptions::default(), &mut |progress| {
    ///     println!("{} of about {} bytes", progress.bytes_done, progress.bytes_total);
    /// })?;
    /// println!("{} bytes written", report.bytes_written);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Cancelled` where it was called off; else as `compact_range`.
    pub fn compact_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<CompactReport> {
        self.engine.background.compact(Bounds::of_range(range).into_keys(), options, progress)
    }

    /// Holds merges, and the removal of files, until what it returns is dropped; when it returns, no merge reads or writes. Pauses may
    /// overlap: the last one's end counts. For a time when the disk is wanted for something else, and for tests.
    ///
    /// What makes room in memory goes on, so writes do: full memory is written out, and the debt of merges that this leaves
    /// (`Stats::debt_bytes`) slows writers more and more, but never stops them; reads meet more and more runs. A limit that lets
    /// merges go on slowly (`set_background_write_limit`) is often the better choice. `close` does not wait for the end of a pause;
    /// `compact` and its like do.
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

    /// Sets `Options::background_write_limit` anew, at once also for what runs.
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
    /// `InvalidArgument` for a limit of 0: to hold background work there is `pause_background`.
    pub fn set_background_write_limit(&self, limit: Option<u64>) -> Result<()> {
        check_write_limit(limit)?;
        self.engine.background.throttle.rate_limit.set(limit);
        Ok(())
    }

    /// Waits until background work has nothing left to do. For measurements, and before copying files.
    pub fn settle(&self) -> Result<()> {
        self.engine.background.wait_until_idle()
    }

    /// Reads everything on disk and checks checksums, order, counts and the tree's structure.
    ///
    /// # Errors
    /// The first thing found wrong, with file and offset. `verify_with` lists everything.
    pub fn verify(&self) -> Result<VerifyReport> {
        let found = self.verify_with(Depth::Deep, &mut |_| ())?;
        found.damage.into_iter().next().map_or(Ok(found.checked), Err)
    }

    /// Checks what is on disk, beside readers and writers, and lists everything that is wrong.
    ///
    /// # Errors
    /// `Io` where a file cannot be judged. Damage is no error here.
    pub fn verify_with(&self, depth: Depth, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<Verification> {
        verify::verify_open(&self.engine, depth, progress)
    }

    /// Checks the files of a store that nobody has open, whether it can be opened or not, and lists everything that is wrong.
    /// Changes nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Depth, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// let found = Db::verify_closed(directory.path(), Depth::Deep, &mut |_| ())?;
    /// assert!(found.is_sound());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `AlreadyOpen`, `Io` where a file cannot be judged. Damage is no error here.
    pub fn verify_closed(
        path: impl AsRef<Path>,
        depth: Depth,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<Verification> {
        Self::verify_closed_with(Arc::new(PosixStorage::new(path.as_ref())), depth, progress)
    }

    /// `verify_closed` with another file system below.
    pub fn verify_closed_with(
        storage: Arc<dyn Storage>,
        depth: Depth,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<Verification> {
        verify::verify_closed(&storage, depth, progress)
    }

    /// Rebuilds a store that nobody has open from whatever files are left, and tells what was saved and what was lost. Does nothing
    /// where nothing is wrong. Damaged files are kept under names that end with `.damaged`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// std::fs::remove_file(directory.path().join("MANIFEST")).unwrap();
    /// let report = Db::repair(directory.path(), &mut |_| ())?;
    /// assert!(report.changed && report.manifest_lost.is_some());
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `AlreadyOpen`, `NewerFormat`, `Io`. The store is then as it was, and repair may be called again.
    pub fn repair(path: impl AsRef<Path>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        Self::repair_with(Arc::new(PosixStorage::new(path.as_ref())), progress)
    }

    /// `repair` with another file system below.
    pub fn repair_with(storage: Arc<dyn Storage>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        repair::repair(&storage, progress)
    }

    /// Figures of this moment.
    pub fn stats(&self) -> Stats {
        self.engine.background.statistics.gather()
    }

    /// The branch files of the tree, those of the root first: newer data before older.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.engine.read.branch_files()
    }

    /// Figures of a store that another process, or another part of this one, has open for writing, as it told them last; `None` where
    /// nobody has, or it was opened less than two seconds ago. Costs next to nothing: the store is not opened.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// assert_eq!(Db::live_stats(directory.path())?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `Io`.
    pub fn live_stats(path: impl AsRef<Path>) -> Result<Option<LiveStats>> {
        live_stats::read(&PosixStorage::new(path.as_ref()))
    }

    /// Syncs and closes, whatever runs in the background: merges, the writing out of memory and compactions are broken off, and what
    /// the log has is read again at the next opening. (Only what was written with `Durability::Unlogged` is written out first.)
    /// Snapshots and iterators that are still alive give `Closed` from then on.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Removes a store that nobody has open, and its directory where nothing else is in it.
    ///
    /// # Errors
    /// `NoStore` where there is none, `AlreadyOpen`, `Io`.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        destroying::destroy(&PosixStorage::new(path.as_ref()))
    }

    pub(crate) fn durability(&self, options: WriteOptions) -> Durability {
        options.durability.unwrap_or(self.engine.write.durability)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Whoever wants to know of an error calls `close`.
        let _ = self.engine.close();
    }
}
