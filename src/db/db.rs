//! `Db`: a store that is open for reading and writing.

use super::iter::Pair;
use super::transaction::{self, TransactOptions, Transaction};
use crate::engine::engine::Engine;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::resources::process_default;
use crate::engine::scheduler::Driver;
use crate::engine::space::small_disk::fit_to_disk;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::{Durability, Options, WriteOptions};
use crate::engine::types::user_key::UserKey;
use crate::io::{PosixStorage, Storage, TemporaryDirectory};
use crate::util::sync::Mutex;
use crate::util::{Error, KeyspaceId, Result};
use std::path::Path;
use std::sync::Arc;

/// A store that is open for reading and writing. Every method may be called from any thread. A clone is cheap, and is the
/// same open store: programs clone a `Db` for each thread or task.
///
/// `close` closes the store for all clones. Dropping the last clone closes it, too, and ignores errors. After a `fork`, the child must not use a `Db`
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
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) engine: Arc<Engine>,
    /// Shared by all clones.
    open: Arc<OpenStore>,
}

/// Closes the store when it is dropped.
#[derive(Debug)]
struct OpenStore {
    engine: Arc<Engine>,
    /// Removed once the store is closed.
    temporary: Mutex<Option<TemporaryDirectory>>,
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
        let db = Self::open_with(Arc::new(storage), Options { create_if_missing: true, ..options })?;
        *db.open.temporary.lock() = Some(directory);
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
        let db = Self::of(engine);
        db.engine.enter(&host.pool)?;
        db.engine.background.refill(&contents)?;
        Ok(db)
    }

    /// The store of an engine, which is closed with it.
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        let open = Arc::new(OpenStore { engine: Arc::clone(&engine), temporary: Mutex::default() });
        Self { engine, open }
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
        self.engine.write.write_one(UserKey::of_default(&key), Some(value.as_ref()), self.durability(options))
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
        self.engine.write.write_one(UserKey::of_default(&key), None, self.durability(options))
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
        self.engine.write.delete_range(UserRange::of_range(KeyspaceId::DEFAULT, range), self.durability(options))
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
        self.engine.write.delete_range(UserRange::of_prefix(KeyspaceId::DEFAULT, prefix.as_ref()), durability)
    }

    /// Merges an operand into the value of a key: `Options::merge_operator` says what the two make. This is a write without
    /// a read, as cheap as a put, and writers of the same key do not wait for each other's result; `update` is for
    /// everything that must know the value. Operands of a key take effect in the order of their writes.
    ///
    /// What is wrong with the value shows when it is read: `get` and iterators return `MergeOperands` for a key whose
    /// operands the operator refuses. A put, a delete or a range delete of the key ends that.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, merge_operators::Add};
    ///
    /// let db = Db::open(directory.path(), Options { merge_operator: Some(std::sync::Arc::new(Add)), ..Options::default() })?;
    /// db.merge("visits", 1_i64.to_le_bytes())?;
    /// db.merge("visits", 1_i64.to_le_bytes())?;
    /// assert_eq!(db.get("visits")?, Some(2_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `put`. `InvalidArgument` if the store has no merge operator, if the operator refuses the operand by itself
    /// (`MergeOperator::check`), or if the operand has 256 KiB or more.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// Like `merge`, with options.
    pub fn merge_with(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.merge(UserKey::of_default(&key), operand.as_ref(), self.durability(options))
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
        self.engine.write.update(UserKey::of_default(&key), self.durability(options), change)
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
        self.engine.write.compare_and_swap(UserKey::of_default(&key), expected, new, self.durability(options))
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
        self.engine.write.put_if_absent(UserKey::of_default(&key), value.as_ref(), self.durability(options))
    }

    /// Atomically removes a key and returns its value; `None` if it was absent. Of several that take one key, one gets
    /// the value.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("message", "hello")?;
    /// assert_eq!(db.take("message")?.as_deref(), Some(&b"hello"[..]));
    /// assert_eq!(db.take("message")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `update`.
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.take_with(key, WriteOptions::default())
    }

    /// Like `take`, with options.
    pub fn take_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<Option<Vec<u8>>> {
        let mut taken = None;
        // The delete is placed only if no other write has changed the key since this function saw it.
        self.update_with(key, options, |old| {
            taken = old.map(<[u8]>::to_vec);
            Change::Delete
        })?;
        Ok(taken)
    }

    /// Atomically removes the first pair of the store and returns it; `None` if the store is empty. When the pair is
    /// removed, no key before it exists: a write that puts one meanwhile makes this call search again, however often that
    /// happens. Writes of later keys do not. With options, or for the first pair of a range: `Db::transact_with`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("job/1", "wash")?;
    /// db.put("job/2", "dry")?;
    /// assert_eq!(db.pop_first()?, Some((b"job/1".to_vec(), b"wash".to_vec())));
    /// assert_eq!(db.pop_first()?, Some((b"job/2".to_vec(), b"dry".to_vec())));
    /// assert_eq!(db.pop_first()?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `update`.
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.pop(Transaction::pop_first)
    }

    /// Atomically removes the last pair of the store and returns it; `None` if the store is empty. See `pop_first`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("undo/1", "typed a")?;
    /// db.put("undo/2", "typed b")?;
    /// assert_eq!(db.pop_last()?, Some((b"undo/2".to_vec(), b"typed b".to_vec())));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.pop(Transaction::pop_last)
    }

    /// The range from the end of the store to the pair counts as read, so the commit fails if another write has changed it.
    /// An attempt fails only because another write succeeded.
    fn pop(&self, pop: fn(&Transaction) -> Result<Option<Pair>>) -> Result<Option<Pair>> {
        let options = TransactOptions { attempts: u32::MAX, ..TransactOptions::default() };
        self.transact_with(&options, pop)
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

    /// Syncs and closes the store, for all clones. A write of another thread is either applied completely before that, or
    /// returns `Closed`; later calls of any clone return `Closed`. Closing a closed store does nothing; while another
    /// thread is closing it, the call waits for that. Background work (incorporations, merges, compactions) is aborted; the next opening
    /// recovers from the log what was not incorporated. Only memory with `Durability::Unlogged` writes is incorporated
    /// first. Snapshots and iterators that are still alive return `Closed` afterwards. Afterwards the store can be opened
    /// again, even while clones of this `Db` are alive; its memory and its open files are released with the last clone.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Error;
    /// let other = db.clone();
    /// std::thread::spawn(move || other.put("river", "silt")).join().expect("no panic")?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.put("river", "sand"), Err(Error::Closed)));
    /// other.close()?; // does nothing
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the sync or of the incorporation. The store is closed in any case.
    pub fn close(&self) -> Result<()> {
        self.open.close()
    }

    pub(crate) fn durability(&self, options: WriteOptions) -> Durability {
        options.durability.unwrap_or(self.engine.write.durability)
    }
}

impl OpenStore {
    fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        // In a forked child the lock may be held for ever, and the directory is the parent's.
        if !matches!(closed, Err(Error::Forked)) {
            drop(self.temporary.lock().take());
        }
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // `Db::close` returns the error.
        let _ = self.close();
    }
}
