//! The fences between buckets, in the caller's order. Immutable once shared; a copy with one more shares the rest.

use super::layout;
use crate::comparator::Comparator;
use alluvium::{Db, Error};
use std::sync::Arc;

/// Fences that lie together at most; a copy with one more copies as many.
const CHUNK: usize = 512;

/// The first key that belongs to a bucket.
#[derive(Clone)]
struct Fence {
    lower: Arc<[u8]>,
    bucket: u64,
}

/// See the module. Position 0 is the first bucket's, which has no fence.
#[derive(Clone, Default)]
pub struct Fences {
    /// In order; none is empty.
    chunks: Vec<Arc<Vec<Fence>>>,
    count: usize,
}

impl Fences {
    /// The fences that a store holds, and the first number that no bucket has.
    pub fn load(db: &Db, comparator: &Comparator) -> alluvium::Result<(Self, u64)> {
        let mut fences = Vec::new();
        for pair in db.prefix(layout::fences())? {
            let (key, lower) = pair?;
            let bucket = layout::bucket_of_fence(&key).ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "the store has a comparator's name, but \"{}\" is no key of a store in a comparator's order",
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

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.count + 1
    }

    /// The position of the bucket in which a key is, or would be.
    pub fn position(&self, comparator: &Comparator, key: &[u8]) -> usize {
        let is_reached = |fence: &Fence| comparator.compare(&fence.lower, key).is_le();
        let behind = self.chunks.partition_point(|chunk| is_reached(&chunk[0]));
        let Some(last) = behind.checked_sub(1) else { return 0 };
        let before: usize = self.chunks[..last].iter().map(|chunk| chunk.len()).sum();
        before + self.chunks[last].partition_point(is_reached)
    }

    /// The bucket at a position.
    pub fn bucket(&self, position: usize) -> u64 {
        let Some(at) = position.checked_sub(1) else { return 0 };
        let (chunk, within) = self.place(at);
        self.chunks[chunk][within].bucket
    }

    /// Adds a bucket right behind a position.
    pub fn add_behind(&mut self, position: usize, lower: &[u8], bucket: u64) {
        let fence = Fence { lower: lower.into(), bucket };
        self.count += 1;
        let (at, within) = self.place(position);
        // Behind the last fence of all is the end of the last chunk.
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

    /// Takes the fence of a position, which is not 0, away: its keys belong to the bucket before.
    pub fn remove(&mut self, position: usize) {
        let (at, within) = self.place(position - 1);
        Arc::make_mut(&mut self.chunks[at]).remove(within);
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        }
        self.count -= 1;
    }

    /// The chunk of a fence, and its place there; behind the last, a chunk that is not there.
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
