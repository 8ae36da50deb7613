//! A batch of writes that is applied atomically.

use super::bounds::UserRange;
use super::effects::{Effects, KeyWrite, UnjoinedOperands, fold_operands};
use super::key_change::KeyChange;
use super::key_range::KeyRange;
use super::keyspace_info::{DEFAULT_NAME, KeyspaceInfo};
use super::user_key::UserKey;
use crate::merge::MergeOperators;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result};
use std::fmt;

/// One operation of a batch. There may be more kinds in later versions.
///
/// ```
/// use alluvium::{Operation, WriteBatch};
/// let mut batch = WriteBatch::new();
/// batch.put("elbe", "North Sea").delete_prefix("old/");
/// for operation in batch.iter() {
///     match operation {
///         Operation::Put { key, value, .. } => println!("{} bytes under {}", value.len(), key.escape_ascii()),
///         Operation::Delete { key, .. } => println!("without {}", key.escape_ascii()),
///         other => println!("{other:?}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation<'b> {
    /// Sets a key.
    Put {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
        /// Its value.
        value: &'b [u8],
    },
    /// Deletes a key.
    Delete {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
    },
    /// Merges an operand into the value of a key.
    Merge {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The key.
        key: &'b [u8],
        /// The operand.
        operand: &'b [u8],
    },
    /// Deletes all keys from `start` up to, but without, `end`.
    DeleteRange {
        /// The name of the keyspace.
        keyspace: &'b str,
        /// The first key of the range.
        start: &'b [u8],
        /// The first key after the range; `None` if nothing bounds it.
        end: Option<&'b [u8]>,
    },
}

/// An operation that a batch owns.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Write(KeyWrite),
    DeleteRange(UserRange),
}

impl Step {
    fn operation<'b>(&'b self, keyspaces: &'b [Arc<KeyspaceInfo>]) -> Operation<'b> {
        let name = |id: KeyspaceId| {
            let found = keyspaces.iter().find(|keyspace| keyspace.id == id);
            found.map_or(DEFAULT_NAME, |keyspace| &keyspace.name)
        };
        match self {
            Self::Write(KeyWrite { key: UserKey { keyspace, bytes: key }, change }) => {
                let keyspace = name(*keyspace);
                match change.as_bytes() {
                    KeyChange::Put(value) => Operation::Put { keyspace, key, value },
                    KeyChange::Delete => Operation::Delete { keyspace, key },
                    KeyChange::Merge(operand) => Operation::Merge { keyspace, key, operand },
                }
            }
            Self::DeleteRange(UserRange { keyspace, start, end }) => {
                Operation::DeleteRange { keyspace: name(*keyspace), start, end: end.as_deref() }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.key.bytes.len() + write.change.bytes(),
            Self::DeleteRange(range) => range.bytes(),
        }
    }
}

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
    steps: Vec<Step>,
    /// The keyspaces of its operations, without the default one.
    keyspaces: Vec<Arc<KeyspaceInfo>>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
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
        self.steps.iter().any(|step| match step {
            Step::Write(write) => write.key.keyspace == KeyspaceId::DEFAULT,
            Step::DeleteRange(range) => range.keyspace == KeyspaceId::DEFAULT,
        })
    }

    /// Changes a key of any keyspace.
    pub(crate) fn change(&mut self, key: UserKey<&[u8]>, change: KeyChange<&[u8]>) -> &mut Self {
        self.steps.push(Step::Write(KeyWrite { key: key.to_owned(), change: change.to_owned() }));
        self
    }

    /// Deletes a range of any keyspace.
    pub(crate) fn delete_keys(&mut self, range: UserRange) -> &mut Self {
        self.steps.push(Step::DeleteRange(range));
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
        self.delete_keys(UserRange::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Deletes all keys that start with a prefix, as `Db::delete_prefix` does.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Self {
        self.delete_keys(UserRange::of_prefix(KeyspaceId::DEFAULT, prefix.as_ref()))
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
        self.steps.extend_from_slice(&other.steps);
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
        self.steps.is_empty()
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
        self.steps.iter().map(Step::bytes).sum()
    }

    /// Whether it deletes ranges.
    #[cfg(feature = "async")]
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::DeleteRange(_)))
    }

    /// Its operands with their keys.
    pub(crate) fn operands(&self) -> impl Iterator<Item = (UserKey<&[u8]>, &[u8])> {
        self.steps.iter().filter_map(|step| match step {
            Step::Write(KeyWrite { key, change: KeyChange::Merge(operand) }) => Some((key.as_bytes(), &operand[..])),
            _ => None,
        })
    }

    /// Whether it merges.
    pub(crate) fn merges(&self) -> bool {
        self.operands().next().is_some()
    }

    /// What the operations make together. Those of one key become one, the last put or delete, with the operands after it
    /// folded into it. Requires an operator for each operand. An error is the operator's.
    pub(crate) fn resolve(self, operators: &MergeOperators) -> Result<(Effects, Vec<UnjoinedOperands>)> {
        let (mut writes, mut deleted) = (Vec::with_capacity(self.steps.len()), Vec::new());
        let mut merges = false;
        for (at, step) in self.steps.into_iter().enumerate() {
            match step {
                Step::Write(write) => {
                    merges |= matches!(write.change, KeyChange::Merge(_));
                    writes.push((at, write));
                }
                Step::DeleteRange(range) => deleted.push((at, range)),
            }
        }
        // The sort is stable, so the writes of one key keep their order.
        writes.sort_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let mut unjoined = Vec::new();
        if merges {
            (writes, unjoined) = fold_operands(writes, &deleted, operators)?;
        }
        writes.dedup_by(|next, last| {
            let is_same = next.1.key == last.1.key;
            if is_same {
                std::mem::swap(next, last);
            }
            is_same
        });
        let mut hidden = vec![false; if deleted.is_empty() { 0 } else { writes.len() }];
        for (deleted_at, range) in &deleted {
            let from = writes.partition_point(|(_, write)| write.key.as_bytes() < range.first_key());
            let inside = writes[from..].iter().take_while(|(_, write)| range.contains(write.key.as_bytes()));
            inside.zip(&mut hidden[from..]).for_each(|((at, _), hidden)| *hidden |= at < deleted_at);
        }
        let mut hidden = hidden.into_iter();
        let writes = writes.into_iter().filter(|_| !hidden.next().unwrap_or(false)).map(|(_, write)| write).collect();
        let deleted = UserRange::merged(deleted.into_iter().map(|(_, range)| range).collect());
        Ok((Effects { writes, deleted }, unjoined))
    }
}

/// The operations of a batch, in the order in which they were added: the result of `WriteBatch::iter`.
#[derive(Clone, Debug)]
pub struct Operations<'b> {
    steps: std::slice::Iter<'b, Step>,
    keyspaces: &'b [Arc<KeyspaceInfo>],
}

impl<'b> Iterator for Operations<'b> {
    type Item = Operation<'b>;

    fn next(&mut self) -> Option<Self::Item> {
        self.steps.next().map(|step| step.operation(self.keyspaces))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.steps.size_hint()
    }
}

impl DoubleEndedIterator for Operations<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.steps.next_back().map(|step| step.operation(self.keyspaces))
    }
}

impl ExactSizeIterator for Operations<'_> {}

impl std::iter::FusedIterator for Operations<'_> {}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::MergeOperator;
    use crate::merge::operator::Append;

    fn value(write: &KeyWrite) -> Option<&[u8]> {
        match write.change.as_bytes() {
            KeyChange::Put(value) => Some(value),
            KeyChange::Delete => None,
            KeyChange::Merge(_) => panic!("an operand is left"),
        }
    }

    /// Appends, and cannot join operands.
    struct Words;

    impl MergeOperator for Words {
        fn name(&self) -> &str {
            "words"
        }

        fn full_merge(
            &self,
            _: &[u8],
            base: Option<&[u8]>,
            operands: &[&[u8]],
            out: &mut Vec<u8>,
        ) -> Result<(), String> {
            base.iter().chain(operands).for_each(|word| out.extend_from_slice(word));
            Ok(())
        }
    }

    /// Puts, deletes, merges and range deletes of a key before and after each other.
    #[test]
    fn the_debug_form_has_counts_and_no_data() {
        let mut batch = WriteBatch::new();
        batch.put("elbe", "North Sea").delete("oder");
        assert_eq!(format!("{batch:?}"), "WriteBatch { operations: 2, bytes: 17, .. }");
    }

    #[test]
    fn operands_are_folded_with_what_is_before_them() {
        let mut batch = WriteBatch::new();
        batch.merge("a", "1").merge("a", "2").put("b", "1").merge("b", "2").delete("c").merge("c", "3");
        batch.merge("d", "1").put("d", "2").merge("e", "1").delete_range("e".."f").merge("e", "2").merge("e", "3");
        batch.put("f", "1").delete_range("f"..).merge("g", "1").merge("h", "1").delete_range("h"..);
        let joined = |key: &str, change| KeyWrite { key: UserKey::of_default(key).to_owned(), change };
        let put = |key, value: &str| joined(key, KeyChange::Put(value.into()));
        let all = [put("b", "12"), put("c", "3"), put("d", "2"), put("e", "23"), put("g", "1")];
        let (effects, unjoined) = batch.clone().resolve(&MergeOperators::new(Some(Arc::new(Append)))).unwrap();
        assert_eq!(effects.writes[0], joined("a", KeyChange::Merge("12".into())));
        assert_eq!((&effects.writes[1..], unjoined.len()), (&all[..], 0));
        // Without a way to join operands, a key with several of them is left to be read.
        let (effects, unjoined) = batch.resolve(&MergeOperators::new(Some(Arc::new(Words)))).unwrap();
        assert_eq!(effects.writes, all);
        assert_eq!(
            unjoined,
            [UnjoinedOperands { key: UserKey::of_default("a").to_owned(), operands: vec!["1".into(), "2".into()] }]
        );
    }

    #[test]
    fn operands_that_cannot_be_joined_are_replaced_by_later_writes() {
        let mut batch = WriteBatch::new();
        batch.merge("a", "1").merge("a", "2").merge("a", "3").put("a", "4").merge("a", "5");
        batch.merge("b", "1").merge("b", "2").delete("b");
        batch.merge("c", "1").merge("c", "2").delete_range("c".."d").merge("c", "3");
        batch.merge("d", "1").merge("d", "2").delete_range("d"..);
        let (effects, unjoined) = batch.resolve(&MergeOperators::new(Some(Arc::new(Words)))).unwrap();
        let view: Vec<_> = effects.writes.iter().map(|write| (&write.key.bytes[..], value(write))).collect();
        assert_eq!(view, [(&b"a"[..], Some(&b"45"[..])), (b"b", None), (b"c", Some(b"3"))]);
        assert!(unjoined.is_empty());
    }

    #[test]
    fn append_adds_at_the_end() {
        let (mut batch, mut other) = (WriteBatch::new(), WriteBatch::new());
        batch.put("a", "1");
        other.delete("a").put("b", "2");
        batch.append(&other).append(&WriteBatch::new());
        assert_eq!((batch.len(), batch.bytes(), other.len()), (3, 5, 2));
        assert_eq!(
            batch.iter().collect::<Vec<_>>(),
            [
                Operation::Put { keyspace: DEFAULT_NAME, key: b"a", value: b"1" },
                Operation::Delete { keyspace: DEFAULT_NAME, key: b"a" },
                Operation::Put { keyspace: DEFAULT_NAME, key: b"b", value: b"2" }
            ]
        );
    }

    #[test]
    fn pairs_become_puts_in_their_order() {
        let pairs = [("b", vec![1]), ("a", vec![2]), ("b", vec![3])];
        let mut batch: WriteBatch = pairs.iter().map(|(key, value)| (key, value)).collect();
        assert_eq!(batch, *WriteBatch::new().put("b", [1]).put("a", [2]).put("b", [3]));
        batch.delete("a").extend([(String::from("c"), b"4")]);
        let mut operations = (&batch).into_iter();
        assert_eq!(operations.len(), 5);
        assert_eq!(operations.next_back(), Some(Operation::Put { keyspace: DEFAULT_NAME, key: b"c", value: b"4" }));
        assert_eq!(operations.next_back(), Some(Operation::Delete { keyspace: DEFAULT_NAME, key: b"a" }));
        assert_eq!(operations.next(), Some(Operation::Put { keyspace: DEFAULT_NAME, key: b"b", value: &[1] }));
        assert_eq!(operations.by_ref().count(), 2);
        assert_eq!((operations.next(), operations.next_back()), (None, None));
    }

    #[test]
    fn the_last_operation_on_a_key_wins() {
        let mut batch = WriteBatch::new();
        batch.put("b", "1").put("a", "1").delete("b").put("a", "2").put("c", "").delete("d").put("d", "4");
        let resolved = batch.resolve(&MergeOperators::default()).unwrap().0;
        assert!(resolved.deleted.is_empty());
        let view: Vec<_> = resolved.writes.iter().map(|op| (&op.key.bytes[..], value(op))).collect();
        assert_eq!(
            view,
            vec![
                (&b"a"[..], Some(&b"2"[..])),
                (&b"b"[..], None),
                (&b"c"[..], Some(&b""[..])),
                (&b"d"[..], Some(&b"4"[..]))
            ]
        );
    }

    #[test]
    fn a_range_delete_hides_what_came_before_it() {
        let mut batch = WriteBatch::new();
        batch.put("a", "1").put("b", "1").delete("c").put("d", "1");
        batch.delete_range("b".."d").put("c", "2").delete_range("e"..).delete_range("c\0"..="c1").put("f", "2");
        let resolved = batch.resolve(&MergeOperators::default()).unwrap().0;
        let view: Vec<_> = resolved.writes.iter().map(|write| (&write.key.bytes[..], value(write))).collect();
        let put = |key: &'static str, value: &'static str| (key.as_bytes(), Some(value.as_bytes()));
        assert_eq!(view, [put("a", "1"), put("c", "2"), put("d", "1"), put("f", "2")]);
        let range = |start: &str, end: Option<&str>| UserRange {
            keyspace: KeyspaceId::DEFAULT,
            start: start.into(),
            end: end.map(Into::into),
        };
        assert_eq!(resolved.deleted, [range("b", Some("d")), range("e", None)]);
    }

    #[test]
    fn a_batch_may_have_nothing_but_empty_ranges() {
        let mut batch = WriteBatch::new();
        batch.delete_range("b".."a").delete_range("a".."a");
        assert_eq!(batch.len(), 2);
        assert!(batch.resolve(&MergeOperators::default()).unwrap().0.is_empty());
    }
}
