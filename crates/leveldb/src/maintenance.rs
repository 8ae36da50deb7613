//! What is done to a database that nobody has open, and what must be told before anything is done to a directory.

use crate::misuse;
use crate::status::Status;
use alluvium::{Db, Error};
use std::path::Path;

/// Whether a directory holds a database of LevelDB's own format. (A store has a file `CURRENT`, too, to keep LevelDB out.)
fn is_of_leveldb(path: &Path) -> bool {
    !path.join("MANIFEST").exists()
        && std::fs::read(path.join("CURRENT")).is_ok_and(|current| current.starts_with(b"MANIFEST-"))
}

/// An error for a directory with a database of LevelDB's own format, which is left alone.
pub fn check_format(path: &Path) -> Result<(), Status> {
    if !is_of_leveldb(path) {
        return Ok(());
    }
    Err(Status::Invalid(format!(
        "{}: holds a database of LevelDB itself; load it into a new directory with `alluvium --db NEW import --from leveldb OLD`",
        path.display()
    )))
}

/// Removes a database and its directory; what is no file of a database stays, and so does the directory then.
pub fn destroy(path: &Path) -> Result<(), Status> {
    match Db::destroy(path) {
        // LevelDB, too, takes a database that is not there for one that is destroyed.
        Err(Error::NoStore { .. }) if !path.join("MANIFEST").exists() && !is_of_leveldb(path) => Ok(()),
        Err(Error::AlreadyOpen { .. }) => Err(Status::Locked(path.join("LOCK"))),
        destroyed => Ok(destroyed?),
    }
}

/// Rebuilds a database from whatever files are left. What could not be saved is told on the standard error.
pub fn repair(path: &Path) -> Result<(), Status> {
    check_format(path)?;
    let report = match Db::repair(path, &mut |_| ()) {
        Err(Error::AlreadyOpen { .. }) => return Err(Status::Locked(path.join("LOCK"))),
        repaired => repaired?,
    };
    for loss in &report.losses {
        misuse::tell(format_args!("leveldb_repair_db: {}: lost of {}: {}", path.display(), loss.file, loss.what));
    }
    Ok(())
}
