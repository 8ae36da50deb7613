//! The figures of a tree, for statistics. Any thread.

use crate::disk::runs::figures::{Figures, LevelFigures};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use std::collections::BTreeMap;

impl Tree {
    /// The figures of the tree. O(references).
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let mut files = BTreeMap::new();
        self.visit(&mut |node| {
            add(&mut figures.levels, node);
            files.extend(node.branches().map(|branch| (branch.meta().file, branch.meta().bytes)));
        });
        figures.files = files.len() as u64;
        figures.file_bytes = files.values().sum();
        figures
    }
}

fn add(levels: &mut Vec<LevelFigures>, node: &Node) {
    if levels.last().is_none_or(|level| level.height != node.height) {
        levels.push(LevelFigures { height: node.height, ..LevelFigures::default() });
    }
    let Some(level) = levels.last_mut() else { return };
    level.nodes += 1;
    level.bundles += node.bundles.len() as u64;
    level.branches += node.branches().count() as u64;
    level.runs_max = level.runs_max.max(node.runs() as u64);
    let probes = node.slots.iter().map(|slot| slot.probes()).max().unwrap_or(0);
    level.probes_max = level.probes_max.max(probes as u64);
    level.load += node.active;
    level.misses += node.branches().map(|branch| branch.misses()).sum::<u64>();
}
