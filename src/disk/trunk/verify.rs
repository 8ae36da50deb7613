//! Checking a whole tree, every branch file included. Reads everything; any thread.

use super::node::Node;
use super::run;
use super::tree::Tree;
use crate::base::sync::Arc;
use crate::base::{Error, FileNumber, Result};
use crate::branch::{Branch, BranchReport};
use std::collections::BTreeMap;

/// What a walk over a tree found.
#[derive(Debug, Default)]
pub struct TreeReport {
    /// Trunk nodes.
    pub nodes: u64,
    /// Distinct branch files.
    pub branches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, each with the file it is in.
    pub failures: Vec<(FileNumber, Error)>,
}

/// Walks the tree, reads every branch and hands its report to `visit`; goes on past what is broken.
pub fn verify(tree: &Tree, visit: &mut dyn FnMut(&BranchReport) -> Result<()>) -> TreeReport {
    let mut report = TreeReport::default();
    let mut branches: BTreeMap<FileNumber, &Arc<Branch>> = BTreeMap::new();
    tree.visit(&mut |node| {
        assert_structure(node);
        report.nodes += 1;
        branches.extend(node.branches().map(|branch| (branch.meta().file, branch)));
    });
    for (file, branch) in branches {
        report.branches += 1;
        report.bytes += branch.meta().bytes;
        if let Err(error) = branch.verify().and_then(|found| visit(&found)) {
            report.failures.push((file, error));
        }
    }
    report
}

/// What every node keeps to; only an internal error could break it, since `open` checks what comes from disk.
fn assert_structure(node: &Node) {
    for (at, bundle) in node.bundles.iter().enumerate() {
        for branch in &bundle.branches {
            let sees = |slot: usize| {
                let upper = node.slot_upper(slot).map(|upper| &**upper);
                node.first_active(slot) <= at && run::overlaps(branch, node.slot_lower(slot), upper)
            };
            assert!((0..node.slots.len()).any(sees), "node {} holds a branch that nothing sees", node.id.0);
        }
    }
    for (slot, pivot) in node.pivots.iter().enumerate() {
        assert!(pivot.child.height + 1 == node.height && pivot.child.upper.as_ref() == node.slot_upper(slot));
        assert_eq!(pivot.child.lower, pivot.lower);
    }
}
