//! A Memtable's record of versions that snapshots retain, and of the blocks of versions that were removed. Any thread.
//!
//! Invariant: once `cleanup_ended` is true, no version cleanup changes a chain (`docs/concurrency.md`, M9).

use super::writer::Spares;
use crate::util::arena::Offset;
use crate::util::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};

/// A key with more than one version.
#[derive(Clone, Copy, Debug)]
pub struct RetainingNode(Offset);

impl RetainingNode {
    pub(crate) fn new(place: Offset) -> Self {
        Self(place)
    }

    /// The place of its node.
    pub(crate) fn place(self) -> Offset {
        self.0
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RetainedVersions {
    /// Locked while `clean_versions` runs. True once there may be no more cleanup.
    pub(crate) cleanup_ended: Mutex<bool>,
    /// Nodes that may have more versions than snapshots need.
    pub(crate) nodes: Mutex<Vec<Offset>>,
    /// Blocks of removed versions, for any writer that needs one, and the sum of their bytes.
    pub(crate) spares: Mutex<Option<Spares>>,
    pub(crate) has_spares: AtomicBool,
    pub(crate) spare_bytes: AtomicUsize,
    /// The number of removed versions.
    pub(crate) removed: AtomicU64,
}

impl RetainedVersions {
    /// Whether writers may find spare blocks here. A hint.
    pub(crate) fn has_spares(&self) -> bool {
        self.has_spares.load(Ordering::Relaxed)
    }

    pub(crate) fn spare_bytes(&self) -> usize {
        self.spare_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Waits for a running cleanup, and prevents any further one.
    pub(crate) fn end(&self) {
        *self.cleanup_ended.lock() = true;
    }
}
