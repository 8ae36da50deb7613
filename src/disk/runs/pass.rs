//! Passes over data: what all merges and incorporations share. Heavy I/O, no lock; one thread for each pass.

use super::jobs::progress::{Progress, ProgressReporter};
use super::output::OutputWriter;
use super::run::{self, Key};
use super::run_cursor::{RunCursor, merged, seek_together};
use super::sink::Sink;
use crate::branch::{Branch, Origin, Purpose, Target};
use crate::merge::{Cursor, EntryRef, MergeCursor, MergeOperators, RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result, SequenceNumber};

/// What decides which data a pass retains, and to whom it reports.
#[derive(Clone, Copy)]
pub struct PassRules<'a> {
    pub retention: &'a Retention,
    /// They fold merge operands. Without them these are retained as they are.
    pub operators: Option<&'a MergeOperators>,
    pub progress: &'a dyn Progress,
}

impl<'a> PassRules<'a> {
    /// The filter that decides which versions of an input with these range tombstones are retained. `bottom`: no older
    /// data lies below.
    pub fn filter<'b>(&self, tombstones: &'b RangeTombstones, bottom: bool) -> VersionFilter<'b>
    where
        'a: 'b,
    {
        VersionFilter::new(self.retention, bottom).with_tombstones(tombstones).with_operators(self.operators)
    }
}

/// The output of a pass.
pub struct PassOutput<'a, S = OutputWriter<'a>> {
    rules: PassRules<'a>,
    writer: S,
    reporter: ProgressReporter<'a>,
    /// Bytes of users' keys and values that were read.
    user_bytes: u64,
}

impl<'a, S: Sink> PassOutput<'a, S> {
    /// The output of a pass to this writer.
    pub fn new(rules: PassRules<'a>, writer: S) -> Self {
        Self { rules, writer, reporter: ProgressReporter::new(rules.progress), user_bytes: 0 }
    }

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
        if !S::TAKES_ORIGINS {
            return self.copy(&mut cursor, &tombstones, upper, bottom);
        }
        let origin = |cursor: &MergeCursor<RunCursor>| cursor.current().and_then(RunCursor::origin);
        self.copy_with(&mut cursor, origin, &tombstones, (upper, bottom))
    }

    /// Copies the retained data from the cursor's position to below `upper`. False if `progress` ended the pass.
    pub fn copy<C: Cursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        tombstones: &RangeTombstones,
        upper: Option<&Key>,
        bottom: bool,
    ) -> Result<bool> {
        self.copy_with(cursor, |_| None, tombstones, (upper, bottom))
    }

    /// As `copy`. `origin` says where the cursor's entry is on the disk.
    fn copy_with<C: Cursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        origin: impl Fn(&C) -> Option<Origin>,
        tombstones: &RangeTombstones,
        (upper, bottom): (Option<&Key>, bool),
    ) -> Result<bool> {
        let Self { rules, writer, reporter, user_bytes } = self;
        writer.add_range_tombstones(tombstones.retained(rules.retention, bottom));
        let mut filter = rules.filter(tombstones, bottom).with_filtering();
        while cursor.valid() {
            let entry = cursor.entry();
            if upper.is_some_and(|upper| *entry.key >= **upper) {
                break;
            }
            *user_bytes += (entry.key.len().saturating_sub(KeyspaceId::BYTES) + entry.value.len()) as u64;
            // What the filter makes itself is elsewhere in memory.
            let is_same = |other: &EntryRef<'_>| std::ptr::eq(other.key, entry.key) && other.number == entry.number;
            let own = origin(cursor);
            filter.push(entry, &mut |out| writer.add(out, own.filter(|_| is_same(&out))))?;
            if !reporter.step(writer.bytes()) {
                return Ok(false);
            }
            cursor.next()?;
        }
        filter.finish(&mut |entry| writer.add(entry, None))?;
        Ok(true)
    }

    /// Bytes of users' keys and values that were read so far.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Ends the part files and reports the written bytes. The files are complete, so the pass can no longer be ended.
    pub fn finish(mut self) -> Result<S::Parts> {
        let (parts, bytes) = self.writer.finish()?;
        self.reporter.report(bytes);
        Ok(parts)
    }
}
