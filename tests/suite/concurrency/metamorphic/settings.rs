//! How a store is opened: random options, and random sizes of the tree's parts.

use crate::support::Random;
use alluvium::internals::TrunkOptions;
use alluvium::{Compression, Durability, MemoryComponent, Options};
use std::fmt;
use std::time::Duration;

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    pub options: Options,
    /// Whether Memtables have the size of a page.
    pub small: bool,
    tree: Tree,
}

/// The sizes of the tree's parts.
#[derive(Clone, Copy, Debug)]
struct Tree {
    branch_bytes: u64,
    fanout: usize,
    runs_max: usize,
    runs_limit: usize,
    runs_bound: usize,
    probes_max: usize,
    part_bytes: u64,
    part_bytes_min: u64,
    leaf_bytes_min: u64,
    node_percent_of_below: u64,
    leaf_percent_of_all: u64,
    garbage_percent: u64,
}

impl Settings {
    pub fn draw(random: &mut Random) -> Self {
        let memory_budget = [256 << 10, 320 << 10, 1 << 20, 16 << 20][random.below(4) as usize];
        let interval = [None, Some(1), Some(20), Some(100)][random.below(4) as usize];
        let options = Options::new()
            .memory_budget(memory_budget)
            .durability(if random.one_in(8) { Durability::Sync } else { Durability::Buffered })
            .sync_interval(interval.map(Duration::from_millis))
            .compression([Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize])
            .background_threads(1 + random.below(4) as usize)
            .write_buffer(random.one_in(4).then_some((memory_budget / 6).clamp(32 << 10, 100 << 10)))
            .memory_component([MemoryComponent::TwoLevel, MemoryComponent::Skiplist][random.below(2) as usize])
            .maplets(random.one_in(2));
        Self { options, small: !random.one_in(4), tree: Tree::draw(random) }
    }

    /// Sets the sizes of the tree's parts.
    pub fn tune(&self, options: &mut TrunkOptions) {
        let tree = self.tree;
        options.branch_bytes = tree.branch_bytes;
        options.fanout = tree.fanout;
        options.runs_max = tree.runs_max;
        options.runs_limit = tree.runs_limit;
        options.runs_bound = tree.runs_bound;
        options.probes_max = tree.probes_max;
        options.part_bytes = tree.part_bytes;
        options.part_bytes_min = tree.part_bytes_min;
        options.leaf_bytes_min = tree.leaf_bytes_min;
        options.node_percent_of_below = tree.node_percent_of_below;
        options.leaf_percent_of_all = tree.leaf_percent_of_all;
        options.garbage_percent = tree.garbage_percent;
    }
}

impl Tree {
    fn draw(random: &mut Random) -> Self {
        let fanout = 2 + random.below(7) as usize;
        let runs_max = 1 + random.below(8) as usize;
        let runs_limit = runs_max + random.below(20) as usize;
        Self {
            branch_bytes: 4096 << random.below(5),
            fanout,
            runs_max,
            runs_limit,
            runs_bound: runs_limit + 1 + random.below(8) as usize,
            probes_max: 2 + random.below(3) as usize,
            part_bytes: 4096 << random.below(4),
            part_bytes_min: 4096 << random.below(3),
            leaf_bytes_min: 8192 << random.below(6),
            node_percent_of_below: [5, 25, 60][random.below(3) as usize],
            leaf_percent_of_all: [10, 25, 50][random.below(3) as usize],
            garbage_percent: [10, 50, 100][random.below(3) as usize],
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}, {:?}", self.options, if self.small { ", small" } else { "" }, self.tree)
    }
}
