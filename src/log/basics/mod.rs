//! What the other files of the log build on: names and sizes of files, the owners of chunks, groups of waiting threads.

pub mod chunk_owners;
pub mod group;
pub mod names;
pub mod segment_size;
pub mod zeroes;
