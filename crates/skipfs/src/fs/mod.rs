//! The file system over a store: inodes, directories, content. `system.rs` has its parts, each other file some of its
//! requests.
//!
//! # Rules of threads
//!
//! 1. Each inode in use has one `Inode` in the table, and one lock on its `State`. A request that uses an inode holds a pin,
//!    so that the table keeps it.
//! 2. A directory in use pins its parent. So the way from each directory in use to the root is in the table.
//! 3. The entries of a directory change only under its write lock, and are looked up under its read lock. The record of
//!    an inode and its place change only under its own write lock.
//! 4. A thread waits for a lock only if its inode has a greater number than all inodes that the thread has locked. In
//!    any other case it tries, and if that fails, gives up what it holds and begins anew (`locks.rs`). So no threads
//!    wait for each other in a circle.
//! 5. A rename between two directories holds a mutex from before its first lock. Parents of directories change only
//!    under it.
//! 6. A request commits one batch while it holds its locks, and changes states in memory only after that. So the store
//!    applies the batches of an inode in the order in which its locks were held.
//! 7. The locks of the inode numbers and of what is used come last, in this order (`counts/`).

mod attributes;
mod change;
mod content;
mod counts;
mod creating;
mod directory;
mod extended;
mod idle;
mod inodes;
mod linking;
mod locks;
mod lookup;
mod nameless;
mod opening;
mod removing;
mod renaming;
mod system;

pub use attributes::{SetAttributes, SetTime};
pub use content::{FilePlace, SeekTo, WriteOptions};
pub use creating::Caller;
pub use directory::{DirectoryEntry, DirectoryHandle, Visit};
pub use extended::SetMode;
pub use opening::{MkfsOptions, OpenOptions};
pub use renaming::RenameMode;
pub use system::{SkipFs, Statistics};
