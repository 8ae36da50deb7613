//! Memtables that fit the disk. Memory that waits for incorporation is also in the log, each incorporation and merge
//! takes as much space again, and the reserve (`ballast.rs`) has to cover them. On a disk of 200 MB with Memtables of
//! 64 MiB, which a large machine would have, nothing would be left for data. Pure; any thread.

use crate::engine::state::budget::Budget;
use crate::engine::types::options::Options;
use crate::io::Storage;
use crate::util::Result;

/// A Memtable is at most this part of the disk, unless `Options::write_buffer` says otherwise. The reserve is up to six
/// Memtables, and so is the log.
const DISK_PART: u64 = 256;
/// The disk makes no Memtable smaller than this. With much smaller ones most of a branch file is overhead.
const MEMTABLE_BYTES_MIN: u64 = 512 << 10;

/// The options for a store on this disk: with a smaller write buffer than the budget would give if the disk is small.
pub(crate) fn fit_to_disk(options: Options, storage: &dyn Storage) -> Result<Options> {
    // An unknown size limits nothing.
    let Some(capacity) = storage.capacity().ok().flatten() else { return Ok(options) };
    let most = (capacity / DISK_PART).max(MEMTABLE_BYTES_MIN);
    if options.write_buffer.is_some() || Budget::new(&options)?.memtable as u64 <= most {
        return Ok(options);
    }
    Ok(Options { write_buffer: Some(most), ..options })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::simulated::SimulatedStorage;

    #[test]
    fn a_small_disk_gets_small_memtables_and_a_large_one_changes_nothing() {
        let disk = SimulatedStorage::new(1);
        let options = || Options { memory_budget: Some(16 << 30), ..Options::default() };
        let memtable = |options: Options| Budget::new(&fit_to_disk(options, &disk).unwrap()).unwrap().memtable;
        let usual = Budget::new(&options()).unwrap().memtable;
        assert_eq!(memtable(options()), usual, "the size of the disk is unknown");
        disk.set_capacity(Some(100 << 30));
        assert_eq!(memtable(options()), usual);
        disk.set_capacity(Some(256 << 20));
        assert_eq!(memtable(options()), 1 << 20);
        assert_eq!(memtable(Options { write_buffer: Some(8 << 20), ..options() }), 8 << 20, "the user's choice counts");
        disk.set_capacity(Some(1 << 20));
        assert_eq!(memtable(options()), 512 << 10);
    }
}
