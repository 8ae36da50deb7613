//! A database of RocksDB, opened for reading by RocksDB itself: its column families, and the pairs of each.
//!
//! 1. Nothing in the directory changes: a database that is opened read-only has neither a log of messages nor files of options.
//! 2. RocksDB takes no lock then, so this does: the database must not change between two column families.
//! 3. Damage in the log is an error. RocksDB by default drops the rest of the log silently.

use super::rocksdb_files::{self, LogPlace};
use crate::failure::Failure;
use rocksdb::{
    ColumnFamily, DB, DBRecoveryMode, DEFAULT_COLUMN_FAMILY_NAME, Error, ErrorKind, Options, ReadOptions, properties,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Tables that are open at once. By default RocksDB opens all, more than the system may allow.
const OPEN_FILES: i32 = 256;
/// Bytes that are read ahead of an iterator.
const READ_AHEAD: usize = 2 << 20;
/// What RocksDB says before the name of a comparator that it was not given.
const OTHER_COMPARATOR: &str = "does not match existing comparator ";
/// What RocksDB says if it meets merge operands: the operator is not set.
const OPERATOR: &str = "merge_operator";

/// Called with each pair.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), Failure> + 'a;

/// The files that are read.
pub struct Files {
    /// The number of tables.
    pub tables: u64,
    /// The number of log files.
    pub logs: u64,
    /// The bytes of all.
    pub bytes: u64,
}

/// See the module.
pub struct Source {
    directory: PathBuf,
    families: Vec<String>,
    db: DB,
    /// Keeps programs from opening the directory for writing.
    _lock: Option<File>,
}

impl Source {
    /// Opens all column families, or those that are named.
    pub fn open(directory: &Path, named: &[String]) -> Result<Self, Failure> {
        check(directory)?;
        let lock = alluvium_leveldb_files::lock(directory)?;
        check_log(directory)?;
        let existing = DB::list_cf(&options(), directory)
            .map_err(|error| failed(&format!("list the column families of {}", directory.display()), &error))?;
        let families = chosen(directory, existing, named)?;
        let db = open(directory, &families).map_err(|error| cannot_open(directory, &families, &error))?;
        Ok(Self { directory: directory.to_path_buf(), families, db, _lock: lock })
    }

    /// The names of the column families.
    pub fn families(&self) -> &[String] {
        &self.families
    }

    /// About how many pairs there are.
    pub fn about_pairs(&self) -> u64 {
        let families = self.families.iter().filter_map(|family| self.db.cf_handle(family));
        let about = |family: &ColumnFamily| self.db.property_int_value_cf(family, properties::ESTIMATE_NUM_KEYS);
        families.filter_map(|family| about(family).ok()?).sum()
    }

    /// The files of the column families.
    pub fn files(&self) -> Result<Files, Failure> {
        let cannot = |error: &Error| failed(&format!("list the files of {}", self.directory.display()), error);
        let mut tables = self.db.live_files().map_err(|error| cannot(&error))?;
        tables.retain(|table| self.families.contains(&table.column_family_name));
        let logs = rocksdb_files::logs(&self.directory);
        let bytes = tables.iter().map(|table| table.size as u64).chain(logs.iter().copied()).sum();
        Ok(Files { tables: tables.len() as u64, logs: logs.len() as u64, bytes })
    }

    /// Visits all pairs of a column family in key order.
    pub fn visit(&self, family: &str, visitor: &mut Visitor<'_>) -> Result<(), Failure> {
        let Some(handle) = self.db.cf_handle(family) else {
            return Err(unknown(&self.directory, family, &self.families));
        };
        let mut reading = ReadOptions::default();
        reading.fill_cache(false);
        reading.set_readahead_size(READ_AHEAD);
        let mut iterator = self.db.raw_iterator_cf_opt(handle, reading);
        iterator.seek_to_first();
        while let Some((key, value)) = iterator.item() {
            visitor(key, value)?;
            iterator.next();
        }
        let what = || format!("read the column family {family:?} of {}", self.directory.display());
        iterator.status().map_err(|error| failed(&what(), &error))
    }
}

/// Fails if the directory is obviously no database of RocksDB, with a better reason than RocksDB gives.
fn check(directory: &Path) -> Result<(), Failure> {
    let reason = if !directory.exists() {
        "there is no such directory"
    } else if !directory.join("CURRENT").exists() {
        "it has no file CURRENT"
    } else if !rocksdb_files::is_database(directory) {
        "it has neither a file IDENTITY nor one of options; if LevelDB wrote it, pass --from leveldb"
    } else {
        return Ok(());
    };
    Err(source_failure(format!("{} is not a database of RocksDB: {reason}", directory.display())))
}

/// Fails if the log is in another directory: without it, pairs would be missing.
fn check_log(directory: &Path) -> Result<(), Failure> {
    let database = directory.display();
    match rocksdb_files::log_place(directory) {
        LogPlace::Inside => Ok(()),
        LogPlace::Missing(place) => {
            let place = place.display();
            eprintln!("alluvium: note: {database} has no log file; its options name {place}, which does not exist");
            Ok(())
        }
        LogPlace::Elsewhere(place) => {
            let place = place.display();
            Err(source_failure(format!(
                "{database} has its log in {place}, where it is not read; copy the files *.log from there to {database}"
            )))
        }
    }
}

/// The options that reading needs. Column families have their defaults.
fn options() -> Options {
    let mut options = Options::default();
    options.set_max_open_files(OPEN_FILES);
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options
}

fn open(directory: &Path, families: &[String]) -> Result<DB, Error> {
    DB::open_cf_for_read_only(&options(), directory, families, false)
}

/// The column families that are named, each once; all if none is named.
fn chosen(directory: &Path, existing: Vec<String>, named: &[String]) -> Result<Vec<String>, Failure> {
    if named.is_empty() {
        return Ok(existing);
    }
    let mut families = Vec::new();
    for name in named {
        if !existing.contains(name) {
            return Err(unknown(directory, name, &existing));
        }
        if !families.contains(name) {
            families.push(name.clone());
        }
    }
    Ok(families)
}

fn unknown(directory: &Path, name: &str, existing: &[String]) -> Failure {
    let existing: Vec<String> = existing.iter().map(|name| format!("{name:?}")).collect();
    let directory = directory.display();
    source_failure(format!("{directory} has no column family {name:?}; it has {}", existing.join(", ")))
}

/// The failure of opening. If one column family is the reason, it is named: RocksDB does not say which one it is, so each is tried
/// alone.
fn cannot_open(directory: &Path, families: &[String], error: &Error) -> Failure {
    let is_of_family = |error: &Error| [OTHER_COMPARATOR, OPERATOR].iter().any(|text| error.as_ref().contains(text));
    let default = DEFAULT_COLUMN_FAMILY_NAME.to_string();
    let tried = std::iter::once(&default).chain(families).filter(|_| is_of_family(error));
    let alone = |family| Some((family, open(directory, std::slice::from_ref(family)).err()?));
    let Some((family, error)) = { tried }.find_map(alone) else {
        return failed(&format!("open {}", directory.display()), error);
    };
    let what = format!("the column family {family:?} of {}", directory.display());
    let Some((_, comparator)) = error.as_ref().split_once(OTHER_COMPARATOR) else {
        return failed(&format!("read {what}"), &error);
    };
    // RocksDB opens no other column family without the default one.
    let way_out = if *family == default { "" } else { "; --column-family chooses others" };
    source_failure(format!(
        "{what} is sorted by the comparator {:?}; only column families that are sorted by bytes can be imported{way_out}",
        comparator.trim()
    ))
}

/// The failure of a call of RocksDB, with what to do about it where that is known.
fn failed(what: &str, error: &Error) -> Failure {
    let text = error.as_ref();
    let advice = if text.contains(OPERATOR) {
        "\nit has merge operands, whose operator only its program has; let that program compact the whole column family, with the \
         bottommost level forced, which makes values of them"
    } else if text.contains("not supported in this build") || text.contains("not supported or not built-in") {
        "\nthe RocksDB in this build lacks that compression; build with the features `rocksdb` and `rocksdb/snappy`, `rocksdb/lz4`, \
         `rocksdb/zstd`, `rocksdb/zlib` or `rocksdb/bzip2`"
    } else {
        ""
    };
    Failure::Source {
        message: format!("cannot {what}: {text}{advice}"),
        is_damaged: error.kind() == ErrorKind::Corruption,
    }
}

fn source_failure(message: String) -> Failure {
    Failure::Source { message, is_damaged: false }
}
