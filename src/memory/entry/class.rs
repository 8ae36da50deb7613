//! Size classes of blocks. Pure functions, any thread.
//!
//! A value fits a block of its own class or of a greater one. Classes are close enough that at most a sixteenth of a
//! block is wasted. They are few enough that a key whose values vary in size uses few lists of spare blocks.

use crate::util::limits;

const WORD: usize = 8;
/// Each length up to this many words has its own class; above, each doubling has sixteen classes.
const EXACT_WORDS: usize = 32;
const STEPS: usize = EXACT_WORDS / 2;

/// The number of classes of blocks, for values that stay in memory.
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

    /// The greatest length of a value in a block of this class.
    pub fn value_bytes(self) -> usize {
        let class = self.0 as usize;
        if class <= EXACT_WORDS {
            return class * WORD;
        }
        let doublings = (class - STEPS - 1) / STEPS;
        let units = class - STEPS * doublings;
        (units << doublings) * WORD
    }

    /// Its index in an array of all classes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_smallest_class_that_fits() {
        let mut classes = std::collections::BTreeSet::new();
        for words in 0..=limits::VALUE_FILE_BYTES_MIN / WORD {
            let class = Class::of(words * WORD);
            assert!(class.index() < CLASSES);
            let block = class.value_bytes();
            assert!(block >= words * WORD && (block - words * WORD) * STEPS <= block, "{words} words in {block} bytes");
            assert_eq!(Class::of(block), class, "{words} words");
            assert!(class.0 == 0 || Class(class.0 - 1).value_bytes() < words * WORD, "{words} words in {class:?}");
            classes.insert(class);
        }
        assert!(classes.len() <= CLASSES);
        assert_eq!(Class::of(1), Class(1));
        assert_eq!(Class::of(100).value_bytes(), 104);
    }
}
