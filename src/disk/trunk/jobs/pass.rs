//! Passes over data: what merges, joins and incorporations share. Heavy I/O, no lock; one thread for each pass.

use crate::branch::{Branch, BranchContext, Purpose, Target};
use crate::disk::runs::output::{NewParts, OutputWriter};
use crate::disk::runs::progress::{Progress, ProgressReporter};
use crate::disk::runs::run::{self, Key};
use crate::disk::runs::run_cursor::{merged, seek_together};
use crate::disk::trunk::options::{CUT_PARTS_MIN, TrunkOptions};
use crate::disk::trunk::tree::node::{Node, Pivot};
use crate::merge::{Cursor, RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

/// What every pass needs.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub context: &'a Arc<BranchContext>,
    pub options: &'a TrunkOptions,
    pub retention: &'a Retention,
    pub progress: &'a dyn Progress,
}

impl<'a> Pass<'a> {
    /// The output of a pass whose part files end at `cuts`, at key gaps, and at `bytes_max`.
    pub fn output<'b>(&'b self, cuts: &'b [Key], bytes_max: u64) -> PassOutput<'b> {
        let writer = OutputWriter::new(self.context, cuts, self.options.part_bytes_min, bytes_max);
        self.output_of(writer.split_at_gaps_from(*self.options.reused_bytes().start()))
    }

    /// The output of a pass to this writer.
    pub fn output_of<'b>(&'b self, writer: OutputWriter<'b>) -> PassOutput<'b> {
        PassOutput { pass: self, writer, reporter: ProgressReporter::new(self.progress) }
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

    /// The filter that decides which versions of an input with these range tombstones are retained. `bottom`: no older
    /// data lies below.
    pub fn filter<'b>(&'b self, tombstones: &'b RangeTombstones, bottom: bool) -> VersionFilter<'b> {
        let operator = self.options.merge_operator.as_deref();
        VersionFilter::new(self.retention, bottom).with_tombstones(tombstones).with_operator(operator)
    }
}

/// The output of a pass.
pub struct PassOutput<'a> {
    pass: &'a Pass<'a>,
    writer: OutputWriter<'a>,
    reporter: ProgressReporter<'a>,
}

impl PassOutput<'_> {
    /// The run refers to this file as well, which lies after everything that was written so far
    /// (`OutputWriter::add_reused`).
    pub fn add_reused(&mut self, branch: &Branch) {
        self.writer.add_reused(branch.meta().key_min[..].into());
    }

    /// Copies the retained data of branches, oldest first, in the range [lower, upper), which lies after everything
    /// that was written so far. False if `progress` ended the pass.
    pub fn copy_branches(
        &mut self,
        branches: Vec<&Arc<Branch>>,
        (lower, upper): (&Key, Option<&Key>),
        bottom: bool,
    ) -> Result<bool> {
        let runs = run::group(branches);
        let tombstones = run::range_tombstones(&runs, lower, upper.map(|upper| &**upper))?;
        let mut cursor = merged(runs, Purpose::Compaction);
        let target = Target { key: lower, number: SequenceNumber::MAX, backward: false };
        cursor.search(false, |runs| seek_together(runs, target, 0))?;
        self.copy(&mut cursor, &tombstones, upper, bottom)
    }

    /// Copies the retained data from the cursor's position to below `upper`. False if `progress` ended the pass.
    pub fn copy<C: Cursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        tombstones: &RangeTombstones,
        upper: Option<&Key>,
        bottom: bool,
    ) -> Result<bool> {
        let Self { pass, writer, reporter } = self;
        writer.add_range_tombstones(tombstones.retained(pass.retention, bottom));
        let mut filter = pass.filter(tombstones, bottom);
        while cursor.valid() {
            let entry = cursor.entry();
            if upper.is_some_and(|upper| *entry.key >= **upper) {
                break;
            }
            filter.push(entry, &mut |entry| writer.add(entry))?;
            if !reporter.step(writer.bytes()) {
                return Ok(false);
            }
            cursor.next()?;
        }
        filter.finish(&mut |entry| writer.add(entry))?;
        Ok(true)
    }

    /// Ends the part files and reports the written bytes. The files are complete, so the pass can no longer be ended.
    pub fn finish(mut self) -> Result<NewParts> {
        let parts = self.writer.finish()?;
        self.reporter.report(parts.load().bytes);
        Ok(parts)
    }
}
