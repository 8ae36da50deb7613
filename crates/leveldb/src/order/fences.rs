//! The fences between buckets, in the comparator's order. Immutable once shared; a copy with one more fence shares the
//! rest.

use super::layout;
use crate::comparator::Comparator;
use alluvium::{Db, Error};
use std::sync::Arc;

/// The most fences of a chunk; a copy with one more fence copies one chunk.
const CHUNK: usize = 512;

/// The lower bound of a bucket's keys.
#[derive(Clone)]
struct Fence {
    lower: Arc<[u8]>,
    bucket: u64,
}

/// See the module. Position 0 is the first bucket, which has no fence.
#[derive(Clone, Default)]
pub struct Fences {
    /// In order; no chunk is empty.
    chunks: Vec<Arc<Vec<Fence>>>,
    count: usize,
}

impl Fences {
    /// Reads the fences of a store. Also returns the first unused bucket number.
    pub fn load(db: &Db, comparator: &Comparator) -> alluvium::Result<(Self, u64)> {
        let mut fences = Vec::new();
        for pair in db.prefix(layout::fences())? {
            let (key, lower) = pair?;
            let bucket = layout::bucket_of_fence(&key).ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "the store has a file COMPARATOR, but its key \"{}\" is not one that a store with a comparator writes",
                    key.escape_ascii()
                ))
            })?;
            fences.push(Fence { lower: lower.into(), bucket });
        }
        let next = fences.iter().map(|fence| fence.bucket).max().unwrap_or(0) + 1;
        fences.sort_by(|one, other| comparator.compare(&one.lower, &other.lower));
        let count = fences.len();
        let chunks = fences.chunks(CHUNK / 2).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Ok((Self { chunks, count }, next))
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> usize {
        self.count + 1
    }

    /// Returns the position of the bucket to which a key belongs.
    pub fn position(&self, comparator: &Comparator, key: &[u8]) -> usize {
        let is_reached = |fence: &Fence| comparator.compare(&fence.lower, key).is_le();
        let behind = self.chunks.partition_point(|chunk| is_reached(&chunk[0]));
        let Some(last) = behind.checked_sub(1) else { return 0 };
        let before: usize = self.chunks[..last].iter().map(|chunk| chunk.len()).sum();
        before + self.chunks[last].partition_point(is_reached)
    }

    /// Returns the bucket at a position.
    pub fn bucket(&self, position: usize) -> u64 {
        let Some(at) = position.checked_sub(1) else { return 0 };
        let (chunk, within) = self.place(at);
        self.chunks[chunk][within].bucket
    }

    /// Inserts a bucket right behind a position.
    pub fn add_behind(&mut self, position: usize, lower: &[u8], bucket: u64) {
        let fence = Fence { lower: lower.into(), bucket };
        self.count += 1;
        let (at, within) = self.place(position);
        // A fence behind all others goes to the end of the last chunk.
        let (at, within) = match at.checked_sub(1) {
            Some(last) if at == self.chunks.len() => (last, self.chunks[last].len()),
            _ => (at, within),
        };
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(Arc::new(vec![fence]));
            return;
        };
        let chunk = Arc::make_mut(chunk);
        chunk.insert(within, fence);
        if chunk.len() > CHUNK {
            let rest = chunk.split_off(CHUNK / 2);
            self.chunks.insert(at + 1, Arc::new(rest));
        }
    }

    /// Removes the fence at a position, which is not 0. Its keys then belong to the previous bucket.
    pub fn remove(&mut self, position: usize) {
        let (at, within) = self.place(position - 1);
        Arc::make_mut(&mut self.chunks[at]).remove(within);
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        }
        self.count -= 1;
    }

    /// Returns the chunk of a fence and the index in it; behind the last fence, the index of a chunk that does not
    /// exist.
    fn place(&self, mut fence: usize) -> (usize, usize) {
        for (at, chunk) in self.chunks.iter().enumerate() {
            match fence.checked_sub(chunk.len()) {
                Some(rest) => fence = rest,
                None => return (at, fence),
            }
        }
        (self.chunks.len(), 0)
    }
}
