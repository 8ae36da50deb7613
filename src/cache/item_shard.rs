//! One shard of the item cache: a queue of memory chunks to which items are appended, and a hash table of their
//! positions. Not synchronized: its owner keeps it under a mutex.
//!
//! If there is no memory for another chunk, the oldest one is evicted. Its items that were looked up move to the newest
//! chunk; the others are dropped. So all memory is used, whatever the sizes of the items. A chunk has the size of a
//! page and comes from the same allocator as pages, so items can use the memory that the page cache gives up
//! (`io/frames.rs`: frames never return to the system).
//!
//! Invariants:
//! 1. A position is a chunk's number times `CHUNK_BYTES`, plus the item's offset in the chunk. `chunks` contains the
//!    chunks from number `first` on.
//! 2. The table contains exactly the positions of the live items, each under its hash. An item that is not in the table
//!    is dead, even if its bytes are still in a chunk.
//! 3. The table contains at most one item of each key.

use crate::io::AlignedBuffer;
use crate::util::SequenceNumber;
use crate::util::limits::IO_ALIGNMENT;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = IO_ALIGNMENT;
/// Bytes before an item's key: hash, number, lengths of key and value, number of hits.
const HEADER_BYTES: usize = 24;
/// A larger item is better cached as part of its page.
pub const ITEM_BYTES_MAX: usize = CHUNK_BYTES / 2;
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

/// See the module documentation.
#[derive(Debug, Default)]
pub struct ItemShard {
    table: HashTable<u64>,
    chunks: VecDeque<Chunk>,
    first: u64,
}

impl ItemShard {
    /// The number of live items.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory in use, including the table.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES + self.table.allocation_size()
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
    /// already or if the item is larger than `ITEM_BYTES_MAX`.
    pub fn add(&mut self, item: Item<'_>, limit: usize) {
        let bytes = item.bytes();
        let (Ok(key), Ok(value)) = (u16::try_from(item.key.len()), u16::try_from(item.value.len())) else { return };
        if bytes > ITEM_BYTES_MAX || self.position(item.key, item.hash).is_some() {
            return;
        }
        if self.chunks.back().is_none_or(|newest| newest.used + bytes > CHUNK_BYTES) || self.table_is_full(limit) {
            self.make_space(bytes, limit);
        }
        let Some((at, position)) = self.take_space(bytes, CHUNK_BYTES) else { return };
        let Some(newest) = self.chunks.back_mut() else { return };
        let (header, contents) = newest.memory[at..at + bytes].split_at_mut(HEADER_BYTES);
        header[..8].copy_from_slice(&item.hash.to_le_bytes());
        header[8..16].copy_from_slice(&item.number.0.to_le_bytes());
        header[16..18].copy_from_slice(&key.to_le_bytes());
        header[18..20].copy_from_slice(&value.to_le_bytes());
        header[CREDIT_AT] = 0;
        contents[..item.key.len()].copy_from_slice(item.key);
        contents[item.key.len()..][..item.value.len()].copy_from_slice(item.value);
        let Self { table, chunks, first } = self;
        table.insert_unique(item.hash, position, |position| hash_at(chunks, *first, *position));
    }

    /// Reserves `bytes` in the newest chunk, if its use does not exceed `until` afterwards. Returns the offset and the
    /// position.
    fn take_space(&mut self, bytes: usize, until: usize) -> Option<(usize, u64)> {
        let number = self.first + (self.chunks.len() as u64).checked_sub(1)?;
        let newest = self.chunks.back_mut()?;
        let at = newest.used;
        if at + bytes > until {
            return None;
        }
        newest.used += bytes;
        Some((at, number * CHUNK_BYTES as u64 + at as u64))
    }

    /// Whether the table would have to grow for the next item but may not.
    fn table_is_full(&self, limit: usize) -> bool {
        self.table.len() == self.table.capacity() && self.bytes() + self.table.allocation_size() > limit
    }

    /// Adds a newest chunk with at least `bytes` free. Does nothing if the limit is less than a chunk.
    fn make_space(&mut self, bytes: usize, limit: usize) {
        let is_full = self.bytes() + CHUNK_BYTES > limit || self.table_is_full(limit);
        if is_full && self.chunks.is_empty() {
            return;
        }
        self.chunks.push_back(Chunk { memory: AlignedBuffer::new(CHUNK_BYTES), used: 0 });
        if is_full {
            self.evict_oldest(CHUNK_BYTES - bytes);
        }
        // The table may have grown, too.
        while self.bytes() > limit && self.chunks.len() > 1 && self.evict_oldest(CHUNK_BYTES - bytes) {}
    }

    /// Frees the memory of the oldest chunk. Its items that were looked up move to the newest chunk while the use of
    /// that chunk does not exceed `until`; the others are dropped. Returns false if there is no chunk.
    fn evict_oldest(&mut self, until: usize) -> bool {
        let Some(oldest) = self.chunks.pop_front() else { return false };
        let first = self.first * CHUNK_BYTES as u64;
        self.first += 1;
        let mut at = 0;
        while at < oldest.used {
            let header = Header::read(&oldest.memory, at);
            let (bytes, position) = (header.bytes(), first + at as u64);
            let is_here = self.table.find(header.hash, |found| *found == position).is_some();
            let credit = oldest.memory[at + CREDIT_AT];
            let room = if is_here && credit > 0 { self.take_space(bytes, until) } else { None };
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
        while self.bytes() > limit && self.evict_oldest(CHUNK_BYTES) {
            let Self { table, chunks, first } = self;
            table.shrink_to_fit(|position| hash_at(chunks, *first, *position));
        }
    }

    /// Removes all items with this hash.
    pub fn invalidate(&mut self, hash: u64) {
        let Self { table, chunks, first } = self;
        while let Ok(entry) = table.find_entry(hash, |found| hash_at(chunks, *first, *found) == hash) {
            entry.remove();
        }
    }

    /// Removes the items of all keys for which `gone` returns true. O(items).
    pub fn invalidate_where(&mut self, gone: &mut dyn FnMut(&[u8]) -> bool) {
        let Self { table, chunks, first } = self;
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
    ((position / CHUNK_BYTES as u64 - first) as usize, position as usize % CHUNK_BYTES)
}

fn hash_at(chunks: &VecDeque<Chunk>, first: u64, position: u64) -> u64 {
    let (chunk, from) = place(first, position);
    Header::read(&chunks[chunk].memory, from).hash
}
