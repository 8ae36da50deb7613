//! Where keys that lie close together end and scattered ones begin, among keys that come in order. One thread.
//!
//! A nearly sequential load brings stretches of close keys and a few keys far away. In one file with these, a stretch
//! would overlap every other file of the load, and be rewritten whenever the few are merged; in a file of its own it
//! overlaps nothing (`kept.rs`).
//!
//! How close two neighbouring keys are is measured by the bits that they have in common at the front, whatever their length and
//! their alphabet. One pair says nothing: in any load some neighbours lie far apart, as "1999" and "2000" do. So a pair that has much less
//! in common than those before it is a step, behind which a number of entries is held back; if these have as little in common
//! among each other, the step is an edge.

use crate::merge::EntryRef;
use crate::util::key::common_bits;
use crate::util::{Kind, SequenceNumber};

/// Pairs after which what they have in common on average means something.
const PAIRS_MIN: u64 = 64;
/// Bits in common by which scattered keys differ from close ones: a thousand times as far apart.
const STEP_BITS: u64 = 10;
/// Pairs behind a step that tell what it is; with fewer it is an edge only if it is twice as high and nothing comes behind them.
const HELD_PAIRS: u64 = 16;
/// Entries that are held back, at most, and bytes of their keys and values: a key may have many versions.
const HELD_MAX: usize = 1024;
const HELD_BYTES_MAX: usize = 256 << 10;

/// What neighbouring keys have in common.
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

    /// Whether these have less in common than `others`, by a step.
    fn is_below(&self, others: &Self) -> bool {
        (self.bits + STEP_BITS * self.pairs) * others.pairs <= others.bits * self.pairs
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Density {
    /// Of the part so far.
    average: Average,
    /// Of what is held back, the step left out.
    behind: Average,
    /// What the keys on either side of the step have in common.
    step_bits: u64,
    last_key: Vec<u8>,
    held: Held,
}

impl Density {
    /// A part begins: what was before it does not count.
    pub fn restart(&mut self) {
        self.average = Average::default();
    }

    /// Takes note of the next key that goes into the part; whether there is a step in front of it.
    #[inline]
    pub fn note(&mut self, key: &[u8]) -> bool {
        // Versions of one key are no neighbours.
        if *key == *self.last_key {
            return false;
        }
        let bits = common_bits(&self.last_key, key);
        let is_step = self.average.pairs >= PAIRS_MIN && Average { pairs: 1, bits }.is_below(&self.average);
        if !is_step {
            self.average.add(bits);
        }
        self.step_bits = bits;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        is_step
    }

    /// Whether there is another step in front of `key`, which is likelier an edge than the one in front of what is held back.
    pub fn is_likelier(&self, key: &[u8]) -> bool {
        if *key == *self.last_key {
            return false;
        }
        let bits = common_bits(&self.last_key, key);
        let is_refuted =
            !self.behind.is_below(&self.average) || (self.behind.pairs == 0 && bits + STEP_BITS <= self.step_bits);
        is_refuted && Average { pairs: 1, bits }.is_below(&self.average)
    }

    /// Whether entries are held back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        !self.held.entries.is_empty()
    }

    /// Holds back the first entry behind a step, which was noted, or one behind it; whether it is enough to tell.
    pub fn hold(&mut self, entry: EntryRef<'_>) -> bool {
        if *entry.key != *self.last_key {
            self.behind.add(common_bits(&self.last_key, entry.key));
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.held.push(entry);
        self.behind.pairs >= HELD_PAIRS
            || self.held.entries.len() >= HELD_MAX
            || self.held.bytes.len() >= HELD_BYTES_MAX
    }

    /// Whether the step in front of what is held back is an edge, as far as it can be told; `is_end`: nothing comes behind.
    pub fn is_edge(&self, is_end: bool) -> bool {
        // With few pairs to tell, the step has to.
        let is_wide = || Average { pairs: 1, bits: self.step_bits + STEP_BITS }.is_below(&self.average);
        (self.behind.pairs >= HELD_PAIRS || (is_end && is_wide())) && self.behind.is_below(&self.average)
    }

    /// What was held back.
    pub fn release(&mut self) -> Held {
        self.behind = Average::default();
        std::mem::take(&mut self.held)
    }

    /// Gives back the memory of what was held.
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
    /// Where key and value end, and the rest.
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
