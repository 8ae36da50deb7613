//! What readers and writers see at one moment: the stack of memory generations over the tree
//! (`docs/concurrency.md`, G).
//!
//! A view never changes; whoever changes the stack or the tree publishes a new one under `ViewCell`'s lock. Readers take a
//! counted reference without a lock.

use super::value_file_refs::ValueFileRefs;
use crate::disk::Version;
use crate::engine::read::get::with_encoded;
use crate::format::value_file::ValueReference;
use crate::memory::Memtable;
use crate::util::sync::{Arc, AtomicU64, Backoff, Mutex, Ordering};
use crate::util::{FileNumber, KeyspaceId, SequenceNumber};
use arc_swap::{ArcSwap, Guard};

const UNSET: u64 = u64::MAX;

/// One Memtable, with its Membuffer, and the range of numbers that belongs in it.
pub(crate) struct Generation {
    pub(crate) memtable: Arc<Memtable>,
    /// Numbers above this one and up to `ends_with` belong here.
    starts_after: AtomicU64,
    ends_with: AtomicU64,
    /// Value files that entries of this generation refer to, or did until they were overwritten; held until the generation goes.
    value_files: Mutex<Vec<FileNumber>>,
    /// The bytes of their values.
    value_bytes: AtomicU64,
    holds: Arc<ValueFileRefs>,
}

impl Generation {
    /// A generation whose start is not known yet (rule G2).
    pub(crate) fn pending(memtable: Arc<Memtable>, holds: &Arc<ValueFileRefs>) -> Self {
        Self {
            memtable,
            starts_after: AtomicU64::new(UNSET),
            ends_with: AtomicU64::new(UNSET),
            value_files: Mutex::new(Vec::new()),
            value_bytes: AtomicU64::new(0),
            holds: Arc::clone(holds),
        }
    }

    /// A generation that starts after a number known from the beginning.
    pub(crate) fn starting_after(memtable: Arc<Memtable>, number: SequenceNumber, holds: &Arc<ValueFileRefs>) -> Self {
        let generation = Self::pending(memtable, holds);
        generation.set_start(number);
        generation
    }

    pub(crate) fn set_start(&self, number: SequenceNumber) {
        self.starts_after.store(number.0, Ordering::Release);
    }

    pub(crate) fn set_end(&self, number: SequenceNumber) {
        self.ends_with.store(number.0, Ordering::Release);
    }

    /// The generation's T, once it was switched away from.
    pub(crate) fn end(&self) -> Option<SequenceNumber> {
        match self.ends_with.load(Ordering::Acquire) {
            UNSET => None,
            number => Some(SequenceNumber(number)),
        }
    }

    /// The number that its own begin behind, once it has any.
    pub(crate) fn start(&self) -> SequenceNumber {
        SequenceNumber(self.starts_after.load(Ordering::Acquire))
    }

    /// Whether a number is beyond this generation's start. Spins while the start is unset: the switching thread is two
    /// instructions away from setting it.
    fn reaches(&self, number: SequenceNumber) -> bool {
        let mut backoff = Backoff::new();
        loop {
            match self.starts_after.load(Ordering::Acquire) {
                UNSET => backoff.wait(),
                start => return number.0 > start,
            }
        }
    }

    /// Takes over the hold on a value file from the write that made it.
    pub(crate) fn hold_value_file(&self, value: ValueReference) {
        self.value_files.lock().push(value.file);
        self.value_bytes.fetch_add(value.length, Ordering::Relaxed);
    }

    /// The bytes of the values in files that it holds. Of those that were overwritten in place nothing is left but the file.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        for file in self.value_files.get_mut().drain(..) {
            self.holds.release(file);
        }
    }
}

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
