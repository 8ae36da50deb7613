//! How a store is opened. Several threads may use one object of options, and one may change it meanwhile.

use crate::boundary;
use crate::cache::Cache;
use crate::comparator::Comparator;
use crate::env::Env;
use crate::filter_policy::FilterPolicy;
use crate::handle::{Handle, object};
use crate::memory;
use crate::status::Status;
use alluvium::Compression;
use libc::{c_int, c_void};
use parking_lot::Mutex;
use std::sync::Arc;

/// `leveldb_snappy_compression` of the header.
const SNAPPY: c_int = 1;

/// What a program has set, of what matters here.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether a store may be made.
    pub create_if_missing: bool,
    /// Whether one that is there is an error.
    pub error_if_exists: bool,
    comparator: Handle<Comparator>,
    cache: Handle<Cache>,
    write_buffer: usize,
    is_compressed: bool,
}

/// Options of a store.
pub struct Options(Mutex<Settings>);

object!(Options, "leveldb_options_t", Shared);

impl Options {
    /// What is set now.
    pub fn settings(&self) -> Settings {
        *self.0.lock()
    }
}

impl Settings {
    /// The caller's comparator, where there is one.
    pub fn comparator(&self) -> Result<Option<Arc<Comparator>>, Status> {
        if self.comparator.is_null() { Ok(None) } else { Ok(Some(self.comparator.get()?.keep())) }
    }

    /// The options of the store below.
    pub fn of_store(&self) -> Result<alluvium::Options, Status> {
        let cache = if self.cache.is_null() { None } else { Some(self.cache.get()?.capacity as u64) };
        Ok(alluvium::Options {
            create_if_missing: self.create_if_missing,
            compression: if self.is_compressed { Compression::Lz4 } else { Compression::None },
            memory_budget: Some(memory::budget(self.write_buffer as u64, cache)?),
            ..alluvium::Options::default()
        })
    }
}

fn set(function: &str, options: Handle<Options>, change: impl FnOnce(&mut Settings) -> Result<(), Status>) {
    boundary::infallible(function, (), || change(&mut options.get()?.0.lock()));
}

/// Makes the default options: those of LevelDB 1.23.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> Handle<Options> {
    Handle::new(Options(Mutex::new(Settings {
        create_if_missing: false,
        error_if_exists: false,
        comparator: Handle::NULL,
        cache: Handle::NULL,
        write_buffer: memory::WRITE_BUFFER,
        is_compressed: true,
    })))
}

/// Ends an object of options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: Handle<Options>) {
    boundary::infallible("leveldb_options_destroy", (), || Ok(options.end().map(drop)?));
}

/// Sets the order of keys; NULL for that of their bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_comparator(options: Handle<Options>, comparator: Handle<Comparator>) {
    set("leveldb_options_set_comparator", options, |settings| {
        if !comparator.is_null() {
            comparator.get()?;
        }
        settings.comparator = comparator;
        Ok(())
    });
}

/// Nothing: the store has filters of its own.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_filter_policy(options: Handle<Options>, policy: Handle<FilterPolicy>) {
    set("leveldb_options_set_filter_policy", options, |_| {
        if !policy.is_null() {
            policy.get()?;
        }
        Ok(())
    });
}

/// Sets whether a store is made where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_create_if_missing(options: Handle<Options>, value: u8) {
    set("leveldb_options_set_create_if_missing", options, |settings| {
        settings.create_if_missing = value != 0;
        Ok(())
    });
}

/// Sets whether it is an error that there is a store.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_error_if_exists(options: Handle<Options>, value: u8) {
    set("leveldb_options_set_error_if_exists", options, |settings| {
        settings.error_if_exists = value != 0;
        Ok(())
    });
}

/// Nothing: damage is always an error where it is met, and a broken manifest or log where it is opened.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(options: Handle<Options>, _value: u8) {
    set("leveldb_options_set_paranoid_checks", options, |_| Ok(()));
}

/// Nothing: there is one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(options: Handle<Options>, env: Handle<Env>) {
    set("leveldb_options_set_env", options, |_| {
        if !env.is_null() {
            env.get()?;
        }
        Ok(())
    });
}

/// Nothing: the interface has no way to make a logger.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(options: Handle<Options>, _logger: *mut c_void) {
    set("leveldb_options_set_info_log", options, |_| Ok(()));
}

/// Sets how many bytes of new writes LevelDB would gather in memory; the store's memory follows from it (`memory`).
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_write_buffer_size(options: Handle<Options>, bytes: usize) {
    set("leveldb_options_set_write_buffer_size", options, |settings| {
        settings.write_buffer = bytes;
        Ok(())
    });
}

/// Nothing: open files are bounded.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_open_files(options: Handle<Options>, _files: c_int) {
    set("leveldb_options_set_max_open_files", options, |_| Ok(()));
}

/// Sets a cache, from whose capacity the store's memory follows (`memory`); NULL for the default.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_cache(options: Handle<Options>, cache: Handle<Cache>) {
    set("leveldb_options_set_cache", options, |settings| {
        if !cache.is_null() {
            cache.get()?;
        }
        settings.cache = cache;
        Ok(())
    });
}

/// Nothing: leaves choose their size.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_size(options: Handle<Options>, _bytes: usize) {
    set("leveldb_options_set_block_size", options, |_| Ok(()));
}

/// Nothing: the format of leaves has no restarts.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_restart_interval(options: Handle<Options>, _entries: c_int) {
    set("leveldb_options_set_block_restart_interval", options, |_| Ok(()));
}

/// Nothing: files are as large as the tree wants them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_file_size(options: Handle<Options>, _bytes: usize) {
    set("leveldb_options_set_max_file_size", options, |_| Ok(()));
}

/// Sets whether leaves are compressed. What is called snappy is LZ4 here.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_compression(options: Handle<Options>, kind: c_int) {
    set("leveldb_options_set_compression", options, |settings| {
        settings.is_compressed = kind == SNAPPY;
        Ok(())
    });
}
