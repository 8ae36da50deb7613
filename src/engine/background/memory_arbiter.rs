//! Memory that is set apart for Memtables is the cache's while none needs it: under a small budget a store that is read and not written
//! has half as much cache again.
//!
//! A Memtable takes memory where it finds none that is kept for it, as it does in a young store; the incorporation that a switch brings
//! has the cache give up as much, so for milliseconds of the first writes, which touch a part of it, both have it.
//!
//! Any thread.

use crate::engine::engine::Engine;
use crate::util::sync::Mutex;
use std::time::Duration;

/// What no Memtable needed for so long is lent. Where writers need it again more often it stays theirs: faulting in a Memtable's pages
/// takes some milliseconds, and reading the pages that the cache gave up takes more.
const UNUSED_FOR: Duration = Duration::from_secs(1);

/// When it is looked next; held while the cache's size changes.
#[derive(Debug, Default)]
pub(crate) struct MemoryArbiter {
    due: Mutex<Duration>,
}

impl Engine {
    /// Lends what no Memtable needed since the last look, where that is long enough ago.
    pub(crate) fn rebalance_memory_when_due(&self) {
        let mut due = self.memory_arbiter.due.lock();
        let now = self.clock.now();
        if now >= *due {
            *due = now + UNUSED_FOR;
            self.memtables.release_unused();
            self.resize_cache();
        }
    }

    /// Has the cache give up what Memtables have taken since.
    pub(crate) fn rebalance_memory(&self) {
        let _one = self.memory_arbiter.due.lock();
        self.resize_cache();
    }

    fn resize_cache(&self) {
        self.cache.resize(self.budget.cache + self.memtables.spare_bytes());
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
    fn the_cache_has_what_no_memtable_needs_until_one_does() {
        let disk = SimulatedStorage::new(1);
        let options = Options { memory_budget: Some(BUDGET as u64), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let mut random = 1;
        write(&db, 4 * BUDGET, &mut random);
        let (own, memtable) = (db.inner.budget.cache, db.inner.budget.memtable);
        let used = || db.stats().cache_bytes as usize;
        read_all(&db);
        assert!(used() <= own, "{} of {own}", used());
        for _ in 0..2 {
            disk.advance(UNUSED_FOR);
            db.step();
        }
        read_all(&db);
        // Two of three Memtables, and their indexes.
        let lent = db.inner.memtables.spare_bytes();
        assert!(lent >= 2 * memtable, "{lent}");
        assert!(used() > own + lent / 2 && used() <= own + lent, "{} of {own} and {lent}", used());
        // One more in use, and by and by no more lent than one needs again within a second.
        write(&db, memtable * 3 / 2, &mut random);
        let lent = db.inner.memtables.spare_bytes();
        assert!(lent < 2 * memtable, "{lent}");
        assert!(used() <= own + lent, "{} of {own} and {lent}", used());
        disk.advance(UNUSED_FOR);
        db.step();
        write(&db, memtable * 3 / 2, &mut random);
        read_all(&db);
        assert!(used() <= own + db.inner.memtables.spare_bytes(), "{} of {own}", used());
    }
}
