//! Reads a database that LevelDB has written, without LevelDB and without writing anything: what its directory holds, each key once, with its
//! newest value, in the order of keys.
//!
//! From the bottom up: `checksum` and `decode` (numbers), `log` (the form of logs and of the manifest), `manifest` (which files there
//! are), `batch` (what a log's record says), `block` and `table` (sorted files), `level` (tables behind each other), `memory` (what logs
//! hold, sorted), `merge`, and `database`, which joins them. The formats are those of LevelDB 1.23, whose documents `log_format`,
//! `table_format` and `impl` describe them; each module has its table of bytes.

mod batch;
mod block;
mod checksum;
mod database;
mod decode;
mod error;
mod file;
mod internal_key;
mod level;
mod log;
mod manifest;
mod memory;
mod merge;
mod table;

pub use database::{Database, Options, Pairs};
pub use error::{Error, LeftOut, Result};
