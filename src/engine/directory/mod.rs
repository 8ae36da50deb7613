//! The files of a store's directory: their names, the locks that openers take, and which store each file belongs to.

pub(crate) mod leveldb_guard;
pub(crate) mod listing;
pub(crate) mod locks;
pub(crate) mod owners;
pub(crate) mod store_files;
