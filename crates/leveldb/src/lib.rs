//! Alluvium behind the C interface of LevelDB 1.23: all functions of its `leveldb/c.h`, with the same names, arguments
//! and meaning. A program that was linked against LevelDB's shared library runs with this one. `README.md` lists the
//! differences.
//!
//! There is one file for each kind of object in the C interface: `database`, `iterator`, `snapshot`, `write_batch`,
//! `options`, `read_options`, `write_options`, `comparator`, `filter_policy`, `cache`, `env`, and `utility`. They share
//! `handle` (objects to which C points, and the detection of wrong pointers), `boundary` (errors and panics), `bytes`
//! (memory that is passed in and out), `status` (LevelDB's error strings) and `misuse`. The work is done in `store`,
//! over `order` if the program has its own comparator, and in `maintenance`, `property` and `memory`.

mod boundary;
mod bytes;
mod cache;
mod comparator;
mod database;
mod env;
mod filter_policy;
mod handle;
mod iterator;
mod maintenance;
mod memory;
mod misuse;
mod options;
mod order;
mod property;
mod read_options;
mod snapshot;
mod status;
mod store;
mod utility;
mod write_batch;
mod write_options;
