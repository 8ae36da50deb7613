//! Jobs that failed for lack of disk space. Any thread.
//!
//! There are two kinds, because the store behaves differently in the two cases:
//!
//! 1. `SpaceBackoff`: the disk was not known to be full. The place waits until as much space is free as its job is
//!    likely to need. *Otherwise:* on a disk that is nearly full a merge fills it, fails, and gives back what it wrote;
//!    the store takes puts again and tries the same merge, without end.
//! 2. `FullDiskFailures`: the disk was known to be full, and the job was to free space. It is left out until something
//!    has freed space.
//!
//! `K` names a place of the disk component, such as a trunk node.

use crate::util::FileNumber;
use crate::util::sync::{AtomicBool, Mutex, Ordering};
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// See the module, 1.
#[derive(Debug)]
pub struct SpaceBackoff<K> {
    places: Mutex<HashMap<K, Backoff>>,
    /// Whether any place waits. Changes under the lock of `places`.
    any: AtomicBool,
}

#[derive(Debug)]
struct Backoff {
    /// Bytes that must be free.
    needed: u64,
    waits: bool,
}

impl<K> Default for SpaceBackoff<K> {
    fn default() -> Self {
        Self { places: Mutex::default(), any: AtomicBool::new(false) }
    }
}

impl<K: Copy + Eq + Hash> SpaceBackoff<K> {
    /// A job that reads `bytes` at the place found no space. If the place had waited before, it now waits for at least
    /// twice as much as then.
    pub fn note(&self, place: K, bytes: u64) {
        let mut places = self.places.lock();
        let before = places.get(&place).map_or(0, |backoff| backoff.needed);
        let needed = (bytes + bytes / 8).max(before.saturating_mul(2)).max(1);
        places.insert(place, Backoff { needed, waits: true });
        self.any.store(true, Ordering::Release);
    }

    /// `available` bytes are free: places that need no more stop waiting.
    pub fn release(&self, available: u64) {
        let mut places = self.places.lock();
        places.values_mut().for_each(|backoff| backoff.waits &= backoff.needed > available);
        self.any.store(places.values().any(|backoff| backoff.waits), Ordering::Release);
    }

    /// The place was merged.
    pub fn forget(&self, place: K) {
        self.places.lock().remove(&place);
    }

    /// Whether any place waits for space.
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether this place waits for space.
    pub fn waits(&self, place: K) -> bool {
        self.is_any() && self.places.lock().get(&place).is_some_and(|backoff| backoff.waits)
    }
}

/// The part of a place for which a job found no space on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The place as a whole. Its pieces, after a split, may find space.
    Whole,
    /// The place cannot be split.
    Pieces,
}

/// See the module, 2.
#[derive(Debug)]
pub struct FullDiskFailures<K> {
    places: Mutex<HashMap<K, Failed>>,
    /// Files whose live data found no space when it was rewritten (`None`), or whose rewriting gained nothing while the
    /// file was live in this many places (`Some`).
    files: Mutex<HashMap<FileNumber, Option<usize>>>,
}

impl<K> Default for FullDiskFailures<K> {
    fn default() -> Self {
        Self { places: Mutex::default(), files: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash> FullDiskFailures<K> {
    /// A job at the place found no space, or the place cannot be split.
    pub fn note(&self, place: K, failed: Failed) {
        self.places.lock().insert(place, failed);
    }

    /// The rewriting of a file's live data found no space.
    pub fn note_file(&self, file: FileNumber) {
        self.files.lock().insert(file, None);
    }

    /// The rewriting of a file gained nothing while the file was live in this many places.
    pub fn note_no_gain(&self, file: FileNumber, live_places: usize) {
        self.files.lock().insert(file, Some(live_places));
    }

    /// The place was split.
    pub fn forget(&self, place: K) {
        self.places.lock().remove(&place);
    }

    /// There is more free space than before. Files that gain nothing from a rewrite gain nothing now either.
    pub fn clear(&self) {
        self.places.lock().clear();
        self.files.lock().retain(|_, live_places| live_places.is_some());
    }

    /// Forgets files that are not among these.
    pub fn retain_files(&self, files: &BTreeSet<FileNumber>) {
        self.files.lock().retain(|file, _| files.contains(file));
    }

    /// The part of the place that failed, if any.
    pub fn of(&self, place: K) -> Option<Failed> {
        self.places.lock().get(&place).copied()
    }

    /// Whether rewriting the file, which is live in this many places, failed or would gain nothing.
    pub fn has_file(&self, file: FileNumber, live_places: usize) -> bool {
        let known = self.files.lock().get(&file).copied();
        known.is_some_and(|before| before.is_none_or(|before| before == live_places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_for_the_space_it_lacked_and_then_for_twice_as_much() {
        let backoff = SpaceBackoff::default();
        backoff.note(1, 800);
        backoff.note(2, 80);
        assert!(backoff.waits(1) && backoff.waits(2) && !backoff.waits(3));
        backoff.release(899);
        assert!(backoff.waits(1) && !backoff.waits(2));
        backoff.release(900);
        assert!(!backoff.is_any());
        backoff.note(1, 800);
        backoff.release(1799);
        assert!(backoff.waits(1), "what seemed enough was not");
        backoff.release(1800);
        backoff.forget(1);
        backoff.note(1, 800);
        backoff.release(900);
        assert!(!backoff.is_any(), "it was merged in between");
    }
}
