//! The resources of the stores of this process that name none. Any thread, without a lock: a lock that another thread
//! holds at the moment of a `fork` would stay locked in the child for ever.
//!
//! Invariants:
//! 1. All stores of a process that ask while one of them is open get the same resources. They are freed with the last of
//!    these stores.
//! 2. A forked child gets others than its parent.

use super::resources::{Inner, Resources};
use crate::io::Storage;
use crate::util::fork::ForkCount;
use crate::util::sync::Arc;
use arc_swap::ArcSwapOption;
use std::sync::Weak;

struct Entry {
    process: ForkCount,
    inner: Weak<Inner>,
}

static ENTRY: ArcSwapOption<Entry> = ArcSwapOption::const_empty();

/// The default for a store in this directory. A simulated directory, which no other process can see and which has no wall
/// time, has none: a test that runs from a seed must not depend on other stores.
pub(crate) fn for_storage(storage: &dyn Storage) -> Option<Resources> {
    storage.wall_time().is_some().then(get)
}

/// The resources of this process.
fn get() -> Resources {
    loop {
        let entry = ENTRY.load();
        let current = entry.as_ref().filter(|entry| entry.process.is_current());
        if let Some(inner) = current.and_then(|entry| entry.inner.upgrade()) {
            return Resources { inner };
        }
        let new = Resources::new(None, None);
        let new_entry = Arc::new(Entry { process: ForkCount::current(), inner: Arc::downgrade(&new.inner) });
        let before = ENTRY.compare_and_swap(&*entry, Some(new_entry));
        let has_swapped = match (&*before, &*entry) {
            (None, None) => true,
            (Some(before), Some(entry)) => Arc::ptr_eq(before, entry),
            _ => false,
        };
        if has_swapped {
            return new;
        }
        // Another thread was faster.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_are_open_at_once_share_the_default() {
        let first = get();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(get)).collect();
        for thread in threads {
            assert!(Arc::ptr_eq(&first.inner, &thread.join().unwrap().inner));
        }
        assert!(first.memory() > 0);
    }
}
