//! `unmount`: unmounts a file system, whichever process serves it.

use crate::failure::Failure;
use crate::file_system_arguments::Unmount;
use std::time::Duration;

/// Longer than it takes to close any store.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unmounts, and waits until the store is closed. Prints nothing.
pub fn run(unmount: &Unmount) -> Result<(), Failure> {
    let directory = &unmount.directory;
    skipfs::fuse::unmount(directory, PATIENCE).map_err(|error| {
        let shown = directory.display();
        match error.errno() {
            libc::EBUSY => Failure::Usage(format!("{shown} is in use; stop what uses it first")),
            libc::ENOENT => Failure::Usage(format!("{shown} does not exist")),
            _ => error.into(),
        }
    })
}
