//! The trunk's figures. Any thread.

use super::node::Node;
use super::slot::Load;
use super::tree::Tree;
use crate::util::sync::{AtomicU64, Ordering};
use std::collections::BTreeMap;

/// One level of a tree.
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
    /// The most look-ups that a get makes in one of them, in maplets and filters, before it reads data.
    pub probes_max: u64,
    /// What is active in them.
    pub load: Load,
}

/// A tree's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Root first.
    pub levels: Vec<LevelFigures>,
    /// Distinct branch files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
}

impl Figures {
    /// The figures of a tree. O(references).
    pub fn of(tree: &Tree) -> Self {
        let mut figures = Self::default();
        let mut files = BTreeMap::new();
        tree.visit(&mut |node| {
            figures.add(node);
            files.extend(node.branches().map(|branch| (branch.meta().file, branch.meta().bytes)));
        });
        figures.files = files.len() as u64;
        figures.file_bytes = files.values().sum();
        figures
    }

    fn add(&mut self, node: &Node) {
        if self.levels.last().is_none_or(|level| level.height != node.height) {
            self.levels.push(LevelFigures { height: node.height, ..LevelFigures::default() });
        }
        let Some(level) = self.levels.last_mut() else { return };
        level.nodes += 1;
        level.bundles += node.bundles.len() as u64;
        level.branches += node.branches().count() as u64;
        level.runs_max = level.runs_max.max(node.runs() as u64);
        let probes = node.slots.iter().map(|slot| slot.probes()).max().unwrap_or(0);
        level.probes_max = level.probes_max.max(probes as u64);
        level.load += node.active;
    }
}

/// What the trunk has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of branch files by incorporation.
    pub incorporated_bytes: u64,
    /// Bytes of branch files by merges.
    pub compacted_bytes: u64,
    /// How many of them for the sake of scans alone.
    pub scan_compacted_bytes: u64,
    /// Bytes of maplets.
    pub mapped_bytes: u64,
    /// Entries that incorporation wrote.
    pub incorporated_entries: u64,
    /// Entries that merges wrote.
    pub compacted_entries: u64,
    /// Incorporations.
    pub incorporations: u64,
    /// Leaves split because they had outgrown their target.
    pub splits: u64,
    /// Joinings of nodes.
    pub joins: u64,
    /// Files written anew without what was dead in them.
    pub live_rewrites: u64,
    /// Bytes of branch files that merges and joinings took over as they were.
    pub reused_bytes: u64,
    /// Jobs run.
    pub jobs: u64,
}

/// Counts `Written`. All accesses relaxed: figures order nothing.
#[derive(Debug, Default)]
pub struct Counters {
    incorporated_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    scan_compacted_bytes: AtomicU64,
    mapped_bytes: AtomicU64,
    incorporated_entries: AtomicU64,
    compacted_entries: AtomicU64,
    incorporations: AtomicU64,
    splits: AtomicU64,
    joins: AtomicU64,
    live_rewrites: AtomicU64,
    reused_bytes: AtomicU64,
    jobs: AtomicU64,
}

impl Counters {
    /// An incorporation wrote so much.
    pub fn incorporated(&self, load: Load) {
        self.incorporated_bytes.fetch_add(load.bytes, Ordering::Relaxed);
        self.incorporated_entries.fetch_add(load.entries, Ordering::Relaxed);
        self.incorporations.fetch_add(1, Ordering::Relaxed);
    }

    /// A merge wrote so much.
    pub fn compacted(&self, load: Load) {
        self.compacted_bytes.fetch_add(load.bytes, Ordering::Relaxed);
        self.compacted_entries.fetch_add(load.entries, Ordering::Relaxed);
    }

    /// What `compacted` was told of was for scans.
    pub fn compacted_for_scans(&self, load: Load) {
        self.scan_compacted_bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// A maplet was written.
    pub fn mapped(&self, bytes: u64) {
        self.mapped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A leaf is split.
    pub fn split(&self) {
        self.splits.fetch_add(1, Ordering::Relaxed);
    }

    /// Nodes are joined.
    pub fn joined(&self) {
        self.joins.fetch_add(1, Ordering::Relaxed);
    }

    /// A file was squeezed.
    pub fn squeezed(&self) {
        self.live_rewrites.fetch_add(1, Ordering::Relaxed);
    }

    /// A merge or a joining refers to so much that it did not write.
    pub fn kept(&self, bytes: u64) {
        self.reused_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A job was run.
    pub fn job_done(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts.
    pub fn written(&self) -> Written {
        Written {
            incorporated_bytes: self.incorporated_bytes.load(Ordering::Relaxed),
            compacted_bytes: self.compacted_bytes.load(Ordering::Relaxed),
            scan_compacted_bytes: self.scan_compacted_bytes.load(Ordering::Relaxed),
            mapped_bytes: self.mapped_bytes.load(Ordering::Relaxed),
            incorporated_entries: self.incorporated_entries.load(Ordering::Relaxed),
            compacted_entries: self.compacted_entries.load(Ordering::Relaxed),
            incorporations: self.incorporations.load(Ordering::Relaxed),
            splits: self.splits.load(Ordering::Relaxed),
            joins: self.joins.load(Ordering::Relaxed),
            live_rewrites: self.live_rewrites.load(Ordering::Relaxed),
            reused_bytes: self.reused_bytes.load(Ordering::Relaxed),
            jobs: self.jobs.load(Ordering::Relaxed),
        }
    }
}
