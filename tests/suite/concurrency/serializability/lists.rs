//! The keys of a run, in some ranges, and the meaning of their values.
//!
//! A range has keys with lists, to which transactions append after reading them. Between them are keys that are created
//! by one blind write each, so that scans of the range meet phantoms.

use super::history::{Item, Key};
use std::ops::Range;

/// The number of keys with lists in a range.
pub const LISTS: usize = 4;
/// The number of keys in a range that are created by one write.
pub const ONCE: usize = 16;
const IN_RANGE: usize = LISTS + ONCE;

/// The keys of one run.
#[derive(Clone, Debug)]
pub struct Lists {
    run: u64,
    pub ranges: usize,
}

impl Lists {
    pub fn new(run: u64, ranges: usize) -> Self {
        Self { run, ranges }
    }

    pub fn all(&self) -> Range<Key> {
        0..self.ranges * IN_RANGE
    }

    pub fn of_range(&self, range: usize) -> Range<Key> {
        range * IN_RANGE..(range + 1) * IN_RANGE
    }

    /// A key with a list.
    pub fn list(&self, number: u64) -> Key {
        let number = number as usize % (self.ranges * LISTS);
        number / LISTS * IN_RANGE + number % LISTS * (IN_RANGE / LISTS)
    }

    /// The key that the write with this number creates in a range; `None` if the range has fewer keys.
    pub fn once(&self, range: usize, number: usize) -> Option<Key> {
        let per_list = IN_RANGE / LISTS - 1;
        (number < ONCE).then(|| range * IN_RANGE + number % LISTS * (per_list + 1) + 1 + number / LISTS)
    }

    pub fn prefix(&self, range: usize) -> Vec<u8> {
        format!("{:06}/{range}/", self.run).into_bytes()
    }

    pub fn name(&self, key: Key) -> Vec<u8> {
        [self.prefix(key / IN_RANGE), format!("{:02}", key % IN_RANGE).into_bytes()].concat()
    }

    /// The key with a name.
    pub fn key(&self, name: &[u8]) -> Option<Key> {
        self.all().find(|key| self.name(*key) == name)
    }
}

/// The bytes of a list, with padding.
pub fn encode(list: &[Item], more: usize) -> Vec<u8> {
    let mut bytes = (list.len() as u32).to_le_bytes().to_vec();
    list.iter().for_each(|item| bytes.extend(item.to_le_bytes()));
    bytes.resize(bytes.len() + more, more as u8);
    bytes
}

/// The list in a value of the store, or what is wrong with it.
pub fn decode(found: Option<&[u8]>) -> Result<Vec<Item>, String> {
    let Some(bytes) = found else { return Ok(Vec::new()) };
    let (words, rest) = bytes.as_chunks::<4>();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let count = words.next().unwrap_or(u32::MAX) as usize;
    if count > bytes.len() / 4 {
        return Err(format!("a value of {} bytes that was never written: {rest:?}", bytes.len()));
    }
    let padding = &bytes[4 + 4 * count..];
    if padding.iter().any(|byte| *byte != padding.len() as u8) {
        return Err(format!("a value of {} bytes that mixes several lists", bytes.len()));
    }
    Ok(words.take(count).collect())
}

#[test]
fn keys_and_lists_are_distinguished() {
    let lists = Lists::new(7, 3);
    let mut kinds = vec![0; lists.all().end];
    (0..(3 * LISTS) as u64).for_each(|number| kinds[lists.list(number)] += 1);
    (0..3).for_each(|range| (0..ONCE).for_each(|number| kinds[lists.once(range, number).unwrap()] += 1));
    assert!(kinds.iter().all(|count| *count == 1), "{kinds:?}");
    assert!(lists.all().is_sorted_by_key(|key| lists.name(key)));
    assert!(lists.all().all(|key| lists.key(&lists.name(key)) == Some(key)));
    for (list, more) in [(&[][..], 0), (&[7], 3), (&[1, 2, 3], 500)] {
        let bytes = encode(list, more);
        assert_eq!(decode(Some(&bytes)), Ok(list.to_vec()));
        assert!(more == 0 || decode(Some(&bytes[..bytes.len() - 1])).is_err());
    }
    assert!(decode(Some(b"")).is_err());
}
