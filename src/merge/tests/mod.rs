//! Tests of merge, visibility and retention against models, from printed seeds.

mod expiry;
mod folding;
mod merge;
mod range_tombstones;
mod retention;
mod row_reader;
mod visible;

use super::vec_cursor::VecEntry;
use crate::util::random::splitmix64;
use crate::util::{Kind, SequenceNumber};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn number(&mut self, bound: u64) -> SequenceNumber {
        match self.below(10) {
            0 => SequenceNumber::ZERO,
            1 => SequenceNumber::MAX,
            _ => SequenceNumber(self.below(bound) + 1),
        }
    }

    /// A key of a tiny space whose members are prefixes of each other, have equal heads, contain zero bytes and end in
    /// 0xff.
    pub fn key(&mut self, space: u64) -> Vec<u8> {
        const KEYS: [&[u8]; 16] = [
            b"\0\0\0\0",
            b"\0\0\0\0\0",
            b"\0\0\0\0a",
            b"\0\0\0\0a\0",
            b"\0\0\0\0abcd",
            b"\0\0\0\0abcdefgh",
            b"\0\0\0\0abcdefghijkl",
            b"\0\0\0\0abcdefghijklm",
            b"\0\0\0\0abcdefghijklmn",
            b"\0\0\0\0b",
            b"\0\0\0\x01",
            b"\0\0\0\x01a",
            &[0xff; 15],
            &[0xff; 16],
            &[0xff; 17],
            &[0xff; 18],
        ];
        KEYS[self.below(space.min(16)) as usize].to_vec()
    }

    pub fn kind(&mut self) -> Kind {
        match self.below(10) {
            0..6 => Kind::Put,
            6..9 => Kind::Delete,
            _ => Kind::ValueReference,
        }
    }

    /// `count` versions of keys of the space, their numbers drawn without repetition from `1..=count`.
    pub fn versions(&mut self, count: u64, space: u64) -> Vec<VecEntry> {
        (1..=count)
            .map(|number| {
                let kind = self.kind();
                let value = if kind == Kind::Delete { Vec::new() } else { format!("value {number}").into_bytes() };
                VecEntry::new(self.key(space), number, kind, value)
            })
            .collect()
    }
}

pub fn sorted(mut entries: Vec<VecEntry>) -> Vec<VecEntry> {
    entries.sort_by(|one, other| one.as_ref().order(&other.key, other.number));
    entries
}
