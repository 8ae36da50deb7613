//! The hash index in front of the skiplist: one cache line tells that a key is absent, or where its node is.
//!
//! Any thread may look up and enter; no two threads enter the same key at once (the key's latch).
//!
//! Lines of eight slots. A slot holds, from the low end: 32 bits place of a node, 8 bits *era*, 24 bits fingerprint. A
//! slot of another era than the index's own is empty, so a recycled index needs no zeroing but once in 255 lives.
//!
//! Invariants:
//! 1. A slot changes only from empty to full. A line fills from its first slot on, and a key goes to the first empty
//!    slot of its *window*: the `WINDOW_LINES` lines from the one that its hash names.
//! 2. So a search may end at the first empty slot: the key is absent. A key that found its window full is left out;
//!    the window stays full for ever, so a search that meets no empty slot in it must ask the skiplist (`Unknown`),
//!    and every key that is left out is met by that rule. No flag is needed for an overfull index.
//! 3. A slot is filled with a `Release` compare-and-swap after the node was linked, and loaded with `Acquire`: who
//!    finds a node in it sees all of it. A thread that comes after an insert (in the happens-before order) sees that
//!    slot, or the full window, by coherence of the slots themselves.

use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicU64, Ordering};

const SLOTS_PER_LINE: usize = 8;
const LINE_BYTES: usize = SLOTS_PER_LINE * size_of::<AtomicU64>();
/// Lines that a key may lie in.
const WINDOW_LINES: u64 = 8;
/// An era is a byte; 0 is what fresh memory holds.
const ERAS: usize = 255;
const ERA_MASK: u64 = 0xff << 32;
/// Two slots for every entry of the smallest usual size, so that the load stays at one half.
const SLOT_PER_SOFT_BYTES: usize = 32;

type Line = [AtomicU64; SLOTS_PER_LINE];

/// What a lookup learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The key's node.
    Found(Offset),
    /// There is no such key.
    Absent,
    /// The index cannot tell; the skiplist can.
    Unknown,
}

/// What came of entering a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It was not there.
    New,
    /// It has this node already.
    Found(Offset),
    /// There is no room for it; the skiplist has it, or must get it.
    Full,
}

/// The index; its slots lie in the arena that every call is given, always the same one.
#[derive(Debug)]
pub struct HashIndex {
    first: Offset,
    lines: u64,
    era: u64,
}

/// Bytes of the index for a Memtable of this soft size.
pub fn index_bytes(soft_bytes: usize) -> usize {
    let slots = soft_bytes / SLOT_PER_SOFT_BYTES;
    slots.div_ceil(SLOTS_PER_LINE).max(WINDOW_LINES as usize) * LINE_BYTES
}

impl HashIndex {
    /// An empty index. It must be the first allocation in the arena and of the same size in every life, since its
    /// eras rely on finding its own slots there.
    pub fn new(arena: &Arena, soft_bytes: usize) -> Self {
        let bytes = index_bytes(soft_bytes);
        let first = arena.allocate(bytes);
        assert!((arena.address(first) as usize).is_multiple_of(LINE_BYTES), "the index comes first in its arena");
        let era = arena.life() % ERAS;
        if era == 0 && arena.life() > 0 {
            // SAFETY: just allocated, this long, known to nobody else.
            unsafe { arena.address(first).write_bytes(0, bytes) };
        }
        Self { first, lines: (bytes / LINE_BYTES) as u64, era: (era as u64 + 1) << 32 }
    }

    /// The key with this hash for which `is_key` says yes; it is asked about few other nodes.
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

    /// Makes sure that the page of a key's first line is there and writable, so that `insert` does not fault.
    pub fn touch(&self, arena: &Arena, hash: u64) {
        if let Some(line) = self.window(arena, hash).next() {
            // A compare-and-swap writes even where it changes nothing; a plain read would map the shared zero page.
            let last = &line[SLOTS_PER_LINE - 1];
            let content = last.load(Ordering::Relaxed);
            let _ = last.compare_exchange(content, content, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Asks the processor to fetch a key's first line.
    pub fn prefetch(&self, arena: &Arena, hash: u64) {
        arena.prefetch(self.first.plus(self.line_of(hash) as usize * LINE_BYTES));
    }

    /// Adds a key's node, unless the key is there, by `is_key` as in `find`, or its window is full.
    pub fn enter(&self, arena: &Arena, hash: u64, node: Offset, mut is_key: impl FnMut(Offset) -> bool) -> Entered {
        let tag = self.tag(hash);
        for slot in self.window(arena, hash).flatten() {
            let mut content = slot.load(Ordering::Acquire);
            // The loop ends: a slot that another thread took meanwhile is full.
            while content & ERA_MASK != self.era {
                match slot.compare_exchange(content, tag | u64::from(node.0), Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return Entered::New,
                    Err(now) => content = now,
                }
            }
            let place = Offset(content as u32);
            if content & !u64::from(u32::MAX) == tag && is_key(place) {
                return Entered::Found(place);
            }
        }
        Entered::Full
    }

    /// Adds a key that is not there, or leaves it out where its window is full.
    pub fn insert(&self, arena: &Arena, hash: u64, node: Offset) {
        self.enter(arena, hash, node, |_| false);
    }

    /// About so many nodes, as fair a sample as hashes are, of about `entries` that are there.
    pub fn sample<'a>(&self, arena: &'a Arena, entries: u64, wanted: u64) -> impl Iterator<Item = Offset> {
        let era = self.era;
        let lines = self.lines_from(arena, 0, self.lines).step_by((entries / wanted.max(1)).max(1) as usize);
        let contents = lines.flatten().map(|slot: &'a AtomicU64| slot.load(Ordering::Acquire));
        contents.filter(move |content| content & ERA_MASK == era).map(|content| Offset(content as u32))
    }

    fn tag(&self, hash: u64) -> u64 {
        hash << 40 | self.era
    }

    /// The high bits of the hash choose the line, the low ones are the fingerprint.
    fn line_of(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.lines)) >> 64) as u64
    }

    fn window<'a>(&self, arena: &'a Arena, hash: u64) -> impl Iterator<Item = &'a Line> {
        self.lines_from(arena, self.line_of(hash), WINDOW_LINES)
    }

    /// So many lines, at most all, from one on; behind the last comes the first.
    fn lines_from<'a>(&self, arena: &'a Arena, home: u64, count: u64) -> impl Iterator<Item = &'a Line> {
        let lines = self.lines;
        let first = arena.address(self.first).cast_const().cast::<Line>();
        (0..count).map(move |step| {
            let line = home + step;
            let line = if line >= lines { line - lines } else { line };
            // SAFETY: `new` allocated `lines` lines from `first` on, aligned to a line; fresh memory is zero and
            // recycled memory holds slots of earlier lives (`new`), so every slot is an initialised atomic.
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
    fn threads_that_race_for_a_slot_get_one_each() {
        // Two threads step from line to line together, so that they meet at each line's slots.
        const LINES: u64 = 4096;
        let arena = ArenaPool::new(1 << 20, 0, 0).take();
        let index = HashIndex::new(&arena, LINES as usize * SLOTS_PER_LINE * SLOT_PER_SOFT_BYTES);
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
    fn a_full_window_says_that_it_cannot_tell() {
        let arena = ArenaPool::new(1 << 20, 0, 0).take();
        let index = HashIndex::new(&arena, 64 << 10);
        let slots = WINDOW_LINES * SLOTS_PER_LINE as u64;
        // The last line is the home of all, so the window wraps around.
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
