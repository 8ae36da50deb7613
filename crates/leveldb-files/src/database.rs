//! A database of LevelDB, opened for reading: each key with its newest value.

use crate::error::{Error, LeftOut, Result};
use crate::file::{log_number, log_path};
use crate::internal_key;
use crate::level::Level;
use crate::manifest::Manifest;
use crate::memory::Memory;
use crate::merge::{Merge, Source};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Options for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Skips damaged data. If the newest write of a key is skipped, an older one may be returned.
    pub skip_damaged: bool,
}

/// See the module. As long as it exists, LevelDB cannot open the directory.
#[derive(Debug)]
pub struct Database {
    directory: PathBuf,
    manifest: Manifest,
    logs: Vec<PathBuf>,
    options: Options,
    bytes: u64,
    lock: Option<File>,
}

impl Database {
    /// Reads the manifest and finds the files.
    ///
    /// # Errors
    /// `NoDatabase`, `Locked`, `Comparator`, `Damage` of the manifest, `Io`.
    pub fn open(directory: &Path, options: Options) -> Result<Self> {
        let no_database = |reason: &str| Error::NoDatabase { path: directory.to_path_buf(), reason: reason.into() };
        if !directory.exists() {
            return Err(no_database("there is no such directory"));
        }
        if !directory.join("CURRENT").exists() {
            return Err(no_database("it has no file CURRENT"));
        }
        if directory.join("IDENTITY").exists() {
            return Err(no_database(
                "it has a file IDENTITY, so it is a database of RocksDB, whose files have another format",
            ));
        }
        let lock = lock(directory)?;
        let manifest = Manifest::read(directory)?;
        let needed = |number: u64| number >= manifest.log_number || number == manifest.previous_log_number;
        let listed = fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries = listed.map_err(|error| Error::io("list", directory, error))?;
        let names = entries.iter().filter_map(|entry| log_number(entry.file_name().to_str()?));
        let mut numbers: Vec<u64> = names.filter(|number| needed(*number)).collect();
        numbers.sort_unstable();
        let logs: Vec<PathBuf> = numbers.into_iter().map(|number| log_path(directory, number)).collect();
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let tables = manifest.levels.iter().flatten().map(|table| table.bytes);
        let bytes = tables.chain(logs.iter().map(length)).sum();
        Ok(Self { directory: directory.to_path_buf(), manifest, logs, options, bytes, lock })
    }

    /// Returns the size of the files that will be read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the numbers of table files and of log files.
    pub fn files(&self) -> (usize, usize) {
        (self.manifest.levels.iter().map(Vec::len).sum(), self.logs.len())
    }

    /// Reads the logs and returns an iterator over the pairs. Memory holds the contents of the logs and one block of
    /// each open table: all tables of level 0 and one of each other level are open.
    ///
    /// # Errors
    /// `Damage` unless it is skipped, `Io`.
    pub fn pairs(self) -> Result<Pairs> {
        let mut left_out: Vec<LeftOut> = self.manifest.torn.into_iter().collect();
        let mut memory = Memory::default();
        let mut log_bytes = 0;
        for path in self.logs {
            log_bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
            let torn = memory.read_log(path, &mut |error| skip(self.options, &mut left_out, error))?;
            left_out.extend(torn);
        }
        memory.sort();
        let mut pairs = Pairs {
            merge: Merge::default(),
            given: None,
            options: self.options,
            left_out,
            ended_bytes: log_bytes,
            _lock: self.lock,
        };
        let [first, others @ ..] = self.manifest.levels;
        let tables = first.into_iter().map(|table| vec![table]).chain(others);
        let levels: Vec<Source> =
            tables.map(|tables| Source::Level(Box::new(Level::new(self.directory.clone(), tables)))).collect();
        for source in std::iter::once(Source::Memory(memory)).chain(levels) {
            pairs.advance(source)?;
        }
        Ok(pairs)
    }
}

/// Keeps LevelDB from opening a directory, as long as the file is open: LevelDB locks an open database with the same lock.
/// So does RocksDB. `None` if there is nothing to lock.
///
/// # Errors
/// `Locked` if a process has the database open for writing, `Io`.
pub fn lock(directory: &Path) -> Result<Option<File>> {
    let path = directory.join("LOCK");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(Error::Locked { path: directory.to_path_buf() })
        }
        // A file system without locks: LevelDB could not lock the directory either.
        Err(_) => Ok(None),
    }
}

fn skip(options: Options, left_out: &mut Vec<LeftOut>, error: Error) -> Result<()> {
    if !options.skip_damaged || !error.is_damage() {
        return Err(error);
    }
    left_out.push(LeftOut { bytes: None, why: error.to_string() });
    Ok(())
}

/// The pairs of a database in key order, each key once.
#[derive(Debug)]
pub struct Pairs {
    merge: Merge,
    /// The last key that was returned or skipped as deleted.
    given: Option<Vec<u8>>,
    options: Options,
    left_out: Vec<LeftOut>,
    /// Bytes of finished sources.
    ended_bytes: u64,
    _lock: Option<File>,
}

impl Pairs {
    /// Returns how many bytes of the files have been read.
    pub fn bytes_read(&self) -> u64 {
        let of = |source: &Source| match source {
            Source::Memory(_) => 0,
            Source::Level(level) => level.bytes_read(),
        };
        self.ended_bytes + self.merge.sources().iter().map(of).sum::<u64>()
    }

    /// Returns what was left out so far.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Moves a source to its next entry and adds it to the merge.
    fn advance(&mut self, mut source: Source) -> Result<()> {
        loop {
            match source.advance() {
                Ok(true) => {
                    self.merge.add(source);
                    return Ok(());
                }
                Ok(false) => {
                    if let Source::Level(level) = &source {
                        self.ended_bytes += level.bytes_read();
                    }
                    return Ok(());
                }
                Err(error) => skip(self.options, &mut self.left_out, error)?,
            }
        }
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        while let Some(source) = self.merge.take_first() {
            let key = internal_key::user_key(source.key()).unwrap_or_default();
            if self.given.as_deref() == Some(key) {
                self.advance(source)?;
                continue;
            }
            let found = internal_key::is_value(source.key()).then(|| (key.to_vec(), source.value().to_vec()));
            let given = self.given.get_or_insert_default();
            given.clear();
            given.extend_from_slice(key);
            self.advance(source)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl Iterator for Pairs {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    /// The iteration ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let stepped = self.step();
        if stepped.is_err() {
            self.merge = Merge::default();
        }
        stepped.transpose()
    }
}
