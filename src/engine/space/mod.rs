//! Space on the disk: the ballast, the full disk, and the removal of obsolete files.

pub(crate) mod ballast;
pub(crate) mod deleted_values;
pub(crate) mod full_disk;
mod in_vain;
pub(crate) mod removal;
pub(crate) mod small_disk;
