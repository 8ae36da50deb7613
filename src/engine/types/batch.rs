//! A batch of writes that is applied atomically.

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) key: Vec<u8>,
    /// `None` deletes.
    pub(crate) value: Option<Vec<u8>>,
}

/// A list of puts and deletes that `Db::write` applies atomically. Every reader sees all of them or none, and so does
/// recovery after a crash. If a batch has several operations on a key, the last one wins.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// let mut batch = alluvium::WriteBatch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// db.write(batch)?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    pub(crate) operations: Vec<Operation>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Self {
        self.operations.push(Operation { key: key.into(), value: Some(value.into()) });
        self
    }

    /// Deletes a key. It is not an error if the key is absent.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut Self {
        self.operations.push(Operation { key: key.into(), value: None });
        self
    }

    /// Appends all operations of another batch.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.operations.extend_from_slice(&other.operations);
        self
    }

    /// The operations in the order in which they were added, as pairs of key and value. The value of a delete is
    /// `None`.
    ///
    /// ```
    /// let mut batch = alluvium::WriteBatch::new();
    /// batch.put("a", "1").delete("b");
    /// let operations: Vec<_> = batch.iter().collect();
    /// assert_eq!(operations, [(&b"a"[..], Some(&b"1"[..])), (&b"b"[..], None)]);
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.operations.iter().map(|operation| (&operation.key[..], operation.value.as_deref()))
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.operations.clear();
    }

    /// Total size of keys and values, in bytes.
    pub fn bytes(&self) -> usize {
        self.operations.iter().map(|op| op.key.len() + op.value.as_ref().map_or(0, Vec::len)).sum()
    }

    /// The last operation on each key, in key order.
    pub(crate) fn resolve(self) -> Vec<Operation> {
        let mut operations = self.operations;
        // The sort is stable, so the operations of one key keep their order.
        operations.sort_by(|a, b| a.key.cmp(&b.key));
        let mut resolved: Vec<Operation> = Vec::with_capacity(operations.len());
        for operation in operations {
            match resolved.last_mut() {
                Some(last) if last.key == operation.key => *last = operation,
                _ => resolved.push(operation),
            }
        }
        resolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_adds_at_the_end() {
        let (mut batch, mut other) = (WriteBatch::new(), WriteBatch::new());
        batch.put("a", "1");
        other.delete("a").put("b", "2");
        batch.append(&other).append(&WriteBatch::new());
        assert_eq!((batch.len(), batch.bytes(), other.len()), (3, 5, 2));
        assert_eq!(
            batch.iter().map(|(key, value)| (key[0], value.is_some())).collect::<Vec<_>>(),
            [(b'a', true), (b'a', false), (b'b', true)]
        );
    }

    #[test]
    fn the_last_operation_on_a_key_wins() {
        let mut batch = WriteBatch::new();
        batch.put("b", "1").put("a", "1").delete("b").put("a", "2").put("c", "").delete("d").put("d", "4");
        let resolved = batch.resolve();
        let view: Vec<_> = resolved.iter().map(|op| (&op.key[..], op.value.as_deref())).collect();
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
}
