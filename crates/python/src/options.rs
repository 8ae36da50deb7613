//! The options of opening a store, converted from plyvel's.

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use alluvium::storage::PosixStorage;
use alluvium::{
    ChangeRetention, Compression, Db, Durability, Error, KeyspaceOptions, MergeOperator, Options, ReadOnlyDb,
    merge_operators,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The smallest default budget; with less, the store works less well.
const MEMORY_MIN: u64 = 128 << 20;
/// The largest budget that the store itself accepts.
const MEMORY_MAX: u64 = 64 << 40;
/// LevelDB's defaults.
const WRITE_BUFFER: u64 = 4 << 20;
const CACHE: u64 = 8 << 20;

/// The options of LevelDB that set its memory.
pub struct LevelDbOptions {
    /// The size of one of two buffers.
    pub write_buffer_size: Option<u64>,
    /// The size of the cache.
    pub lru_cache_size: Option<u64>,
}

impl LevelDbOptions {
    /// Returns what LevelDB would use. The store's own default, up to 1 GiB for all stores, would surprise Python programs.
    pub fn memory(&self) -> u64 {
        let buffers = self.write_buffer_size.unwrap_or(WRITE_BUFFER).saturating_mul(2);
        buffers.saturating_add(self.lru_cache_size.unwrap_or(CACHE)).clamp(MEMORY_MIN, MEMORY_MAX)
    }
}

/// What to open, and how.
pub struct Settings {
    /// The store's directory.
    pub path: PathBuf,
    /// Whether a missing store is created.
    pub create_if_missing: bool,
    /// Whether an existing store is an error.
    pub error_if_exists: bool,
    /// Whether the store is opened for reading only.
    pub read_only: bool,
    /// The compression of new files.
    pub compression: Compression,
    /// The memory budget in bytes.
    pub memory: u64,
    /// The interval of syncs.
    pub sync_interval: Option<Duration>,
    /// What `merge` makes of values and operands.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// How much is kept for followers.
    pub change_retention: Option<ChangeRetention>,
}

impl Settings {
    /// Opens the store.
    pub fn open(self) -> Outcome<Engine> {
        if self.error_if_exists && self.path.join("MANIFEST").exists() {
            return Err(Failure::Other(format!("{} exists (error_if_exists is true)", self.path.display())));
        }
        let mut options = Options::new()
            .memory_budget(self.memory)
            .sync_interval(self.sync_interval)
            .compression(self.compression)
            .create_if_missing(self.create_if_missing)
            .change_retention(self.change_retention);
        options.merge_operator = self.merge_operator;
        // A Python program leaves most of the machine's memory to the page cache.
        let storage = Arc::new(PosixStorage::new(&self.path).reading_through_page_cache());
        let opened = match self.read_only {
            true => ReadOnlyDb::open_with(storage, options).map(|db| Engine::Reader(Box::new(db))),
            false => Db::open_with(storage, options).map(Engine::Writer),
        };
        opened.map_err(|error| match error {
            Error::NoStore { path, reason } if !self.read_only && !self.create_if_missing => {
                let name = path.display();
                Failure::Other(format!("no store at {name}: {reason} (create_if_missing is false)"))
            }
            other => other.into(),
        })
    }
}

/// Converts a path: a `str`, `bytes` or `os.PathLike`.
pub fn path(name: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let encoded = name.py().import("os")?.call_method1("fsencode", (name,))?.cast_into::<PyBytes>()?;
    Ok(OsString::from_vec(encoded.as_bytes().to_vec()).into())
}

/// A string, as `str` or as `bytes`.
#[derive(FromPyObject)]
pub enum Text {
    /// A `str`.
    Str(String),
    /// A `bytes`.
    Bytes(Vec<u8>),
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

/// Returns the compression of files. Snappy selects LZ4, which is similar.
pub fn compression(name: Option<Text>) -> PyResult<Compression> {
    let name = match &name {
        None => return Ok(Compression::None),
        Some(Text::Str(name)) => name.as_bytes(),
        Some(Text::Bytes(name)) => name,
    };
    match name {
        b"lz4" | b"snappy" => Ok(Compression::Lz4),
        b"zstd" => Ok(Compression::Zstd),
        _ => Err(PyValueError::new_err("'compression' must be None, 'lz4', 'snappy' or 'zstd'")),
    }
}

/// Returns one of the merge operators that come with the store.
pub fn merge_operator(name: Option<&str>) -> PyResult<Option<Arc<dyn MergeOperator>>> {
    let Some(name) = name else { return Ok(None) };
    let found = merge_operators::named(&format!("alluvium.{name}"));
    let wrong = "'merge_operator' must be None, 'add', 'append', 'bitor', 'max' or 'min'";
    found.map(Some).ok_or_else(|| PyValueError::new_err(wrong))
}

/// Returns how much is kept for followers.
pub fn change_retention(bytes: Option<u64>, age: Option<f64>) -> PyResult<Option<ChangeRetention>> {
    let wrong = |_| PyValueError::new_err("'keep_changes_age' must be None or a number of seconds, not negative");
    let age = age.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(wrong)).transpose()?;
    match bytes {
        None if age.is_some() => Err(PyValueError::new_err("'keep_changes_age' needs 'keep_changes'")),
        bytes => Ok(bytes.map(|bytes| ChangeRetention::new(bytes).age(age))),
    }
}

/// Returns the durability of a keyspace.
fn durability(name: Option<&str>) -> PyResult<Option<Durability>> {
    Ok(Some(match name {
        None => return Ok(None),
        Some("buffered") => Durability::Buffered,
        Some("sync") => Durability::Sync,
        Some("unlogged") => Durability::Unlogged,
        Some(_) => {
            return Err(PyValueError::new_err("'durability' must be None, 'buffered', 'sync' or 'unlogged'"));
        }
    }))
}

/// Returns the options of a keyspace.
pub fn of_keyspace(
    operator: Option<&str>,
    durability_name: Option<&str>,
    expiry: Option<f64>,
) -> PyResult<KeyspaceOptions> {
    let wrong = |_| PyValueError::new_err("'expiry' must be None or a number of seconds, more than 0");
    let expiry = expiry.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(wrong)).transpose()?;
    let mut options = KeyspaceOptions::new().durability(durability(durability_name)?).expiry(expiry);
    options.merge_operator = merge_operator(operator)?;
    Ok(options)
}

/// Keys are sorted by their bytes; a request for another order must fail.
pub fn check_comparator(comparator: Option<&Bound<'_, PyAny>>, is_named: bool) -> PyResult<()> {
    match comparator {
        None if !is_named => Ok(()),
        Some(comparator) if is_named && !comparator.is_callable() => {
            Err(PyTypeError::new_err("custom comparator object must be callable"))
        }
        Some(_) if is_named => Err(Failure::Invalid(
            "custom comparators are not supported: keys are sorted by their bytes; encode keys so that this is the order you need".into(),
        )
        .into()),
        _ => Err(PyValueError::new_err("'comparator' and 'comparator_name' must be specified together")),
    }
}

/// Converts the seconds between syncs; `None` disables them.
pub fn interval(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = |_| PyValueError::new_err("'sync_interval' must be None or a number of seconds, not negative");
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(wrong)).transpose()
}
