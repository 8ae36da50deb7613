//! One edit of the manifest: a change of the store's state, applied completely or not at all.
//!
//! Edits contain new images of the changed trunk nodes, not deltas, so replaying is overwriting. This module is plain
//! data with its encoding (`codec`); any thread. The table is also in `docs/format/manifest.md`.
//!
//! An encoded edit is a sequence of fields: a tag byte, then the field. Numbers are varints, byte strings a varint
//! length and the bytes, lists a varint count and the items. A *sized* field has a varint length before its body.
//!
//! | tag | field, in this order | form |
//! | --- | --- | --- |
//! | 1 | added branch (repeats) | *branch* |
//! | 2 | dropped branch (repeats) | file |
//! | 3 | node (repeats) | *node* |
//! | 4 | dropped node (repeats) | node |
//! | 5 | root | node |
//! | 6 | incorporated | number |
//! | 7 | earlier log recovery, oldest first (repeats; snapshots only) | *recovery* |
//! | 8 | log recovery | *recovery* |
//! | 9 | log epochs from | log epoch |
//! | 10 | keyspace (repeats) | sized: id, name, comparator, and, if it has one, merge operator (names in UTF-8) |
//! | 11, 12, 13 | next file, next node, next bundle | number |
//! | 14 | log files from | file |
//! | 15 | added log segment (repeats) | file |
//! | 16 | dropped log segment (repeats) | file |
//! | 17 | log synced through | number |
//! | 18 | added maplet (repeats) | *maplet* |
//! | 19 | dropped maplet (repeats) | file |
//! | 20 | size of the tree's branches | bytes |
//! | 21 | shape of the levels, in a store that has levels instead of a trunk | *levels* |
//! | 22 | change of a run of a level (repeats) | *run* |
//! | 23 | next run | number |
//! | 24 | what users have written since the store was created, as far as it was incorporated | bytes |
//! | 25 | what was rewritten in quiet times since then | bytes |
//! | 26 | added buffered branch (repeats) | *buffered* |
//! | 27 | dropped buffered branch (repeats) | file |
//!
//! All of these are sized:
//! - *branch*: file, bytes, key_min, key_max, number_min, number_max, entries, tombstones, distinct_keys,
//!   range_tombstones, byte open_ended (0 or 1), list of value files
//! - *node*: id, height, lower, upper (byte 0, or byte 1 and the key), list of pivots (lower, child, first_active),
//!   list of bundles (id, byte compacted, list of branches), list of lists of shares (branch, bytes)
//! - *recovery*: log epoch, cut, list of skipped (first, last), next_number
//! - *maplet*: file, pages, lower, upper (as a node's), list of columns (entries, list of branches)
//! - *levels*: size ratio, runs per level, runs of level 0, merge percent, bytes of a file, bytes of level 1,
//!   filter bits, further filter bits a level, levels skipped, runs of keys that skipped, bytes of buffers
//! - *run*: id, level, list of dropped branches, list of added branches
//! - *buffered*: sized branch, list of parents (file, list of runs of entries (skipped, count))
//!
//! Invariants:
//! 1. Equal edits have equal bytes, and bytes that decode are the only encoding of their edit: tags ascend or repeat, a
//!    field that may not repeat occurs once, varints have their shortest form, sized bodies are fully used.
//! 2. Decoding never panics and allocates in proportion to the input: every item takes at least one byte.

mod codec;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use crate::util::{DatabaseId, FileNumber, KeyspaceId, SequenceNumber};

/// A trunk node's identity; stable over path copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A bundle's identity. Both halves of a split node keep the id of a shared bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u64);

/// The identity of a run of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// The manifest's record of a branch file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchMeta {
    /// The file's number.
    pub file: FileNumber,
    /// Its length, bytes.
    pub bytes: u64,
    /// Smallest encoded key in it, or of its range tombstones.
    pub key_min: Vec<u8>,
    /// Largest encoded key in it. If `open_ended`, the first key after its range tombstones, which is not a key of the
    /// branch.
    pub key_max: Vec<u8>,
    /// Smallest number in it.
    pub number_min: SequenceNumber,
    /// Largest number in it.
    pub number_max: SequenceNumber,
    /// Entries, including all versions.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Distinct keys, which is also the number of fingerprints.
    pub distinct_keys: u64,
    /// Range tombstones: the number of numbers in all fragments.
    pub range_tombstones: u64,
    /// Whether its range ends with that of a range tombstone, just before `key_max`.
    pub open_ended: bool,
    /// The value files that its entries refer to, in ascending order.
    pub value_files: Vec<FileNumber>,
}

impl BranchMeta {
    /// Whether all its keys, and all keys covered by its range tombstones, are before `key`.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        if self.open_ended { self.key_max[..] <= *key } else { self.key_max[..] < *key }
    }
}

/// Branches that were added to a node together, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleImage {
    /// Its identity.
    pub id: BundleId,
    /// Whether its branches are one sorted run for this node.
    pub compacted: bool,
    /// Branch files, oldest first. The parts of one run are adjacent, in key order.
    pub branches: Vec<FileNumber>,
}

/// A child of a trunk node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PivotImage {
    /// Smallest encoded key of the child's range. The first pivot's equals the node's.
    pub lower: Vec<u8>,
    /// The child.
    pub child: NodeId,
    /// Index in the node's bundles of the oldest one that is active for this child; their count if none is (SplinterDB
    /// §2.1).
    pub first_active: u32,
}

/// How much of a branch that extends beyond the bounds of a range is inside it. It is determined from the index once,
/// so that opening a store reads no index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareImage {
    /// The branch.
    pub branch: FileNumber,
    /// Its bytes inside the range.
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
    /// First encoded key after its range; `None` at the right edge.
    pub upper: Option<Vec<u8>>,
    /// Children in key order; empty for a leaf.
    pub pivots: Vec<PivotImage>,
    /// Bundles, oldest first.
    pub bundles: Vec<BundleImage>,
    /// For each child (for a leaf: for its range), the active branches that extend beyond the bounds. Empty if there
    /// are none at all. A missing share is measured again.
    pub shares: Vec<Vec<ShareImage>>,
}

/// The shape of the levels of a store, fixed when the store is created (`src/disk/levels/`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelsShape {
    /// How many times the bytes of a level its next deeper one may have. At least 2.
    pub size_ratio: u32,
    /// The most runs of a level below level 0: 1 in a leveled store, more in a tiered one.
    pub runs_per_level: u32,
    /// The runs of level 0 from which they are merged.
    pub level0_runs: u32,
    /// The percentage of the runs of a full level that is merged, the oldest ones; 1 to 100. Only in a tiered store.
    pub merge_percent: u32,
    /// About the size of a branch file.
    pub file_bytes: u64,
    /// About the bytes of the level that level 0 is merged into. Only in a leveled store.
    pub base_bytes: u64,
    /// Bits of a remainder in the filters of the deepest level, from 1 to 16.
    pub filter_bits: u32,
    /// Further bits for each level above.
    pub filter_bits_above: u32,
    /// How many levels further than the next one a merge may place a key. 0: none. Only in a leveled store.
    pub max_skip: u32,
    /// The runs of such keys that a level may have above its own run. At least 1 if `max_skip` is not 0.
    pub skip_runs: u32,
    /// Bytes of memory in which such keys wait; 0: they wait in files; the largest number: a part of the memory budget.
    pub buffer_bytes: u64,
}

/// A branch whose file is in memory only, of keys that skipped levels, and which entries of which files it is made of:
/// the transitions of these keys between files and memory (SkipStore §5.2). Its entries are those, in entry order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferedMeta {
    /// What `BranchMeta` says of a file. The length is that of the file in memory when it was made.
    pub meta: BranchMeta,
    /// By file number. They stay while this branch is there.
    pub parents: Vec<ParentItems>,
}

/// Entries of a branch file that are in a buffered branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParentItems {
    /// The file.
    pub parent: FileNumber,
    /// Which of its entries.
    pub runs: Vec<ItemRun>,
}

impl BufferedMeta {
    /// The bytes of the record that say where its entries are.
    pub fn parents_bytes(&self) -> u64 {
        codec::parents_bytes(self)
    }
}

impl ParentItems {
    /// The places of the entries in the parent, counted from 0 in entry order, ascending.
    pub fn places(&self) -> impl Iterator<Item = u64> + '_ {
        let starts = self.runs.iter().scan(0u64, |next, run| {
            let start = next.saturating_add(run.skipped);
            *next = start.saturating_add(run.count);
            Some((start, *next))
        });
        starts.flat_map(|(start, end)| start..end)
    }

    /// The number of entries.
    pub fn count(&self) -> u64 {
        self.runs.iter().fold(0, |count, run| count.saturating_add(run.count))
    }

    /// The place after the last entry.
    pub fn end(&self) -> u64 {
        self.runs.iter().fold(0, |end, run| end.saturating_add(run.skipped).saturating_add(run.count))
    }
}

/// Adjacent entries of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemRun {
    /// How many entries lie between the last run, or the start of the file, and this one.
    pub skipped: u64,
    /// How many entries belong to it, at least 1.
    pub count: u64,
}

/// The change of a run of a level. A run is there while it has branches; its level never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunChange {
    /// Its identity. Of two runs of a level, that with the higher number is newer.
    pub id: RunId,
    /// Its level.
    pub level: u32,
    /// Branch files that it loses. Files that replace them may have the same key ranges.
    pub dropped: Vec<FileNumber>,
    /// Branch files that it gains.
    pub added: Vec<FileNumber>,
}

/// The branches of a maplet's column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapletColumn {
    /// Entries of the maplet in it.
    pub entries: u64,
    /// Branch files with disjoint key ranges. Some may no longer exist.
    pub branches: Vec<FileNumber>,
}

/// The manifest's record of a maplet file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapletMeta {
    /// The file's number.
    pub file: FileNumber,
    /// Its length in pages.
    pub pages: u32,
    /// Smallest encoded key of its range.
    pub lower: Vec<u8>,
    /// First encoded key after its range; `None` at the right edge.
    pub upper: Option<Vec<u8>>,
    /// Its columns.
    pub columns: Vec<MapletColumn>,
}

/// The outcome of one log recovery (`docs/recovery.md`). Segments of epochs up to `epoch` are read only through it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecovered {
    /// The log epoch that was recovered.
    pub epoch: u64,
    /// The epoch's numbers above this one are discarded for ever.
    pub cut: SequenceNumber,
    /// Ranges of numbers at or below the cut that were never written: first and last of each.
    pub skipped: Vec<(SequenceNumber, SequenceNumber)>,
    /// The first number of the next epoch: above every number that was seen.
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
    /// The name of the operator with which its operands were written; empty if there is none.
    pub merge_operator: String,
}

/// Properties that are fixed for the store's lifetime. They are in the manifest's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Drawn at random at creation.
    pub database: DatabaseId,
}

/// One change. An absent field means no change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestEdit {
    /// Added branch files.
    pub branches_added: Vec<BranchMeta>,
    /// Dropped branch files: no node refers to them any more.
    pub branches_dropped: Vec<FileNumber>,
    /// Trunk nodes, new or changed.
    pub nodes: Vec<NodeImage>,
    /// Dropped trunk nodes.
    pub nodes_dropped: Vec<NodeId>,
    /// The root, if it changed.
    pub root: Option<NodeId>,
    /// Every number up to this one is in branch files.
    pub incorporated: Option<SequenceNumber>,
    /// Log recoveries before `log_recovered`, oldest first. Only in the snapshot that begins a rotated manifest.
    pub log_recovered_earlier: Vec<LogRecovered>,
    /// A log recovery.
    pub log_recovered: Option<LogRecovered>,
    /// Log epochs below this one are completely incorporated and no longer recorded.
    pub log_epochs_from: Option<u64>,
    /// Keyspaces, new or changed.
    pub keyspaces: Vec<KeyspaceRecord>,
    /// File, node and bundle numbers from these on are unused.
    pub next_file: Option<FileNumber>,
    /// See `next_file`.
    pub next_node: Option<NodeId>,
    /// See `next_file`.
    pub next_bundle: Option<BundleId>,
    /// Log segments with lower file numbers contain nothing that is needed. Repair records it for damaged ones.
    pub log_files_from: Option<FileNumber>,
    /// Log segments that may receive records from now on.
    pub log_segments_added: Vec<FileNumber>,
    /// Log segments that are no longer needed.
    pub log_segments_dropped: Vec<FileNumber>,
    /// Every number up to this one is durable in the log or in branch files.
    pub log_synced: Option<SequenceNumber>,
    /// Added maplet files.
    pub maplets_added: Vec<MapletMeta>,
    /// Dropped maplet files: they serve no range of the tree any more.
    pub maplets_dropped: Vec<FileNumber>,
    /// The size from which all sizes of the tree follow, bytes. Recorded once, when the store is created.
    pub branch_bytes: Option<u64>,
    /// The shape of the levels. Recorded once, when a store with levels is created.
    pub levels: Option<LevelsShape>,
    /// Changes of runs of levels, at most one for each run.
    pub runs: Vec<RunChange>,
    /// See `next_file`.
    pub next_run: Option<RunId>,
    /// Bytes that users have written since the store was created, as far as they were incorporated.
    pub user_bytes: Option<u64>,
    /// Bytes that were rewritten in quiet times since the store was created.
    pub quiet_bytes: Option<u64>,
    /// Added branches that are in memory only.
    pub buffered_added: Vec<BufferedMeta>,
    /// Dropped ones.
    pub buffered_dropped: Vec<FileNumber>,
    /// The number of an ingest whose files the edit adds.
    pub ingested: Option<SequenceNumber>,
}

/// Why bytes are not a valid edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in the payload.
    pub at: usize,
    /// What was expected there.
    pub expected: &'static str,
    /// What was found there.
    pub found: String,
}
