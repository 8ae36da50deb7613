//! Rows that were read ahead: pairs copied from their pages, in key order. Plain data; one thread.

/// A row's key and value end here; it begins where the row before it ends.
#[derive(Clone, Copy, Debug)]
struct Ends {
    key: usize,
    value: usize,
}

/// See the module. It is before its first row until the first `step`.
#[derive(Debug, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    ends: Vec<Ends>,
    /// Rows that `step` has reached. The last of them is the current one.
    passed: usize,
}

impl Rows {
    /// Removes all rows. The memory stays for the next ones.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.passed = 0;
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(key), value);
    }

    /// As `push`, with a function that appends the key.
    #[inline]
    pub fn push_with(&mut self, append_key: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        append_key(&mut self.bytes);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push(Ends { key, value: self.bytes.len() });
    }

    /// Appends a row with a function that appends key and value, and returns the length of the key.
    #[inline]
    pub fn push_whole(&mut self, append: impl FnOnce(&mut Vec<u8>) -> usize) {
        let key = self.bytes.len() + append(&mut self.bytes);
        self.ends.push(Ends { key, value: self.bytes.len() });
    }

    /// The number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes that it could hold without an allocation.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of all rows.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves to the next row; false if there is none, and then it stays where it is.
    #[inline]
    pub fn step(&mut self) -> bool {
        let is_left = self.passed < self.ends.len();
        self.passed += usize::from(is_left);
        is_left
    }

    /// How many rows `step` has not reached.
    #[inline]
    pub fn left(&self) -> usize {
        self.ends.len() - self.passed
    }

    /// The key of the last row; `None` if there are no rows.
    #[inline]
    pub fn last_key(&self) -> Option<&[u8]> {
        let end = self.ends.last()?.key;
        let start = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].value);
        Some(&self.bytes[start..end])
    }

    /// Whether it is on a row.
    #[inline]
    pub fn is_on_row(&self) -> bool {
        self.passed > 0
    }

    fn start(&self) -> usize {
        if self.passed > 1 { self.ends[self.passed - 2].value } else { 0 }
    }

    /// The key of the current row. Requires `is_on_row()`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[self.start()..self.ends[self.passed - 1].key]
    }

    /// The value of the current row. Requires `is_on_row()`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let Ends { key, value } = self.ends[self.passed - 1];
        &self.bytes[key..value]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_passed_in_order_and_then_gone() {
        let mut rows = Rows::default();
        assert!(!rows.step() && !rows.is_on_row());
        for round in 0..2 {
            rows.push(b"ash", b"grey");
            rows.push(b"", b"");
            rows.push(b"beech", b"copper");
            assert_eq!((rows.len(), rows.bytes(), rows.is_on_row()), (3, 18, false), "round {round}");
            assert_eq!((rows.last_key(), rows.left()), (Some(&b"beech"[..]), 3));
            let mut found = Vec::new();
            while rows.step() {
                found.push((rows.key().to_vec(), rows.value().to_vec()));
            }
            let expected: [(&[u8], &[u8]); 3] = [(b"ash", b"grey"), (b"", b""), (b"beech", b"copper")];
            assert_eq!(found, expected.map(|(key, value)| (key.to_vec(), value.to_vec())));
            assert_eq!((rows.key(), rows.left()), (&b"beech"[..], 0), "it stays on the last row");
            rows.clear();
            assert!(rows.len() == 0 && !rows.is_on_row() && rows.last_key().is_none());
        }
    }
}
