//! A keyspace that is open, as its handles share it. Any thread.
//!
//! Dropping a keyspace is one write: a range tombstone over all its keys, and the end of its entry in the catalog.
//!
//! Invariants:
//! 1. A keyspace is marked as dropped after that write has taken its number and before it is placed. So a reader that does
//!    not find the mark after it has read has not read past the drop.
//! 2. A writer looks for the mark after it has announced and has looked for announced range deletes (`engine/state/range_deletes.rs`),
//!    before it takes its number. So it either has a smaller number than the drop, or finds the mark.

use super::options::Durability;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use crate::util::{Error, KeyspaceId, Result};
use crossbeam_utils::atomic::AtomicCell;

/// The name of the default keyspace.
pub(crate) const DEFAULT_NAME: &str = "default";

/// Identifies one opening of one store in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What all handles of a keyspace share.
#[derive(Debug)]
pub(crate) struct KeyspaceInfo {
    pub(crate) id: KeyspaceId,
    pub(crate) name: Box<str>,
    durability: AtomicCell<Option<Durability>>,
    opening: OpeningId,
    is_dropped: AtomicBool,
    /// Whether its pairs expire.
    expires: AtomicBool,
}

impl KeyspaceInfo {
    pub(crate) fn new(id: KeyspaceId, name: &str, durability: Option<Durability>, opening: OpeningId) -> Arc<Self> {
        let durability = AtomicCell::new(durability);
        Arc::new(Self { id, name: name.into(), durability, opening, is_dropped: false.into(), expires: false.into() })
    }

    /// The durability of writes that have none of their own; `None` if it is the store's.
    #[inline]
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.durability.load()
    }

    pub(crate) fn set_durability(&self, durability: Option<Durability>) {
        self.durability.store(durability);
    }

    /// Sets whether its pairs expire.
    pub(crate) fn set_expires(&self, expires: bool) {
        self.expires.store(expires, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn expires(&self) -> bool {
        self.expires.load(Ordering::Relaxed)
    }

    /// Marks it as dropped.
    pub(crate) fn mark_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// An error if it was dropped.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_dropped() { Err(self.dropped()) } else { Ok(()) }
    }

    #[cold]
    pub(crate) fn dropped(&self) -> Error {
        Error::KeyspaceDropped { keyspace: self.name.to_string() }
    }

    /// An error if it does not belong to this opening of a store.
    #[inline]
    pub(crate) fn check_opening(&self, opening: OpeningId) -> Result<()> {
        if self.opening == opening {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "the keyspace {:?} belongs to another store, or to an earlier opening of this one",
            self.name
        )))
    }
}

impl PartialEq for KeyspaceInfo {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.opening) == (other.id, other.opening)
    }
}

impl Eq for KeyspaceInfo {}
