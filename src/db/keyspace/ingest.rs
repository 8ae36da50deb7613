//! `Ingest`: sorted pairs that enter a keyspace at once.

use super::Keyspace;
use crate::engine::ingest::IngestReport;
use crate::engine::ingest::ingestion::Ingestion;
use crate::util::Result;

/// Sorted pairs on their way into a keyspace, where they all appear at one moment; see [`Keyspace::ingest`]. If it is dropped
/// before `commit`, or if the process ends, nothing of it remains.
pub struct Ingest {
    ingestion: Ingestion,
}

/// Ingest.
impl Keyspace {
    /// Begins to ingest pairs in ascending order of their keys. It costs a fraction of what puts cost: the pairs are written
    /// once, as branch files, not to the log and not to memory, and where nothing overlaps them they are never rewritten.
    ///
    /// Until [`Ingest::commit`] no reader sees a pair. Then all of them enter the store at once, durably, as if one batch had
    /// put them: older values of their keys are replaced, snapshots and iterators from before keep what they had, and a crash
    /// leaves all or nothing. Keys in the same range that are not among the pairs stay as they are.
    ///
    /// Writers continue meanwhile. While `commit` ends, those of keys between the first and the last pair wait for a few syncs
    /// of the disk, and so do new snapshots. It ends faster if nothing else has been written in that range for a while: what
    /// memory has of the range is incorporated first.
    ///
    /// Several ingests may be in progress at once. Pairs that expire with their keyspace count from the commit.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut ingest = db.ingest()?;
    /// for number in 0..1000_u32 {
    ///     ingest.put(number.to_be_bytes(), "imported")?;
    /// }
    /// assert!(db.is_empty()?);
    /// let report = ingest.commit()?;
    /// assert_eq!((report.pairs, db.iter()?.count()), (1000, 1000));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ReadOnly` after an earlier failure; `KeyspaceDropped`.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingestion::begin(&self.engine, &self.info).map(|ingestion| Ingest { ingestion })
    }
}

impl Ingest {
    /// Adds a pair. Its key must be greater than all keys before, byte by byte.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut ingest = db.ingest()?;
    /// ingest.put("oder", "Baltic Sea")?;
    /// let refused = ingest.put("elbe", "North Sea").unwrap_err();
    /// assert!(refused.to_string().contains("pair 2 of the ingest, with the key \"elbe\", is out of order"));
    /// ingest.put("rhine", "North Sea")?; // the refused pair has changed nothing
    /// assert_eq!(ingest.commit()?.pairs, 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` for a key that is out of order, and for a key or value that is too large. The pair is not added, and
    ///   the ingest may go on.
    /// - `DiskFull` if the pair would take space that deletes need on a full disk, or if there is none; `Io`; `Closed`. Then the
    ///   ingest cannot go on. Threads of the ingest build its files, so this may be the error of an earlier pair; that of the last
    ///   pairs comes from `commit`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.ingestion.put(key.as_ref(), value.as_ref())
    }

    /// Adds all pairs of an iterator; see `put`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let pairs = std::collections::BTreeMap::from([("elbe", "North Sea"), ("oder", "Baltic Sea")]);
    /// let mut ingest = db.ingest()?;
    /// ingest.put_all(&pairs)?;
    /// ingest.commit()?;
    /// assert_eq!(db.get("oder")?.as_deref(), Some(&b"Baltic Sea"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `put`, at the first pair that is refused.
    pub fn put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        pairs.into_iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Bytes of branch files so far, without those of values from 256 KiB on, which have files of their own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut ingest = db.ingest()?;
    /// ingest.put("elbe", vec![7; 5000])?;
    /// assert!(ingest.file_bytes() > 5000);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.ingestion.file_bytes()
    }

    /// Makes all pairs part of the keyspace at once. When it returns they are durable, and so is everything that was written
    /// before.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut ingest = db.ingest()?;
    /// ingest.put("elbe", "North Sea")?;
    /// let before = db.snapshot();
    /// let report = ingest.commit()?;
    /// assert_eq!((before.get("elbe")?, report.number), (None, db.stats().last_number));
    /// assert!(db.get("elbe")?.is_some());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `KeyspaceDropped`, `Closed`, `ReadOnly` after an earlier failure. No pair has entered the store then,
    /// except after an error that makes the store read-only: that one may be durable or not, as a write whose sync fails.
    pub fn commit(self) -> Result<IngestReport> {
        self.ingestion.commit()
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").field("file_bytes", &self.file_bytes()).finish_non_exhaustive()
    }
}
