//! `Db`: a store that is open for reading and writing.

use super::iter::Iter;
use super::snapshot::Snapshot;
use super::transaction::{self, TransactOptions, Transaction};
use crate::engine::engine::Engine;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::resources::process_default;
use crate::engine::scheduler::Driver;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::space::small_disk::fit_to_disk;
use crate::engine::state::budget::{Budget, StoreConfig, check_write_limit};
use crate::engine::tools::verify;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::bounds::{Bounds, UserRange};
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::compaction::{CompactOptions, CompactProgress, CompactReport, Goal};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::{Durability, Options, WriteOptions};
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::verification::{CheckProgress, Depth, Verification, VerifyReport};
use crate::io::{PosixStorage, Storage, TemporaryDirectory};
use crate::util::{Error, Result, SequenceNumber};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store that is open for reading and writing. Every method may be called from any thread: share a `Db` by reference
/// or in an `Arc`.
///
/// Dropping a `Db` closes it and ignores errors; `close` returns them. After a `fork`, the child must not use a `Db`
/// that the parent opened: reads and writes return `Error::Forked` there.
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
    /// Removed after the store is closed.
    pub(crate) _temporary: Option<TemporaryDirectory>,
}

impl Db {
    /// Opens the store in a directory. Creates it if it does not exist and `Options::create_if_missing` is set.
    ///
    /// # Errors
    /// - `NoStore` if the directory holds other files, or if there is no store and `create_if_missing` is not set.
    /// - `AlreadyOpen` if the store is open for writing elsewhere.
    /// - `NewerFormat` if a newer version wrote the store.
    /// - `Corruption`, with file and offset, if a file is damaged.
    /// - `InvalidArgument` for an invalid option, `Io` for an error of the system.
    ///
    /// Nothing is written into a directory that is not a store's.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Creates a store in a new directory under the system's temporary directory. The directory is removed when the `Db`
    /// is closed or dropped, by a panic, too; if the process is killed, it stays. For tests and for data that memory
    /// cannot hold. `storage::MemoryStorage` has a store without files.
    ///
    /// ```
    /// let db = alluvium::Db::open_temporary(alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// assert_eq!(db.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_temporary(options: Options) -> Result<Self> {
        let (storage, directory) = PosixStorage::temporary()?;
        let mut db = Self::open_with(Arc::new(storage), Options { create_if_missing: true, ..options })?;
        db._temporary = Some(directory);
        Ok(db)
    }

    /// Opens a store on another implementation of `Storage`. Otherwise like `open`.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let mut options = options;
        if options.resources.is_none() && options.memory_budget.is_none() {
            options.resources = process_default::for_storage(&*storage);
        }
        let options = fit_to_disk(options, &*storage)?;
        let config = StoreConfig::new(Budget::new(&options)?, &options);
        Self::with_config(storage, options, config)
    }

    pub(super) fn with_config(storage: Arc<dyn Storage>, options: Options, config: StoreConfig) -> Result<Self> {
        let clock = storage.clock();
        let host = Host::new(options, config, Driver::Threads, clock);
        let (engine, contents) = opening::open(storage, &host)?;
        // From here on a failure closes the store.
        let db = Self { engine, _temporary: None };
        db.engine.enter(&host.pool)?;
        db.engine.background.refill(&contents)?;
        Ok(db)
    }

    /// Sets a key. The write returns with the durability of `Options::durability`, by default once the kernel has it.
    ///
    /// # Errors
    /// - `InvalidArgument` if the key is over 64 KiB or the value over 1 GiB.
    /// - `DiskFull` if the disk is full. Puts succeed again as soon as there is space.
    /// - `ReadOnly` after an earlier failure.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Like `put`, with options.
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(key.as_ref(), Some(value.as_ref()), self.durability(options))
    }

    /// Deletes a key. It is not an error if the key is absent. Deletes also succeed on a full disk, as long as the log
    /// has space, so that they can free space.
    ///
    /// # Errors
    /// Like `put`.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Like `delete`, with options.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(key.as_ref(), None, self.durability(options))
    }

    /// Deletes all keys of a range. This is one small write, however many keys there are: reads skip what it hides, and the
    /// merges that later writes cause remove it; `compact_range` frees its space at once. Writers of keys in the range wait
    /// until it is placed, and several range deletes take turns.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("log/2025-12-31", "…")?;
    /// db.put("log/2026-01-01", "…")?;
    /// db.delete_range("log/".."log/2026")?;
    /// assert_eq!(db.prefix("log/")?.count(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `delete`. It is not an error if the range is empty.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// Like `delete_range`, with options.
    pub fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        self.engine.write.delete_range(UserRange::of_range(range), self.durability(options))
    }

    /// Deletes all keys that start with a prefix, as `delete_range` does.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("user/7/name", "Ada")?;
    /// db.delete_prefix("user/7/")?;
    /// assert_eq!(db.get("user/7/name")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let durability = self.durability(WriteOptions::default());
        self.engine.write.delete_range(UserRange::of_prefix(prefix.as_ref()), durability)
    }

    /// Applies a batch atomically: every reader sees all of it or none, and so does recovery after a crash. Writers of
    /// other keys do not wait for it.
    ///
    /// # Errors
    /// Like `put`. `InvalidArgument` if the batch is over 32 MiB: its keys, its values below 256 KiB, and 64 bytes for
    /// each operation.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Like `write`, with options.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.engine.write.write_batch(batch, self.durability(options))
    }

    /// Atomically reads a key, calls `change` with its value (`None` if absent), and writes the result; `None` deletes
    /// the key. Returns the new value.
    ///
    /// No lock is held while `change` runs, so it may use the store. If another write changes the key meanwhile,
    /// `change` is called again. A `change` that itself writes the key is called forever.
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
    /// Like `put` and `get`.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        self.update_with(key, WriteOptions::default(), |old| change(old).map_or(Change::Delete, Change::Put))
    }

    /// Like `update`, with options, and with a function that may also leave the key unchanged. Returns the value that
    /// the key then has.
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

    /// Atomically sets a key to `new` if its value is `expected`. `None` means an absent key, on both sides.
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
    /// Like `update`. A different value is not an error.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// Like `compare_and_swap`, with options.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<Swap> {
        self.engine.write.compare_and_swap(key.as_ref(), expected, new, self.durability(options))
    }

    /// Atomically sets a key if it is absent. Returns whether it was absent; otherwise nothing is written.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert!(db.put_if_absent("name", "Rhine")?);
    /// assert!(!db.put_if_absent("name", "Rhône")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `update`.
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, WriteOptions::default())
    }

    /// Like `put_if_absent`, with options.
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        self.engine.write.put_if_absent(key.as_ref(), value.as_ref(), self.durability(options))
    }

    /// Begins an optimistic transaction.
    pub fn transaction(&self) -> Result<Transaction> {
        Transaction::begin(&self.engine.write)
    }

    /// Runs `work` in a transaction, commits it, and returns the result of `work`. If the commit conflicts with other
    /// writes, `work` runs again in a new transaction after a random pause, up to 100 times in all. If `work` returns
    /// an error, the transaction is rolled back.
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
    /// The error of `work`; `Conflict` if the last attempt conflicts; otherwise like `Transaction::commit`.
    pub fn transact<T, E: From<Error>>(&self, work: impl FnMut(&Transaction) -> Result<T, E>) -> Result<T, E> {
        self.transact_with(&TransactOptions::default(), work)
    }

    /// Like `transact`, with options.
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: &TransactOptions,
        work: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        transaction::transact(&self.engine.write, options, work)
    }

    /// Returns the newest value of a key; `None` if the key is absent.
    ///
    /// # Errors
    /// `Corruption`, with file and offset, if a file is damaged; `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the newest value of a key into `out` and replaces its contents. Returns false if the key is absent.
    /// Allocates nothing if the capacity of `out` suffices.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.engine.read.get_at(key.as_ref(), SequenceNumber::MAX, out)
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.engine.read.get_pinned_at(key.as_ref(), SequenceNumber::MAX)
    }

    /// Returns the values of several keys at one moment, in the order of the keys. All disk reads are issued together,
    /// so this is many times as fast as one `get` after the other.
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

    /// Takes a snapshot: a consistent view of the store at this moment. It contains every write that returned before
    /// the call, and none that starts after it. Taking one is cheap and does not stop writers.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::take(&self.engine.read))
    }

    /// Returns a snapshot that is at most `age` old: the snapshot of an earlier call if it is still alive and recent
    /// enough, otherwise a new one. It may miss the newest writes, including the caller's own. Many concurrent scans
    /// are cheaper with shared snapshots: memory is sorted only once for them, and fewer versions are retained.
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

    /// Iterates over all pairs, at a new snapshot.
    pub fn iter(&self) -> Result<Iter> {
        Snapshot::take(&self.engine.read).into_iter_within(Bounds::all())
    }

    /// Iterates over the pairs in a key range, at a new snapshot. An empty or inverted range has no pairs.
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        Snapshot::take(&self.engine.read).into_iter_within(Bounds::of_range(range))
    }

    /// Iterates over the pairs whose keys start with a prefix, at a new snapshot.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Snapshot::take(&self.engine.read).into_iter_within(Bounds::of_prefix(prefix.as_ref()))
    }

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
        self.engine.read.approximate_size(&Bounds::of_range(range))
    }

    /// Incorporates all memory: writes it to branch files and waits until that is done.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ReadOnly` after an earlier failure.
    pub fn flush(&self) -> Result<()> {
        self.engine.background.generations.incorporate_all()
    }

    /// Makes all writes that returned before the call durable. Concurrent calls share one sync of the disk.
    ///
    /// # Errors
    /// `Io`; `ReadOnly` after an earlier failure.
    pub fn sync(&self) -> Result<()> {
        self.engine.background.log.sync()
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
        self.engine.background.compact(Bounds::of_range(range).into_keys(), options, progress)
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
        self.engine.background.throttle.write_limits.own().set(limit);
        Ok(())
    }

    /// Waits until the background work is idle. Use this before measurements and before copying files. Work for
    /// quiet times, which only makes reads cheaper, may begin a second later; `pause_background` prevents it.
    ///
    /// # Errors
    /// The failure that blocks background work.
    pub fn settle(&self) -> Result<()> {
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
        verify::verify_open(&self.engine, depth, progress)
    }

    /// Returns statistics. The cost grows with the number of branch references in the tree.
    pub fn stats(&self) -> Stats {
        self.engine.background.statistics.gather()
    }

    /// Lists the branch files of the tree from the root down: newer data before older.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.engine.read.branch_files()
    }

    /// Syncs and closes the store. Background work (incorporations, merges, compactions) is aborted; the next opening
    /// recovers from the log what was not incorporated. Only memory with `Durability::Unlogged` writes is incorporated
    /// first. Snapshots and iterators that are still alive return `Closed` afterwards.
    ///
    /// # Errors
    /// The error of the sync or of the incorporation. The store is closed in any case.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    pub(crate) fn durability(&self, options: WriteOptions) -> Durability {
        options.durability.unwrap_or(self.engine.write.durability)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // `close` returns the error.
        let _ = self.engine.close();
    }
}
