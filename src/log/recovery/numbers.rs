//! Which numbers the log contains, and how much memory they take: a bitmap by number. One thread.
//!
//! Invariants:
//! 1. Memory is proportional to the records found, a byte or two for each where numbers are dense. A damaged number far
//!    away costs one page.
//! 2. A number that comes twice is remembered, not counted twice.
//! 3. The order in which the results of the readers are added changes nothing.

use std::collections::BTreeMap;

/// Numbers in one word.
const WORD_NUMBERS: u64 = 64;
/// Words in a page.
const PAGE_WORDS: u64 = 64;
/// Records of at least this size are accounted for one by one.
const LARGE_BYTES: u64 = 4 << 10;

/// The records found among the 64 numbers of a word. Collected without a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word {
    present: u64,
    bytes: u64,
}

/// Records as one reader finds them, mostly in ascending order.
#[derive(Debug, Default)]
pub struct Found {
    words: Vec<(u64, Word)>,
    large: Vec<(u64, u64)>,
    runs: Vec<(u64, u64)>,
}

impl Found {
    /// Adds a record with this number that takes this many bytes of memory.
    pub fn record(&mut self, number: u64, bytes: u64) {
        let (at, bit) = (number / WORD_NUMBERS, 1 << (number % WORD_NUMBERS));
        let small = if bytes >= LARGE_BYTES {
            self.large.push((number, bytes));
            0
        } else {
            bytes
        };
        match self.words.last_mut() {
            // A second record with a number gets a word of its own, which `add` detects.
            Some((word, found)) if *word == at && found.present & bit == 0 => {
                found.present |= bit;
                found.bytes += small;
            }
            _ => self.words.push((at, Word { present: bit, bytes: small })),
        }
    }

    /// Adds a record that covers the numbers from `first` to `last` and takes no memory.
    pub fn run(&mut self, first: u64, last: u64) {
        self.runs.push((first, last));
    }
}

/// All numbers that were found. See the module.
#[derive(Debug, Default)]
pub struct Numbers {
    pages: BTreeMap<u64, Box<[Word; PAGE_WORDS as usize]>>,
    large: Vec<(u64, u64)>,
    runs: Vec<(u64, u64)>,
    duplicate: Option<u64>,
}

impl Numbers {
    /// Adds the result of a reader.
    pub fn add(&mut self, found: Found) {
        let mut words = found.words.into_iter().peekable();
        while let Some(&(first, _)) = words.peek() {
            let at = first / PAGE_WORDS;
            let page = self.pages.entry(at).or_insert_with(|| Box::new([Word::default(); PAGE_WORDS as usize]));
            while let Some((word, found)) = words.next_if(|(word, _)| word / PAGE_WORDS == at) {
                let known = &mut page[(word % PAGE_WORDS) as usize];
                let twice = known.present & found.present;
                if twice != 0 {
                    let number = word * WORD_NUMBERS + u64::from(twice.trailing_zeros());
                    self.duplicate = Some(self.duplicate.map_or(number, |known| known.min(number)));
                }
                known.present |= found.present;
                known.bytes += found.bytes;
            }
        }
        self.large.extend(found.large);
        self.runs.extend(found.runs);
    }

    /// Removes a number: its record exists, but a file that it refers to does not.
    pub fn remove(&mut self, number: u64) {
        let word = number / WORD_NUMBERS;
        if let Some(page) = self.pages.get_mut(&(word / PAGE_WORDS)) {
            page[(word % PAGE_WORDS) as usize].present &= !(1 << (number % WORD_NUMBERS));
        }
    }

    /// The ranges of numbers that exist, ascending and not adjacent; or a number that exists twice.
    pub fn present(&self) -> Result<Vec<(u64, u64)>, u64> {
        let mut ranges = self.records();
        if !self.runs.is_empty() {
            ranges.extend(&self.runs);
            ranges.sort_unstable();
        }
        let mut duplicate = self.duplicate;
        ranges.dedup_by(|next, kept| {
            if next.0 <= kept.1 {
                duplicate = Some(duplicate.map_or(next.0, |known| known.min(next.0)));
            }
            let touching = next.0 <= kept.1.saturating_add(1);
            if touching {
                kept.1 = kept.1.max(next.1);
            }
            touching
        });
        duplicate.map_or(Ok(ranges), Err)
    }

    /// How many numbers above `number` exist.
    pub fn count_above(&self, number: u64) -> u64 {
        let ranges = self.records().into_iter().chain(self.runs.iter().copied());
        ranges.map(|(first, last)| (last + 1).saturating_sub(first.max(number + 1))).sum()
    }

    /// The ranges of numbers that have records of their own.
    fn records(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (at, word) in self.words() {
            let mut left = word.present;
            while left != 0 {
                let skip = left.trailing_zeros();
                let length = (left >> skip).trailing_ones();
                let first = at * WORD_NUMBERS + u64::from(skip);
                let last = first + u64::from(length) - 1;
                match ranges.last_mut() {
                    Some((_, end)) if *end + 1 == first => *end = last,
                    _ => ranges.push((first, last)),
                }
                left = if skip + length == u64::BITS { 0 } else { left >> (skip + length) << (skip + length) };
            }
        }
        ranges
    }

    fn words(&self) -> impl Iterator<Item = (u64, Word)> {
        self.pages.iter().flat_map(|(page, words)| (page * PAGE_WORDS..).zip(words.iter().copied()))
    }

    /// The memory of the numbers up to `last`: (the last number counted, bytes), in ascending order, in small pieces.
    /// No number is above `last`, since those belong to the next log epoch.
    pub fn sizes(&self, last: u64) -> Vec<(u64, u64)> {
        let words = self.words().filter(|(_, word)| word.bytes > 0);
        let small = words.map(|(at, word)| (at * WORD_NUMBERS + WORD_NUMBERS - 1, word.bytes));
        let mut sizes: Vec<_> = small.chain(self.large.iter().copied()).collect();
        sizes.retain_mut(|(number, _)| {
            let counts = *number - *number % WORD_NUMBERS <= last;
            *number = last.min(*number);
            counts
        });
        sizes.sort_unstable();
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::random::splitmix64;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_those_of_a_plain_set() {
        let mut seed = 1;
        for dense in [1, 2, 10, 1000] {
            let (mut numbers, mut model) = (Numbers::default(), BTreeSet::new());
            let mut at = 0;
            for reader in 0..5 {
                let mut found = Found::default();
                for _ in 0..500 {
                    at += 1 + splitmix64(&mut seed) % dense;
                    model.insert(at);
                    found.record(at, 10);
                }
                if reader == 2 {
                    found.run(at + 1, at + 300);
                    model.extend(at + 1..=at + 300);
                    at += 300;
                }
                numbers.add(found);
            }
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for &number in &model {
                match expected.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => expected.push((number, number)),
                }
            }
            assert_eq!(numbers.present().unwrap(), expected);
            assert_eq!(numbers.sizes(u64::MAX).iter().map(|(_, bytes)| bytes).sum::<u64>(), 5 * 500 * 10);
            let (first, last) = expected[0];
            numbers.remove(first);
            let left = numbers.present().unwrap();
            assert_eq!(left[0], if first == last { expected[1] } else { (first + 1, last) });
        }
    }

    #[test]
    fn duplicate_numbers_are_reported() {
        let record = |number| {
            let mut found = Found::default();
            found.record(number, 1);
            found
        };
        let mut numbers = Numbers::default();
        for number in [70, 5, 70, 9, 5] {
            numbers.add(record(number));
        }
        assert_eq!(numbers.present(), Err(5));
        // The same by one reader.
        let (mut numbers, mut twice) = (Numbers::default(), Found::default());
        [7, 8, 7, 9].into_iter().for_each(|number| twice.record(number, 1));
        numbers.add(twice);
        assert_eq!(numbers.present(), Err(7));
        let (mut numbers, mut run) = (Numbers::default(), Found::default());
        run.run(3, 8);
        numbers.add(run);
        assert_eq!(numbers.present(), Ok(vec![(3, 8)]));
        numbers.add(record(8));
        assert_eq!(numbers.present(), Err(8));
    }

    #[test]
    fn large_records_are_counted_one_by_one() {
        let mut found = Found::default();
        for (number, bytes) in [(1, 10), (2, LARGE_BYTES), (3, 20), (64, 1 << 20)] {
            found.record(number, bytes);
        }
        let mut numbers = Numbers::default();
        numbers.add(found);
        assert_eq!(numbers.sizes(u64::MAX), [(2, LARGE_BYTES), (63, 30), (64, 1 << 20)]);
        assert_eq!(numbers.sizes(50), [(2, LARGE_BYTES), (50, 30)]);
    }
}
