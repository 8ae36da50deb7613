//! The workload: operations, keys and values as pure functions of the seed, the writer and the count.

use alluvium_bench::random::{Random, scramble};
use serde::{Deserialize, Serialize};

/// One value in this many is large enough for a value file.
const LARGE_ONE_IN: u64 = 4096;
const LARGE_BYTES_MIN: u64 = 256 << 10;
const LARGE_BYTES_MORE: u64 = 256 << 10;
/// One value in this many is longer than the others, up to this many times the mean.
const LONG_ONE_IN: u64 = 64;
const LONG_TIMES: u64 = 16;
/// Keys that get a quarter of all writes.
const HOT_KEYS: u64 = 16;
const BATCH_MOST: u64 = 12;

/// The settings that determine the operations of a soak; fixed for its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The seed.
    pub seed: u64,
    /// The number of writers.
    pub threads: u64,
    /// Keys of all writers.
    pub keys: u64,
    /// Mean size of a value, in bytes.
    pub value_size: u64,
    /// The largest memory budget of a round.
    pub memory: u64,
}

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the key among the writer's.
    pub key: u64,
    /// Whether it is set or removed.
    pub put: bool,
}

impl Work {
    /// Keys of each writer.
    pub fn keys_each(&self) -> u64 {
        self.keys / self.threads
    }

    /// Calls `visit` for each change of operation `count` of a writer, in order; a later change of a key replaces an
    /// earlier one.
    pub fn changes(&self, writer: u64, count: u64, mut visit: impl FnMut(Change)) {
        let mut random = Random::new(self.seed ^ scramble(count), writer);
        let changes = if random.below(8) == 0 { 2 + random.below(BATCH_MOST - 1) } else { 1 };
        let keys = self.keys_each();
        for _ in 0..changes {
            let key = match random.below(4) {
                0 => random.below(HOT_KEYS) * (keys / HOT_KEYS),
                1 => count % keys,
                _ => random.below(keys),
            };
            visit(Change { key, put: random.below(6) > 0 });
        }
    }

    /// The bytes of a key. They sort as the numbers do.
    pub fn key(&self, writer: u64, key: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(format!("writer{writer:02}-{key:09}").as_bytes());
        // Keys have several lengths.
        let more = scramble(key) % 32;
        out.resize(out.len() + if more == 0 { 120 } else { more as usize % 8 }, b'.');
    }

    /// The prefix of all keys of a writer.
    pub fn prefix(writer: u64) -> String {
        format!("writer{writer:02}-")
    }

    /// The number of a key; `None` if it is not one of the writer's.
    pub fn key_number(&self, writer: u64, bytes: &[u8]) -> Option<u64> {
        let digits = bytes.strip_prefix(Self::prefix(writer).as_bytes())?.get(..9)?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let mut expected = Vec::new();
        self.key(writer, number, &mut expected);
        (number < self.keys_each() && expected == bytes).then_some(number)
    }

    /// The length of the value that operation `count` gave a key.
    pub fn value_length(&self, writer: u64, count: u64, key: u64) -> u64 {
        let mut random = self.of_value(writer, count, key);
        let length = if random.below(LARGE_ONE_IN) == 0 {
            LARGE_BYTES_MIN + random.below(LARGE_BYTES_MORE)
        } else if random.below(LONG_ONE_IN) == 0 {
            random.below(self.value_size * LONG_TIMES)
        } else {
            random.below(self.value_size * 2)
        };
        length.max(8)
    }

    /// The value: the count, followed by bytes that no other value has.
    pub fn value(&self, writer: u64, count: u64, key: u64, out: &mut Vec<u8>) {
        let length = self.value_length(writer, count, key) as usize;
        out.clear();
        out.extend_from_slice(&count.to_le_bytes());
        let mut random = Random::new(count ^ scramble(key), writer ^ self.seed);
        // Runs of one byte, so that there is something to compress.
        while out.len() < length {
            let bits = random.bits();
            out.extend_from_slice(&bits.to_le_bytes());
            out.resize(out.len() + (bits >> 60) as usize, bits as u8);
        }
        out.truncate(length);
    }

    /// The count in a value.
    pub fn count_of(value: &[u8]) -> Option<u64> {
        value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The random numbers that determine what a writer reads between its writes.
    pub fn reads(&self, writer: u64, count: u64) -> Random {
        Random::new(!self.seed ^ scramble(count), writer)
    }

    /// The random numbers that determine the options and the end of a round.
    pub fn round(&self, round: u64) -> Random {
        Random::new(self.seed, !round)
    }

    fn of_value(&self, writer: u64, count: u64, key: u64) -> Random {
        Random::new(self.seed ^ scramble(count).wrapping_add(key), writer)
    }
}

#[cfg(test)]
pub const SMALL: Work = Work { seed: 3, threads: 2, keys: 2000, value_size: 50, memory: 1 << 20 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers_and_come_back() {
        let mut last = Vec::new();
        let mut key = Vec::new();
        for number in 0..SMALL.keys_each() {
            SMALL.key(1, number, &mut key);
            assert!(key > last && key.starts_with(Work::prefix(1).as_bytes()), "{number}");
            assert_eq!((SMALL.key_number(1, &key), SMALL.key_number(0, &key)), (Some(number), None));
            last.clone_from(&key);
        }
        for foreign in ["", "writer01-", "writer01-00000000x", "writer01-000000007?", "writer01-999999999"] {
            assert_eq!(SMALL.key_number(1, foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn operations_repeat_and_have_all_kinds() {
        let (mut singles, mut batches, mut deletes) = (0, 0, 0);
        for count in 1..2000 {
            let (mut once, mut again) = (Vec::new(), Vec::new());
            SMALL.changes(0, count, |change| once.push(change));
            SMALL.changes(0, count, |change| again.push(change));
            assert_eq!(once, again);
            assert!(once.iter().all(|change| change.key < SMALL.keys_each()));
            if once.len() == 1 {
                singles += 1
            } else {
                batches += 1
            }
            deletes += once.iter().filter(|change| !change.put).count();
        }
        assert!(singles > 1000 && batches > 100 && deletes > 200, "{singles} {batches} {deletes}");
    }

    #[test]
    fn values_carry_their_count_and_have_their_length() {
        let (mut value, mut large) = (Vec::new(), 0);
        for count in 1..20_000 {
            SMALL.value(1, count, 5, &mut value);
            assert_eq!(Work::count_of(&value), Some(count));
            assert_eq!(value.len() as u64, SMALL.value_length(1, count, 5));
            large += u64::from(value.len() as u64 >= LARGE_BYTES_MIN);
        }
        assert!(large > 0);
        assert_eq!(Work::count_of(&[1, 2]), None);
    }
}
