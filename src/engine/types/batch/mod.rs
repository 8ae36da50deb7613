//! A batch of writes that is applied atomically.

mod operation;
mod resolve;
mod steps;
#[cfg(test)]
mod tests;

use super::bounds::UserRange;
use super::key_change::KeyChange;
use super::key_range::KeyRange;
use super::keyspace_info::KeyspaceInfo;
use super::user_key::UserKey;
use crate::util::KeyspaceId;
use crate::util::sync::Arc;
pub use operation::{Operation, Operations};
use std::fmt;
use steps::{Step, Steps};

/// A list of operations that `Db::write` applies atomically. Every reader sees all of them or none, and so does
/// recovery after a crash. An operation takes effect after those before it: of several on a key, the last one wins.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::WriteBatch;
/// let mut batch = WriteBatch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// batch.extend([("time", "12:30"), ("purpose", "rent")]);
/// db.write(batch)?;
///
/// let rivers: WriteBatch = [("elbe", "North Sea"), ("oder", "Baltic Sea")].into_iter().collect();
/// db.write(rivers)?;
/// assert_eq!(db.iter()?.count(), 6);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WriteBatch {
    steps: Steps,
    /// The keyspaces of its operations, without the default one.
    keyspaces: Vec<Arc<KeyspaceInfo>>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with memory for so many operations, and for so many bytes of keys and values in all of them. It grows beyond
    /// that.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut batch = alluvium::WriteBatch::with_capacity(100, 100 * (4 + 1));
    /// for number in 0..100_u32 {
    ///     batch.put(number.to_be_bytes(), "1");
    /// }
    /// db.write(batch)?;
    /// assert_eq!(db.iter()?.count(), 100);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn with_capacity(operations: usize, bytes: usize) -> Self {
        Self { steps: Steps::with_capacity(operations, bytes), keyspaces: Vec::new() }
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.change(UserKey::of_default(&key), KeyChange::Put(value.as_ref()))
    }

    /// Deletes a key. It is not an error if the key is absent.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.change(UserKey::of_default(&key), KeyChange::Delete)
    }

    /// Merges an operand into the value of a key, as `Db::merge` does. Several operations on a key take effect one after
    /// the other.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, WriteBatch, merge_operators::Append};
    ///
    /// let options = Options::new().merge_operator(Append);
    /// let db = Db::open(directory.path(), options)?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("log", "a").merge("log", "b").merge("log", "c").merge("other", "d");
    /// db.write(batch)?;
    /// assert_eq!(db.get("log")?.as_deref(), Some(&b"abc"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.change(UserKey::of_default(&key), KeyChange::Merge(operand.as_ref()))
    }

    /// Notes a keyspace of which operations are going to be added.
    pub(crate) fn add_keyspace(&mut self, keyspace: &Arc<KeyspaceInfo>) {
        if keyspace.id != KeyspaceId::DEFAULT && !self.keyspaces.contains(keyspace) {
            self.keyspaces.push(Arc::clone(keyspace));
        }
    }

    /// The keyspaces of its operations, without the default one.
    #[cfg(feature = "async")]
    pub(crate) fn keyspaces(&self) -> &[Arc<KeyspaceInfo>] {
        &self.keyspaces
    }

    /// Takes the keyspaces out of the batch.
    pub(crate) fn take_keyspaces(&mut self) -> Vec<Arc<KeyspaceInfo>> {
        std::mem::take(&mut self.keyspaces)
    }

    /// Whether it has operations in the default keyspace.
    pub(crate) fn is_in_default(&self) -> bool {
        self.steps.is_in(KeyspaceId::DEFAULT)
    }

    /// Changes a key of any keyspace.
    pub(crate) fn change(&mut self, key: UserKey<&[u8]>, change: KeyChange<&[u8]>) -> &mut Self {
        self.steps.push_write(key, change);
        self
    }

    /// Deletes a range of any keyspace.
    pub(crate) fn delete_keys(&mut self, range: &UserRange) -> &mut Self {
        self.steps.push_delete(range);
        self
    }

    /// Deletes all keys of a range, as `Db::delete_range` does.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("list/7", "old")?;
    /// let mut batch = alluvium::WriteBatch::new();
    /// batch.delete_range("list/".."list0").put("list/0", "new"); // replaces the list
    /// db.write(batch)?;
    /// assert_eq!(db.prefix("list/")?.count(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn delete_range(&mut self, range: impl KeyRange) -> &mut Self {
        self.delete_keys(&UserRange::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Deletes all keys that start with a prefix, as `Db::delete_prefix` does.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Self {
        self.delete_keys(&UserRange::of_prefix(KeyspaceId::DEFAULT, prefix.as_ref()))
    }

    /// Appends all operations of another batch.
    ///
    /// ```
    /// use alluvium::WriteBatch;
    /// let (mut all, mut part) = (WriteBatch::new(), WriteBatch::new());
    /// all.put("elbe", "North Sea");
    /// part.put("oder", "Baltic Sea").delete("styx");
    /// all.append(&part);
    /// assert_eq!((all.len(), part.len()), (3, 2));
    /// ```
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.steps.append(&other.steps);
        other.keyspaces.iter().for_each(|keyspace| self.add_keyspace(keyspace));
        self
    }

    /// The operations in the order in which they were added.
    ///
    /// ```
    /// use alluvium::{Operation, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put("a", "1").delete("b").delete_range("c"..);
    /// let operations: Vec<_> = batch.iter().collect();
    /// assert_eq!(operations[0], Operation::Put { keyspace: "default", key: b"a", value: b"1" });
    /// assert_eq!(operations[1], Operation::Delete { keyspace: "default", key: b"b" });
    /// assert_eq!(operations[2], Operation::DeleteRange { keyspace: "default", start: b"c", end: None });
    /// ```
    pub fn iter(&self) -> Operations<'_> {
        Operations { steps: self.steps.iter(), keyspaces: &self.keyspaces }
    }

    /// Number of operations.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut batch = alluvium::WriteBatch::new();
    /// for number in 0..2500_u32 {
    ///     batch.put(number.to_be_bytes(), "imported");
    ///     if batch.len() == 1000 {
    ///         db.write(std::mem::take(&mut batch))?;
    ///     }
    /// }
    /// db.write(batch)?;
    /// assert_eq!(db.iter()?.keys().count(), 2500);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.steps.len() == 0
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.keyspaces.clear();
    }

    /// Total size of keys, values and bounds of ranges, in bytes.
    ///
    /// ```
    /// let mut batch = alluvium::WriteBatch::new();
    /// batch.put("elbe", "North Sea").delete("oder");
    /// assert_eq!(batch.bytes(), 4 + 9 + 4);
    /// ```
    pub fn bytes(&self) -> usize {
        self.steps.bytes()
    }

    /// Whether it deletes ranges.
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.steps.deletes_ranges()
    }

    /// Its puts and deletes in their order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (UserKey<&[u8]>, KeyChange<&[u8]>)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Write(key, change) => Some((key, change)),
            Step::DeleteRange(..) => None,
        })
    }

    /// Its operands with their keys.
    pub(crate) fn operands(&self) -> impl Iterator<Item = (UserKey<&[u8]>, &[u8])> {
        self.steps.iter().filter_map(|step| match step {
            Step::Write(key, KeyChange::Merge(operand)) => Some((key, operand)),
            _ => None,
        })
    }

    /// Whether it merges.
    pub(crate) fn merges(&self) -> bool {
        self.steps.merges()
    }
}

/// ```
/// # let mut batch = alluvium::WriteBatch::new();
/// # batch.put("a", "1");
/// for operation in &batch {
///     println!("{operation:?}");
/// }
/// ```
impl<'b> IntoIterator for &'b WriteBatch {
    type Item = Operation<'b>;
    type IntoIter = Operations<'b>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Adds a put for each pair.
///
/// ```
/// # let mut batch = alluvium::WriteBatch::new();
/// batch.delete_prefix("depth/");
/// batch.extend([("depth/rhine", "2 m"), ("depth/elbe", "1 m")]);
/// assert_eq!(batch.len(), 3);
/// ```
/// Counts, because a batch may have megabytes of data, some of which may be secret. `iter` has the operations.
impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("operations", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for WriteBatch {
    fn extend<P: IntoIterator<Item = (K, V)>>(&mut self, pairs: P) {
        let pairs = pairs.into_iter();
        self.steps.reserve(pairs.size_hint().0);
        pairs.for_each(|(key, value)| {
            self.put(key, value);
        });
    }
}

/// A batch with a put for each pair.
///
/// ```
/// # use std::collections::HashMap;
/// let depths = HashMap::from([("rhine", "2 m"), ("elbe", "1 m")]);
/// let batch: alluvium::WriteBatch = depths.iter().collect();
/// assert_eq!(batch.len(), 2);
/// ```
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for WriteBatch {
    fn from_iter<P: IntoIterator<Item = (K, V)>>(pairs: P) -> Self {
        let mut batch = Self::new();
        batch.extend(pairs);
        batch
    }
}
