//! `MountOptions`: how the kernel mounts and uses the file system.

use std::path::PathBuf;
use std::time::Duration;

/// How the kernel mounts and uses the file system.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Threads that serve requests.
    pub threads: usize,
    /// Whether the kernel collects small writes of a file in its page cache. They are lost if the machine fails before
    /// it writes them, which it does within seconds, at `fsync` and when the file is closed.
    pub write_back_cache: bool,
    /// How long the kernel keeps entries and attributes, also that a name does not exist.
    pub timeout: Duration,
    /// Most bytes of one write request.
    pub write_bytes_max: u32,
    /// Whether other users than the mounting one may use it. Permissions are checked in any case.
    pub allow_other: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The absolute path of the store, which tables of mounts show as the source. With it `unmount` of another process
    /// waits until the store is closed.
    pub store: Option<PathBuf>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(2, |count| count.get().clamp(2, 16)),
            write_back_cache: false,
            timeout: Duration::from_secs(60),
            write_bytes_max: 1 << 20,
            allow_other: false,
            read_only: false,
            store: None,
        }
    }
}
