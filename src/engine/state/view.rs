//! What readers and writers see at one moment: the stack of memory generations over the tree
//! (`docs/concurrency.md`, G).
//!
//! A view never changes; whoever changes the stack or the tree publishes a new one under `ViewCell`'s lock. Readers take a
//! counted reference without a lock.

use super::generation::Generation;
use crate::disk::Version;
use crate::util::key::with_encoded;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{KeyspaceId, SequenceNumber};
use arc_swap::{ArcSwap, Guard};

/// One moment's state.
pub(crate) struct View {
    /// Newest first; never empty.
    pub(crate) generations: Vec<Arc<Generation>>,
    pub(crate) disk: Version,
    /// Rises with every view.
    pub(crate) version: u64,
}

impl View {
    /// The generation that new writes prepare for.
    pub(crate) fn newest(&self) -> &Arc<Generation> {
        &self.generations[0]
    }

    /// The generation that a number belongs to (rule G1).
    pub(crate) fn generation_of(&self, number: SequenceNumber) -> &Arc<Generation> {
        for generation in &self.generations {
            if generation.reaches(number) {
                return generation;
            }
        }
        // A writer holds its slot until it has placed, and a generation leaves the view only after `wait_through` of its end, so
        // the generation of a number in hand is always in the view.
        unreachable!("number {number} belongs to no generation of the view")
    }

    /// No generation that is switched away from has a number beyond this one, nor has the tree.
    pub(crate) fn switched_through(&self) -> SequenceNumber {
        // While it is not set it is greater than any number.
        self.newest().start()
    }

    /// Numbers up to this one may have left memory for the tree; nothing above it has.
    pub(crate) fn retired_through(&self) -> SequenceNumber {
        // Only the newest generation's start may be unset, and only while it has a predecessor.
        self.generations.last().map_or(SequenceNumber::ZERO, |oldest| oldest.start())
    }

    /// The number of the newest committed version of a key in memory, or of the newest range tombstone over it; `ZERO` where memory
    /// has neither.
    pub(crate) fn newest_in_memory(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> SequenceNumber {
        let newest = |generation: &Arc<Generation>| {
            let memtable = &generation.memtable;
            let version = memtable.newest_number(keyspace, user_key, hash);
            let covering = memtable
                .has_range_tombstones()
                .then(|| with_encoded(keyspace, user_key, |encoded| memtable.covering(encoded, SequenceNumber::MAX)));
            version.max(covering.filter(|number| *number > SequenceNumber::ZERO))
        };
        self.generations.iter().find_map(newest).unwrap_or(SequenceNumber::ZERO)
    }

    /// The oldest generation that is switched away from and whose end is not one of `taken`.
    pub(crate) fn oldest_switched(&self, taken: &[SequenceNumber]) -> Option<(Arc<Generation>, SequenceNumber)> {
        let switched = self.generations[1..].iter().rev();
        let mut ends = switched.map_while(|generation| Some((generation, generation.end()?)));
        let (generation, end) = ends.find(|(_, end)| !taken.contains(end))?;
        Some((Arc::clone(generation), end))
    }

    /// Whether nothing in memory is older.
    pub(crate) fn is_oldest(&self, generation: &Arc<Generation>) -> bool {
        self.generations.last().is_some_and(|oldest| Arc::ptr_eq(oldest, generation))
    }
}

/// Where the current view is found.
pub(crate) struct ViewCell {
    current: ArcSwap<View>,
    version: AtomicU64,
    update: Mutex<()>,
}

impl ViewCell {
    pub(crate) fn new(generations: Vec<Arc<Generation>>, disk: Version) -> Self {
        Self {
            current: ArcSwap::from_pointee(View { generations, disk, version: 1 }),
            version: AtomicU64::new(1),
            update: Mutex::new(()),
        }
    }

    /// The view of this moment; cheap, for the length of one operation.
    pub(crate) fn load(&self) -> Guard<Arc<View>> {
        self.current.load()
    }

    /// The view of this moment, to keep.
    pub(crate) fn load_full(&self) -> Arc<View> {
        self.current.load_full()
    }

    /// The newest view's version, without touching the view.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Publishes what `change` makes of the current view.
    pub(crate) fn update(&self, change: impl FnOnce(&View) -> (Vec<Arc<Generation>>, Version)) {
        let _guard = self.update.lock();
        let current = self.current.load_full();
        let (generations, disk) = change(&current);
        let version = current.version + 1;
        self.current.store(Arc::new(View { generations, disk, version }));
        self.version.store(version, Ordering::Release);
    }
}
