//! A map with clock replacement (SplinterDB §5 "Cache") for the table of open files. Second chance with a counter in
//! place of the bit: each entry has a credit, hits raise it, the hand lowers it, and an entry without credit is evicted.
//! Not synchronized: `FileTable` keeps it under a mutex. (The page cache has a clock of its own over lock-free tables.)
//!
//! Invariants:
//! 1. `map` and `ring` contain the same keys; `map[key].ring_at` is the key's index in `ring`.
//! 2. An entry survives `credit` more visits of the hand, unless invariant 3 evicts it earlier. A hit adds one, up to
//!    the entry's `credit_max`.
//! 3. One eviction visits at most `VISITS_MAX` entries, so the owner holds its mutex for microseconds, whatever the
//!    size of the map. If all visited entries have credit, the one with the lowest credit is evicted.
//!
//! Values are stored in the hash table itself, so a hit does not touch the ring.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Most entries that the hand visits for one eviction.
const VISITS_MAX: usize = 128;

#[derive(Debug)]
struct Entry<V> {
    value: V,
    ring_at: u32,
    credit: u8,
    credit_max: u8,
}

/// The map, of at most `u32::MAX` entries. `S` hashes its keys.
#[derive(Debug)]
pub struct Clock<K, V, S> {
    map: HashMap<K, Entry<V>, S>,
    ring: Vec<K>,
    hand: usize,
}

impl<K, V, S: Default> Default for Clock<K, V, S> {
    fn default() -> Self {
        Self { map: HashMap::default(), ring: Vec::new(), hand: 0 }
    }
}

impl<K: Copy + Eq + Hash, V, S: BuildHasher + Default> Clock<K, V, S> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// The value of `key`. The entry gains credit, up to its maximum.
    pub fn hit(&mut self, key: &K) -> Option<&V> {
        let entry = self.map.get_mut(key)?;
        if entry.credit < entry.credit_max {
            entry.credit += 1;
        }
        Some(&entry.value)
    }

    /// Adds an entry. Requires that `key` is not in the map.
    pub fn insert(&mut self, key: K, value: V, credit: u8, credit_max: u8) {
        let ring_at = self.ring.len() as u32;
        self.ring.push(key);
        let before = self.map.insert(key, Entry { value, ring_at, credit, credit_max });
        debug_assert!(before.is_none(), "a key was inserted twice");
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.map.remove(key)?;
        let at = entry.ring_at as usize;
        self.ring.swap_remove(at);
        if let Some(moved) = self.ring.get(at)
            && let Some(moved) = self.map.get_mut(moved)
        {
            moved.ring_at = entry.ring_at;
        }
        Some(entry.value)
    }

    /// Removes the entry that the clock chooses; `None` if the map is empty.
    pub fn evict(&mut self) -> Option<(K, V)> {
        let mut lowest: Option<(u8, K)> = None;
        for _ in 0..VISITS_MAX {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let key = *self.ring.get(self.hand)?;
            let Some(entry) = self.map.get_mut(&key) else { break };
            if entry.credit == 0 {
                // `remove` moved the ring's last key to this index. Skip it: it was inserted last or has had its visit,
                // and its next one is due in the next round.
                let value = self.remove(&key)?;
                self.hand += 1;
                return Some((key, value));
            }
            entry.credit -= 1;
            if lowest.is_none_or(|(credit, _)| entry.credit < credit) {
                lowest = Some((entry.credit, key));
            }
            self.hand += 1;
        }
        let (_, key) = lowest?;
        let value = self.remove(&key)?;
        Some((key, value))
    }
}
