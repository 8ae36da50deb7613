//! Tests of the manifest: the state, the file, and the file on a disk that fails.

mod buffered;
mod crash;
mod file;
mod generator;
mod runs;
mod state;
