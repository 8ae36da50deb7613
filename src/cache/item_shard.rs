//! One shard of the item cache: a queue of memory chunks to which items are appended, and a hash table of their
//! positions. Not synchronized: its owner keeps it under a mutex.
//!
//! If there is no memory for another chunk, the oldest one is evicted. Its items that were looked up move to the newest
//! chunk; the others are dropped. So all memory is used, whatever the sizes of the items. A chunk comes from the same
//! allocator as pages and has the size of the leaf whose item needs it, so items can use the memory that the page cache
//! gives up (`io/frames.rs`: frames never return to the system, and keep their size).
//!
//! Invariants:
//! 1. A position is a chunk's number times `CHUNK_BYTES_MAX`, plus the item's offset in the chunk. `chunks` contains the
//!    chunks from number `first` on, and `chunk_bytes` is the sum of their sizes.
//! 2. The table contains exactly the positions of the live items, each under its hash. An item that is not in the table
//!    is dead, even if its bytes are still in a chunk.
//! 3. The table contains at most one item of each key.

use crate::io::{AlignedBuffer, FRAME_BYTES_MAX};
use crate::util::SequenceNumber;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Bytes of the largest chunk. Larger leaves are no frames.
const CHUNK_BYTES_MAX: usize = FRAME_BYTES_MAX;
/// Bytes before an item's key: hash, number, lengths of key and value, number of hits.
const HEADER_BYTES: usize = 24;
/// An item with more than this part of its leaf is better cached as part of it.
const LEAF_PART_MAX: usize = 2;
/// Items start at multiples of this.
const ALIGNMENT: usize = 8;
/// The most eviction rounds that an often used item survives.
const CREDIT_MAX: u8 = 3;

/// An item to add.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The encoded key.
    pub key: &'a [u8],
    /// Its hash (`util::hash`).
    pub hash: u64,
    /// The version's number.
    pub number: SequenceNumber,
    /// Its value.
    pub value: &'a [u8],
    /// Bytes of memory of the leaf that it was read from, or of one like it.
    pub leaf_bytes: usize,
}

impl Item<'_> {
    /// Bytes that the item takes in a chunk.
    pub fn bytes(&self) -> usize {
        (HEADER_BYTES + self.key.len() + self.value.len()).next_multiple_of(ALIGNMENT)
    }
}

/// The decoded header of an item.
struct Header {
    hash: u64,
    number: u64,
    key: usize,
    value: usize,
}

impl Header {
    fn read(chunk: &[u8], at: usize) -> Self {
        let long = |from: usize| u64::from_le_bytes(std::array::from_fn(|byte| chunk[at + from + byte]));
        let short = |from: usize| usize::from(u16::from_le_bytes([chunk[at + from], chunk[at + from + 1]]));
        Self { hash: long(0), number: long(8), key: short(16), value: short(18) }
    }

    fn bytes(&self) -> usize {
        (HEADER_BYTES + self.key + self.value).next_multiple_of(ALIGNMENT)
    }
}

/// Offset of the hit counter in a header.
const CREDIT_AT: usize = 20;

#[derive(Debug)]
struct Chunk {
    memory: AlignedBuffer,
    used: usize,
}

impl Chunk {
    fn free(&self) -> usize {
        self.memory.len() - self.used
    }
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct ItemShard {
    table: HashTable<u64>,
    chunks: VecDeque<Chunk>,
    chunk_bytes: usize,
    first: u64,
}

impl ItemShard {
    /// The number of live items.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory in use, including the table.
    pub fn bytes(&self) -> usize {
        self.chunk_bytes + self.table.allocation_size()
    }

    /// Looks up a key. If its item is not newer than `at`, appends the item's value to `out` and returns its number.
    pub fn get(&mut self, key: &[u8], hash: u64, at: SequenceNumber, out: &mut Vec<u8>) -> Option<SequenceNumber> {
        let position = self.position(key, hash)?;
        let (chunk, from) = self.place(position);
        let memory = &mut self.chunks[chunk].memory;
        let header = Header::read(memory, from);
        if header.number > at.0 {
            return None;
        }
        memory[from + CREDIT_AT] = (memory[from + CREDIT_AT] + 1).min(CREDIT_MAX);
        let value = from + HEADER_BYTES + header.key;
        out.extend_from_slice(&memory[value..value + header.value]);
        Some(SequenceNumber(header.number))
    }

    /// Adds an item, and evicts others if the shard would exceed `limit` bytes. Does nothing if the key has an item
    /// already, or if the item is large for its leaf or the leaf for the cache.
    pub fn add(&mut self, item: Item<'_>, limit: usize) {
        let bytes = item.bytes();
        let (Ok(key), Ok(value)) = (u16::try_from(item.key.len()), u16::try_from(item.value.len())) else { return };
        let is_large = bytes > item.leaf_bytes / LEAF_PART_MAX || item.leaf_bytes > CHUNK_BYTES_MAX;
        if is_large || self.position(item.key, item.hash).is_some() {
            return;
        }
        if self.chunks.back().is_none_or(|newest| newest.free() < bytes) || self.bytes() + self.table_growth() > limit {
            self.make_space(bytes, item.leaf_bytes, limit);
        }
        let Some((at, position)) = self.take_space(bytes, 0) else { return };
        let Some(newest) = self.chunks.back_mut() else { return };
        let (header, contents) = newest.memory[at..at + bytes].split_at_mut(HEADER_BYTES);
        header[..8].copy_from_slice(&item.hash.to_le_bytes());
        header[8..16].copy_from_slice(&item.number.0.to_le_bytes());
        header[16..18].copy_from_slice(&key.to_le_bytes());
        header[18..20].copy_from_slice(&value.to_le_bytes());
        header[CREDIT_AT] = 0;
        contents[..item.key.len()].copy_from_slice(item.key);
        contents[item.key.len()..][..item.value.len()].copy_from_slice(item.value);
        let Self { table, chunks, first, .. } = self;
        table.insert_unique(item.hash, position, |position| hash_at(chunks, *first, *position));
    }

    /// Reserves `bytes` in the newest chunk, if so many as `keep` are free there afterwards. Returns the offset and the
    /// position.
    fn take_space(&mut self, bytes: usize, keep: usize) -> Option<(usize, u64)> {
        let number = self.first + (self.chunks.len() as u64).checked_sub(1)?;
        let newest = self.chunks.back_mut()?;
        if newest.free() < bytes + keep {
            return None;
        }
        let at = newest.used;
        newest.used += bytes;
        Some((at, number * CHUNK_BYTES_MAX as u64 + at as u64))
    }

    /// The bytes by which the table grows with the next item.
    fn table_growth(&self) -> usize {
        if self.table.len() == self.table.capacity() { self.table.allocation_size() } else { 0 }
    }

    /// Adds a newest chunk of `chunk` bytes, of which at least `bytes` stay free. Does nothing if the limit is less.
    fn make_space(&mut self, bytes: usize, chunk: usize, limit: usize) {
        let is_full = self.bytes() + chunk + self.table_growth() > limit;
        if is_full && (self.chunks.is_empty() || chunk + self.table.allocation_size() > limit) {
            return;
        }
        self.chunks.push_back(Chunk { memory: AlignedBuffer::new(chunk), used: 0 });
        self.chunk_bytes += chunk;
        if is_full {
            self.evict_oldest(bytes);
        }
        // The chunk may be larger than the oldest one, and the table may be about to grow.
        while self.bytes() + self.table_growth() > limit && self.chunks.len() > 1 && self.evict_oldest(bytes) {}
    }

    /// Frees the memory of the oldest chunk. Its items that were looked up move to the newest chunk while that has more
    /// than `keep` bytes free; the others are dropped. Returns false if there is no chunk.
    fn evict_oldest(&mut self, keep: usize) -> bool {
        let Some(oldest) = self.chunks.pop_front() else { return false };
        let first = self.first * CHUNK_BYTES_MAX as u64;
        self.first += 1;
        self.chunk_bytes -= oldest.memory.len();
        let mut at = 0;
        while at < oldest.used {
            let header = Header::read(&oldest.memory, at);
            let (bytes, position) = (header.bytes(), first + at as u64);
            let is_here = self.table.find(header.hash, |found| *found == position).is_some();
            let credit = oldest.memory[at + CREDIT_AT];
            let room = if is_here && credit > 0 { self.take_space(bytes, keep) } else { None };
            if let (Some((to, _)), Some(newest)) = (room, self.chunks.back_mut()) {
                newest.memory[to..to + bytes].copy_from_slice(&oldest.memory[at..at + bytes]);
                newest.memory[to + CREDIT_AT] = credit - 1;
            }
            if let Ok(mut entry) = self.table.find_entry(header.hash, |found| *found == position) {
                match room {
                    Some((_, moved)) => *entry.get_mut() = moved,
                    None => drop(entry.remove()),
                }
            }
            at += bytes;
        }
        true
    }

    /// Frees memory beyond `limit`.
    pub fn shrink_to(&mut self, limit: usize) {
        while self.bytes() > limit && self.evict_oldest(0) {
            let Self { table, chunks, first, .. } = self;
            table.shrink_to_fit(|position| hash_at(chunks, *first, *position));
        }
    }

    /// Removes all items with this hash.
    pub fn invalidate(&mut self, hash: u64) {
        let Self { table, chunks, first, .. } = self;
        while let Ok(entry) = table.find_entry(hash, |found| hash_at(chunks, *first, *found) == hash) {
            entry.remove();
        }
    }

    /// Removes the items of all keys for which `gone` returns true. O(items).
    pub fn invalidate_where(&mut self, gone: &mut dyn FnMut(&[u8]) -> bool) {
        let Self { table, chunks, first, .. } = self;
        table.retain(|position| {
            let (chunk, from) = place(*first, *position);
            let memory = &chunks[chunk].memory;
            let key = Header::read(memory, from).key;
            !gone(&memory[from + HEADER_BYTES..][..key])
        });
    }

    /// The position of a key's item.
    fn position(&self, key: &[u8], hash: u64) -> Option<u64> {
        let is_it = |position: &u64| {
            let (chunk, from) = self.place(*position);
            let memory = &self.chunks[chunk].memory;
            let header = Header::read(memory, from);
            header.hash == hash && &memory[from + HEADER_BYTES..][..header.key] == key
        };
        self.table.find(hash, is_it).copied()
    }

    fn place(&self, position: u64) -> (usize, usize) {
        place(self.first, position)
    }
}

/// The index in the queue of the chunk of a position, and the offset in it.
fn place(first: u64, position: u64) -> (usize, usize) {
    ((position / CHUNK_BYTES_MAX as u64 - first) as usize, position as usize % CHUNK_BYTES_MAX)
}

fn hash_at(chunks: &VecDeque<Chunk>, first: u64, position: u64) -> u64 {
    let (chunk, from) = place(first, position);
    Header::read(&chunks[chunk].memory, from).hash
}
