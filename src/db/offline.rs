//! What reads a store's files without opening the store: for `verify` and repair. One thread.

use super::files::StoreFile;
use super::locks::{self, Guard};
use crate::base::sync::Arc;
use crate::base::{DatabaseId, Error, FileNumber, FileNumbers, Result};
use crate::branch::{self, BranchContext, Compression, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::format::branch_footer;
use crate::format::page::PAGE_BYTES;
use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::log::salvage::FoundSegment;
use crate::value::{self, ValueFiles};
use std::collections::BTreeMap;

/// Index and filter pages in memory at once.
const CACHE_BYTES: usize = 8 << 20;
/// One reader after the other.
const EXTENTS_BYTES: usize = 4 << 20;
/// Files open at once.
const FILES_OPEN_MAX: usize = 128;

/// The readers of one store's files.
pub(super) struct Readers {
    pub(super) branches: Arc<BranchContext>,
    pub(super) values: ValueFiles,
    pub(super) numbers: Arc<FileNumbers>,
}

impl Readers {
    /// For the store `database`; new files take numbers from `next_file` on.
    pub(super) fn new(storage: &Arc<dyn Storage>, database: DatabaseId, next_file: FileNumber) -> Self {
        let numbers = Arc::new(FileNumbers::new(next_file));
        let branches = BranchContext::new(
            Arc::clone(storage),
            database,
            Arc::new(PageCache::new(CACHE_BYTES)),
            Arc::new(FileTable::new(Arc::clone(storage), FILES_OPEN_MAX)),
            Arc::clone(&numbers),
            Compression::default(),
            ExtentMemory::new(EXTENTS_BYTES),
        );
        Self { branches, values: ValueFiles::new(Arc::clone(storage), database), numbers }
    }
}

/// A store's files by what their names say.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) branches: Vec<FileNumber>,
    pub(super) values: Vec<FileNumber>,
    pub(super) has_manifest: bool,
    /// Above every number in a name.
    pub(super) next_file: FileNumber,
}

impl Directory {
    /// Looks; `NoStore` where nothing of a store is there.
    pub(super) fn list(storage: &dyn Storage) -> Result<Self> {
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
            any |= !matches!(file, StoreFile::Lock | StoreFile::NewManifest);
            match file {
                StoreFile::Branch(number) => found.branches.push(number),
                StoreFile::Value(number) => found.values.push(number),
                StoreFile::Manifest => found.has_manifest = true,
                _ => {}
            }
        }
        found.branches.sort_unstable();
        found.values.sort_unstable();
        if any { Ok(found) } else { Err(no_store("the directory holds no file of a store")) }
    }
}

/// Keeps writers away; `None` on a read-only file system, where there are none.
pub(super) fn keep_writers_away(storage: &dyn Storage) -> Result<Option<Guard>> {
    match locks::for_writing(storage, &*storage.clock()) {
        Ok(locks) => Ok(Some(locks.writer)),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whose files these are, where the manifest does not say: the id that most files with a good header have.
pub(super) fn majority_database(
    storage: &dyn Storage,
    directory: &Directory,
    segments: &[FoundSegment],
) -> Result<Option<DatabaseId>> {
    let mut votes: BTreeMap<DatabaseId, u64> = BTreeMap::new();
    let mut vote = |database: Option<DatabaseId>| {
        if let Some(database) = database {
            *votes.entry(database).or_default() += 1;
        }
    };
    for segment in segments {
        vote(segment.header.as_ref().ok().map(|header| header.database));
    }
    for file in &directory.branches {
        vote(page_of(storage, &branch::file_name(*file), true)?.and_then(|(page, at)| {
            let owner = branch_footer::claimed_owner(&page, at, storage.path())?;
            (owner.file == *file).then_some(owner.database)
        }));
    }
    for file in &directory.values {
        vote(
            page_of(storage, &value::value_file_name(*file), false)?
                .and_then(|(page, _)| value::claimed_owner(&page, *file)),
        );
    }
    Ok(votes.into_iter().max_by_key(|(_, count)| *count).map(|(database, _)| database))
}

/// The first or the last page of a file and its offset; `None` where it cannot be read.
fn page_of(storage: &dyn Storage, name: &str, last: bool) -> Result<Option<(AlignedBuffer, u64)>> {
    let file = storage.open(name, OpenMode::ReadDirect)?;
    let pages = file.length()? / PAGE_BYTES as u64;
    if pages == 0 {
        return Ok(None);
    }
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    let at = if last { (pages - 1) * PAGE_BYTES as u64 } else { 0 };
    match file.read_exact_at(&mut page, at) {
        Ok(()) => Ok(Some((page, at))),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
