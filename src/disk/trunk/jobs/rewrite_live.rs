//! Rewriting the live data of a file (`plan/rewrite_live.rs`). Heavy I/O, no lock; one thread for each rewrite.

use super::pass::Pass;
use crate::branch::Purpose;
use crate::disk::runs::output::{NewParts, OutputWriter};
use crate::disk::runs::run;
use crate::disk::trunk::plan::rewrite_live::RewriteLive;
use crate::merge::Cursor;
use crate::util::{Result, SequenceNumber};

impl Pass<'_> {
    /// Writes the live data of a file to a new one. `None` if `progress` ended it. Data that has become dead since the
    /// choice is copied as well. No dead data becomes live.
    pub fn rewrite_live(&self, file: &RewriteLive) -> Result<Option<NewParts>> {
        // The disk is full, so the new file shall be small.
        let mut output = self.output_of(OutputWriter::new(self.context, &[], 0, u64::MAX).deepest(true));
        let runs = run::group([&file.branch]);
        for (lower, upper) in &file.live {
            let tombstones = run::range_tombstones(&runs, lower, upper.as_deref())?;
            let mut cursor = file.branch.cursor(Purpose::Compaction);
            cursor.seek(lower, SequenceNumber::MAX)?;
            // Older data is in other files, so this is never the bottom.
            if !output.copy(&mut cursor, &tombstones, upper.as_ref(), false)? {
                return Ok(None);
            }
        }
        output.finish().map(Some)
    }
}
