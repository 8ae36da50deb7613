//! Lock striping, the textbook way to read, modify and write (cLSM, section 5.1): "protects each RMW and write
//! operation with an exclusive granular lock to the accessed key". Wraps the gets and puts of any engine; gets take no
//! lock.
//!
//! 1. A writer of a key holds its stripe, so no other write comes between an update's get and its put.
//! 2. Several stripes are taken in the order of their numbers.

use crate::counter;
use crate::engine::{Direction, Engine, Figures, Level, Result, get_and_put};
use crate::random::scramble;
use crossbeam_utils::CachePadded;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of locks: so many that a few threads rarely collide by chance.
pub const STRIPES: usize = 1024;

/// An engine whose writes take locks.
pub struct Striped<E> {
    engine: E,
    stripes: Box<[CachePadded<Mutex<()>>]>,
    increments: Increments,
}

/// How additions to counters are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Increments {
    /// Like all updates: under the stripe.
    Striped,
    /// By the engine alone, which adds atomically. A counter must then not be updated in other ways at the same time.
    Own,
}

impl<E: Engine> Striped<E> {
    /// Wraps an engine.
    pub fn new(engine: E, increments: Increments) -> Self {
        Self { engine, stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(), increments }
    }

    fn hold(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.hold(stripe(key))
    }
}

/// The stripe of a key.
#[inline]
fn stripe(key: &[u8]) -> usize {
    let (pieces, rest) = key.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = pieces.iter().fold(key.len() as u64, |hash, piece| scramble(hash ^ u64::from_le_bytes(*piece)));
    scramble(hash ^ u64::from_le_bytes(last)) as usize % STRIPES
}

impl<E: Engine> Engine for Striped<E> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let _held = self.lock(key);
        self.engine.put(key, value)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut stripes: Vec<usize> = pairs.iter().map(|(key, _)| stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let _held: Vec<MutexGuard<'_, ()>> = stripes.into_iter().map(|stripe| self.hold(stripe)).collect();
        self.engine.put_batch(pairs)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let _held = self.lock(key);
        self.engine.delete(key)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.engine.get(key, value)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        self.engine.scan(from, direction, limit, visit)
    }

    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        let _held = self.lock(key);
        get_and_put(&self.engine, key, change)
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let _held = self.lock(key);
        let absent = !self.engine.get(key, &mut Vec::new())?;
        if absent {
            self.engine.put(key, value)?;
        }
        Ok(absent)
    }

    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        if self.increments == Increments::Own {
            return self.engine.increment(key, by);
        }
        self.update(key, &mut |old, new| counter::add(old, new, by))
    }

    fn settle(&self) -> Result<()> {
        self.engine.settle()
    }

    fn rest(&self) -> Result<()> {
        self.engine.rest()
    }

    fn levels(&self) -> Vec<Level> {
        self.engine.levels()
    }

    fn figures(&self) -> Figures {
        self.engine.figures()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Map;
    use std::collections::HashSet;

    #[test]
    fn stripes_follow_from_the_whole_key_and_spread() {
        assert_eq!(stripe(b"a key of some length"), stripe(b"a key of some length"));
        let stripes = |key: fn(u64) -> Vec<u8>| (0..10_000).map(|n| stripe(&key(n))).collect::<HashSet<_>>().len();
        // 10,000 keys leave one stripe in 17,000 empty.
        assert!(stripes(|n| n.to_be_bytes().to_vec()) > STRIPES - 5);
        assert!(stripes(|n| [&[0; 16], &n.to_be_bytes()[5..]].concat()) > STRIPES - 5);
        assert!(stripes(|n| [&n.to_le_bytes(), &[0; 16][..]].concat()) > STRIPES - 5);
    }

    /// Get and put of the map are two steps; without the stripes increments would be lost.
    #[test]
    fn nothing_is_lost_between_a_get_and_its_put() {
        let engine = Striped::new(Map::default(), Increments::Striped);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let engine = &engine;
                scope.spawn(move || {
                    for round in 0..2000u32 {
                        engine.increment(b"counter", 1).unwrap();
                        let once = engine.put_if_absent(&round.to_be_bytes(), &[thread]).unwrap();
                        if once {
                            engine.increment(b"firsts", 1).unwrap();
                        }
                        engine.put_batch(&[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]).unwrap();
                    }
                });
            }
        });
        let mut value = Vec::new();
        assert!(engine.get(b"counter", &mut value).unwrap());
        assert_eq!(counter::of(Some(&value)), 8000);
        assert!(engine.get(b"firsts", &mut value).unwrap());
        assert_eq!(counter::of(Some(&value)), 2000);
    }
}
