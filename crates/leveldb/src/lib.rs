//! Alluvium behind the C interface of LevelDB 1.23: all functions of its `leveldb/c.h`, with the same names, arguments and meaning, so that
//! a program that was linked against LevelDB's shared library runs with this one. `README.md` tells what differs.
//!
//! One file for each kind of object that C knows: `database`, `iterator`, `snapshot`, `write_batch`, `options`, `read_options`,
//! `write_options`, `comparator`, `filter_policy`, `cache`, `env`, and `utility`. What they share: `handle` (objects that C points to, and
//! what is told of wrong pointers), `boundary` (errors and panics), `bytes` (memory that goes over), `status` (LevelDB's words for errors),
//! `misuse`. What they do is in `store`, over `order` where a program brings its own order of keys, in `maintenance`, `property`, `memory`.

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
