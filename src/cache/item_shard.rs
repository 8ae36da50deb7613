//! Items of one shard of the item cache: a queue of chunks of memory into which items are appended, and a hash table of where
//! they stand. Not shared: its owner keeps it under a mutex.
//!
//! Where there is no memory for another chunk the oldest one goes: of its items those that were asked for move to the newest, and the
//! others are given up. So memory is in use to the last bytes whatever the sizes of the items. A chunk is one page in size, and comes
//! from where pages come from, so what the page cache gives up is what the items get (`io/frames.rs`: frames never go back to
//! the system).
//!
//! Invariants:
//! 1. A position is a chunk's number times `CHUNK_BYTES`, and where in the chunk the item begins. `chunks` holds the chunks from number
//!    `first` on.
//! 2. The table has just the positions of the items that live, each under its hash. What it does not have is dead, wherever its
//!    bytes still lie.
//! 3. The table has at most one item of a key.

use crate::io::AlignedBuffer;
use crate::util::SequenceNumber;
use crate::util::limits::IO_ALIGNMENT;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = IO_ALIGNMENT;
/// What stands before an item's key: hash, number, lengths of key and value, how often it was asked for.
const HEADER_BYTES: usize = 24;
/// A larger item is as well off in its page.
pub const ITEM_BYTES_MAX: usize = CHUNK_BYTES / 2;
/// Items begin at multiples of this.
const ALIGNMENT: usize = 8;
/// How many rounds an item that was asked for often survives.
const CREDIT_MAX: u8 = 3;

/// What an item is about.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The encoded key.
    pub key: &'a [u8],
    /// Its hash (`base::hash`).
    pub hash: u64,
    /// The version's number.
    pub number: SequenceNumber,
    /// Its value.
    pub value: &'a [u8],
}

impl Item<'_> {
    /// Bytes that it takes in a chunk.
    pub fn bytes(&self) -> usize {
        (HEADER_BYTES + self.key.len() + self.value.len()).next_multiple_of(ALIGNMENT)
    }
}

/// The header of an item, taken apart.
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

/// Where the count of askings stands in a header.
const CREDIT_AT: usize = 20;

#[derive(Debug)]
struct Chunk {
    memory: AlignedBuffer,
    used: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ItemShard {
    table: HashTable<u64>,
    chunks: VecDeque<Chunk>,
    first: u64,
}

impl ItemShard {
    /// Items that live.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory that it has, those of the table included.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES + self.table.allocation_size()
    }

    /// Appends the value of this key's item to `out` and says its number, if there is one and it is no newer than `at`.
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

    /// Adds an item, and gives up others for it where the shard may not have more than `limit` bytes. An item whose key is here
    /// already, or that is larger than `ITEM_BYTES_MAX`, is not added.
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

    /// So many bytes of the newest chunk, if that is not used past `until` then: where in it, and the position.
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

    /// Whether the table has to grow for the next item, and may not.
    fn table_is_full(&self, limit: usize) -> bool {
        self.table.len() == self.table.capacity() && self.bytes() + self.table.allocation_size() > limit
    }

    /// Makes a newest chunk that has so many bytes free; none where the limit is less than a chunk.
    fn make_space(&mut self, bytes: usize, limit: usize) {
        let is_full = self.bytes() + CHUNK_BYTES > limit || self.table_is_full(limit);
        if is_full && self.chunks.is_empty() {
            return;
        }
        self.chunks.push_back(Chunk { memory: AlignedBuffer::new(CHUNK_BYTES), used: 0 });
        if is_full {
            self.evict_oldest(CHUNK_BYTES - bytes);
        }
        // The table has grown, too.
        while self.bytes() > limit && self.chunks.len() > 1 && self.evict_oldest(CHUNK_BYTES - bytes) {}
    }

    /// Gives back the memory of the oldest chunk; false where there is none. Its items move to the newest as far as they were asked for
    /// and that is not used past `until` then; the others are given up.
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

    /// Gives back what it has over a limit.
    pub fn shrink_to(&mut self, limit: usize) {
        while self.bytes() > limit && self.evict_oldest(CHUNK_BYTES) {
            let Self { table, chunks, first } = self;
            table.shrink_to_fit(|position| hash_at(chunks, *first, *position));
        }
    }

    /// Forgets whatever has this hash.
    pub fn invalidate(&mut self, hash: u64) {
        let Self { table, chunks, first } = self;
        while let Ok(entry) = table.find_entry(hash, |found| hash_at(chunks, *first, *found) == hash) {
            entry.remove();
        }
    }

    /// Forgets the items of these keys. O(items).
    pub fn invalidate_where(&mut self, gone: &mut dyn FnMut(&[u8]) -> bool) {
        let Self { table, chunks, first } = self;
        table.retain(|position| {
            let (chunk, from) = place(*first, *position);
            let memory = &chunks[chunk].memory;
            let key = Header::read(memory, from).key;
            !gone(&memory[from + HEADER_BYTES..][..key])
        });
    }

    /// Where the item of a key stands.
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

/// Which chunk of the queue a position is in, and where there.
fn place(first: u64, position: u64) -> (usize, usize) {
    ((position / CHUNK_BYTES as u64 - first) as usize, position as usize % CHUNK_BYTES)
}

fn hash_at(chunks: &VecDeque<Chunk>, first: u64, position: u64) -> u64 {
    let (chunk, from) = place(first, position);
    Header::read(&chunks[chunk].memory, from).hash
}
