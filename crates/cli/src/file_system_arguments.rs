//! The syntax of the commands of the file system: `mkfs`, `mount`, `unmount` and `check`. The doc comments are the help
//! texts that users read.

use crate::bytes::parse_size;
use crate::duration::parse_duration;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The store of a file system.
#[derive(Debug, Args)]
pub struct OfStore {
    /// Directory of the store [default: what --db says, which must not name another one]
    #[arg(value_name = "STORE")]
    pub store: Option<PathBuf>,
}

/// Make a file system in a new or empty store
#[derive(Debug, Args)]
#[command(after_help = "\
A store that has pairs is refused.

With the layout `inline` the content of a small file is in the record of its inode, so one get reads both. With `items`
it is an item of its own, so a change of attributes does not write the content again. A larger file is in chunks of
256 KiB.

With --max-bytes or --max-inodes what passes the limit fails with ENOSPC, and `df` shows the limit. Holes do not count, nor
what the store needs beyond the content of files.

Examples:
  alluvium mkfs /tmp/store
  alluvium mkfs /tmp/store --layout inline --inline-bytes 1024
  alluvium --db /tmp/store mkfs --layout items --component leveled")]
pub struct Mkfs {
    #[command(flatten)]
    pub of: OfStore,
    /// Where the content of small files is
    #[arg(long, default_value = "inline")]
    pub layout: Layout,
    /// Most bytes of content in an inode's record, 1 to 64K [default: 4096]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub inline_bytes: Option<u64>,
    /// Most bytes of a file whose content is one item, which each write replaces: --inline-bytes to 256K, or 0 for none
    /// [default: 16384, or --inline-bytes if that is more]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub small_bytes: Option<u64>,
    /// Most bytes that files may allocate, such as 10G [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_bytes: Option<u64>,
    /// Most files, directories and other inodes [default: no limit]
    #[arg(long, value_name = "N")]
    pub max_inodes: Option<u64>,
}

/// Where the content of small files is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// In the inode's record
    Inline,
    /// An item of its own
    Items,
}

/// Mount the file system of a store, and serve it until it is unmounted
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs until `alluvium unmount DIR`, Ctrl-C, SIGTERM or SIGHUP, and then closes the store. If the mount is in
use at a signal, it stays; a second signal detaches it, and what is still open fails. --background returns as soon as
the file system is mounted, or says why it is not.

A change is safe from the death of the process when its system call has returned, and from a power loss after `fsync`,
or about 100 ms later. With --write-back on, the kernel keeps written content for some seconds before the store gets it.

If the disk is full, writes fail with ENOSPC, and files can still be removed and cut. If the store can write no more,
changes fail with EROFS. A mount whose process was killed gives errors until `alluvium unmount DIR` removes it.

Mounting needs Linux with FUSE, and root or the program `fusermount3` (package fuse3). The store must be on a file system that
can be written to, also for --read-only.

Examples:
  alluvium mount /mnt /tmp/store
  alluvium mount /mnt /tmp/store --background --write-back on --memory 256M
  alluvium --db /tmp/store mount /mnt --read-only")]
pub struct Mount {
    /// The directory where the file system appears
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub of: OfStore,
    /// Whether the kernel collects small writes before the store gets them
    #[arg(long, value_name = "WHETHER", default_value = "off")]
    pub write_back: Switch,
    /// Threads that serve requests [default: one for each processor, 2 to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// How long the kernel keeps names and attributes, such as 500ms or 10m, or 0 [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,
    /// Most bytes that files may allocate, such as 10G, until it is unmounted; 0: no limit [default: as in mkfs]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_bytes: Option<u64>,
    /// Most files, directories and other inodes, until it is unmounted; 0: no limit [default: as in mkfs]
    #[arg(long, value_name = "N")]
    pub max_inodes: Option<u64>,
    /// Refuse changes
    #[arg(long)]
    pub read_only: bool,
    /// Let other users use it; permissions are checked in any case
    #[arg(long)]
    pub allow_other: bool,
    /// Serve it in a process of its own, without a terminal
    #[arg(long)]
    pub background: bool,
    /// This process is the one that --background starts.
    #[arg(long, hide = true, conflicts_with = "background")]
    pub detached: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        text => parse_duration(text).map_err(|error| format!("{error}, or 0")),
    }
}

/// Unmount a file system that `mount` has mounted, and wait until its store is closed and its process has ended
#[derive(Debug, Args)]
#[command(after_help = "\
A directory where something else is mounted is left alone. A mount whose process has died is removed, too.

Example:
  alluvium unmount /mnt")]
pub struct Unmount {
    /// The directory where the file system is mounted
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Check the file system of a store and list all that is wrong; exit code 3 if there is anything
#[derive(Debug, Args)]
#[command(after_help = "\
This checks what the file system has stored: names, links, sizes, numbers. `alluvium verify` checks the files of the
store. Nothing is changed. It works while the file system is mounted: then it shows one moment.

Orphans are files that were in use when they were removed. The next mount deletes those of a process that has died.

Findings: nothing repairs a file system. Run `alluvium verify` to see whether the files of the store are damaged. Take what is
missing from a backup. Or mount with --read-only, copy what can be read to a new file system, and compare the paths that the
findings name; a damaged file or directory gives EIO.

Examples:
  alluvium check /tmp/store
  alluvium --db /tmp/store check --json")]
pub struct Check {
    #[command(flatten)]
    pub of: OfStore,
}

#[cfg(test)]
mod tests {
    use super::parse_timeout;
    use std::time::Duration;

    #[test]
    fn timeouts_may_be_zero() {
        assert_eq!(parse_timeout("0"), Ok(Duration::ZERO));
        assert_eq!(parse_timeout("1m30s"), Ok(Duration::from_secs(90)));
        assert!(parse_timeout("5").is_err());
    }
}
