//! Writes that wait for a shared transaction, for B-trees whose commits are expensive. They see their own writes before
//! the commit. A batch is committed when it is full, before a scan, and when the store settles.
//!
//! Any thread may call; one mutex orders writers, and a reader takes it only while something waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys with their new values; `None` removes.
pub type Changes = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// The waiting writes.
pub struct Pending {
    changes: Mutex<Changes>,
    /// How many wait; written under the lock. Relaxed is enough for a reader to see its own thread's writes; other
    /// threads' writes are not acknowledged to it.
    count: AtomicUsize,
    limit: usize,
}

/// What the waiting writes say about a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: the store has the answer.
    Nothing,
    /// It is removed.
    Removed,
    /// Its value was copied out.
    Value,
}

impl Pending {
    /// Commits after `limit` writes; 1 commits each.
    pub fn new(limit: usize) -> Self {
        Self { changes: Mutex::default(), count: AtomicUsize::new(0), limit: limit.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a write, and passes all to `commit` if the batch is full.
    pub fn add<E>(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        commit: impl FnOnce(&Changes) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut changes = self.lock();
        changes.insert(key.into(), value.map(Into::into));
        if changes.len() >= self.limit {
            return self.empty(changes, commit);
        }
        self.count.store(changes.len(), Ordering::Release);
        Ok(())
    }

    /// Passes all waiting writes to `commit`.
    pub fn flush<E>(&self, commit: impl FnOnce(&Changes) -> Result<(), E>) -> Result<(), E> {
        let changes = self.lock();
        match changes.is_empty() {
            true => Ok(()),
            false => self.empty(changes, commit),
        }
    }

    fn empty<E>(
        &self,
        mut changes: MutexGuard<'_, Changes>,
        commit: impl FnOnce(&Changes) -> Result<(), E>,
    ) -> Result<(), E> {
        commit(&changes)?;
        changes.clear();
        self.count.store(0, Ordering::Release);
        Ok(())
    }

    /// Looks a key up among the waiting writes.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Known {
        if self.count.load(Ordering::Acquire) == 0 {
            return Known::Nothing;
        }
        match self.lock().get(key) {
            None => Known::Nothing,
            Some(None) => Known::Removed,
            Some(Some(found)) => {
                value.clear();
                value.extend_from_slice(found);
                Known::Value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(committed: &mut Vec<usize>) -> impl FnOnce(&Changes) -> Result<(), ()> + '_ {
        |changes| {
            committed.push(changes.len());
            Ok(())
        }
    }

    #[test]
    fn a_full_batch_is_committed_once() {
        let (pending, mut committed) = (Pending::new(3), Vec::new());
        for key in 0..7u8 {
            pending.add(&[key], Some(b"v"), keep(&mut committed)).unwrap();
        }
        assert_eq!(committed, [3, 3]);
        pending.flush(keep(&mut committed)).unwrap();
        pending.flush(keep(&mut committed)).unwrap();
        assert_eq!(committed, [3, 3, 1]);
    }

    #[test]
    fn waiting_writes_are_seen() {
        let (pending, mut value) = (Pending::new(10), Vec::new());
        assert_eq!(pending.get(b"a", &mut value), Known::Nothing);
        pending.add(b"a", Some(b"1"), |_| Ok::<_, ()>(())).unwrap();
        pending.add(b"b", None, |_| Ok::<_, ()>(())).unwrap();
        assert_eq!((pending.get(b"a", &mut value), &value[..]), (Known::Value, &b"1"[..]));
        assert_eq!(pending.get(b"b", &mut value), Known::Removed);
        assert_eq!(pending.get(b"c", &mut value), Known::Nothing);
    }

    #[test]
    fn a_failed_commit_keeps_what_waits() {
        let (pending, mut value) = (Pending::new(2), Vec::new());
        pending.add(b"a", Some(b"1"), |_| Ok::<_, &str>(())).unwrap();
        assert_eq!(pending.add(b"b", Some(b"2"), |_| Err("full")), Err("full"));
        assert_eq!(pending.get(b"a", &mut value), Known::Value);
    }
}
