//! A memory generation: one Memtable with its Membuffer, and the range of sequence numbers that belongs to it
//! (`docs/concurrency.md`, G).

use super::value_file_refs::ValueFileRefs;
use crate::format::value_file::ValueReference;
use crate::memory::Memtable;
use crate::util::sync::{Arc, AtomicU64, Backoff, Mutex, Ordering};
use crate::util::{FileNumber, SequenceNumber};

const UNSET: u64 = u64::MAX;

/// See the module. Any thread.
pub(crate) struct Generation {
    pub(crate) memtable: Arc<Memtable>,
    /// Numbers above this one and up to `ends_with` belong to this generation.
    starts_after: AtomicU64,
    ends_with: AtomicU64,
    /// The value files of all entries that were placed here, also of overwritten ones. They are released with the
    /// generation.
    value_files: Mutex<Vec<FileNumber>>,
    /// The total size of the values in these files.
    value_bytes: AtomicU64,
    value_file_refs: Arc<ValueFileRefs>,
}

impl Generation {
    /// A generation whose start is not known yet (rule G2).
    pub(crate) fn pending(memtable: Arc<Memtable>, value_file_refs: &Arc<ValueFileRefs>) -> Self {
        Self {
            memtable,
            starts_after: AtomicU64::new(UNSET),
            ends_with: AtomicU64::new(UNSET),
            value_files: Mutex::new(Vec::new()),
            value_bytes: AtomicU64::new(0),
            value_file_refs: Arc::clone(value_file_refs),
        }
    }

    /// A generation that starts after a known number.
    pub(crate) fn starting_after(
        memtable: Arc<Memtable>,
        number: SequenceNumber,
        value_file_refs: &Arc<ValueFileRefs>,
    ) -> Self {
        let generation = Self::pending(memtable, value_file_refs);
        generation.set_start(number);
        generation
    }

    pub(crate) fn set_start(&self, number: SequenceNumber) {
        self.starts_after.store(number.0, Ordering::Release);
    }

    pub(crate) fn set_end(&self, number: SequenceNumber) {
        self.ends_with.store(number.0, Ordering::Release);
    }

    /// The last number, T in rule G1; `None` until the generation is switched away from.
    pub(crate) fn end(&self) -> Option<SequenceNumber> {
        match self.ends_with.load(Ordering::Acquire) {
            UNSET => None,
            number => Some(SequenceNumber(number)),
        }
    }

    /// The number after which the generation starts; greater than any number while it is unset.
    pub(crate) fn start(&self) -> SequenceNumber {
        SequenceNumber(self.starts_after.load(Ordering::Acquire))
    }

    /// Whether a number is above the start. Spins while the start is unset: the switching thread sets it two
    /// instructions later (rule G2).
    pub(super) fn starts_before(&self, number: SequenceNumber) -> bool {
        let mut backoff = Backoff::new();
        loop {
            match self.starts_after.load(Ordering::Acquire) {
                UNSET => backoff.wait(),
                start => return number.0 > start,
            }
        }
    }

    /// Takes over the reference to a value file from the write that made it.
    pub(crate) fn add_value_file(&self, value: ValueReference) {
        self.value_files.lock().push(value.file);
        self.value_bytes.fetch_add(value.length, Ordering::Relaxed);
    }

    /// The total size of the values in value files, also of those that were overwritten in place.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        for file in self.value_files.get_mut().drain(..) {
            self.value_file_refs.release(file);
        }
    }
}
