//! The memory arbiter lends memory that is reserved for Memtables to the page cache while no Memtable needs it. Under a
//! small budget the cache of a store that is only read grows by half.
//!
//! A new Memtable takes memory at once; the incorporation after its switch then shrinks the cache by as much. For the
//! milliseconds in between both use it, but the first writes touch only a part of a Memtable's memory.
//!
//! A store gets its arbiter when it is opened. Any thread.

use crate::cache::PageCache;
use crate::engine::state::budget::Budget;
use crate::io::Clock;
use crate::memory::{MemoryComponent, MemtablePool};
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// Memory that no Memtable has needed for this long is lent to the cache. Memory that writers need more often is not
/// lent: faulting in a Memtable's pages takes some milliseconds, and reading back the pages that the cache evicted
/// takes longer.
const UNUSED_FOR: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct MemoryArbiter {
    pub(crate) memtables: Arc<MemtablePool>,
    pub(crate) cache: Arc<PageCache>,
    /// The cache's own part of the budget, bytes.
    cache_bytes: usize,
    clock: Arc<dyn Clock>,
    /// When to check next for unused memory. Locked while the cache is resized (`docs/concurrency.md`, C7).
    due: Mutex<Duration>,
}

impl MemoryArbiter {
    pub(crate) fn new(component: MemoryComponent, budget: &Budget, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            memtables: MemtablePool::new(component, budget.memtable),
            cache: Arc::new(PageCache::new(budget.cache)),
            cache_bytes: budget.cache,
            clock,
            due: Mutex::default(),
        })
    }

    /// If a check is due: lends the cache the memory that no Memtable has needed since the last check.
    pub(crate) fn rebalance_when_due(&self) {
        let mut due = self.due.lock();
        let now = self.clock.now();
        if now >= *due {
            *due = now + UNUSED_FOR;
            self.memtables.release_unused();
            self.resize_cache();
        }
    }

    /// Shrinks the cache by the memory that Memtables have taken since.
    pub(crate) fn rebalance(&self) {
        let _one_at_a_time = self.due.lock();
        self.resize_cache();
    }

    fn resize_cache(&self) {
        self.cache.memory().resize(self.cache_bytes + self.memtables.spare_bytes());
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
        let lent = db.engine.background.arbiter.memtables.spare_bytes();
        assert!(lent >= 2 * memtable, "{lent}");
        assert!(used() > own + lent / 2 && used() <= own + lent, "{} of {own} and {lent}", used());
        // One more Memtable is in use, so less is lent. Later, memory that is needed again within a second is not lent.
        write(&db, memtable * 3 / 2, &mut random);
        let lent = db.engine.background.arbiter.memtables.spare_bytes();
        assert!(lent < 2 * memtable, "{lent}");
        assert!(used() <= own + lent, "{} of {own} and {lent}", used());
        disk.advance(UNUSED_FOR);
        db.step();
        write(&db, memtable * 3 / 2, &mut random);
        read_all(&db);
        assert!(used() <= own + db.engine.background.arbiter.memtables.spare_bytes(), "{} of {own}", used());
    }
}
