//! The lengths of blocks. A version fits any block of its own class or a greater one; classes are close enough that at most a
//! sixteenth of a block is wasted, and values that vary in size over the overwrites of a key share few lists of spare blocks.

use crate::util::limits;

const WORD: usize = 8;
/// Up to this many words there is a class for each; above, sixteen to every doubling.
const EXACT_WORDS: usize = 32;
const STEPS: usize = EXACT_WORDS / 2;

/// How many classes of blocks there are for values that stay in memory.
pub const CLASSES: usize = Class::of_words_up(limits::VALUE_FILE_BYTES_MIN.div_ceil(WORD)).0 as usize + 1;

/// A class of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u32);

impl Class {
    /// The class of the smallest blocks that hold a value of this length.
    pub fn of(value_bytes: usize) -> Self {
        Self::of_words_up(value_bytes.div_ceil(WORD))
    }

    const fn of_words_up(words: usize) -> Self {
        if words <= EXACT_WORDS {
            return Self(words as u32);
        }
        // The step between classes doubles with the length: `words` in units of it lies in (STEPS, 2 * STEPS].
        let doublings = (words - 1).ilog2() as usize - STEPS.ilog2() as usize;
        let units = (words + (1 << doublings) - 1) >> doublings;
        Self((STEPS * doublings + units) as u32)
    }

    /// How long a value its blocks hold, bytes.
    pub fn value_bytes(self) -> usize {
        let class = self.0 as usize;
        if class <= EXACT_WORDS {
            return class * WORD;
        }
        let doublings = (class - STEPS - 1) / STEPS;
        let units = class - STEPS * doublings;
        (units << doublings) * WORD
    }

    /// Its place in a list of all classes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_fits_its_class_and_no_smaller_one() {
        let mut classes_met = std::collections::BTreeSet::new();
        for words in 0..=limits::VALUE_FILE_BYTES_MIN / WORD {
            let class = Class::of(words * WORD);
            assert!(class.index() < CLASSES);
            let room = class.value_bytes();
            assert!(room >= words * WORD && (room - words * WORD) * STEPS <= room, "{words} words in {room} bytes");
            assert_eq!(Class::of(room), class, "{words} words");
            assert!(class.0 == 0 || Class(class.0 - 1).value_bytes() < words * WORD, "{words} words in {class:?}");
            classes_met.insert(class);
        }
        assert!(classes_met.len() <= CLASSES);
        assert_eq!(Class::of(1), Class(1));
        assert_eq!(Class::of(100).value_bytes(), 104);
    }
}
