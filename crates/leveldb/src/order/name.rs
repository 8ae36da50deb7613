//! The name of a store's comparator, in the file `COMPARATOR` next to the store's own files. A store without that file
//! is sorted by bytes.
//!
//! The file is written while the store is open, and therefore locked, and still empty. So data that needs the file
//! never exists without it.

use crate::status::Status;
use alluvium::{Db, Error};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

const NAME: &str = "COMPARATOR";
const NEW_NAME: &str = "COMPARATOR.new";
/// LevelDB's name of the order of bytes.
const BYTEWISE: &str = "leveldb.BytewiseComparator";

fn read(path: &Path) -> Result<Option<Vec<u8>>, Status> {
    let file = path.join(NAME);
    match fs::read(&file) {
        Ok(name) => Ok(Some(name)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &file, error).into()),
    }
}

/// LevelDB's error text, and the path.
fn mismatch(path: &Path, asked: &[u8], stored: &[u8]) -> Status {
    let (asked, stored) = (asked.escape_ascii(), stored.escape_ascii());
    Status::Invalid(format!("{asked} does not match existing comparator {stored} of {}", path.display()))
}

/// Checks that an open store was created with the comparator of this name. An empty store gets it.
pub fn check(db: &Db, path: &Path, name: &[u8]) -> Result<(), Status> {
    match read(path)? {
        Some(stored) if stored == name => Ok(()),
        Some(stored) => Err(mismatch(path, name, &stored)),
        None if db.iter()?.next().transpose()?.is_some() => Err(mismatch(path, name, BYTEWISE.as_bytes())),
        None => write(path, name).map_err(|error| Error::io("write", &path.join(NAME), error).into()),
    }
}

/// Checks that a store is sorted by bytes.
pub fn check_absent(path: &Path) -> Result<(), Status> {
    match read(path)? {
        Some(stored) => Err(mismatch(path, BYTEWISE.as_bytes(), &stored)),
        None => Ok(()),
    }
}

fn write(path: &Path, name: &[u8]) -> io::Result<()> {
    let new = path.join(NEW_NAME);
    let mut file = File::create(&new)?;
    file.write_all(name)?;
    file.sync_all()?;
    fs::rename(&new, path.join(NAME))?;
    File::open(path)?.sync_all()
}
