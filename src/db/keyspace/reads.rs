//! `Keyspace`: gets, scans and snapshots.

use super::Keyspace;
use crate::db::iter::{Iter, Pair};
use crate::db::snapshot::Snapshot;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::key_range::KeyRange;
use crate::util::{Result, SequenceNumber};
use std::ops::ControlFlow;
use std::time::Duration;

/// Reads.
impl Keyspace {
    /// Returns the newest value of a key; `None` if the key is absent.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// assert_eq!(db.get("elbe")?.as_deref(), Some(&b"North Sea"[..]));
    /// assert_eq!(db.get("styx")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Corruption`, with file and offset, if a file is damaged; `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the newest value of a key into `out` and replaces its contents. Returns false if the key is absent.
    /// Allocates nothing if the capacity of `out` suffices.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// let mut sea = Vec::new(); // one buffer for all reads
    /// for river in ["elbe", "styx"] {
    ///     if db.get_into(river, &mut sea)? {
    ///         assert_eq!(sea, b"North Sea");
    ///     }
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.checked(self.engine.read.get_at(self.key(&key), SequenceNumber::MAX, out))
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("delta", vec![7; 4000])?;
    /// let value = db.get_pinned("delta")?.expect("it was put");
    /// assert_eq!(value[..3], [7, 7, 7]); // it dereferences to bytes
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.checked(self.engine.read.get_pinned_at(self.key(&key), SequenceNumber::MAX))
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
        let snapshot = self.snapshot();
        self.info.check()?;
        snapshot.multi_get(keys)
    }

    /// Whether a key has a value. Cheaper than a get: no value is copied, and none is read from a file of its own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// assert!(db.contains_key("elbe")? && !db.contains_key("styx")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.checked(self.engine.read.contains_at(self.key(&key), SequenceNumber::MAX))
    }

    /// Returns the pair with the smallest key; `None` if there is none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert_eq!(db.first()?, None);
    /// db.put("2026-02-01", "wet")?;
    /// db.put("2026-01-01", "dry")?;
    /// assert_eq!(db.first()?, Some((b"2026-01-01".to_vec(), b"dry".to_vec())));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn first(&self) -> Result<Option<Pair>> {
        self.iter()?.next().transpose()
    }

    /// Returns the pair with the greatest key; `None` if there is none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("2026-02-01", "wet")?;
    /// db.put("2026-01-01", "dry")?;
    /// assert_eq!(db.last()?, Some((b"2026-02-01".to_vec(), b"wet".to_vec())));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn last(&self) -> Result<Option<Pair>> {
        self.iter()?.next_back().transpose()
    }

    /// Whether there are no keys. There is no `len`: the number of keys is not stored anywhere, and to count them is a
    /// scan, `iter()?.keys().count()`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert!(db.is_empty()?);
    /// db.put("elbe", "North Sea")?;
    /// assert!(!db.is_empty()?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.keys().next().transpose()?.is_none())
    }

    /// Calls `visit` with each pair of a key range in order, at a new snapshot, until it breaks. The slices are lent, so
    /// that nothing is allocated for a pair; this is the fastest scan of small pairs. `visit` may use the store.
    ///
    /// For other orders and for positions use `range` and the cursor's `key` and `value`, which lend, too; for large
    /// values, `Iter::pinned`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use std::ops::ControlFlow;
    /// for (river, length) in [("elbe", [109]), ("oder", [84]), ("rhine", [123])] {
    ///     db.put(river, length)?;
    /// }
    /// let mut sum = 0;
    /// db.for_each("e".., |_river, length| {
    ///     sum += u32::from(length[0]);
    ///     if sum > 150 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    /// })?;
    /// assert_eq!(sum, 193);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reads; `visit` has seen the pairs before the failure.
    pub fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.range(range)?.visit(visit)
    }

    /// Takes a snapshot: a consistent view of the store at this moment. It contains every write that returned before
    /// the call, and none that starts after it. Taking one is cheap and does not stop writers. Its methods read this
    /// keyspace; `Snapshot::within` reads the others. This cannot fail: of a store that is closed, or in a forked child,
    /// it is the reads of the snapshot that return an error. A keyspace that was dropped before is empty there.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// let snapshot = db.snapshot();
    /// db.put("river", "sand")?;
    /// assert_eq!(snapshot.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.engine.read, self.id())
    }

    /// Returns a snapshot that is at most `age` old: the snapshot of an earlier call if it is still alive and recent
    /// enough, otherwise a new one. It may miss the newest writes, including the caller's own. Many concurrent scans
    /// are cheaper with shared snapshots: memory is sorted only once for them, and fewer versions are retained.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let minute = std::time::Duration::from_secs(60);
    /// let (one, other) = (db.relaxed_snapshot(minute), db.relaxed_snapshot(minute));
    /// assert_eq!(one.number(), other.number());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn relaxed_snapshot(&self, age: Duration) -> Snapshot {
        Snapshot::share(&self.engine.read, self.id(), age)
    }

    /// Iterates over all pairs, at a new snapshot.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("oder", "Baltic Sea")?;
    /// db.put("elbe", "North Sea")?;
    /// for pair in db.iter()? {
    ///     let (river, sea) = pair?; // in the order of the keys
    ///     println!("{} flows to the {}", river.escape_ascii(), sea.escape_ascii());
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn iter(&self) -> Result<Iter> {
        self.iterate(Bounds::all(self.id()))
    }

    /// Iterates over the pairs in a key range, at a new snapshot. An empty or inverted range has no pairs.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for day in ["2026-01-30", "2026-02-01", "2026-02-02", "2026-03-01"] {
    ///     db.put(day, "")?;
    /// }
    /// assert_eq!(db.range("2026-02".."2026-03")?.count(), 2);
    /// assert_eq!(db.range(..="2026-02-01")?.count(), 2);
    /// let (newest, _) = db.range("2026-02"..)?.next_back().expect("a pair")?;
    /// assert_eq!(newest, b"2026-03-01");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        self.iterate(Bounds::of_range(self.id(), range))
    }

    /// Iterates over the pairs whose keys start with a prefix, at a new snapshot.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for key in ["user/7/email", "user/7/name", "user/70/name"] {
    ///     db.put(key, "")?;
    /// }
    /// assert_eq!(db.prefix("user/7/")?.count(), 2);
    /// let last_first: Vec<_> = db.prefix("user/")?.keys().rev().collect::<Result<_, _>>()?;
    /// assert_eq!(last_first[0], b"user/70/name");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.iterate(Bounds::of_prefix(self.id(), prefix.as_ref()))
    }

    fn iterate(&self, bounds: Bounds) -> Result<Iter> {
        let snapshot = self.snapshot();
        self.info.check()?;
        snapshot.into_iter_within(bounds)
    }
}
