//! The files in a store's directory, grouped by kind.

use super::store_files::{self, StoreFile};
use crate::io::Storage;
use crate::util::{Error, FileNumber, Result};

/// A store's files, by their names.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) branches: Vec<FileNumber>,
    pub(crate) values: Vec<FileNumber>,
    pub(crate) maplets: Vec<FileNumber>,
    pub(crate) changes: Vec<FileNumber>,
    pub(crate) has_manifest: bool,
    /// Greater than every number in a file name.
    pub(crate) next_file: FileNumber,
}

impl Directory {
    /// Lists the directory. Returns `NoStore` if it holds no file of a store, or an unfinished checkpoint.
    pub(crate) fn list(storage: &dyn Storage) -> Result<Self> {
        let no_store = |reason: &str| Error::NoStore { path: storage.path().to_path_buf(), reason: reason.to_owned() };
        if !storage.directory_exists()? {
            return Err(no_store("the directory does not exist"));
        }
        let (mut found, mut any) = (Self::default(), false);
        let names = storage.list()?;
        store_files::check_finished(storage, &names)?;
        for name in &names {
            let Some(file) = StoreFile::parse(name) else { continue };
            if let Some(number) = file.number() {
                found.next_file = found.next_file.max(FileNumber(number.0.saturating_add(1)));
            }
            any |= !matches!(
                file,
                StoreFile::Lock | StoreFile::NewManifest | StoreFile::Stats | StoreFile::Guard | StoreFile::Comparator
            );
            match file {
                StoreFile::Branch(number) => found.branches.push(number),
                StoreFile::Value(number) => found.values.push(number),
                StoreFile::Maplet(number) => found.maplets.push(number),
                StoreFile::Changes(number) => found.changes.push(number),
                StoreFile::Manifest => found.has_manifest = true,
                _ => {}
            }
        }
        found.branches.sort_unstable();
        found.values.sort_unstable();
        found.maplets.sort_unstable();
        if any { Ok(found) } else { Err(no_store("the directory holds no file of a store")) }
    }
}
