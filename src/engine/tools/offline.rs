//! Readers of the files of a store that is not open, for verify, repair and convert. One thread.

use crate::branch::{BranchContext, BranchForm, BranchResources, Compression, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::engine::directory::locks::{self, WriterLock};
use crate::io::Storage;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, Result};
use crate::value::ValueFiles;

/// Page cache for index and filter pages.
const CACHE_BYTES: usize = 8 << 20;
/// Enough for one reader at a time, and for a merge of many runs.
const EXTENTS_BYTES: usize = 16 << 20;
/// Files that are open at once.
const FILES_OPEN_MAX: usize = 128;

/// Readers of one store's files.
pub(crate) struct Readers {
    pub(crate) branches: Arc<BranchContext>,
    pub(crate) values: ValueFiles,
    pub(crate) numbers: Arc<FileNumbers>,
}

impl Readers {
    /// Readers for the store `database`. New files take numbers from `next_file` on.
    pub(crate) fn new(storage: &Arc<dyn Storage>, database: DatabaseId, next_file: FileNumber) -> Self {
        Self::writing(storage, database, next_file, Compression::default().into())
    }

    /// The same; new branch files have this form.
    pub(crate) fn writing(
        storage: &Arc<dyn Storage>,
        database: DatabaseId,
        next_file: FileNumber,
        form: BranchForm,
    ) -> Self {
        let numbers = Arc::new(FileNumbers::new(next_file));
        let branches = BranchContext::new(BranchResources {
            storage: Arc::clone(storage),
            database,
            cache: Arc::new(PageCache::new(CACHE_BYTES)),
            files: Arc::new(FileTable::new(Arc::clone(storage), FILES_OPEN_MAX)),
            numbers: Arc::clone(&numbers),
            form,
            extents: ExtentMemory::new(EXTENTS_BYTES),
        });
        Self { branches, values: ValueFiles::new(Arc::clone(storage), database), numbers }
    }
}

/// Takes the writer's lock, so that no writer opens the store; `None` on a read-only file system, which has no writers.
pub(crate) fn lock_out_writers(storage: &dyn Storage) -> Result<Option<WriterLock>> {
    match locks::for_writing(storage, &*storage.clock()) {
        Ok(locks) => Ok(Some(locks.writer)),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) => Err(error),
    }
}
