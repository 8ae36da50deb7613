//! Cases of the memory component.

use super::{BATCH, Case, Keys, VALUE, key};
use alluvium::MemoryComponent;
use alluvium::internals::{CursorPart, Entry, MemtablePart, entry};
use std::hint::black_box;

fn filled(memtable: &mut MemtablePart, entries: u64) {
    (0..entries).for_each(|number| memtable.insert(&key(number), &VALUE));
}

fn memtable(entries: u64) -> MemtablePart {
    let mut memtable = MemtablePart::new(MemoryComponent::TwoLevel, (entries as usize * 5 / 4) * 192);
    filled(&mut memtable, entries);
    memtable
}

/// New keys into a Memtable of a size; emptied and filled again when it has grown by a tenth.
pub struct MemtableInsert {
    memtable: MemtablePart,
    entries: u64,
    present: u64,
    keys: Keys,
}

impl MemtableInsert {
    pub fn new(entries: u64) -> Self {
        Self { memtable: memtable(entries), entries, present: entries, keys: Keys::default() }
    }
}

impl Case for MemtableInsert {
    fn ready(&mut self) {
        if self.present + BATCH > self.entries + self.entries / 10 {
            self.memtable.clear();
            filled(&mut self.memtable, self.entries);
            self.present = self.entries;
        }
        self.keys.take(self.present);
        self.present += BATCH;
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            self.memtable.insert(key, &VALUE);
        }
    }
}

/// Gets out of a Memtable, of keys that are there or of others.
pub struct MemtableGet {
    memtable: MemtablePart,
    entries: u64,
    hit: bool,
    keys: Keys,
    out: Vec<u8>,
}

impl MemtableGet {
    pub fn new(entries: u64, hit: bool) -> Self {
        Self { memtable: memtable(entries), entries, hit, keys: Keys::default(), out: Vec::with_capacity(VALUE.len()) }
    }
}

impl Case for MemtableGet {
    fn ready(&mut self) {
        self.keys.draw(if self.hit { 0 } else { self.entries }, self.entries);
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            self.out.clear();
            assert_eq!(self.memtable.get(key, &mut self.out), self.hit);
            black_box(&self.out);
        }
    }

    fn warm(&mut self) {
        self.run();
    }
}

/// Searches in the skiplist, past the hash index, for keys that are there.
pub struct SkiplistSearch {
    cursor: CursorPart,
    entries: u64,
    keys: Keys,
    batch: Vec<Entry>,
}

impl SkiplistSearch {
    pub fn new(entries: u64) -> Self {
        Self { cursor: memtable(entries).cursor(), entries, keys: Keys::default(), batch: Vec::new() }
    }
}

impl Case for SkiplistSearch {
    fn ready(&mut self) {
        self.keys.draw(0, self.entries);
        self.batch = self.keys.batch.iter().map(|key| entry(key, 0, b"")).collect();
    }

    fn run(&mut self) {
        for wanted in &self.batch {
            assert!(self.cursor.seek(&wanted.key).expect("a seek in memory"));
        }
    }

    fn warm(&mut self) {
        self.run();
    }
}
