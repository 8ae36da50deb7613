//! Several stores side by side, each with a range of the keys: how a store that does not scale is scaled (cLSM, figure
//! 1). No snapshot and no batch spans them.

use crate::engine::{Direction, Engine, EngineOptions, Factory, Figures, Partitions, Result};
use crate::keys::Keys;
use std::path::Path;

/// The stores, in key order.
pub struct Partitioned {
    partitions: Partitions,
    stores: Vec<Box<dyn Engine>>,
}

impl Partitioned {
    /// Opens each in its own directory in this one.
    pub fn open(
        factory: &dyn Factory,
        directory: &Path,
        options: &EngineOptions,
        partitions: Partitions,
    ) -> Result<Self> {
        let store = |number: u64| {
            let directory = directory.join(number.to_string());
            std::fs::create_dir_all(&directory)?;
            factory.open(&directory, options)
        };
        let stores: Vec<_> = (0..partitions.count).map(store).collect::<Result<_>>()?;
        if stores.is_empty() || partitions.keys == 0 {
            return Err("at least one partition is needed, and each needs keys".into());
        }
        Ok(Self { partitions, stores })
    }

    #[inline]
    fn place(&self, key: &[u8]) -> usize {
        let Partitions { count, keys } = self.partitions;
        let number = Keys::sequential_number(key).min(keys - 1);
        (u128::from(number) * u128::from(count) / u128::from(keys)) as usize
    }

    #[inline]
    fn of(&self, key: &[u8]) -> &dyn Engine {
        &*self.stores[self.place(key)]
    }
}

/// The sum of the stores' figures; none if one store has none.
fn sum(figures: &[Figures], part: impl Fn(&Figures) -> Option<u64>) -> Option<u64> {
    figures.iter().map(part).sum()
}

impl Engine for Partitioned {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.of(key).put(key, value)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        for (place, store) in self.stores.iter().enumerate() {
            let its: Vec<_> = pairs.iter().copied().filter(|(key, _)| self.place(key) == place).collect();
            if !its.is_empty() {
                store.put_batch(&its)?;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.of(key).delete(key)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.of(key).get(key, value)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let first = from.map(|key| self.place(key));
        let stores: Vec<&dyn Engine> = match direction {
            Direction::Forward => self.stores[first.unwrap_or(0)..].iter().map(|store| &**store).collect(),
            Direction::Backward => {
                let last = first.unwrap_or(self.stores.len() - 1);
                self.stores[..=last].iter().rev().map(|store| &**store).collect()
            }
        };
        let (mut visited, mut from) = (0, from);
        for store in stores {
            if visited == limit {
                break;
            }
            visited += store.scan(from.take(), direction, limit - visited, visit)?;
        }
        Ok(visited)
    }

    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        self.of(key).update(key, change)
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.of(key).put_if_absent(key, value)
    }

    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        self.of(key).increment(key, by)
    }

    fn settle(&self) -> Result<()> {
        self.stores.iter().try_for_each(|store| store.settle())
    }

    fn rest(&self) -> Result<()> {
        self.stores.iter().try_for_each(|store| store.rest())
    }

    fn figures(&self) -> Figures {
        let all: Vec<Figures> = self.stores.iter().map(|store| store.figures()).collect();
        Figures {
            data_bytes_written: sum(&all, |figures| figures.data_bytes_written),
            log_bytes_written: sum(&all, |figures| figures.log_bytes_written),
            stalled_ns: sum(&all, |figures| figures.stalled_ns),
            buffers_written: sum(&all, |figures| figures.buffers_written),
            skipped: None,
            buffered: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Alluvium;
    use crate::keys::Order;

    fn key(number: u64) -> [u8; 8] {
        let mut key = [0; 8];
        Keys::new(Order::Sequential, 8).write(number, &mut key);
        key
    }

    #[test]
    fn keys_go_to_their_ranges_and_scans_cross_them() {
        let directory = tempfile::tempdir().unwrap();
        let partitions = Partitions { count: 4, keys: 100 };
        let options =
            EngineOptions { memory: Some(64 << 20), partitions: Some(partitions), ..EngineOptions::default() };
        let engine = Partitioned::open(&Alluvium, directory.path(), &options, partitions).unwrap();
        (0..60).for_each(|number| engine.put(&key(number), b"alone").unwrap());
        let rest: Vec<[u8; 8]> = (60..120).map(key).collect();
        engine.put_batch(&rest.iter().map(|key| (&key[..], &b"batch"[..])).collect::<Vec<_>>()).unwrap();
        let held = |at: usize| engine.stores[at].scan(None, Direction::Forward, u64::MAX, &mut |_, _| {}).unwrap();
        // Numbers beyond the known ones belong to the last store.
        assert_eq!([held(0), held(1), held(2), held(3)], [25, 25, 25, 45]);
        let scanned = |from: Option<u64>, direction, limit| {
            let (mut keys, from) = (Vec::new(), from.map(key));
            let from = from.as_ref().map(|key| &key[..]);
            let count = engine.scan(from, direction, limit, &mut |key, _| keys.push(key.to_vec())).unwrap();
            assert_eq!(count, keys.len() as u64);
            keys.iter().map(|key| Keys::sequential_number(key)).collect::<Vec<u64>>()
        };
        assert_eq!(scanned(Some(23), Direction::Forward, 4), [23, 24, 25, 26]);
        assert_eq!(scanned(Some(50), Direction::Backward, 2), [50, 49]);
        assert_eq!(scanned(None, Direction::Forward, 1000), (0..120).collect::<Vec<_>>());
        assert_eq!(scanned(None, Direction::Backward, 1000), (0..120).rev().collect::<Vec<_>>());
        engine.put(&key(30), &[0; 8]).unwrap();
        engine.increment(&key(30), 1).unwrap();
        engine.delete(&key(31)).unwrap();
        assert!(engine.put_if_absent(&key(31), b"again").unwrap() && !engine.put_if_absent(&key(99), b"no").unwrap());
        engine.settle().unwrap();
        assert!(engine.figures().data_bytes_written > Some(0) && held(1) == 25);
    }
}
