//! `compact` and `optimize`: merge a key range and show a progress bar.

use crate::arguments::{Common, CompactRange};
use crate::failure::Failure;
use crate::progress::CompactBar;
use crate::report::Report;
use alluvium::{CompactOptions, Goal};
use std::ops::Bound;
use std::time::Instant;

/// Merges the range and prints a report.
pub fn run(common: &Common, arguments: &CompactRange, goal: Goal) -> Result<(), Failure> {
    let bound = |what: &str, key: &Option<String>| key.as_ref().map(|key| common.argument(what, key)).transpose();
    let (from, to) = (bound("key", &arguments.from)?, bound("key", &arguments.to)?);
    if let (Some(from), Some(to)) = (&from, &to)
        && from >= to
    {
        return Err(Failure::Usage("--from is not before --to, so the range is empty".into()));
    }
    if arguments.rate == Some(0) {
        return Err(Failure::Usage("--rate is 0 bytes per second, so nothing would ever be written".into()));
    }
    let db = common.open_existing_limited(arguments.rate)?;
    let keyspace = arguments.within.open_existing(&db)?;
    let range = (from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded));
    let before = db.stats();
    let (bar, started) = (CompactBar::new(), Instant::now());
    let options = CompactOptions::new().goal(goal);
    let done = keyspace.compact_with(range, &options, &mut |progress| bar.show(progress));
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
