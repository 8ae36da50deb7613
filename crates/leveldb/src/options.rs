//! Options for opening a store. Several threads may use one options object while another changes it.

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

/// The settings that have an effect here.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Whether a missing store is created.
    pub create_if_missing: bool,
    /// Whether an existing store is an error.
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
    /// Returns the current settings.
    pub fn settings(&self) -> Settings {
        *self.0.lock()
    }
}

impl Settings {
    /// Returns the caller's comparator, if any.
    pub fn comparator(&self) -> Result<Option<Arc<Comparator>>, Status> {
        if self.comparator.is_null() { Ok(None) } else { Ok(Some(self.comparator.get()?.keep())) }
    }

    /// Returns the options of the underlying store.
    pub fn of_store(&self) -> Result<alluvium::Options, Status> {
        let cache = if self.cache.is_null() { None } else { Some(self.cache.get()?.capacity as u64) };
        Ok(alluvium::Options::new()
            .create_if_missing(self.create_if_missing)
            .compression(if self.is_compressed { Compression::Lz4 } else { Compression::None })
            .memory_budget(memory::budget(self.write_buffer as u64, cache)?))
    }
}

fn set(function: &str, options: Handle<Options>, change: impl FnOnce(&mut Settings) -> Result<(), Status>) {
    boundary::infallible(function, (), || change(&mut options.get()?.0.lock()));
}

/// Creates the default options of LevelDB 1.23.
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

/// Destroys an options object.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: Handle<Options>) {
    boundary::infallible("leveldb_options_destroy", (), || Ok(options.end().map(drop)?));
}

/// Sets the comparator; NULL sorts keys by their bytes.
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

/// No effect: the store has its own filters.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_filter_policy(options: Handle<Options>, policy: Handle<FilterPolicy>) {
    set("leveldb_options_set_filter_policy", options, |_| {
        if !policy.is_null() {
            policy.get()?;
        }
        Ok(())
    });
}

/// Sets whether a missing store is created.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_create_if_missing(options: Handle<Options>, value: u8) {
    set("leveldb_options_set_create_if_missing", options, |settings| {
        settings.create_if_missing = value != 0;
        Ok(())
    });
}

/// Sets whether an existing store is an error.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_error_if_exists(options: Handle<Options>, value: u8) {
    set("leveldb_options_set_error_if_exists", options, |settings| {
        settings.error_if_exists = value != 0;
        Ok(())
    });
}

/// No effect: damage is always an error when it is read, and a damaged manifest or log when the store is opened.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(options: Handle<Options>, _value: u8) {
    set("leveldb_options_set_paranoid_checks", options, |_| Ok(()));
}

/// No effect: there is only one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(options: Handle<Options>, env: Handle<Env>) {
    set("leveldb_options_set_env", options, |_| {
        if !env.is_null() {
            env.get()?;
        }
        Ok(())
    });
}

/// No effect: the interface has no function that creates a logger.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(options: Handle<Options>, _logger: *mut c_void) {
    set("leveldb_options_set_info_log", options, |_| Ok(()));
}

/// Sets LevelDB's write buffer size, from which the store's memory budget is computed (`memory`).
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_write_buffer_size(options: Handle<Options>, bytes: usize) {
    set("leveldb_options_set_write_buffer_size", options, |settings| {
        settings.write_buffer = bytes;
        Ok(())
    });
}

/// No effect: the store limits its open files itself.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_open_files(options: Handle<Options>, _files: c_int) {
    set("leveldb_options_set_max_open_files", options, |_| Ok(()));
}

/// Sets a cache, from whose capacity the store's memory budget is computed (`memory`). NULL means the default.
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

/// No effect: the store chooses the size of leaves.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_size(options: Handle<Options>, _bytes: usize) {
    set("leveldb_options_set_block_size", options, |_| Ok(()));
}

/// No effect: leaves have no restart points.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_restart_interval(options: Handle<Options>, _entries: c_int) {
    set("leveldb_options_set_block_restart_interval", options, |_| Ok(()));
}

/// No effect: the store chooses the size of files.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_file_size(options: Handle<Options>, _bytes: usize) {
    set("leveldb_options_set_max_file_size", options, |_| Ok(()));
}

/// Sets whether leaves are compressed. `leveldb_snappy_compression` selects LZ4 here.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_compression(options: Handle<Options>, kind: c_int) {
    set("leveldb_options_set_compression", options, |settings| {
        settings.is_compressed = kind == SNAPPY;
        Ok(())
    });
}
