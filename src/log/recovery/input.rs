//! The input of recovery.

use crate::format::manifest_edit::LogRecovered;
use crate::io::{Life, Storage};
use crate::util::{DatabaseId, FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;

/// The input of recovery.
#[derive(Clone, Copy)]
pub struct RecoveryInput<'a> {
    /// The store's directory.
    pub storage: &'a dyn Storage,
    /// The store.
    pub database: DatabaseId,
    /// The earlier recoveries that the manifest contains, by log epoch.
    pub recovered: &'a [LogRecovered],
    /// Every number up to this one is durably in branch files.
    pub incorporated: SequenceNumber,
    /// Log epochs below this one are forgotten.
    pub epochs_from: u64,
    /// Segments with a lower number hold nothing that counts, whatever their contents.
    pub files_from: FileNumber,
    /// The segments that the manifest names. Each must exist, except those of forgotten log epochs.
    pub segments: &'a BTreeSet<FileNumber>,
    /// According to the manifest, every number up to this one was durable.
    pub synced: SequenceNumber,
    /// The number of edits in the manifest. A mark that records more means that the manifest was cut short.
    pub manifest_edits: u64,
    /// The present life.
    pub life: Option<Life>,
    /// Follow the power-loss rule in every life.
    pub force_cut: bool,
    /// How many threads may read.
    pub threads: usize,
    /// What the caller may do.
    pub access: Access,
    /// Whether the value file of a reference is complete. The callee must sync a file that it reports as complete.
    pub value_complete: &'a dyn Fn(&[u8]) -> Result<bool>,
}

/// What the caller of `recover` may do, and what may happen meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It will write: segments are synced before they are relied on.
    Write,
    /// It only reads, and no other process writes. Nothing is synced.
    Read,
    /// It only reads, while a writer runs that neither removes nor recycles a segment meanwhile. Records that are
    /// written during the read leave gaps, so the newest log epoch counts up to the first gap. The manifest may have
    /// got edits since the caller read it.
    ReadBesideWriter,
}
