//! The view: the stack of memory generations and the tree that readers and writers see at one moment
//! (`docs/concurrency.md`, G).
//!
//! A view never changes. A thread that changes the stack or the tree publishes a new view under the lock of `ViewCell`.
//! Readers take a counted reference without a lock.

use super::generation::Generation;
use crate::disk::Version;
use crate::engine::types::user_key::UserKey;
use crate::util::SequenceNumber;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use arc_swap::{ArcSwap, Guard};

/// See the module.
pub(crate) struct View {
    /// Newest first; never empty.
    pub(crate) generations: Vec<Arc<Generation>>,
    /// The tree.
    pub(crate) disk: Version,
    /// Increases with every published view.
    pub(crate) version: u64,
    /// How many trees with pairs that compaction filters have changed were published.
    pub(crate) filtered: u64,
    /// The number of the last ingest; at least the greatest number in the tree when the store was opened.
    pub(crate) ingested: SequenceNumber,
}

/// How much of what is in the tree of a view somebody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeMark {
    /// All versions that came from memory up to this number.
    incorporated: SequenceNumber,
    /// All ingests up to this number.
    ingested: SequenceNumber,
}

impl TreeMark {
    /// Everything.
    pub(crate) const ALL: Self = Self { incorporated: SequenceNumber::MAX, ingested: SequenceNumber::MAX };

    /// Of somebody who has read a snapshot.
    pub(crate) fn of_snapshot(number: SequenceNumber) -> Self {
        Self { incorporated: number, ingested: number }
    }

    /// What both know.
    pub(crate) fn common(self, other: Self) -> Self {
        let (incorporated, ingested) = (self.incorporated.min(other.incorporated), self.ingested.min(other.ingested));
        Self { incorporated, ingested }
    }
}

/// What publishes a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publication {
    /// Memory is switched or incorporated, or the tree has another form.
    SamePairs,
    /// Compaction filters have changed pairs of the tree.
    Filtered,
    /// An ingest with this number.
    Ingest(SequenceNumber),
}

impl View {
    /// The generation that new writes go to.
    pub(crate) fn newest(&self) -> &Arc<Generation> {
        &self.generations[0]
    }

    /// The generation that a number belongs to (rule G1).
    #[inline]
    pub(crate) fn generation_of(&self, number: SequenceNumber) -> &Arc<Generation> {
        for generation in &self.generations {
            if generation.starts_before(number) {
                return generation;
            }
        }
        // A writer holds its slot until its entries are placed, and a generation leaves the view only after
        // `wait_through` of its end.
        unreachable!("number {number} belongs to no generation of the view")
    }

    /// The number after which the newest generation starts. Older generations, and the tree but for ingests, have no greater
    /// number.
    pub(crate) fn newest_start(&self) -> SequenceNumber {
        // An unset start is greater than any number.
        self.newest().start()
    }

    /// Numbers up to this one may have moved from memory to the tree; greater ones have not.
    pub(crate) fn incorporated_through(&self) -> SequenceNumber {
        // Only the newest generation's start may be unset, and only while it has a predecessor.
        self.generations.last().map_or(SequenceNumber::ZERO, |oldest| oldest.start())
    }

    /// No version in the tree has a greater number.
    #[inline]
    pub(crate) fn tree_through(&self) -> SequenceNumber {
        self.newest_start().max(self.ingested)
    }

    /// What the tree has.
    pub(crate) fn tree_mark(&self) -> TreeMark {
        TreeMark { incorporated: self.incorporated_through(), ingested: self.ingested }
    }

    /// Whether the tree may have versions that somebody with this mark does not know.
    pub(crate) fn has_more_than(&self, mark: TreeMark) -> bool {
        self.incorporated_through() > mark.incorporated || self.ingested > mark.ingested
    }

    /// The number of the newest committed version of a key in memory, or of a newer range tombstone over it; `ZERO` if
    /// memory has neither.
    pub(crate) fn newest_in_memory(&self, key: UserKey<&[u8]>, hash: u64) -> SequenceNumber {
        let newest = |generation: &Arc<Generation>| {
            let memtable = &generation.memtable;
            let version = memtable.newest_number(key.keyspace, key.bytes, hash);
            let covering = memtable
                .has_range_tombstones()
                .then(|| key.with_encoded(|encoded| memtable.covering(encoded, SequenceNumber::MAX)));
            version.max(covering.filter(|number| *number > SequenceNumber::ZERO))
        };
        self.generations.iter().find_map(newest).unwrap_or(SequenceNumber::ZERO)
    }

    /// The oldest generation that was switched away from and whose last number is not in `taken`.
    pub(crate) fn oldest_switched(&self, taken: &[SequenceNumber]) -> Option<(Arc<Generation>, SequenceNumber)> {
        let switched = self.generations[1..].iter().rev();
        let mut ends = switched.map_while(|generation| Some((generation, generation.end()?)));
        let (generation, end) = ends.find(|(_, end)| !taken.contains(end))?;
        Some((Arc::clone(generation), end))
    }

    /// Whether this is the oldest generation in memory.
    pub(crate) fn is_oldest(&self, generation: &Arc<Generation>) -> bool {
        self.generations.last().is_some_and(|oldest| Arc::ptr_eq(oldest, generation))
    }
}

/// Holds the current view. Any thread.
pub(crate) struct ViewCell {
    current: ArcSwap<View>,
    /// The version of `current`.
    version: AtomicU64,
    /// One update at a time.
    update: Mutex<()>,
}

impl ViewCell {
    pub(crate) fn new(generations: Vec<Arc<Generation>>, disk: Version) -> Self {
        // What is in the tree of a store that is opened has lower numbers than what is written from then on.
        let ingested = generations.first().map_or(SequenceNumber::ZERO, |newest| newest.start());
        Self {
            current: ArcSwap::from_pointee(View { generations, disk, version: 1, filtered: 0, ingested }),
            version: AtomicU64::new(1),
            update: Mutex::new(()),
        }
    }

    /// The current view, for the length of one operation.
    pub(crate) fn load(&self) -> Guard<Arc<View>> {
        self.current.load()
    }

    /// The current view, for longer: a counted reference.
    pub(crate) fn load_full(&self) -> Arc<View> {
        self.current.load_full()
    }

    /// The current view's version, without a read of the view itself.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Publishes a new view: `change` computes its generations and tree from those of the current one.
    pub(crate) fn update(&self, change: impl FnOnce(&View) -> (Vec<Arc<Generation>>, Version)) {
        self.publish(Publication::SamePairs, change);
    }

    /// The same, of a view whose tree may have other pairs.
    pub(crate) fn publish(
        &self,
        publication: Publication,
        change: impl FnOnce(&View) -> (Vec<Arc<Generation>>, Version),
    ) {
        let _guard = self.update.lock();
        let current = self.current.load_full();
        let (generations, disk) = change(&current);
        let version = current.version + 1;
        let filtered = current.filtered + u64::from(publication == Publication::Filtered);
        let ingested = if let Publication::Ingest(number) = publication { number } else { current.ingested };
        self.current.store(Arc::new(View { generations, disk, version, filtered, ingested }));
        self.version.store(version, Ordering::Release);
    }
}
