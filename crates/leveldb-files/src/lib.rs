//! Reads a database that LevelDB has written, without LevelDB and without writing anything. Returns each key once, with
//! its newest value, in key order.
//!
//! From the bottom up: `checksum` and `decode` (numbers), `log` (the record format of logs and of the manifest),
//! `manifest` (the list of files), `batch` (the contents of a log record), `block` and `table` (sorted files), `level`
//! (tables that do not overlap), `memory` (the sorted contents of the logs), `merge`, and `database`, which joins them.
//! The formats are those of LevelDB 1.23, described in its documents `log_format`, `table_format` and `impl`. Each
//! module has a table of its bytes.

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

pub use database::{Database, Options, Pairs, lock};
pub use error::{Error, LeftOut, Result};
