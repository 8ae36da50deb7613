//! Reads through the system's page cache, as long as there is memory for it.

pub(super) mod cached_file;
pub(super) mod memory_room;
pub(super) mod resident_reads;
