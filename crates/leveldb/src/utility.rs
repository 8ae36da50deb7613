//! Functions for memory that was returned to C, and the version of the interface.

use crate::bytes;
use libc::{c_int, c_void};

/// Releases memory that a function of this library returned. `free` does the same.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_free(pointer: *mut c_void) {
    bytes::release(pointer);
}

/// The major version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The minor version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
