//! What reads a store's files without opening the store: for `verify` and repair. One thread.

use crate::branch::{BranchContext, BranchResources, Compression, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::engine::directory::locks::{self, Guard};
use crate::engine::directory::store_files::StoreFile;
use crate::io::Storage;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, Result};
use crate::value::ValueFiles;

/// Index and filter pages in memory at once.
const CACHE_BYTES: usize = 8 << 20;
/// One reader after the other.
const EXTENTS_BYTES: usize = 4 << 20;
/// Files open at once.
const FILES_OPEN_MAX: usize = 128;

/// The readers of one store's files.
pub(crate) struct Readers {
    pub(crate) branches: Arc<BranchContext>,
    pub(crate) values: ValueFiles,
    pub(crate) numbers: Arc<FileNumbers>,
}

impl Readers {
    /// For the store `database`; new files take numbers from `next_file` on.
    pub(crate) fn new(storage: &Arc<dyn Storage>, database: DatabaseId, next_file: FileNumber) -> Self {
        let numbers = Arc::new(FileNumbers::new(next_file));
        let branches = BranchContext::new(BranchResources {
            storage: Arc::clone(storage),
            database,
            cache: Arc::new(PageCache::new(CACHE_BYTES)),
            files: Arc::new(FileTable::new(Arc::clone(storage), FILES_OPEN_MAX)),
            numbers: Arc::clone(&numbers),
            form: Compression::default().into(),
            extents: ExtentMemory::new(EXTENTS_BYTES),
        });
        Self { branches, values: ValueFiles::new(Arc::clone(storage), database), numbers }
    }
}

/// A store's files by what their names say.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) branches: Vec<FileNumber>,
    pub(crate) values: Vec<FileNumber>,
    pub(crate) maplets: Vec<FileNumber>,
    pub(crate) has_manifest: bool,
    /// Above every number in a name.
    pub(crate) next_file: FileNumber,
}

impl Directory {
    /// Looks; `NoStore` where nothing of a store is there.
    pub(crate) fn list(storage: &dyn Storage) -> Result<Self> {
        let no_store = |reason: &str| Error::NoStore { path: storage.path().to_path_buf(), reason: reason.to_owned() };
        if !storage.directory_exists()? {
            return Err(no_store("nothing is there"));
        }
        let (mut found, mut any) = (Self::default(), false);
        for name in storage.list()? {
            let Some(file) = StoreFile::parse(&name) else { continue };
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

/// Keeps writers away; `None` on a read-only file system, where there are none.
pub(crate) fn keep_writers_away(storage: &dyn Storage) -> Result<Option<Guard>> {
    match locks::for_writing(storage, &*storage.clock()) {
        Ok(locks) => Ok(Some(locks.writer)),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) => Err(error),
    }
}
