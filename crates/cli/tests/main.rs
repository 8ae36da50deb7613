//! The built binary as users run it: every command, its output, its exit codes. One binary of tests.

mod backup;
mod bench;
mod changes;
mod dump;
mod file_system;
mod import;
#[cfg(feature = "rocksdb")]
mod import_rocksdb;
mod keyspaces;
mod load;
mod operators;
mod point;
mod refusals;
mod reports;
mod scan;
mod shell;
mod soak;
mod support;
