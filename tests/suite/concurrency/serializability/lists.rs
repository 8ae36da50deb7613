//! The keys of a run, in some ranges, and the meaning of their values.
//!
//! A range has keys with lists, to which transactions append after reading them, or by merges. Between them are keys that
//! are created by one blind write each, so that scans of the range meet phantoms.
//!
//! A value is its list's items one after the other, so that the operator `Append` appends to the list.

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

    /// The keys that a name stands for: the key with this name, or else all keys of the range in which it is.
    pub fn keys_at(&self, name: &[u8]) -> Range<Key> {
        let range = (0..self.ranges).find(|range| name.starts_with(&self.prefix(*range)));
        match self.all().find(|key| self.name(*key) == name) {
            Some(key) => key..key + 1,
            None => range.map_or(0..0, |range| self.of_range(range)),
        }
    }
}

/// The bytes of a list, with padding behind its last item: for each item the item, the length of its padding, and the
/// padding, each byte of which is the item's lowest.
pub fn encode(list: &[Item], padding: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, item) in list.iter().enumerate() {
        let padding = if at + 1 == list.len() { padding } else { 0 };
        bytes.extend(item.to_le_bytes());
        bytes.extend(padding.to_le_bytes());
        bytes.resize(bytes.len() + usize::from(padding), *item as u8);
    }
    bytes
}

/// The list in a value of the store, or what is wrong with it.
pub fn decode(found: Option<&[u8]>) -> Result<Vec<Item>, String> {
    let (mut rest, mut list) = (found.unwrap_or(&[]), Vec::new());
    if found.is_some_and(<[u8]>::is_empty) {
        return Err("an empty value, which was never written".into());
    }
    while !rest.is_empty() {
        let ends_early = || format!("a value that ends in the middle of an item, after {list:?}");
        let (item, more) = rest.split_first_chunk().ok_or_else(ends_early)?;
        let (length, more) = more.split_first_chunk().ok_or_else(ends_early)?;
        let (padding, more) = more.split_at_checked(u16::from_le_bytes(*length).into()).ok_or_else(ends_early)?;
        let item = Item::from_le_bytes(*item);
        if padding.iter().any(|byte| *byte != item as u8) {
            return Err(format!("a value that mixes several lists, after {list:?}"));
        }
        list.push(item);
        rest = more;
    }
    Ok(list)
}

#[test]
fn keys_and_lists_are_distinguished() {
    let lists = Lists::new(7, 3);
    let mut kinds = vec![0; lists.all().end];
    (0..(3 * LISTS) as u64).for_each(|number| kinds[lists.list(number)] += 1);
    (0..3).for_each(|range| (0..ONCE).for_each(|number| kinds[lists.once(range, number).unwrap()] += 1));
    assert!(kinds.iter().all(|count| *count == 1), "{kinds:?}");
    assert!(lists.all().is_sorted_by_key(|key| lists.name(key)));
    assert!(lists.all().all(|key| lists.keys_at(&lists.name(key)) == (key..key + 1)));
    assert!((0..3).all(|range| lists.keys_at(&lists.prefix(range)) == lists.of_range(range)));
    assert!(lists.keys_at(b"filler1").is_empty());
    for (list, padding) in [(&[7][..], 0), (&[7], 3), (&[1, 2, 3], 500)] {
        let bytes = encode(list, padding);
        assert_eq!(decode(Some(&bytes)), Ok(list.to_vec()));
        assert_eq!(decode(Some(&[bytes.clone(), encode(&[9], padding)].concat())), Ok([list, &[9]].concat()));
        assert!(decode(Some(&bytes[..bytes.len() - 1])).is_err());
        let mixed = [&bytes[..bytes.len() - 1], &[100]].concat();
        assert!(padding == 0 || decode(Some(&mixed)).is_err());
    }
    assert_eq!(decode(None), Ok(Vec::new()));
    assert!(decode(Some(b"")).is_err());
}
