//! Destroys a store. One thread.

use crate::engine::directory::store_files::{self, Found, StoreFile};
use crate::engine::directory::{leveldb_guard, locks};
use crate::io::Storage;
use crate::util::{Error, Result};

/// Removes a store's files, and the directory if it is empty then.
pub(crate) fn destroy(storage: &dyn Storage) -> Result<()> {
    let no_store = |reason: &str| Error::NoStore { path: storage.path().to_path_buf(), reason: reason.into() };
    if !storage.directory_exists()? {
        return Err(no_store("nothing is there"));
    }
    if store_files::inspect(storage)? != Found::Store {
        return Err(no_store("the directory is empty"));
    }
    let locks = locks::for_destroying(storage)?;
    let mut names = storage.list()?;
    // The manifest is removed last, so that a store that was destroyed in part can be destroyed again. The file that
    // names the comparator is removed after the data in its order.
    names.sort_by_key(|name| match StoreFile::parse(name) {
        Some(StoreFile::Manifest) => 2,
        Some(StoreFile::Comparator) => 1,
        _ => 0,
    });
    let mut has_other_files = false;
    for name in &names {
        match StoreFile::parse(name) {
            Some(StoreFile::Lock) => {}
            Some(StoreFile::Guard) if !leveldb_guard::exists(storage) => has_other_files = true,
            Some(_) => storage.remove(name)?,
            None => has_other_files = true,
        }
    }
    storage.remove(store_files::LOCK)?;
    storage.sync_directory()?;
    drop(locks);
    if has_other_files { Ok(()) } else { storage.remove_directory() }
}
