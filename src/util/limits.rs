//! The bounds that the whole store keeps to.

/// Longest user key, bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// A value of this length or more goes to a value file of its own (`protocol.md`, The log).
pub const VALUE_FILE_BYTES_MIN: usize = 256 << 10;
/// Most bytes that one batch may take in memory: keys, values below `VALUE_FILE_BYTES_MIN`, and 64 bytes an operation.
pub const BATCH_BYTES_MAX: usize = 32 << 20;
/// What an operation takes in memory besides its key and value, at most on average: a batch of a million tiny keys is no small
/// batch, and the arena's slack must hold several.
pub const OPERATION_MEMORY_BYTES: usize = 64;
/// Alignment of direct I/O: every offset, length and buffer address is a multiple.
pub const IO_ALIGNMENT: usize = 4096;

const _: () = assert!(VALUE_FILE_BYTES_MIN < BATCH_BYTES_MAX);
const _: () = assert!(IO_ALIGNMENT.is_power_of_two());
