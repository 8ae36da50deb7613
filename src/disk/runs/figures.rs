//! Figures of a disk component, for statistics. Any thread.

use super::load::Load;
use crate::util::sync::{AtomicU64, Ordering};

/// One level of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelFigures {
    /// Distance from the leaves.
    pub height: u32,
    /// Trunk nodes.
    pub nodes: u64,
    /// Bundles in them.
    pub bundles: u64,
    /// Branch references in them.
    pub branches: u64,
    /// The most runs that a get may meet in one of them.
    pub runs_max: u64,
    /// The most lookups in maplets and filters that a get makes in one of them before it reads data.
    pub probes_max: u64,
    /// The active data in them.
    pub load: Load,
    /// Pages of these branches that readers missed in the cache.
    pub misses: u64,
}

/// The figures of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The highest level first.
    pub levels: Vec<LevelFigures>,
    /// Distinct branch files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// What waits in memory, if the component has buffers.
    pub buffers: BufferFigures,
}

/// The buffers of a component, for keys that skipped levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferFigures {
    /// Branches in memory.
    pub branches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the branch files that are kept only because they have what is in memory.
    pub parent_bytes: u64,
}

/// How many levels a merge can place an entry further than the next one, none included.
pub const SKIPS: usize = 7;

/// What a component has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of branch files by incorporation.
    pub incorporated_bytes: u64,
    /// Bytes of branch files by merges.
    pub compacted_bytes: u64,
    /// The part of `compacted_bytes` that was written only to make scans cheaper.
    pub scan_compacted_bytes: u64,
    /// The part of `compacted_bytes` that was written in quiet times.
    pub quiet_compacted_bytes: u64,
    /// Bytes of maplets.
    pub mapped_bytes: u64,
    /// Entries that incorporation wrote.
    pub incorporated_entries: u64,
    /// Entries that merges wrote.
    pub compacted_entries: u64,
    /// Incorporations.
    pub incorporations: u64,
    /// Bytes of branch files by ingests.
    pub ingested_bytes: u64,
    /// Ingests.
    pub ingests: u64,
    /// Leaves split because they exceeded their target size.
    pub splits: u64,
    /// Joins of neighbouring nodes.
    pub joins: u64,
    /// Files rewritten without their dead part.
    pub live_rewrites: u64,
    /// Bytes of branch files that merges and joins reused.
    pub reused_bytes: u64,
    /// Entries that merges of levels placed so many levels further than the next one.
    pub skipped: [u64; SKIPS],
    /// Bytes of branches that merges left in memory.
    pub buffered_bytes: u64,
    /// Bytes in the manifest that say where on the disk their entries are.
    pub transition_bytes: u64,
    /// Bytes of branch files by checkpoints of what was in memory, a part of `compacted_bytes`.
    pub checkpoint_bytes: u64,
    /// Jobs run.
    pub jobs: u64,
}

/// The counters behind `Written`. All accesses are relaxed: figures order nothing.
#[derive(Debug, Default)]
pub struct Counters {
    incorporated_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    scan_compacted_bytes: AtomicU64,
    quiet_compacted_bytes: AtomicU64,
    mapped_bytes: AtomicU64,
    incorporated_entries: AtomicU64,
    compacted_entries: AtomicU64,
    incorporations: AtomicU64,
    ingested_bytes: AtomicU64,
    ingests: AtomicU64,
    splits: AtomicU64,
    joins: AtomicU64,
    live_rewrites: AtomicU64,
    reused_bytes: AtomicU64,
    skipped: [AtomicU64; SKIPS],
    buffered_bytes: AtomicU64,
    transition_bytes: AtomicU64,
    checkpoint_bytes: AtomicU64,
    jobs: AtomicU64,
}

impl Counters {
    /// Counts an incorporation and what it wrote.
    pub fn incorporated(&self, load: Load) {
        self.incorporated_bytes.fetch_add(load.bytes, Ordering::Relaxed);
        self.incorporated_entries.fetch_add(load.entries, Ordering::Relaxed);
        self.incorporations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an ingest and what it wrote.
    pub fn ingested(&self, load: Load) {
        self.ingested_bytes.fetch_add(load.bytes, Ordering::Relaxed);
        self.ingests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what a merge wrote.
    pub fn compacted(&self, load: Load) {
        self.compacted_bytes.fetch_add(load.bytes, Ordering::Relaxed);
        self.compacted_entries.fetch_add(load.entries, Ordering::Relaxed);
    }

    /// Counts what a merge wrote for scans, in addition to `compacted`.
    pub fn compacted_for_scans(&self, load: Load) {
        self.scan_compacted_bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// Counts what a merge wrote in a quiet time, in addition to `compacted`.
    pub fn compacted_when_quiet(&self, load: Load) {
        self.quiet_compacted_bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// Counts the bytes of a new maplet.
    pub fn mapped(&self, bytes: u64) {
        self.mapped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a split of a leaf.
    pub fn split(&self) {
        self.splits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a join of nodes.
    pub fn joined(&self) {
        self.joins.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file that was rewritten without its dead part.
    pub fn rewrote_live(&self) {
        self.live_rewrites.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the bytes that a merge or a join reused.
    pub fn reused(&self, bytes: u64) {
        self.reused_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts entries by how far a merge placed them.
    pub fn skipped(&self, skips: &[u64; SKIPS]) {
        for (counter, more) in self.skipped.iter().zip(skips) {
            counter.fetch_add(*more, Ordering::Relaxed);
        }
    }

    /// Counts what a merge left in memory, and its record.
    pub fn buffered(&self, bytes: u64, record_bytes: u64) {
        self.buffered_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.transition_bytes.fetch_add(record_bytes, Ordering::Relaxed);
    }

    /// Counts what a checkpoint wrote, in addition to `compacted`.
    pub fn checkpointed(&self, load: Load) {
        self.checkpoint_bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// Counts a job.
    pub fn job_done(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
    }

    /// The current counts.
    pub fn written(&self) -> Written {
        Written {
            incorporated_bytes: self.incorporated_bytes.load(Ordering::Relaxed),
            compacted_bytes: self.compacted_bytes.load(Ordering::Relaxed),
            scan_compacted_bytes: self.scan_compacted_bytes.load(Ordering::Relaxed),
            quiet_compacted_bytes: self.quiet_compacted_bytes.load(Ordering::Relaxed),
            mapped_bytes: self.mapped_bytes.load(Ordering::Relaxed),
            incorporated_entries: self.incorporated_entries.load(Ordering::Relaxed),
            compacted_entries: self.compacted_entries.load(Ordering::Relaxed),
            incorporations: self.incorporations.load(Ordering::Relaxed),
            ingested_bytes: self.ingested_bytes.load(Ordering::Relaxed),
            ingests: self.ingests.load(Ordering::Relaxed),
            splits: self.splits.load(Ordering::Relaxed),
            joins: self.joins.load(Ordering::Relaxed),
            live_rewrites: self.live_rewrites.load(Ordering::Relaxed),
            reused_bytes: self.reused_bytes.load(Ordering::Relaxed),
            skipped: self.skipped.each_ref().map(|counter| counter.load(Ordering::Relaxed)),
            buffered_bytes: self.buffered_bytes.load(Ordering::Relaxed),
            transition_bytes: self.transition_bytes.load(Ordering::Relaxed),
            checkpoint_bytes: self.checkpoint_bytes.load(Ordering::Relaxed),
            jobs: self.jobs.load(Ordering::Relaxed),
        }
    }
}
