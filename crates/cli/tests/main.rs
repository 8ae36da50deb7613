//! The built binary as users run it: every command, its output, its exit codes. One binary of tests.

mod backup;
mod bench;
mod changes;
mod dump;
mod file_system;
mod import;
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
