//! One edit of the manifest: a change of the store's state, applied whole or not at all.
//!
//! Edits carry new images of the trunk nodes that changed, not deltas to them, so replaying is overwriting. This
//! module is plain data with its bytes (`codec`); any thread. `docs/format/manifest.md` is the twin of the table.
//!
//! An encoded edit is a sequence of fields: a tag byte, then the field. Numbers are varints, byte strings a varint
//! length and the bytes, lists a varint count and the items. A *sized* field has a varint length before its body.
//!
//! | tag | field, in this order | form |
//! | --- | --- | --- |
//! | 1 | branch that comes in (repeats) | *branch* |
//! | 2 | branch dropped (repeats) | file |
//! | 3 | node (repeats) | *node* |
//! | 4 | node dropped (repeats) | node |
//! | 5 | root | node |
//! | 6 | incorporated | number |
//! | 7 | earlier log recovery, oldest first (repeats; snapshots only) | *recovery* |
//! | 8 | log recovery | *recovery* |
//! | 9 | log generations from | generation |
//! | 10 | keyspace (repeats) | sized: id, name, comparator (both UTF-8) |
//! | 11, 12, 13 | next file, next node, next bundle | number |
//! | 14 | log files from | file |
//! | 15 | log segment that comes in (repeats) | file |
//! | 16 | log segment dropped (repeats) | file |
//! | 17 | log synced through | number |
//! | 18 | maplet that comes in (repeats) | *maplet* |
//! | 19 | maplet dropped (repeats) | file |
//!
//! All of these are sized:
//! - *branch*: file, bytes, key_min, key_max, number_min, number_max, entries, tombstones, distinct_keys, range_tombstones, byte
//!   open_ended (0 or 1), list of value files
//! - *node*: id, height, lower, upper (byte 0, or byte 1 and the key), list of pivots (lower, child, first_active), list of bundles
//!   (id, byte compacted, list of branches), list of lists of shares (branch, bytes)
//! - *recovery*: generation, cut, list of skipped (first, last), next_number
//! - *maplet*: file, pages, lower, upper (as a node's), list of columns (entries, list of branches)
//!
//! Invariants:
//! 1. Equal edits have equal bytes, and bytes that decode are the only encoding of what they decode to: tags never
//!    fall, a field that does not repeat stands once, varints are shortest, sized bodies are used up.
//! 2. Decoding never panics and allocates in proportion to the bytes given: every item takes at least one of them.

mod codec;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use crate::util::{DatabaseId, FileNumber, KeyspaceId, SequenceNumber};

/// A trunk node's identity; stable over path copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A bundle's identity. Both halves of a split node keep a shared bundle's id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u64);

/// What the manifest knows of a branch file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchMeta {
    /// The file's number.
    pub file: FileNumber,
    /// Its length, bytes.
    pub bytes: u64,
    /// Smallest encoded key in it, or of its range tombstones.
    pub key_min: Vec<u8>,
    /// Largest encoded key in it; where it is open-ended, the first key behind its range tombstones, which is no key of it.
    pub key_max: Vec<u8>,
    /// Smallest number in it.
    pub number_min: SequenceNumber,
    /// Largest number in it.
    pub number_max: SequenceNumber,
    /// Entries, all versions counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Distinct keys, which is also the number of fingerprints.
    pub distinct_keys: u64,
    /// Range tombstones, each number of each fragment counted.
    pub range_tombstones: u64,
    /// Whether its range ends with that of a range tombstone, just before `key_max`.
    pub open_ended: bool,
    /// The value files that its entries refer to, ascending.
    pub value_files: Vec<FileNumber>,
}

impl BranchMeta {
    /// Whether all its keys, and all that its range tombstones cover, lie before `key`.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        if self.open_ended { self.key_max[..] <= *key } else { self.key_max[..] < *key }
    }
}

/// Branches that came to a node together, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleImage {
    /// Its identity.
    pub id: BundleId,
    /// Whether its branches are already one sorted run for this node.
    pub compacted: bool,
    /// Branch files, oldest first; parts of one run stand side by side in key order.
    pub branches: Vec<FileNumber>,
}

/// A child of a trunk node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PivotImage {
    /// Smallest encoded key of the child's range; the first pivot's equals the node's.
    pub lower: Vec<u8>,
    /// The child.
    pub child: NodeId,
    /// Index into the node's bundles of the oldest that is active for this child; their count when none is
    /// (SplinterDB §2.1).
    pub first_active: u32,
}

/// How much a branch that reaches over the bounds of a range has inside: what is read off its index once, so that opening
/// a store reads no index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareImage {
    /// The branch.
    pub branch: FileNumber,
    /// Its bytes inside.
    pub bytes: u64,
}

/// A trunk node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeImage {
    /// Its identity.
    pub id: NodeId,
    /// 0 for a leaf.
    pub height: u32,
    /// Smallest encoded key of its range (empty at the left edge).
    pub lower: Vec<u8>,
    /// First encoded key past its range; `None` at the right edge.
    pub upper: Option<Vec<u8>>,
    /// Children in key order; empty for a leaf.
    pub pivots: Vec<PivotImage>,
    /// Bundles, oldest first.
    pub bundles: Vec<BundleImage>,
    /// For each child (for a leaf: for its range) the active branches that reach over the bounds; empty where there are
    /// none at all. A share that is missing is measured anew.
    pub shares: Vec<Vec<ShareImage>>,
}

/// The branches of a maplet's column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapletColumn {
    /// Entries of the maplet under it.
    pub entries: u64,
    /// Branch files with disjoint key ranges. Some may be gone.
    pub branches: Vec<FileNumber>,
}

/// What the manifest knows of a maplet's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapletMeta {
    /// The file's number.
    pub file: FileNumber,
    /// Its length in pages.
    pub pages: u32,
    /// Smallest encoded key of the range that it answers for.
    pub lower: Vec<u8>,
    /// First encoded key past it; `None` at the right edge.
    pub upper: Option<Vec<u8>>,
    /// What it tells apart.
    pub columns: Vec<MapletColumn>,
}

/// The outcome of one recovery (`protocol.md`, Recovery). Segments of generations up to `epoch` are read only
/// through it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecovered {
    /// The log generation that was recovered.
    pub epoch: u64,
    /// Its numbers above this one are discarded for ever.
    pub cut: SequenceNumber,
    /// Ranges of numbers at or below the cut that were never written: first and last of each.
    pub skipped: Vec<(SequenceNumber, SequenceNumber)>,
    /// The first number of the next generation: above every number seen.
    pub next_number: SequenceNumber,
}

/// A keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceRecord {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// The comparator's name.
    pub comparator: String,
}

/// What holds for the store's whole life; stands in the manifest's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random at creation.
    pub database: DatabaseId,
}

/// One change. Absent fields say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestEdit {
    /// Branch files that come in.
    pub branches_added: Vec<BranchMeta>,
    /// Branch files that no node refers to any more.
    pub branches_dropped: Vec<FileNumber>,
    /// Trunk nodes, new or changed.
    pub nodes: Vec<NodeImage>,
    /// Trunk nodes that are gone.
    pub nodes_dropped: Vec<NodeId>,
    /// The root, where it changed.
    pub root: Option<NodeId>,
    /// Every number up to this one is in branch files.
    pub incorporated: Option<SequenceNumber>,
    /// Log recoveries before `log_recovered`, oldest first: only in the snapshot that begins a rotated manifest.
    pub log_recovered_earlier: Vec<LogRecovered>,
    /// A log recovery.
    pub log_recovered: Option<LogRecovered>,
    /// Log generations below this one are wholly incorporated and forgotten.
    pub log_epochs_from: Option<u64>,
    /// Keyspaces, new or changed.
    pub keyspaces: Vec<KeyspaceRecord>,
    /// File, node and bundle numbers from these on are unused.
    pub next_file: Option<FileNumber>,
    /// See `next_file`.
    pub next_node: Option<NodeId>,
    /// See `next_file`.
    pub next_bundle: Option<BundleId>,
    /// Log segments with lower file numbers hold nothing that counts. Repair says so, of damaged ones.
    pub log_files_from: Option<FileNumber>,
    /// Log segments that records may go to from now on.
    pub log_segments_added: Vec<FileNumber>,
    /// Log segments of which nothing is needed any more.
    pub log_segments_dropped: Vec<FileNumber>,
    /// Every number up to this one is durable in the log or in branch files.
    pub log_synced: Option<SequenceNumber>,
    /// Maplet files that come in.
    pub maplets_added: Vec<MapletMeta>,
    /// Maplet files that serve no range of the tree any more.
    pub maplets_dropped: Vec<FileNumber>,
}

/// Why bytes are no edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the payload, bytes.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// What stands there.
    pub found: String,
}
