//! The memory of the stores that share a budget, or of one store with a budget of its own: the page cache, the arenas of
//! Memtables, the buffers for reads ahead. One arbiter for all of them.
//!
//! Any thread. The list of members is locked for moments, and never while a member is called.
//!
//! Invariants:
//! 1. A store always gets a Memtable of the smallest size, whatever the others hold. So a store whose disk is full, or
//!    hangs, stops no other. Beyond that, a store that shares its memory gets at most half of what is free, so that the
//!    next store finds something, too.
//! 2. When a store gets less than it wants, the arbiter asks one other store to give its newest Memtable up: the one that
//!    was idle for the longest time, otherwise the largest. That store seals it, incorporates it, and begins a small one.
//! 3. Memory of the budget that no Memtable has belongs to the page cache.

use crate::branch::ExtentMemory;
use crate::cache::CacheMemory;
use crate::memory::memtable_bytes;
use crate::util::arena::ArenaPool;
use crate::util::sync::{Arc, AtomicUsize, Mutex, Ordering};
use std::sync::Weak;
use std::time::Duration;

/// A store that did not write for this long is idle.
pub(crate) const IDLE_AFTER: Duration = Duration::from_secs(5);
/// The size of the first Memtable of a store, and of that of an idle one.
pub(crate) const MEMTABLE_BYTES_SMALL: usize = 32 << 10;
/// A store that has a Memtable of at most this size, and does not write, keeps it.
pub(crate) const KEPT_BYTES: usize = 128 << 10;

/// The parts of a budget that stores share, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySizes {
    pub(crate) cache: usize,
    /// Of all Memtables.
    pub(crate) memtables: usize,
    pub(crate) extents: usize,
}

/// What the arbiter knows about the newest Memtable of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestMemtable {
    pub(crate) soft_bytes: usize,
    /// How long nothing was written.
    pub(crate) idle: Duration,
    /// Whether other Memtables of the store wait for their incorporation.
    pub(crate) others_wait: bool,
}

/// A store, for the arbiter.
pub(crate) trait MemoryUser: Send + Sync {
    fn newest(&self) -> NewestMemtable;

    /// Seals the newest Memtable and begins a small one, unless the store is busy with such a switch. Does not wait.
    fn give_up_newest(&self);
}

/// See the module.
pub(crate) struct SharedMemory {
    pub(crate) cache: Arc<CacheMemory>,
    pub(crate) arenas: Arc<ArenaPool>,
    pub(crate) extents: Arc<ExtentMemory>,
    /// The cache's own part of the budget, bytes.
    cache_bytes: AtomicUsize,
    members: Mutex<Vec<Weak<dyn MemoryUser>>>,
    /// Locked while the cache is resized.
    resizing: Mutex<()>,
}

impl SharedMemory {
    pub(crate) fn new(sizes: MemorySizes) -> Arc<Self> {
        Arc::new(Self {
            cache: CacheMemory::new(sizes.cache),
            arenas: ArenaPool::new(sizes.memtables),
            extents: ExtentMemory::new(sizes.extents),
            cache_bytes: AtomicUsize::new(sizes.cache),
            members: Mutex::default(),
            resizing: Mutex::default(),
        })
    }

    /// Changes the size of everything but the reads ahead, which never have more than they began with.
    pub(crate) fn resize(&self, sizes: MemorySizes) {
        self.cache_bytes.store(sizes.cache, Ordering::Relaxed);
        self.arenas.set_limit(sizes.memtables);
    }

    pub(crate) fn add(&self, user: Weak<dyn MemoryUser>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(user);
    }

    /// Whether several stores are open.
    pub(crate) fn is_shared(&self) -> bool {
        self.members.lock().iter().filter(|member| member.strong_count() > 0).count() > 1
    }

    /// The size that a store's next Memtable gets if it wants `wanted` bytes (invariant 1).
    pub(crate) fn grant(&self, wanted: usize) -> usize {
        if !self.is_shared() {
            return wanted;
        }
        let free = self.arenas.limit_bytes().saturating_sub(self.arenas.lent_bytes());
        let mut granted = wanted;
        while granted > MEMTABLE_BYTES_SMALL && memtable_bytes(granted) > free / 2 {
            granted /= 2;
        }
        granted.max(MEMTABLE_BYTES_SMALL.min(wanted))
    }

    /// Asks another store for memory (invariant 2), for a store that was granted `granted` bytes and wanted more.
    pub(crate) fn ask_others(&self, asking: &Weak<dyn MemoryUser>, granted: usize) {
        let members: Vec<Weak<dyn MemoryUser>> = self.members.lock().clone();
        let others = members.iter().filter(|member| !Weak::ptr_eq(member, asking)).filter_map(Weak::upgrade);
        let mut largest: Option<(bool, Duration, usize, Arc<dyn MemoryUser>)> = None;
        for user in others {
            let newest = user.newest();
            let is_idle = newest.idle >= IDLE_AFTER;
            // One that is not larger has no more than its share. One whose older Memtables wait frees nothing by it.
            if newest.soft_bytes <= KEPT_BYTES.max(granted) || newest.others_wait {
                continue;
            }
            let idle = if is_idle { newest.idle } else { Duration::ZERO };
            let rank = (is_idle, idle, newest.soft_bytes);
            if largest.as_ref().is_none_or(|(idle, since, bytes, _)| rank > (*idle, *since, *bytes)) {
                largest = Some((rank.0, rank.1, rank.2, user));
            }
        }
        if let Some((_, _, _, user)) = largest {
            user.give_up_newest();
        }
    }

    /// Gives the cache the memory that no Memtable has, or takes it back (invariant 3).
    pub(crate) fn resize_cache(&self) {
        let _one_at_a_time = self.resizing.lock();
        self.cache.resize(self.cache_bytes.load(Ordering::Relaxed) + self.arenas.spare_bytes());
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedMemory").field("cache", &self.cache_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    struct User {
        newest: NewestMemtable,
        has_given_up: AtomicBool,
    }

    impl MemoryUser for User {
        fn newest(&self) -> NewestMemtable {
            self.newest
        }

        fn give_up_newest(&self) {
            self.has_given_up.store(true, Ordering::Relaxed);
        }
    }

    fn memory(users: &[(usize, u64, bool)]) -> (Arc<SharedMemory>, Vec<Arc<User>>) {
        let memory = SharedMemory::new(MemorySizes { cache: 1 << 20, memtables: 8 << 20, extents: 1 << 20 });
        let users = users.iter().map(|&(soft_bytes, idle, others_wait)| {
            let newest = NewestMemtable { soft_bytes, idle: Duration::from_secs(idle), others_wait };
            Arc::new(User { newest, has_given_up: AtomicBool::new(false) })
        });
        let users: Vec<_> = users.collect();
        users.iter().for_each(|user| memory.add(weak(user)));
        (memory, users)
    }

    fn weak(user: &Arc<User>) -> Weak<dyn MemoryUser> {
        let user: Arc<dyn MemoryUser> = Arc::clone(user) as _;
        Arc::downgrade(&user)
    }

    fn asked(users: &[(usize, u64, bool)], granted: usize) -> Option<usize> {
        let (memory, users) = memory(users);
        memory.ask_others(&weak(&users[0]), granted);
        users.iter().position(|user| user.has_given_up.load(Ordering::Relaxed))
    }

    #[test]
    fn a_store_alone_gets_what_it_wants_and_others_get_half_of_what_is_free() {
        let (memory, mut users) = memory(&[(1 << 20, 0, false)]);
        assert_eq!(memory.grant(64 << 20), 64 << 20);
        users.extend([&users[0]].map(|_| Arc::new(User { newest: users[0].newest, has_given_up: false.into() })));
        memory.add(weak(&users[1]));
        assert_eq!(memory.grant(2 << 20), 2 << 20);
        assert_eq!(memory.grant(16 << 20), 2 << 20);
        let taken: Vec<_> = (0..3).map(|_| memory.arenas.take(memtable_bytes(2 << 20), 0).unwrap()).collect();
        assert_eq!(memory.grant(16 << 20), 128 << 10);
        let rest = memory.arenas.take(16 << 20, 0).unwrap();
        assert_eq!(memory.grant(16 << 20), MEMTABLE_BYTES_SMALL, "every store gets a Memtable");
        assert_eq!(memory.grant(4 << 10), 4 << 10);
        drop((taken, rest, users.pop()));
        assert_eq!(memory.grant(64 << 20), 64 << 20);
    }

    #[test]
    fn the_longest_idle_or_else_the_largest_memtable_is_given_up() {
        const MIB: usize = 1 << 20;
        let own = (32 * MIB, 100, false);
        assert_eq!(asked(&[own], MIB), None, "a store is not asked for its own memory");
        assert_eq!(asked(&[own, (2 * MIB, 0, false), (4 * MIB, 1, false)], MIB), Some(2));
        assert_eq!(asked(&[own, (2 * MIB, 6, false), (4 * MIB, 1, false), (3 * MIB, 9, false)], MIB), Some(3));
        // One that is as small as what was granted, or kept by idle stores, or already being incorporated, is no help.
        assert_eq!(asked(&[own, (MIB, 50, false), (8 * MIB, 50, true)], MIB), None);
        assert_eq!(asked(&[own, (KEPT_BYTES, 50, false)], MEMTABLE_BYTES_SMALL), None);
    }
}
