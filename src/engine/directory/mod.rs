//! A store's directory: the names of its files, the locks between openers, and which store each file belongs to.

pub(crate) mod file_hashes;
pub(crate) mod leveldb_guard;
pub(crate) mod listing;
pub(crate) mod locks;
pub(crate) mod owners;
pub(crate) mod repair_mark;
pub(crate) mod store_files;
