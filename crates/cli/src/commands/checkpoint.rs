//! `checkpoint`: makes a second store of linked files, with a progress bar.

use crate::arguments::{Checkpoint, Common};
use crate::failure::Failure;
use crate::progress::CheckBar;
use crate::report::Report;
use alluvium::CheckpointOptions;
use std::time::Instant;

/// Makes the checkpoint and prints a report.
pub fn run(common: &Common, arguments: &Checkpoint) -> Result<(), Failure> {
    let db = common.open_existing()?;
    let (bar, started) = (CheckBar::new(), Instant::now());
    let options = CheckpointOptions::new().links_only(arguments.links_only);
    let done = db.checkpoint_with(&arguments.to, &options, &mut |progress| bar.show(progress));
    bar.finish();
    let done = done?;
    db.close()?;
    let mut report = Report::new();
    report
        .count("number", "sequence number", done.number)
        .count("files_linked", "files linked", done.files_linked)
        .size("bytes_linked", "bytes linked", done.bytes_linked)
        .count("files_copied", "files copied", done.files_copied)
        .size("bytes_copied", "bytes copied", done.bytes_copied)
        .decimal("seconds", "seconds", started.elapsed().as_secs_f64());
    report.print(common.json)
}
