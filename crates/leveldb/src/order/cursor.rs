//! A cursor over pairs in the comparator's order. One thread at a time.

use super::OrderedSnapshot;
use super::layout;
use crate::comparator::Comparator;
use std::sync::Arc;

/// See the module. Like `alluvium::Iter`, it is positioned on a pair or unpositioned.
pub struct OrderedCursor {
    snapshot: OrderedSnapshot,
    comparator: Arc<Comparator>,
    /// The position of the bucket that is loaded.
    bucket: usize,
    /// Keys and values of its pairs, each value right behind its key.
    bytes: Vec<u8>,
    /// In the comparator's order.
    pairs: Vec<Pair>,
    at: Option<usize>,
}

/// The position of a pair in `bytes`.
#[derive(Clone, Copy)]
struct Pair {
    key: usize,
    value: usize,
    end: usize,
}

impl Pair {
    fn key(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.key..self.value]
    }
}

impl OrderedCursor {
    pub(super) fn new(snapshot: OrderedSnapshot, comparator: Arc<Comparator>) -> Self {
        Self { snapshot, comparator, bucket: 0, bytes: Vec::new(), pairs: Vec::new(), at: None }
    }

    /// Whether the cursor is positioned on a pair.
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// Returns the key of the pair; empty if unpositioned.
    pub fn key(&self) -> &[u8] {
        self.pair().map_or(&[], |pair| pair.key(&self.bytes))
    }

    /// Returns the value of the pair; empty if unpositioned.
    pub fn value(&self) -> &[u8] {
        self.pair().map_or(&[], |pair| &self.bytes[pair.value..pair.end])
    }

    fn pair(&self) -> Option<Pair> {
        self.pairs.get(self.at?).copied()
    }

    /// Moves to the first pair.
    pub fn seek_first(&mut self) -> alluvium::Result<()> {
        self.load(0)?;
        self.settle_forward(0)
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> alluvium::Result<()> {
        self.load(self.snapshot.fences.buckets() - 1)?;
        self.settle_back(self.pairs.len())
    }

    /// Moves to the first pair whose key is at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> alluvium::Result<()> {
        self.load(self.snapshot.fences.position(&self.comparator, key))?;
        let before = |pair: &Pair| self.comparator.compare(pair.key(&self.bytes), key).is_lt();
        self.settle_forward(self.pairs.partition_point(before))
    }

    /// Moves to the next pair.
    pub fn step(&mut self) -> alluvium::Result<()> {
        match self.at {
            Some(at) => self.settle_forward(at + 1),
            None => Ok(()),
        }
    }

    /// Moves to the previous pair.
    pub fn step_back(&mut self) -> alluvium::Result<()> {
        match self.at {
            Some(at) => self.settle_back(at),
            None => Ok(()),
        }
    }

    /// Moves to a position in the bucket, or to the first pair of the next buckets if that is its end.
    fn settle_forward(&mut self, mut at: usize) -> alluvium::Result<()> {
        while at == self.pairs.len() {
            if self.bucket + 1 == self.snapshot.fences.buckets() {
                self.at = None;
                return Ok(());
            }
            self.load(self.bucket + 1)?;
            at = 0;
        }
        self.at = Some(at);
        Ok(())
    }

    /// Moves to the position before `behind`, or to the last pair of the previous buckets if that is the bucket's
    /// beginning.
    fn settle_back(&mut self, mut behind: usize) -> alluvium::Result<()> {
        while behind == 0 {
            if self.bucket == 0 {
                self.at = None;
                return Ok(());
            }
            self.load(self.bucket - 1)?;
            behind = self.pairs.len();
        }
        self.at = Some(behind - 1);
        Ok(())
    }

    fn load(&mut self, bucket: usize) -> alluvium::Result<()> {
        self.at = None;
        self.bucket = bucket;
        self.bytes.clear();
        self.pairs.clear();
        let prefix = layout::data_key(self.snapshot.fences.bucket(bucket), &[]);
        let mut found = self.snapshot.data.prefix(prefix)?;
        found.seek_first()?;
        while let Some((found_key, found_value)) = found.pair() {
            let key = self.bytes.len();
            self.bytes.extend_from_slice(layout::user_key(found_key));
            let value = self.bytes.len();
            self.bytes.extend_from_slice(found_value);
            self.pairs.push(Pair { key, value, end: self.bytes.len() });
            found.step()?;
        }
        let (comparator, bytes) = (&self.comparator, &self.bytes);
        self.pairs.sort_by(|one, other| comparator.compare(one.key(bytes), other.key(bytes)));
        Ok(())
    }
}
