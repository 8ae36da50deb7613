//! `ReadPath`: the part of an open store that reads need, whether it was opened for writing or only for reading. Any
//! thread.

use super::cached_cursors::CachedCursors;
use crate::branch::{self, BranchContext};
use crate::cache::PageCache;
use crate::disk::LevelFigures;
use crate::engine::expiry::Expiry;
use crate::engine::latency::LatencyHistograms;
use crate::engine::state::keyspaces::Keyspaces;
use crate::engine::state::latches::Latches;
use crate::engine::state::range_deletes::RangeDeletes;
use crate::engine::state::shared_snapshot::SharedSnapshot;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::ViewCell;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::keyspace_info::OpeningId;
use crate::engine::types::stats::{BranchFile, LevelStats, Stats};
use crate::io::Storage;
use crate::merge::{MergeOperators, Retention, ScanLength};
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, AtomicBool, Ordering};
use crate::util::{Error, Result, fork, key};
use crate::value::ValueFiles;
use std::collections::HashSet;

/// See the module.
pub(crate) struct ReadPath {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) sequencer: Sequencer,
    pub(crate) latches: Latches,
    pub(crate) range_deletes: Arc<RangeDeletes>,
    pub(crate) view: ViewCell,
    pub(crate) snapshots: Arc<SnapshotRegistry>,
    pub(crate) shared_snapshot: SharedSnapshot,
    pub(crate) cached_cursors: CachedCursors,
    /// How many pairs scans take.
    pub(crate) scan_length: ScanLength,
    pub(crate) values: ValueFiles,
    pub(crate) value_file_refs: Arc<ValueFileRefs>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) branches: Arc<BranchContext>,
    pub(crate) closed: AtomicBool,
    /// They fold merge operands. A read that finds operands without an operator is an error.
    pub(crate) merge_operators: Arc<MergeOperators>,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) expiry: Expiry,
    pub(crate) latencies: LatencyHistograms,
    pub(crate) opening: OpeningId,
    /// The process that opened the store.
    pub(crate) process: fork::ForkCount,
}

impl ReadPath {
    /// An error if the store is closed or the caller is a forked child.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        self.check_process()
    }

    /// What incorporations and merges that begin now must retain.
    pub(crate) fn retention(&self) -> Retention {
        let (numbers, expired) = self.expiry.for_all(|| self.snapshots.numbers());
        Retention::new(numbers).with_expired(expired)
    }

    /// The statistics of the read path; the others are zero.
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view.load_full();
        let disk = view.disk.figures();
        let cache = self.cache.statistics();
        let items = self.cache.items().statistics();
        let reads = self.branches.reads.figures();
        let level = |level: &LevelFigures| LevelStats {
            height: level.height,
            nodes: level.nodes,
            bundles: level.bundles,
            branches: level.branches,
            bytes: level.load.bytes,
            entries: level.load.entries,
            tombstones: level.load.tombstones,
            runs: level.runs_max,
            probes: level.probes_max,
            cache_misses: level.misses,
        };
        Stats {
            last_number: self.sequencer.last_relaxed().0,
            disk_component: view.disk.kind(),
            levels: disk.levels.iter().map(level).collect(),
            branch_files: disk.files,
            branch_bytes: disk.file_bytes,
            buffer_bytes: disk.buffers.bytes,
            parent_bytes: disk.buffers.parent_bytes,
            value_files: self.value_file_refs.count() as u64,
            memory_entries: view.generations.iter().map(|generation| generation.memtable.entries()).sum(),
            memory_bytes: view.generations.iter().map(|generation| generation.memtable.live_bytes() as u64).sum(),
            generations: view.generations.len() as u64,
            cache_bytes: self.cache.bytes_used() as u64,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_leaf_bytes: cache.leaf_bytes,
            cache_index_bytes: cache.index_bytes,
            cache_filter_bytes: cache.filter_bytes,
            searches: reads.searches,
            rows_ahead: reads.rows_ahead,
            read_waits: reads.waits,
            read_wait_ns: reads.wait_ns,
            items: items.items,
            item_hits: items.hits,
            snapshots: self.snapshots.count() as u64,
            oldest_snapshot: self.snapshots.oldest_age(),
            debt_bytes: view.disk.debt(),
            garbage_bytes: view.disk.garbage(),
            quiet_credit_bytes: view.disk.quiet_credit(),
            ..Stats::default()
        }
    }

    /// See `Db::branch_files`.
    pub(crate) fn branch_files(&self) -> Vec<BranchFile> {
        let (mut files, mut seen) = (Vec::new(), HashSet::new());
        let user_key = |encoded: &[u8]| key::split(encoded).map_or_else(Vec::new, |(_, user_key)| user_key.to_vec());
        self.view.load_full().disk.visit_branches(&mut |height, branch| {
            let meta = branch.meta();
            if seen.insert(meta.file) {
                files.push(BranchFile {
                    name: branch::file_name(meta.file),
                    height,
                    bytes: meta.bytes,
                    entries: meta.entries,
                    cache_misses: branch.misses(),
                    first_key: user_key(&meta.key_min),
                    last_key: user_key(&meta.key_max),
                });
            }
        });
        files
    }

    /// See `Db::approximate_size`.
    pub(crate) fn approximate_size(&self, bounds: &Bounds) -> Result<u64> {
        self.check_open()?;
        let (lower, upper) = (&bounds.lower[..], bounds.upper.as_deref());
        if upper.is_some_and(|upper| upper <= lower) {
            return Ok(0);
        }
        let view = self.view.load_full();
        let memory: u64 =
            view.generations.iter().map(|generation| generation.memtable.approximate_bytes(lower, upper)).sum();
        Ok(memory + view.disk.approximate_bytes(lower, upper)?)
    }

    /// An error in a forked child: it has the opener's memory, but neither its threads nor its log.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }
}

impl std::fmt::Debug for ReadPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.storage.path()).finish_non_exhaustive()
    }
}
