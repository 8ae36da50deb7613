//! Operations on a closed database, and checks before a directory is used.

use crate::misuse;
use crate::status::Status;
use alluvium::{Db, Error};
use std::path::Path;

/// Whether a directory contains a database in LevelDB's own format. (A store has a file `CURRENT`, too, so that LevelDB
/// does not open it.)
fn is_of_leveldb(path: &Path) -> bool {
    !path.join("MANIFEST").exists()
        && std::fs::read(path.join("CURRENT")).is_ok_and(|current| current.starts_with(b"MANIFEST-"))
}

/// Returns an error for a directory with a database in LevelDB's own format, which stays unchanged.
pub fn check_format(path: &Path) -> Result<(), Status> {
    if !is_of_leveldb(path) {
        return Ok(());
    }
    Err(Status::Invalid(format!(
        "{}: holds a database of LevelDB itself; load it into a new directory with `alluvium --db NEW import --from leveldb OLD`",
        path.display()
    )))
}

/// Deletes a database and its directory. Other files stay, and then so does the directory.
pub fn destroy(path: &Path) -> Result<(), Status> {
    match Db::destroy(path) {
        // Like LevelDB: destroying a missing database is not an error.
        Err(Error::NoStore { .. }) if !path.join("MANIFEST").exists() && !is_of_leveldb(path) => Ok(()),
        Err(Error::AlreadyOpen { .. }) => Err(Status::Locked(path.join("LOCK"))),
        destroyed => Ok(destroyed?),
    }
}

/// Rebuilds a database from the files that are left. Losses are printed on standard error.
pub fn repair(path: &Path) -> Result<(), Status> {
    check_format(path)?;
    let report = match Db::repair(path, &mut |_| ()) {
        Err(Error::AlreadyOpen { .. }) => return Err(Status::Locked(path.join("LOCK"))),
        repaired => repaired?,
    };
    for loss in &report.losses {
        misuse::print_line(format_args!("leveldb_repair_db: {}: loss in {}: {}", path.display(), loss.file, loss.what));
    }
    Ok(())
}
