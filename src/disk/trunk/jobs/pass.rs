//! Passes over the trunk's data: what merges, joins and incorporations share. Heavy I/O, no lock; one thread for each
//! pass.

use crate::branch::BranchContext;
use crate::disk::runs::jobs::progress::Progress;
use crate::disk::runs::output::OutputWriter;
use crate::disk::runs::pass::{PassOutput, PassRules};
use crate::disk::runs::run::Key;
use crate::disk::trunk::options::{CUT_PARTS_MIN, TrunkOptions};
use crate::disk::trunk::tree::node::{Node, Pivot};
use crate::merge::{RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;

/// What every pass needs.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub context: &'a Arc<BranchContext>,
    pub options: &'a TrunkOptions,
    pub retention: &'a Retention,
    pub progress: &'a dyn Progress,
}

impl<'a> Pass<'a> {
    /// The output of a pass whose part files end at `cuts`, at key gaps, and at `bytes_max`. `is_deep` says that it is the
    /// oldest data of leaves.
    pub fn output<'b>(&'b self, cuts: &'b [Key], bytes_max: u64, is_deep: bool) -> PassOutput<'b> {
        let writer = OutputWriter::new(self.context, cuts, self.options.part_bytes_min, bytes_max).deepest(is_deep);
        self.output_of(writer.split_at_gaps_from(*self.options.reused_bytes().start()))
    }

    /// The output of a pass to this writer.
    pub fn output_of<'b>(&'b self, writer: OutputWriter<'b>) -> PassOutput<'b> {
        PassOutput::new(self.rules(), writer)
    }

    /// Where part files of `bytes` of a node's data are cut: at its pivots, or at those of its descendants
    /// (`CUT_PARTS_MIN`).
    pub fn cuts(&self, node: &Node, bytes: u64) -> Vec<Key> {
        let parts_max = bytes / (self.options.part_bytes_min * CUT_PARTS_MIN).max(1);
        let mut level: Vec<&Pivot> = node.pivots.iter().collect();
        loop {
            let below: Vec<&Pivot> = level.iter().flat_map(|pivot| &pivot.child.pivots).collect();
            if below.is_empty() || below.len() as u64 > parts_max {
                return level.iter().map(|pivot| Arc::clone(&pivot.lower)).collect();
            }
            level = below;
        }
    }

    /// The filter of versions; see `PassRules::filter`.
    pub fn filter<'b>(&'b self, tombstones: &'b RangeTombstones, bottom: bool) -> VersionFilter<'b> {
        self.rules().filter(tombstones, bottom)
    }

    fn rules(&self) -> PassRules<'_> {
        let operators = Some(&*self.options.merge_operators);
        PassRules { retention: self.retention, operators, progress: self.progress }
    }
}
