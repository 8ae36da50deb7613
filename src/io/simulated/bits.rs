//! A growing set of small numbers (sectors, pages), one bit each. Plain data.

/// The set. A number that was never inserted is not in it, however large.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    pub(super) fn contains(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Whether `at` is new.
    pub(super) fn insert(&mut self, at: usize) -> bool {
        if self.contains(at) {
            return false;
        }
        if self.words.len() <= at / 64 {
            self.words.resize(at / 64 + 1, 0);
        }
        self.words[at / 64] |= 1 << (at % 64);
        self.count += 1;
        true
    }

    /// Whether `at` was in it.
    pub(super) fn remove(&mut self, at: usize) -> bool {
        let was = self.contains(at);
        if was {
            self.words[at / 64] &= !(1 << (at % 64));
            self.count -= 1;
        }
        was
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes `at` and everything after it.
    pub(super) fn truncate(&mut self, at: usize) {
        self.words.truncate(at.div_ceil(64));
        if let (Some(last), true) = (self.words.get_mut(at / 64), !at.is_multiple_of(64)) {
            *last &= (1 << (at % 64)) - 1;
        }
        self.count = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words
            .iter()
            .enumerate()
            .filter(|(_, word)| **word != 0)
            .flat_map(|(at, &word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn holds_what_was_inserted() {
        let mut bits = Bits::default();
        for at in [0, 63, 64, 1000, 5] {
            assert!(bits.insert(at));
            assert!(!bits.insert(at));
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 5, 63, 64, 1000]);
        assert_eq!(bits.count(), 5);
        assert!(bits.remove(1000) && !bits.remove(1000));
        bits.truncate(64);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 5, 63]);
        bits.truncate(5);
        assert_eq!(bits.count(), 1);
        assert!(!bits.contains(5) && bits.contains(0) && !bits.is_empty());
        assert!(bits.remove(0) && bits.is_empty());
    }
}
