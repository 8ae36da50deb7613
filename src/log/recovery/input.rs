//! What recovery starts from.

use crate::format::manifest_edit::LogRecovered;
use crate::io::{Life, Storage};
use crate::util::{DatabaseId, FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;

/// What recovery starts from.
#[derive(Clone, Copy)]
pub struct RecoveryInput<'a> {
    /// The store's directory.
    pub storage: &'a dyn Storage,
    /// The store.
    pub database: DatabaseId,
    /// The earlier recoveries that the manifest knows, by generation.
    pub recovered: &'a [LogRecovered],
    /// Every number up to this one is in branch files, durably.
    pub incorporated: SequenceNumber,
    /// Generations below this one are forgotten.
    pub epochs_from: u64,
    /// Segments with a lower number hold nothing that counts, whatever is in them.
    pub files_from: FileNumber,
    /// The segments that the manifest names: each must be there, but for those of forgotten generations.
    pub segments: &'a BTreeSet<FileNumber>,
    /// The manifest knows that every number up to this one was durable.
    pub synced: SequenceNumber,
    /// Edits that the manifest holds. A mark that knows of more means that the manifest was cut short.
    pub manifest_edits: u64,
    /// The present life of machine and mount.
    pub life: Option<Life>,
    /// Follow the power-loss rule whatever the life.
    pub force_cut: bool,
    /// How many threads may read.
    pub threads: usize,
    /// Who asks.
    pub access: Access,
    /// Whether the value file behind a reference is complete. A file that it calls complete must be durable: sync it.
    pub value_complete: &'a dyn Fn(&[u8]) -> Result<bool>,
}

/// What the caller of `recover` may do and must reckon with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It will write: segments are synced before they are relied on.
    Write,
    /// It only reads, and nobody writes. Nothing is synced.
    Read,
    /// It only reads, beside a writer that neither removes nor recycles a segment meanwhile. What is being written as it is
    /// read leaves gaps, so the newest generation counts up to the first of them; the manifest may have got edits since the
    /// caller read it.
    ReadBesideWriter,
}
