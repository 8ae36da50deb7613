//! The guard: a file that keeps LevelDB out of a store's directory.
//!
//! LevelDB takes a directory without a file `CURRENT` for an empty one; where it may make a database there, it does, and removes what it
//! takes for old files of its own: our logs have such names. A program that is to use `libleveldb.so` of `crates/leveldb`, and by mistake
//! found LevelDB's own, emptied stores so. With this file it gets an error that quotes the words below, and nothing is touched.

use crate::io::{OpenMode, Storage};
use crate::util::Result;

pub(crate) const NAME: &str = "CURRENT";
/// LevelDB takes them for the name of a file, and tells that there is none.
const WORDS: &[u8] = b"a store of Alluvium, not a database of LevelDB\n";

/// What a file of this name says; `None` where there is none, or where it is so long that it is nobody's.
fn words(storage: &dyn Storage) -> Option<Vec<u8>> {
    let file = storage.open(NAME, OpenMode::Read).ok()?;
    let length = usize::try_from(file.length().ok()?).ok().filter(|length| *length <= 4096)?;
    let mut words = vec![0; length];
    file.read_exact_at(&mut words, 0).ok()?;
    Some(words)
}

/// Whether the file of this name is a guard, perhaps one that was not finished.
pub(crate) fn is_there(storage: &dyn Storage) -> bool {
    words(storage).is_some_and(|words| WORDS.starts_with(&words))
}

/// Makes the guard of a store unless it is there. A store is as good without; what LevelDB itself has put there is left alone.
pub(crate) fn ensure(storage: &dyn Storage) {
    if words(storage).is_none_or(|words| words != WORDS && WORDS.starts_with(&words)) {
        let _ = make(storage);
    }
}

fn make(storage: &dyn Storage) -> Result<()> {
    // None, or one that was not finished.
    let _ = storage.remove(NAME);
    let file = storage.open(NAME, OpenMode::Create)?;
    file.write_all_at(WORDS, 0)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::engine::types::options::Options;
    use crate::io::PosixStorage;
    use std::fs;

    #[test]
    fn a_store_has_one_and_gets_it_again_and_no_other_file_is_taken_for_one() {
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
        assert!(is_there(&storage));
        assert_eq!(reopened(None), WORDS);
        assert_eq!(reopened(Some(&WORDS[..9])), WORDS);
        assert_eq!(reopened(Some(b"")), WORDS);
        assert_eq!(reopened(Some(b"MANIFEST-000002\n")), b"MANIFEST-000002\n");
        assert!(!is_there(&storage));
        // And so it is not removed with the store.
        Db::destroy(&path).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
        fs::write(path.join(NAME), WORDS).unwrap();
        // Creation that was cut short.
        Db::open(&path, Options::default()).unwrap().close().unwrap();
        Db::destroy(&path).unwrap();
        assert!(!path.exists());
    }
}
