//! `unmount`: unmounts a file system, whichever process serves it.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::file_system_arguments::Unmount;
use crate::output::Output;
use std::time::Duration;

/// Longer than it takes to close any store.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unmounts, and waits until the process that served it has ended. Prints nothing without `--json`.
pub fn run(common: &Common, unmount: &Unmount) -> Result<(), Failure> {
    let directory = &unmount.directory;
    skipfs::fuse::unmount(directory, PATIENCE).map_err(|error| {
        let shown = directory.display();
        match error.errno() {
            libc::EBUSY => Failure::Usage(format!("{shown} is in use; stop what uses it first")),
            libc::ENOENT => Failure::Usage(format!("{shown} does not exist")),
            _ => error.into(),
        }
    })?;
    let mut output = Output::new();
    if common.json {
        output.line(serde_json::json!({ "unmounted": directory.display().to_string() }))?;
    }
    output.finish()
}
