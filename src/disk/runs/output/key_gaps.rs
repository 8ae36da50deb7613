//! The key-gap splitter: finds where close keys end and scattered keys begin, among keys that come in order. One
//! thread.
//!
//! A nearly sequential load brings stretches of close keys and a few keys far away. In one file with these few, a
//! stretch would overlap every other file of the load, and would be rewritten whenever the few are merged. In a file of
//! its own it overlaps nothing, and merges reuse it (`reuse.rs`).
//!
//! The distance of two neighbouring keys is measured by the number of leading bits that they have in common, whatever
//! their length and alphabet. A single pair says nothing: in any load some neighbours are far apart, as "1999" and
//! "2000" are. So a pair that has much less in common than the pairs before it is a *gap*. A number of entries after
//! the gap is held back. If these have as little in common among each other, the gap is a *boundary*, and a file ends
//! there.

use crate::merge::EntryRef;
use crate::util::key::common_bits;
use crate::util::{Kind, SequenceNumber};

/// Pairs after which the average is meaningful.
const PAIRS_MIN: u64 = 64;
/// Bits in common by which scattered keys differ from close ones: a thousand times as far apart.
const GAP_BITS: u64 = 10;
/// Pairs after a gap that decide whether it is a boundary. With fewer, it is one only if the gap is twice as wide and
/// the input ends after them.
const HELD_PAIRS: u64 = 16;
/// The most entries that are held back, and the most bytes of their keys and values: a key may have many versions.
const HELD_MAX: usize = 1024;
const HELD_BYTES_MAX: usize = 256 << 10;

/// The average number of bits that neighbouring keys have in common.
#[derive(Debug, Default)]
struct Average {
    pairs: u64,
    bits: u64,
}

impl Average {
    fn add(&mut self, bits: u64) {
        self.pairs += 1;
        self.bits += bits;
    }

    /// Whether these pairs have less in common than `others`, by the width of a gap.
    fn is_below(&self, others: &Self) -> bool {
        (self.bits + GAP_BITS * self.pairs) * others.pairs <= others.bits * self.pairs
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct KeyGapSplitter {
    /// Of the file so far.
    before: Average,
    /// Of the entries that are held back, without the gap itself.
    after: Average,
    /// The bits that the keys on either side of the gap have in common.
    gap_bits: u64,
    last_key: Vec<u8>,
    held: Held,
}

impl KeyGapSplitter {
    /// A file begins: keys before it do not count.
    pub fn restart(&mut self) {
        self.before = Average::default();
    }

    /// Notes the next key that goes into the file. Returns whether there is a gap before it.
    #[inline]
    pub fn note(&mut self, key: &[u8]) -> bool {
        // Versions of one key are not neighbours.
        if *key == *self.last_key {
            return false;
        }
        let bits = common_bits(&self.last_key, key);
        let is_gap = self.before.pairs >= PAIRS_MIN && Average { pairs: 1, bits }.is_below(&self.before);
        if !is_gap {
            self.before.add(bits);
        }
        self.gap_bits = bits;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        is_gap
    }

    /// Whether there is another gap before `key` that is more likely a boundary than the one before the held entries.
    pub fn is_likelier(&self, key: &[u8]) -> bool {
        if *key == *self.last_key {
            return false;
        }
        let bits = common_bits(&self.last_key, key);
        let is_refuted =
            !self.after.is_below(&self.before) || (self.after.pairs == 0 && bits + GAP_BITS <= self.gap_bits);
        is_refuted && Average { pairs: 1, bits }.is_below(&self.before)
    }

    /// Whether entries are held back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.held.entries.is_empty()
    }

    /// Holds back the first entry after a gap, which was noted, or one after it. Returns whether these are enough to
    /// decide.
    pub fn hold(&mut self, entry: EntryRef<'_>) -> bool {
        if *entry.key != *self.last_key {
            self.after.add(common_bits(&self.last_key, entry.key));
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.held.push(entry);
        self.after.pairs >= HELD_PAIRS || self.held.entries.len() >= HELD_MAX || self.held.bytes.len() >= HELD_BYTES_MAX
    }

    /// Whether the gap before the held entries is a boundary, judged by these entries. `is_end`: the input ends after
    /// them.
    pub fn is_boundary(&self, is_end: bool) -> bool {
        // With few pairs, the width of the gap decides.
        let is_wide = || Average { pairs: 1, bits: self.gap_bits + GAP_BITS }.is_below(&self.before);
        (self.after.pairs >= HELD_PAIRS || (is_end && is_wide())) && self.after.is_below(&self.before)
    }

    /// Releases the held entries.
    pub fn release(&mut self) -> Held {
        self.after = Average::default();
        std::mem::take(&mut self.held)
    }

    /// Takes back the memory of released entries for reuse.
    pub fn recycle(&mut self, mut held: Held) {
        held.bytes.clear();
        held.entries.clear();
        self.held = held;
    }
}

/// Entries in their order.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    /// The ends of key and value in `bytes`, and the rest of the entry.
    entries: Vec<(usize, usize, SequenceNumber, Kind)>,
}

impl Held {
    fn push(&mut self, entry: EntryRef<'_>) {
        self.bytes.extend_from_slice(entry.key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        self.entries.push((key_end, self.bytes.len(), entry.number, entry.kind));
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = EntryRef<'_>> {
        let mut from = 0;
        self.entries.iter().map(move |&(key_end, end, number, kind)| {
            let (key, value) = (&self.bytes[from..key_end], &self.bytes[key_end..end]);
            from = end;
            EntryRef { key, number, kind, value }
        })
    }
}
