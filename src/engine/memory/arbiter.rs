//! The memory arbiter of a store. It lends memory that is reserved for Memtables to the page cache while no Memtable
//! needs it: under a small budget the cache of a store that is only read grows by half. The memory may be shared with
//! other stores (`engine/resources/shared_memory.rs`).
//!
//! A new Memtable takes memory at once; the incorporation after its switch then shrinks the cache by as much. For the
//! milliseconds in between both use it, but the first writes touch only a part of a Memtable's memory, mainly its index.
//!
//! A store gets its arbiter when it is opened. Any thread.

use crate::cache::PageCache;
use crate::engine::resources::resources::Resources;
use crate::engine::resources::shared_memory::SharedMemory;
use crate::engine::state::budget::{Budget, StoreConfig};
use crate::engine::types::options::Options;
use crate::io::Clock;
use crate::memory::MemtablePool;
use crate::util::Result;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory that no Memtable has needed for this long is lent to the cache. Memory that writers need more often is not
/// lent: faulting in a Memtable's pages takes some milliseconds, and reading back the pages that the cache evicted
/// takes longer.
const UNUSED_FOR: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct MemoryArbiter {
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) memtables: Arc<MemtablePool>,
    pub(crate) cache: Arc<PageCache>,
    /// Whose memory it is; `None` if it is the store's own.
    resources: Option<Resources>,
    options: Options,
    clock: Arc<dyn Clock>,
    /// When to check next for unused memory. Locked while the cache is resized (`docs/concurrency.md`, C7).
    due: Mutex<Duration>,
}

impl MemoryArbiter {
    /// In the memory of `Options::resources`, or in memory of its own.
    pub(crate) fn new(options: &Options, config: &StoreConfig, clock: Arc<dyn Clock>) -> Arc<Self> {
        let budget = &config.budget;
        let sizes = budget.memory_sizes();
        let resources = options.resources.clone();
        let memory = match &resources {
            Some(resources) => resources.shared_memory(sizes),
            None => SharedMemory::new(sizes),
        };
        Arc::new(Self {
            memtables: MemtablePool::in_memory(&memory.arenas, options.memory_component, budget.memtable),
            cache: Arc::new(PageCache::in_memory(&memory.cache)),
            memory,
            resources,
            options: options.clone(),
            clock,
            due: Mutex::default(),
        })
    }

    /// If a check is due: lends the cache the memory that no Memtable has needed since the last check. Returns whether
    /// it was due.
    pub(crate) fn rebalance_when_due(&self) -> bool {
        let mut due = self.due.lock();
        let now = self.clock.now();
        let is_due = now >= *due;
        if is_due {
            *due = now + UNUSED_FOR;
            self.follow_limit(now);
            self.memory.arenas.release_unused();
            self.memory.cache.share_items();
            self.memory.resize_cache();
        }
        is_due
    }

    /// Shrinks the cache by the memory that Memtables have taken since.
    pub(crate) fn rebalance(&self) {
        let _one_at_a_time = self.due.lock();
        self.memory.resize_cache();
    }

    /// Resizes shared memory when the limit of the machine or the container has changed.
    fn follow_limit(&self, now: Duration) {
        let changed = self.resources.as_ref().and_then(|resources| resources.changed_memory(now));
        if changed.is_some() {
            let plain = Options { write_buffer: None, ..self.options.clone() };
            let budget: Result<Budget> = Budget::new(&plain);
            if let Ok(budget) = budget {
                self.memory.resize(budget.memory_sizes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::db::DeterministicDb;
    use crate::io::simulated::SimulatedStorage;
    use crate::util::sync::Arc;

    const BUDGET: usize = 4 << 20;

    fn write(db: &DeterministicDb, bytes: usize, random: &mut u64) {
        for _ in 0..bytes / 1024 {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            db.put(random.to_be_bytes(), [*random as u8; 1000]).unwrap();
        }
        while db.step() {}
    }

    fn read_all(db: &DeterministicDb) {
        for entry in db.iter().unwrap() {
            db.get(entry.unwrap().0).unwrap();
        }
    }

    #[test]
    fn idle_memtable_memory_is_lent_to_the_cache_until_needed() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(BUDGET as u64), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let mut random = 1;
        write(&db, 4 * BUDGET, &mut random);
        let (own, memtable) = (db.engine.background.budget.cache, db.engine.background.budget.memtable);
        let used = || db.stats().cache_bytes as usize;
        read_all(&db);
        assert!(used() <= own, "{} of {own}", used());
        for _ in 0..2 {
            disk.advance(UNUSED_FOR);
            db.step();
        }
        read_all(&db);
        // Two of three Memtables, and their indexes.
        let lent = db.engine.background.arbiter.memory.arenas.spare_bytes();
        assert!(lent >= 2 * memtable, "{lent}");
        assert!(used() > own + lent / 2 && used() <= own + lent, "{} of {own} and {lent}", used());
        // One more Memtable is in use, so less is lent. Later, memory that is needed again within a second is not lent.
        write(&db, memtable * 3 / 2, &mut random);
        let lent = db.engine.background.arbiter.memory.arenas.spare_bytes();
        assert!(lent < 2 * memtable, "{lent}");
        // Until the next page is inserted, the cache has what page tables have grown by (`cache_memory`, invariant 1).
        let tables = 8 << 10;
        assert!(used() <= own + lent + tables, "{} of {own} and {lent}", used());
        disk.advance(UNUSED_FOR);
        db.step();
        write(&db, memtable * 3 / 2, &mut random);
        read_all(&db);
        assert!(used() <= own + db.engine.background.arbiter.memory.arenas.spare_bytes(), "{} of {own}", used());
    }
}
