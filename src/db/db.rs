//! `Db`: a store that is open for reading and writing.

use super::keyspace::Keyspace;
use super::keyspace::catalog::{load, load_options};
use super::transaction::{self, TransactOptions, Transaction};
use crate::engine::engine::Engine;
use crate::engine::open::host::Host;
use crate::engine::open::opening;
use crate::engine::resources::process_default;
use crate::engine::scheduler::Driver;
use crate::engine::space::small_disk::fit_to_disk;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::options::{Options, WriteOptions};
use crate::io::{PosixStorage, Storage};
use crate::util::{Error, Result};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A store that is open for reading and writing. Every method may be called from any thread. A clone is cheap, and is the
/// same open store: programs clone a `Db` for each thread or task.
///
/// A `Db` is the store's default [`Keyspace`], whose methods read and write single keys and ranges: `db.put`, `db.get`,
/// `db.range`. What is listed here is about the store as a whole, or about several keys at once.
///
/// `close` closes the store for all clones and keyspaces. Dropping the last of them closes it, too, and ignores errors.
///
/// After a `fork`, the child must not use a `Db` that the parent opened: reads and writes return `Error::Forked` there. It may
/// open other stores, and this one after the parent has closed it.
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
    default: Keyspace,
}

impl Db {
    /// Opens the store in a directory. Creates it if it does not exist and `Options::create_if_missing` is set, together with
    /// the directory and the directories above it that are missing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("rivers");
    /// use alluvium::{Db, Error, Options};
    /// let db = Db::open(&path, Options::default())?; // creates the store
    /// db.put("river", "silt")?;
    /// assert!(matches!(Db::open(&path, Options::default()), Err(Error::AlreadyOpen { .. })));
    /// db.close()?;
    /// let db = Db::open(&path, Options::new().create_if_missing(false))?;
    /// assert!(db.contains_key("river")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
        db.open.remove_when_closed(directory);
        Ok(db)
    }

    /// Opens a store on another implementation of `Storage`. Otherwise like `open`.
    ///
    /// ```
    /// use alluvium::{Db, Options, storage::MemoryStorage};
    /// use std::sync::Arc;
    /// let db = Db::open_with(Arc::new(MemoryStorage::new()), Options::default())?; // for tests: without a disk
    /// db.put("river", "silt")?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
        // So that operands are folded while the log is read.
        load_options(&db.engine.read)?;
        db.engine.enter(&host.pool)?;
        db.engine.background.refill(&contents)?;
        load(&db.engine)?;
        Ok(db)
    }

    /// The store of an engine, which is closed with it.
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self { default: Keyspace::of_default(engine) }
    }

    /// Applies a batch atomically: every reader sees all of it or none, and so does recovery after a crash. Writers of
    /// other keys do not wait for it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::WriteBatch;
    /// db.put("from", "100")?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("from", "90").put("to", "110").delete("pending");
    /// db.write(batch)?;
    /// assert_eq!(db.multi_get(&["from", "to"])?, [Some(b"90".to_vec()), Some(b"110".to_vec())]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `put`. `InvalidArgument` if the batch is over 32 MiB: its keys, its values below 256 KiB, and 64 bytes for
    /// each operation.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Like `write`, with options.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{WriteBatch, WriteOptions};
    /// let batch: WriteBatch = [("elbe", "North Sea"), ("oder", "Baltic Sea")].into_iter().collect();
    /// db.write_with(batch, WriteOptions::sync())?; // on disk when it returns
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.engine.write.write_batch(batch, options)
    }

    /// Begins an optimistic transaction.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("stock", [3])?;
    /// let transaction = db.transaction()?;
    /// let stock = transaction.get("stock")?.map_or(0, |stock| stock[0]);
    /// transaction.put("stock", [stock - 1])?;
    /// assert_eq!(db.get("stock")?, Some(vec![3])); // others see the writes after the commit
    /// transaction.commit()?;
    /// assert_eq!(db.get("stock")?, Some(vec![2]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{TransactOptions, WriteOptions};
    /// let options = TransactOptions::new().attempts(10).write(WriteOptions::sync());
    /// let ticket = db.transact_with(&options, |transaction| -> alluvium::Result<u8> {
    ///     let ticket = transaction.get("next ticket")?.map_or(0, |next| next[0]);
    ///     transaction.put("next ticket", [ticket + 1])?;
    ///     Ok(ticket)
    /// })?;
    /// assert_eq!((ticket, db.get("next ticket")?), (0, Some(vec![1])));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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
}

/// Its default keyspace: what a `Keyspace` can do, a `Db` can.
impl Deref for Db {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        &self.default
    }
}
