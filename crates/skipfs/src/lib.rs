//! SkipFS: a file system whose metadata and content live in a key-value store.
//!
//! After SkipStore (§6.4), which follows TableFS: the entries of all directories are keys of one ordered store, and the
//! inode of a file lies in its entry. So a lookup is one get, a directory is one range, and a create is one batch.
//!
//! [`SkipFs`] is the file system: inode-based requests, as in FUSE. [`Store`](store::Store) is what it needs below;
//! [`AlluviumStore`](store::AlluviumStore) is Alluvium. [`check`] examines what is in a store, and [`fuse`] mounts it.
//!
//! ```
//! use skipfs::store::AlluviumStore;
//! use skipfs::{Caller, MkfsOptions, ROOT, SkipFs, WriteOptions};
//! # fn main() -> skipfs::FsResult<()> {
//! let db = alluvium::Db::open_temporary(alluvium::Options::default()).expect("a temporary directory");
//! let store = AlluviumStore::of(db, None);
//! SkipFs::mkfs(&store, &MkfsOptions::default())?;
//! let fs = SkipFs::open(store)?;
//! let rivers = fs.mkdir(ROOT, b"rivers", 0o755, Caller::default())?;
//! let danube = fs.create(rivers.ino, b"danube", 0o644, Caller::default())?;
//! fs.write(danube.ino, 0, b"Black Sea", WriteOptions::default())?;
//! assert_eq!(fs.read(danube.ino, 6, 100)?, b"Sea");
//! fs.release(danube.ino)?;
//! fs.forget(danube.ino, 1);
//! fs.forget(rivers.ino, 1);
//! fs.close()
//! # }
//! ```

pub mod check;
mod error;
pub mod format;
mod fs;
pub mod fuse;
pub mod store;

pub use error::{FsError, FsResult};
pub use format::{Attributes, FileKind, Layout, Limits, ROOT, Superblock, Timestamp};
pub use fs::{
    Caller, DirectoryEntry, DirectoryHandle, FilePlace, MkfsOptions, OpenOptions, RenameMode, SeekTo, SetAttributes,
    SetMode, SetTime, SkipFs, Statistics, Visit, WriteOptions,
};
