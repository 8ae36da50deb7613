//! `compact` and `optimize`: merges a key range, with a bar that tells how far it is.

use crate::arguments::{Common, CompactRange};
use crate::failure::Failure;
use crate::progress::CompactBar;
use crate::report::Report;
use alluvium::{CompactOptions, Goal};
use std::ops::Bound;
use std::time::Instant;

/// Merges and reports.
pub fn run(common: &Common, asked: &CompactRange, goal: Goal) -> Result<(), Failure> {
    let bound = |what: &str, key: &Option<String>| key.as_ref().map(|key| common.argument(what, key)).transpose();
    let (from, to) = (bound("key", &asked.from)?, bound("key", &asked.to)?);
    if let (Some(from), Some(to)) = (&from, &to)
        && from >= to
    {
        return Err(Failure::Usage("--from is not before --to, so the range is empty".into()));
    }
    if asked.rate == Some(0) {
        return Err(Failure::Usage("--rate is 0 bytes a second, at which nothing would ever be done".into()));
    }
    let db = common.open_existing_limited(asked.rate)?;
    let range = (from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded));
    let before = db.stats();
    let (bar, started) = (CompactBar::new(), Instant::now());
    let options = CompactOptions { goal, ..CompactOptions::default() };
    let done = db.compact_with(range, &options, &mut |progress| bar.show(progress));
    bar.finish();
    let (done, after) = (done?, db.stats());
    db.close()?;
    let mut report = Report::new();
    report
        .size("bytes_read", "bytes merged", done.bytes_read)
        .size("bytes_written", "bytes written", done.bytes_written)
        .size("branch_bytes_before", "bytes in branch files before", before.branch_bytes)
        .size("branch_bytes", "bytes in branch files now", after.branch_bytes)
        .decimal("seconds", "seconds", started.elapsed().as_secs_f64());
    report.print(common.json)
}
