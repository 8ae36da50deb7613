//! What is done to a database that nobody has open.

use crate::order;
use crate::status::Status;
use alluvium::{Db, Error};
use std::io::ErrorKind;
use std::path::Path;

/// Removes a database and its directory; what is no file of a database stays, and so does the directory then.
pub fn destroy(path: &Path) -> Result<(), Status> {
    match Db::destroy(path) {
        // LevelDB, too, takes a database that is not there for one that is destroyed.
        Err(Error::NoStore { .. }) if !path.join("MANIFEST").exists() && !path.join("CURRENT").exists() => {
            return Ok(());
        }
        Err(Error::AlreadyOpen { .. }) => return Err(Status::Locked(path.join("LOCK"))),
        destroyed => destroyed?,
    }
    let removed = order::remove(path).and_then(|()| std::fs::remove_dir(path));
    match removed {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
            Err(Error::io("remove", path, error).into())
        }
        _ => Ok(()),
    }
}

/// Rebuilds a database from whatever files are left. What could not be saved is told on the standard error.
pub fn repair(path: &Path) -> Result<(), Status> {
    let report = match Db::repair(path, &mut |_| ()) {
        Err(Error::AlreadyOpen { .. }) => return Err(Status::Locked(path.join("LOCK"))),
        repaired => repaired?,
    };
    for loss in &report.losses {
        eprintln!("alluvium: leveldb_repair_db: {}: lost of {}: {}", path.display(), loss.file, loss.what);
    }
    Ok(())
}
