//! A memory generation: one Memtable with its Membuffer, and the range of sequence numbers that belongs to it (`docs/concurrency.md`, G).

use super::value_file_refs::ValueFileRefs;
use crate::format::value_file::ValueReference;
use crate::memory::Memtable;
use crate::util::sync::{Arc, AtomicU64, Backoff, Mutex, Ordering};
use crate::util::{FileNumber, SequenceNumber};

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
    pub(super) fn reaches(&self, number: SequenceNumber) -> bool {
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
