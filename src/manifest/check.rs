//! Checks the consistency of the whole tree, for `verify` and tests. Pure.

use super::ManifestState;
use super::validate::{check_branch, check_child, check_maplet, check_node, require};
use crate::format::manifest_edit::NodeId;
use crate::util::FileNumber;
use std::collections::BTreeSet;

impl ManifestState {
    /// Checks that the tree is consistent: the root spans all keys, every node is reached from it exactly once,
    /// children tile their parent's range, every branch that a node or a run refers to is listed, and every listed branch
    /// is referred to, by a node, a run or a buffered branch. The branches of a run have disjoint key ranges.
    pub fn check(&self) -> Result<(), String> {
        let mut branches = BTreeSet::new();
        let reached = self.visit_nodes(&mut branches)?;
        if let Some(lost) = self.nodes.keys().find(|id| !reached.contains(id)) {
            return Err(format!("node {} cannot be reached from the root", lost.0));
        }
        self.check_runs(&mut branches)?;
        self.check_buffered(&mut branches)?;
        for (file, branch) in &self.branches {
            require!(*file == branch.file, "branch {file} is listed under another number");
            check_branch(branch)?;
            require!(
                branches.contains(file),
                "branch {file} is in no node and no run, and no buffered branch needs it"
            );
            require!(*file < self.next_file, "branch {file} is not below the next file number {}", self.next_file);
        }
        for (file, maplet) in &self.maplets {
            require!(*file == maplet.file, "maplet {file} is listed under another number");
            check_maplet(maplet)?;
            require!(*file < self.next_file, "maplet {file} is not below the next file number {}", self.next_file);
            let mut covered = BTreeSet::new();
            for branch in maplet.columns.iter().flat_map(|column| &column.branches) {
                // Numbers are never reused, so this holds also for branches that no longer exist.
                require!(branch < file, "maplet {file} covers branch {branch}, which is newer");
                require!(covered.insert(branch), "maplet {file} covers branch {branch} in two columns");
            }
        }
        Ok(())
    }

    /// Visits every node below the root and collects the branches that they refer to. The stack is on the heap: a
    /// broken tree may be as deep as it has nodes.
    fn visit_nodes(&self, branches: &mut BTreeSet<FileNumber>) -> Result<BTreeSet<NodeId>, String> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<NodeId> = self.root.into_iter().collect();
        while let Some(id) = waiting.pop() {
            let Some(node) = self.nodes.get(&id) else {
                return Err(format!("node {} does not exist", id.0));
            };
            require!(id == node.id, "node {} is listed under another number", id.0);
            require!(reached.insert(id), "node {} has two parents", id.0);
            check_node(node)?;
            if self.root == Some(id) {
                require!(node.lower.is_empty() && node.upper.is_none(), "the root does not span all keys");
            }
            require!(id < self.next_node, "node {} is not below the next node number", id.0);
            for bundle in &node.bundles {
                let known = bundle.id < self.next_bundle;
                require!(known, "bundle {} of node {} is not below the next bundle number", bundle.id.0, id.0);
                for file in &bundle.branches {
                    require!(self.branches.contains_key(file), "branch {file} of node {} does not exist", id.0);
                    branches.insert(*file);
                }
            }
            for (at, pivot) in node.pivots.iter().enumerate() {
                match self.nodes.get(&pivot.child) {
                    Some(child) => check_child(node, at, child)?,
                    None => return Err(format!("child {} of node {} does not exist", pivot.child.0, id.0)),
                }
                waiting.push(pivot.child);
            }
        }
        Ok(reached)
    }
}
