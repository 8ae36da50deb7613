//! The LevelDB guard: a file that keeps LevelDB out of a store's directory.
//!
//! LevelDB takes a directory without a file `CURRENT` for an empty one. If it may create a database there, it does, and
//! removes files that look like old files of its own. Our log segments have such names. A program that should load
//! `libleveldb.so` of `crates/leveldb`, but loaded LevelDB's own library by mistake, emptied stores this way. With the
//! guard, LevelDB returns an error that quotes the text below, and changes nothing.

use crate::io::{OpenMode, Storage};
use crate::util::Result;

/// The name of LevelDB's pointer to its manifest.
pub(crate) const NAME: &str = "CURRENT";
/// LevelDB reads this as a file name, and its error message quotes it.
const TEXT: &[u8] = b"a store of Alluvium, not a database of LevelDB\n";

/// The content of the file; `None` if it does not exist, or is too long to be a guard or LevelDB's.
fn content(storage: &dyn Storage) -> Option<Vec<u8>> {
    let file = storage.open(NAME, OpenMode::Read).ok()?;
    let length = usize::try_from(file.length().ok()?).ok().filter(|length| *length <= 4096)?;
    let mut content = vec![0; length];
    file.read_exact_at(&mut content, 0).ok()?;
    Some(content)
}

/// Whether the file is a guard. A partly written guard counts.
pub(crate) fn exists(storage: &dyn Storage) -> bool {
    content(storage).is_some_and(|content| TEXT.starts_with(&content))
}

/// Creates the guard unless it exists. Errors are ignored, since a store works without it. A file that LevelDB created
/// is left alone.
pub(crate) fn ensure(storage: &dyn Storage) {
    if content(storage).is_none_or(|content| content != TEXT && TEXT.starts_with(&content)) {
        let _ = create(storage);
    }
}

fn create(storage: &dyn Storage) -> Result<()> {
    // There is no file, or a partly written guard.
    let _ = storage.remove(NAME);
    let file = storage.open(NAME, OpenMode::Create)?;
    // Not synced: LevelDB rejects an empty file, too.
    file.write_all_at(TEXT, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::engine::types::options::Options;
    use crate::io::PosixStorage;
    use std::fs;

    #[test]
    fn opening_restores_the_guard_and_keeps_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let storage = PosixStorage::new(&path);
        let reopened = |content: Option<&[u8]>| {
            match content {
                Some(content) => fs::write(path.join(NAME), content).unwrap(),
                None => fs::remove_file(path.join(NAME)).unwrap(),
            }
            Db::open(&path, Options::default()).unwrap().close().unwrap();
            fs::read(path.join(NAME)).unwrap()
        };
        Db::open(&path, Options::default()).unwrap().close().unwrap();
        assert!(exists(&storage));
        assert_eq!(reopened(None), TEXT);
        assert_eq!(reopened(Some(&TEXT[..9])), TEXT);
        assert_eq!(reopened(Some(b"")), TEXT);
        assert_eq!(reopened(Some(b"MANIFEST-000002\n")), b"MANIFEST-000002\n");
        assert!(!exists(&storage));
        // Not a guard, so `destroy` leaves it.
        Db::destroy(&path).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        fs::write(path.join(NAME), TEXT).unwrap();
        // As an interrupted creation leaves it.
        Db::open(&path, Options::default()).unwrap().close().unwrap();
        Db::destroy(&path).unwrap();
        assert!(!path.exists());
    }
}
