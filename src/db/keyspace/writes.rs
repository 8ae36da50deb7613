//! `Keyspace`: writes of single keys and ranges.

use super::Keyspace;
use crate::db::iter::Pair;
use crate::db::transaction::{TransactOptions, TransactionKeyspace, transact};
use crate::engine::types::bounds::UserRange;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::WriteOptions;
use crate::util::Result;

/// Writes.
impl Keyspace {
    /// Sets a key. The write returns with the durability of `Options::durability`, by default once the kernel has it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "Baltic Sea")?;
    /// db.put("elbe", "North Sea")?; // replaces the value
    /// db.put([0, 1, 2], vec![0xff; 100])?; // any bytes
    /// assert_eq!(db.get("elbe")?.as_deref(), Some(&b"North Sea"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` if the key is over 64 KiB or the value over 1 GiB.
    /// - `DiskFull` if the disk is full. Puts succeed again as soon as there is space.
    /// - `ReadOnly` after an earlier failure.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Like `put`, with options.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::WriteOptions;
    /// db.put_with("order/7", "paid", WriteOptions::sync())?; // on disk when it returns
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(self.key(&key), Some(value.as_ref()), self.mode(options))
    }

    /// Deletes a key. It is not an error if the key is absent. Deletes also succeed on a full disk, as long as the log
    /// has space, so that they can free space.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// db.delete("elbe")?;
    /// db.delete("styx")?; // was never there
    /// assert!(db.is_empty()?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `put`.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Like `delete`, with options.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.engine.write.write_one(self.key(&key), None, self.mode(options))
    }

    /// Deletes all keys of a range. This is one small write, however many keys there are: reads skip what it hides. The
    /// space of a large range comes back in the background once no snapshot needs it, that of a small one with the merges that
    /// later writes cause; `compact_range` frees it at once. Writers of keys in the range wait
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
        self.engine.write.delete_range(UserRange::of_range(self.id(), range), self.mode(options)).map(drop)
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
        let range = UserRange::of_prefix(self.id(), prefix.as_ref());
        self.engine.write.delete_range(range, self.mode(WriteOptions::default())).map(drop)
    }

    /// Deletes all keys. This is one small write, however many keys there are, and their space is freed in the background.
    /// Snapshots and iterators from before still have the keys.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let cache = db.keyspace("cache", Default::default())?;
    /// cache.put("page", "…")?;
    /// cache.clear()?;
    /// assert!(cache.is_empty()?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `delete`.
    pub fn clear(&self) -> Result<()> {
        let number = self.engine.write.delete_range(UserRange::all(self.id()), self.mode(WriteOptions::default()))?;
        // The keys are gone. What fails here leaves their space to later merges.
        let _ = self.engine.background.free(self.id(), number);
        Ok(())
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
    /// let db = Db::open(directory.path(), Options::new().merge_operator(Add))?;
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
        self.engine.write.merge(self.key(&key), operand.as_ref(), self.mode(options))
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
        self.engine.write.update(self.key(&key), self.mode(options), change)
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
        self.engine.write.compare_and_swap(self.key(&key), expected, new, self.mode(options))
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
        self.engine.write.put_if_absent(self.key(&key), value.as_ref(), self.mode(options))
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

    /// Atomically removes the first pair and returns it; `None` if there is none. When the pair is
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
        self.pop(|within| within.pop_first())
    }

    /// Atomically removes the last pair and returns it; `None` if there is none. See `pop_first`.
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
        self.pop(|within| within.pop_last())
    }

    /// The range from the end of the store to the pair counts as read, so the commit fails if another write has changed it.
    /// An attempt fails only because another write succeeded.
    fn pop(&self, pop: impl Fn(TransactionKeyspace<'_>) -> Result<Option<Pair>>) -> Result<Option<Pair>> {
        let options = TransactOptions::new().attempts(u32::MAX);
        transact(&self.engine.write, &options, |transaction| pop(transaction.enter(&self.info)?))
    }
}
