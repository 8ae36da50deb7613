//! The file system as a mount: an adapter between the kernel's FUSE module and `SkipFs`.
//!
//! The store has one writer, and the kernel sends all changes through this mount. So the kernel may cache entries,
//! attributes and content as long as it likes. The kernel checks permissions (`default_permissions`), and takes
//! set-user-ID away where a write must.

mod adapter;
mod convert;
mod handles;
mod mount_table;
mod mounting;
mod options;
mod process;
mod signals;
mod unmounting;

pub use mount_table::{MountedAt, mounted_at};
pub use mounting::{Mounted, mount, spawn};
pub use options::MountOptions;
pub use signals::Signals;
pub use unmounting::unmount;
