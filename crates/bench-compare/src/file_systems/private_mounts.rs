//! Mounts that only the calling thread and those that it starts see. They disappear with the process. A process that is
//! killed while it waits for its own mount may not end: `echo 1 > /sys/fs/fuse/connections/N/abort` ends it.

use alluvium_bench::engine::Result;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// From here on the calling thread mounts privately.
///
/// # Errors
/// It needs root.
pub fn begin() -> Result<()> {
    let private = || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    };
    private().map_err(|error| format!("mounting needs root: {error}").into())
}
