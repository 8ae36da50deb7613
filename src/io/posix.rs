//! (being written)
/// A store's directory on a POSIX file system.
#[derive(Debug)]
pub struct PosixStorage;
