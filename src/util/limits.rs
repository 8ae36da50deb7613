//! The limits of the whole store. Constants.

/// Longest user key, bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// A value of this length or more is stored in a value file of its own.
pub const VALUE_FILE_BYTES_MIN: usize = 256 << 10;
/// Most bytes that one batch may take in memory: keys, values below `VALUE_FILE_BYTES_MIN`, and 64 bytes an operation.
pub const BATCH_BYTES_MAX: usize = 32 << 20;
/// Most bytes of memory that an operation takes on average in addition to its key and value. A batch of a million tiny
/// keys is not small, and the arena's slack must have space for several batches.
pub const OPERATION_MEMORY_BYTES: usize = 64;
/// Most bytes of the puts in a write with `WriteOptions::frees_space` that a full disk takes: keys, values, and 64 bytes
/// an operation.
pub const FREEING_BYTES_MAX: usize = 32 << 10;
/// Alignment of direct I/O: every offset, length and buffer address is a multiple.
pub const IO_ALIGNMENT: usize = 4096;

const _: () = assert!(VALUE_FILE_BYTES_MIN < BATCH_BYTES_MAX);
const _: () = assert!(FREEING_BYTES_MAX < VALUE_FILE_BYTES_MIN);
const _: () = assert!(IO_ALIGNMENT.is_power_of_two());
