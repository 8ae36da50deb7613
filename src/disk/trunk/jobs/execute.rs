//! Runs jobs: does a job's I/O and returns the change of the tree. Heavy I/O, no lock; one thread for each job.

use super::change::{Change, Joined, NewMaplet, NodeRange, Outcome};
use super::claim;
use super::history::{FailedAt, History};
use super::job::{Job, Purpose};
use super::pass::Pass;
use super::sample_leaf::{SampleResult, sample_leaf};
use super::split_keys;
use crate::branch::MapletPlan;
use crate::disk::runs::figures::Counters;
use crate::disk::runs::jobs::space_backoff::Failed;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::reuse::Sizes;
use crate::disk::runs::run::{Key, Run};
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::plan::rewrite_live::{RewriteLive, gain_min};
use crate::disk::trunk::plan::run_bound;
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::maplet_index::can_cover;
use crate::disk::trunk::tree::newer_data;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::overwrite_ratio::OverwriteRatio;
use crate::disk::trunk::tree::tree::Tree;
use crate::filter::maplet::COLUMNS_MAX;
use crate::util::Result;
use crate::util::sync::Arc;
use std::ops::Range;

/// See the module.
pub struct Executor<'a> {
    pub pass: Pass<'a>,
    pub history: &'a History,
    pub counters: &'a Counters,
}

impl Executor<'_> {
    /// Runs a job that was picked from `tree` or from an older one.
    pub fn run(&self, job: &Job, tree: &Tree) -> Result<Outcome> {
        let change = match &job.choice {
            Choice::Flush(node, at) => flush(node, *at)?,
            Choice::Merge(node, range) => self.merge(node, range.clone(), &self.pass.options.reused_bytes())?,
            Choice::Split(leaf) => self.split_for_space(leaf)?,
            Choice::RewriteLive(file) => self.rewrite_live(file)?,
            Choice::BuildMaplet(node, at) => self.build_maplet(node, *at)?,
            Choice::Join(parent, range) => self.join(parent, range.clone())?,
            Choice::SampleLeaf(leaf) => self.sample_leaf(leaf, tree)?,
        };
        if let Change::Merge { merged, .. } = &change {
            match job.purpose {
                Purpose::Needed => {}
                Purpose::Scans => self.counters.compacted_for_scans(merged.parts.load()),
                Purpose::Quiet(_) => self.counters.compacted_when_quiet(merged.parts.load()),
            }
        }
        self.counters.job_done();
        let charged = job.rest_of_charge(&change);
        Ok(Outcome { charged, ..Outcome::of(change, Some(Arc::clone(&job.claim))) })
    }

    /// Samples a leaf, and does what the sample says.
    fn sample_leaf(&self, leaf: &Node, tree: &Tree) -> Result<Change> {
        let options = self.pass.options;
        match sample_leaf(&self.pass, leaf, options.leaf_target(tree.bytes()))? {
            SampleResult::Split(keys) => {
                self.counters.split();
                split(leaf, keys)
            }
            SampleResult::Rewrite => {
                // Large files may be the reason that it cannot be split.
                let sizes = *options.reused_bytes().start()..=options.part_bytes;
                self.merge(leaf, 0..leaf.bundles.len(), &sizes)
            }
            SampleResult::Leave => {
                self.history.note_sampled(leaf, None);
                Ok(Change::Nothing)
            }
            SampleResult::LeaveForSnapshots => {
                self.history.note_sampled(leaf, self.pass.retention.oldest());
                Ok(Change::Nothing)
            }
        }
    }

    /// Merges bundles of a node.
    fn merge(&self, node: &Node, range: Range<usize>, sizes: &Sizes) -> Result<Change> {
        let bundles = claim::bundle_ids(node, range.clone());
        let is_bottom = node.is_leaf() && range.start == 0;
        let is_whole = is_bottom && range.end == node.bundles.len();
        let Some(merged) = self.pass.merge(node, range, sizes)? else { return Ok(Change::Nothing) };
        self.count(&merged, is_bottom);
        let garbage = node.active.entries.saturating_sub(merged.entries());
        let measured = if is_whole { OverwriteRatio::measured(newer_data::newer(node).entries, garbage) } else { None };
        self.history.backoff.forget(node.id);
        Ok(Change::Merge { range: NodeRange::of(node), bundles, merged, measured })
    }

    /// Makes the data of the node that replaces several children.
    fn join(&self, parent: &Node, range: Range<usize>) -> Result<Change> {
        let node_range = NodeRange {
            height: parent.height,
            lower: Arc::clone(parent.slot_lower(range.start)),
            upper: parent.slot_upper(range.end - 1).cloned(),
        };
        let children: Vec<Arc<Node>> = parent.pivots[range].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
        let run = if parent.height == 1 {
            let Some(run) = self.pass.join(&children)? else { return Ok(Change::Nothing) };
            self.count(&run, true);
            self.history.backoff.forget(children[0].id);
            Some(run)
        } else {
            None
        };
        self.counters.joined();
        Ok(Change::Join { range: node_range, joined: Joined { children, run } })
    }

    /// Counts a merged run. `is_bottom`: no older data lies below.
    fn count(&self, run: &MergedRun, is_bottom: bool) {
        self.counters.compacted(run.parts.load());
        self.counters.reused(run.reused_bytes());
        if is_bottom {
            run.parts.iter().for_each(|branch| self.history.garbage.note_written(branch, self.pass.retention));
        }
    }

    /// Rewrites a file without its dead part.
    fn rewrite_live(&self, file: &RewriteLive) -> Result<Change> {
        let Some(parts) = self.pass.rewrite_live(file)? else { return Ok(Change::Nothing) };
        self.counters.compacted(parts.load());
        let meta = file.branch.meta();
        if parts.load().bytes + gain_min(meta.bytes) > meta.bytes {
            self.history.failures.note_no_gain(meta.file, file.live_places());
            return Ok(Change::Nothing);
        }
        self.counters.rewrote_live();
        Ok(Change::RewriteLive { branch: Arc::clone(&file.branch), parts })
    }

    /// Builds the maplet of a slot.
    fn build_maplet(&self, node: &Node, at: usize) -> Result<Change> {
        let (slot, upper) = (&node.slots[at], node.slot_upper(at).cloned());
        let covered = |run: &Arc<Run>| run.parts().iter().filter(|part| can_cover(part)).cloned().collect();
        let known: Vec<_> = slot.maplet_index.maplets().cloned().collect();
        let plan = MapletPlan {
            lower: node.slot_lower(at),
            upper: upper.as_deref(),
            columns: slot.runs.iter().take(COLUMNS_MAX).map(covered).collect(),
            older: &known,
        };
        let progress = |entries, written| self.pass.progress.advance(entries, written);
        let Some(maplet) = plan.build(self.pass.context, &progress)? else { return Ok(Change::Nothing) };
        self.counters.mapped(maplet.bytes());
        let lower = Arc::clone(node.slot_lower(at));
        let range = NodeRange { height: node.height, lower, upper };
        Ok(Change::BuildMaplet { range, maplet: NewMaplet::new(maplet) })
    }

    /// Splits a leaf by reference, if it can be split, so that its parts need less space to merge.
    fn split_for_space(&self, leaf: &Node) -> Result<Change> {
        let keys = split_keys::choose(leaf, self.pass.options.fanout)?;
        if keys.is_empty() {
            self.history.failures.note(FailedAt::Merge(leaf.id), Failed::Pieces);
            return Ok(Change::Nothing);
        }
        // One of the parts has the leaf's id.
        self.history.failures.forget(FailedAt::Merge(leaf.id));
        split(leaf, keys)
    }
}

fn flush(node: &Node, at: usize) -> Result<Change> {
    let upper = node.slot_upper(at).map(|upper| &**upper);
    let active = node.bundles[node.first_active(at)..].iter().flat_map(|bundle| &bundle.branches);
    let empty_overlaps = EmptyOverlaps::find(active, node.slot_lower(at), upper)?;
    let runs_max = node.slots[at].runs.len() + run_bound::MARGIN;
    Ok(Change::Flush { range: NodeRange::of(node), child: node.pivots[at].child.id, empty_overlaps, runs_max })
}

fn split(leaf: &Node, keys: Vec<Key>) -> Result<Change> {
    let mut empty_overlaps = Vec::with_capacity(keys.len() + 1);
    for at in 0..=keys.len() {
        let lower = if at == 0 { &leaf.lower } else { &keys[at - 1] };
        let upper = keys.get(at).or(leaf.upper.as_ref()).map(|upper| &**upper);
        empty_overlaps.push((Arc::clone(lower), EmptyOverlaps::find(leaf.branches(), lower, upper)?));
    }
    Ok(Change::Split { range: NodeRange::of(leaf), split: SplitPlan { keys, empty_overlaps } })
}
