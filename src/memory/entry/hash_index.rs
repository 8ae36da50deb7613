//! The hash index in front of the skiplist. One cache line shows that a key is absent, or where its node is.
//!
//! Any thread may find and insert. No two threads insert the same key at once, because the caller holds the key's latch
//! (`docs/concurrency.md`, M1).
//!
//! The index consists of lines of eight slots. A slot has, from the low bits up: 32 bits, the arena offset of a node;
//! 8 bits, the *era*; 24 bits of the key's hash. The era changes with each use of the arena. Slots of earlier uses
//! therefore count as empty, and the index is zeroed only once in 255 uses.
//!
//! Invariants:
//! 1. A slot changes only from empty to taken. A line fills from its first slot on. A key goes to the first empty slot
//!    of its *window*: the `WINDOW_LINES` lines from the line that its hash selects.
//! 2. So a search may stop at the first empty slot: the key is absent. A key whose window is full is not inserted. The
//!    window then stays full, so a search that meets no empty slot in it must search the skiplist (`Unknown`), which
//!    has every key that is not in the index. So no flag must record that the index overflowed.
//! 3. A slot is filled with a `Release` compare-and-swap after the node was written, and loaded with `Acquire`: a
//!    thread that finds a node in it sees the whole node. A thread that is ordered after an insert sees the inserted
//!    slot, or the full window, because all accesses to one atomic have one order.

use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicU64, Ordering};

const SLOTS_PER_LINE: usize = 8;
const LINE_BYTES: usize = SLOTS_PER_LINE * size_of::<AtomicU64>();
/// The number of lines in a window.
const WINDOW_LINES: u64 = 8;
/// An era is a byte; 0 is the content of fresh memory.
const ERAS: usize = 255;
const ERA_MASK: u64 = 0xff << 32;
/// Two slots for every entry of the smallest usual size (64 bytes), so that at most half of the slots are taken.
const SOFT_BYTES_PER_SLOT: usize = 32;

type Line = [AtomicU64; SLOTS_PER_LINE];

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The key's node.
    Found(Offset),
    /// The key is absent.
    Absent,
    /// The window is full and does not have the key; the skiplist may have it.
    Unknown,
}

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The key was absent, and this node is now in the index.
    New,
    /// The key already has this node.
    Found(Offset),
    /// The window is full and does not have the key; the skiplist has it or must get it.
    Full,
}

/// The index. Its slots are in the arena that every call is given, always the same one.
#[derive(Debug)]
pub struct HashIndex {
    first: Offset,
    lines: u64,
    era: u64,
}

/// The size of the index for a Memtable of this soft size.
pub fn index_bytes(soft_bytes: usize) -> usize {
    let slots = soft_bytes / SOFT_BYTES_PER_SLOT;
    slots.div_ceil(SLOTS_PER_LINE).max(WINDOW_LINES as usize) * LINE_BYTES
}

impl HashIndex {
    /// An empty index. It must be the first allocation in the arena, and of the same size in every use of the arena,
    /// because slots of earlier uses are recognised only by their era.
    pub fn new(arena: &Arena, soft_bytes: usize) -> Self {
        let bytes = index_bytes(soft_bytes);
        let first = arena.allocate(bytes);
        assert!((arena.address(first) as usize).is_multiple_of(LINE_BYTES), "the index comes first in its arena");
        let era = arena.earlier_uses() % ERAS;
        if era == 0 && arena.earlier_uses() > 0 {
            // SAFETY: just allocated with this length, and no other thread knows it.
            unsafe { arena.address(first).write_bytes(0, bytes) };
        }
        Self { first, lines: (bytes / LINE_BYTES) as u64, era: (era as u64 + 1) << 32 }
    }

    /// Finds the node of the key with this hash. Calls `is_key` for it and, rarely, for others with the
    /// same hash bits.
    pub fn find(&self, arena: &Arena, hash: u64, mut is_key: impl FnMut(Offset) -> bool) -> Lookup {
        let tag = self.tag(hash);
        for line in self.window(arena, hash) {
            for slot in line {
                let content = slot.load(Ordering::Acquire);
                if content & ERA_MASK != self.era {
                    return Lookup::Absent;
                }
                let place = Offset(content as u32);
                if content & !u64::from(u32::MAX) == tag && is_key(place) {
                    return Lookup::Found(place);
                }
            }
        }
        Lookup::Unknown
    }

    /// Makes the memory page of a key's first line present and writable, so that `insert` rarely causes a page fault.
    pub fn touch(&self, arena: &Arena, hash: u64) {
        if let Some(line) = self.window(arena, hash).next() {
            // A compare-and-swap writes even if the value does not change; a plain read would map the shared zero page.
            let last = &line[SLOTS_PER_LINE - 1];
            let content = last.load(Ordering::Relaxed);
            let _ = last.compare_exchange(content, content, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Prefetches a key's first line.
    pub fn prefetch(&self, arena: &Arena, hash: u64) {
        arena.prefetch(self.first.plus(self.line_of(hash) as usize * LINE_BYTES));
    }

    /// Inserts a key's node, unless the key has one (decided by `is_key`, as in `find`) or its window is full.
    pub fn find_or_insert(
        &self,
        arena: &Arena,
        hash: u64,
        node: Offset,
        mut is_key: impl FnMut(Offset) -> bool,
    ) -> Inserted {
        let tag = self.tag(hash);
        for slot in self.window(arena, hash).flatten() {
            let mut content = slot.load(Ordering::Acquire);
            // At most two rounds: a slot that another thread has taken stays taken.
            while content & ERA_MASK != self.era {
                match slot.compare_exchange(content, tag | u64::from(node.0), Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return Inserted::New,
                    Err(now) => content = now,
                }
            }
            let place = Offset(content as u32);
            if content & !u64::from(u32::MAX) == tag && is_key(place) {
                return Inserted::Found(place);
            }
        }
        Inserted::Full
    }

    /// Inserts the node of an absent key; does nothing if the key's window is full.
    pub fn insert(&self, arena: &Arena, hash: u64, node: Offset) {
        self.find_or_insert(arena, hash, node, |_| false);
    }

    /// A sample of about `wanted` of the `entries` nodes, as uniform as the hashes are. Keys that are not in the index
    /// are never sampled.
    pub fn sample<'a>(&self, arena: &'a Arena, entries: u64, wanted: u64) -> impl Iterator<Item = Offset> {
        let era = self.era;
        let lines = self.lines_from(arena, 0, self.lines).step_by((entries / wanted.max(1)).max(1) as usize);
        let contents = lines.flatten().map(|slot: &'a AtomicU64| slot.load(Ordering::Acquire));
        contents.filter(move |content| content & ERA_MASK == era).map(|content| Offset(content as u32))
    }

    /// The number of its slots. Nodes that find none are not in it.
    pub fn slots(&self) -> u64 {
        self.lines * size_of::<Line>() as u64 / size_of::<AtomicU64>() as u64
    }

    fn tag(&self, hash: u64) -> u64 {
        hash << 40 | self.era
    }

    /// The line that a hash selects by its high bits; its low bits are in the slot.
    fn line_of(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.lines)) >> 64) as u64
    }

    fn window<'a>(&self, arena: &'a Arena, hash: u64) -> impl Iterator<Item = &'a Line> {
        self.lines_from(arena, self.line_of(hash), WINDOW_LINES)
    }

    /// `count` lines, at most all, from line `from` on; the first line follows the last one.
    fn lines_from<'a>(&self, arena: &'a Arena, from: u64, count: u64) -> impl Iterator<Item = &'a Line> {
        let lines = self.lines;
        let first = arena.address(self.first).cast_const().cast::<Line>();
        (0..count).map(move |step| {
            let line = from + step;
            let line = if line >= lines { line - lines } else { line };
            // SAFETY: `new` allocated `lines` lines from `first` on, aligned to a line. Fresh memory is zero, and
            // recycled memory contains slots of earlier uses (`new`), so every slot is an initialised atomic.
            unsafe { &*first.add(line as usize) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::arena::ArenaPool;
    use crate::util::sync::Backoff;

    #[test]
    fn threads_that_race_for_a_slot_get_different_slots() {
        // Both threads go from line to line together, so that they race for each line's slots.
        const LINES: u64 = 4096;
        let arena = ArenaPool::new(0).take(1 << 20, 0).unwrap();
        let index = HashIndex::new(&arena, LINES as usize * SLOTS_PER_LINE * SOFT_BYTES_PER_SLOT);
        assert_eq!(index.lines, LINES);
        let hash_of = |line: u64, key: u64| line << 52 | key;
        let arrived = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (arena, index, arrived) = (&arena, &index, &arrived);
                scope.spawn(move || {
                    for line in 0..LINES {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        let mut backoff = Backoff::new();
                        while arrived.load(Ordering::SeqCst) < 2 * (line + 1) {
                            backoff.wait();
                        }
                        for key in [2 * thread + 1, 2 * thread + 2] {
                            index.insert(arena, hash_of(line, key), Offset(key as u32));
                        }
                    }
                });
            }
        });
        for line in 0..LINES {
            for key in 1..=4 {
                let found = index.find(&arena, hash_of(line, key), |place| place == Offset(key as u32));
                assert_eq!(found, Lookup::Found(Offset(key as u32)), "line {line}");
            }
            assert_eq!(index.find(&arena, hash_of(line, 5), |_| true), Lookup::Absent);
        }
    }

    #[test]
    fn a_full_window_returns_unknown() {
        let arena = ArenaPool::new(0).take(1 << 20, 0).unwrap();
        let index = HashIndex::new(&arena, 64 << 10);
        let slots = WINDOW_LINES * SLOTS_PER_LINE as u64;
        // All keys have the last line as their first one, so the window wraps around.
        let hash_of = |key: u64| u64::MAX << 40 | key;
        for key in 1..=slots {
            assert_eq!(index.find(&arena, hash_of(key), |_| true), Lookup::Absent, "key {key}");
            index.insert(&arena, hash_of(key), Offset(key as u32));
        }
        index.insert(&arena, hash_of(slots + 1), Offset(slots as u32 + 1));
        for key in 1..=slots {
            assert_eq!(index.find(&arena, hash_of(key), |_| true), Lookup::Found(Offset(key as u32)));
        }
        assert_eq!(index.find(&arena, hash_of(slots + 1), |_| true), Lookup::Unknown);
        assert_eq!(index.find(&arena, 1 << 62, |_| true), Lookup::Absent);
    }
}
