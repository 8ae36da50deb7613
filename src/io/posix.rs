//! A store's directory on a POSIX file system (Linux). Any thread may call anything here.
//!
//! Direct I/O is tried first. If the file system refuses it, at opening or at the first read or write, the same call
//! goes through the page cache instead, and later files do not try it again. Callers follow the alignment rules in both
//! cases, and both assert them, so that a test on tmpfs finds what would fail on a disk.
//!
//! Overlapping reads use io_uring. If the first attempt finds that the kernel has none or forbids it (as containers
//! often do), threads read from then on.
//!
//! Invariants:
//! 1. `direct_refused` only changes from false to true. It is a hint, so relaxed accesses are enough.
//! 2. A name is one path component.

mod cached_file;
mod control_group;
mod file;
mod life;
mod lock;
mod map;
mod memory_room;
mod outlives;
mod read_threads;
mod resident_reads;
mod ring;
mod ring_pool;
mod room;
mod shared_memory;
mod shm;
#[cfg(test)]
mod tests;

use super::{
    Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, PendingReads, ReadRequest, SharedMemory, Storage,
    StorageFile,
};
use crate::util::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::util::{Error, Result};
use cached_file::{CachedFile, CachedFiles};
use file::PosixFile;
use memory_room::MemoryRoom;
use read_threads::ReadThreads;
use resident_reads::ResidentReads;
use ring_pool::RingPool;
use shared_memory::PosixSharedMemory;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A store's directory on a POSIX file system.
#[derive(Debug)]
pub struct PosixStorage {
    path: PathBuf,
    direct_refused: AtomicBool,
    reads_through_page_cache: bool,
    /// `None` once it is known that there is none.
    rings: OnceLock<Option<Arc<RingPool>>>,
    threads: ReadThreads,
    cached_files: Arc<CachedFiles>,
}

impl PosixStorage {
    /// The directory at `path`, which need not exist yet. Accesses nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            direct_refused: AtomicBool::new(false),
            reads_through_page_cache: false,
            rings: OnceLock::new(),
            threads: ReadThreads::default(),
            cached_files: CachedFiles::new(MemoryRoom::of_this_process()),
        }
    }

    /// The same, without io_uring even if the kernel has it.
    pub fn without_io_uring(path: impl Into<PathBuf>) -> Self {
        Self { rings: OnceLock::from(None), ..Self::new(path) }
    }

    /// The same, but reads for users go through the system's page cache while memory has room for it, as they do by
    /// themselves if no memory budget is named. For a store with a small budget in a program that leaves the rest of the
    /// machine's memory to the system, as LevelDB does: a page that the store's own cache has evicted is then still in
    /// memory, one system call away. The page cache counts towards the limits of the process's control groups; before
    /// one is reached, reads bypass it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, storage::PosixStorage};
    /// let storage = PosixStorage::new(directory.path()).reading_through_page_cache();
    /// let options = Options { memory_budget: Some(128 << 20), ..Options::default() };
    /// let db = Db::open_with(std::sync::Arc::new(storage), options)?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn reading_through_page_cache(self) -> Self {
        Self { reads_through_page_cache: true, ..self }
    }

    /// The same, with another source of room for the page cache.
    #[cfg(test)]
    fn with_room(self, room: MemoryRoom) -> Self {
        Self { cached_files: CachedFiles::new(Arc::new(room)), ..self }
    }

    /// Whether overlapping reads use io_uring here.
    pub fn has_io_uring(&self) -> bool {
        self.rings().is_some()
    }

    fn rings(&self) -> Option<&Arc<RingPool>> {
        self.rings.get_or_init(|| RingPool::new().ok()).as_ref()
    }

    fn file_path(&self, name: &str) -> PathBuf {
        debug_assert!(!name.is_empty() && !name.contains('/') && name != "..", "{name:?} is not a file name");
        self.path.join(name)
    }

    /// Opens with direct I/O if the file system has it. Returns whether it did.
    fn open_direct(&self, path: &Path, write: bool, create: bool) -> io::Result<(File, bool)> {
        let mut options = OpenOptions::new();
        options.read(true).write(write).create_new(create);
        if !self.direct_refused.load(Ordering::Relaxed) {
            match options.clone().custom_flags(libc::O_DIRECT).open(path) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.direct_refused.store(true, Ordering::Relaxed);
                    // A refused open may have created the file all the same. It did not exist before: `create_new`
                    // checks that first.
                    options.create_new(false).create(create);
                }
                opened => return Ok((opened?, true)),
            }
        }
        Ok((options.open(path)?, false))
    }
}

impl Storage for PosixStorage {
    fn path(&self) -> &Path {
        &self.path
    }

    fn create_directory(&self) -> Result<()> {
        create_with_parents(&self.path)
    }

    fn directory_exists(&self) -> Result<bool> {
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(_) => Err(Error::io("open directory", &self.path, io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("open directory", &self.path, error)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                let mut name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type()?.is_dir() {
                    name.push('/');
                }
                names.push(name);
            }
            Ok(names)
        };
        list().map_err(|error| Error::io("list", &self.path, error))
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let path = self.file_path(name);
        if mode == OpenMode::ReadCached || (mode == OpenMode::ReadPages && self.reads_through_page_cache) {
            return match File::open(&path) {
                Ok(file) => Ok(Arc::new(CachedFile::new(file, path, Arc::clone(&self.cached_files)))),
                Err(error) => Err(Error::io("open", &path, error)),
            };
        }
        let (operation, opened) = match mode {
            OpenMode::ReadDirect | OpenMode::ReadPages | OpenMode::ReadCached => {
                ("open", self.open_direct(&path, false, false))
            }
            OpenMode::WriteDirect => ("open", self.open_direct(&path, true, false)),
            OpenMode::CreateDirect => ("create", self.open_direct(&path, true, true)),
            OpenMode::Read => ("open", File::open(&path).map(|file| (file, false))),
            OpenMode::ReadWrite => {
                ("open", OpenOptions::new().read(true).write(true).open(&path).map(|file| (file, false)))
            }
            OpenMode::Create => (
                "create",
                OpenOptions::new().read(true).write(true).create_new(true).open(&path).map(|file| (file, false)),
            ),
        };
        let (file, direct) = opened.map_err(|error| Error::io(operation, &path, error))?;
        let aligned = !matches!(mode, OpenMode::Read | OpenMode::ReadWrite | OpenMode::Create);
        Ok(Arc::new(PosixFile::new(file, path, aligned, direct)))
    }

    fn start_reads(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        ResidentReads::start(requests, |missing| match self.rings() {
            Some(rings) => Box::new(rings.start(missing)),
            None => Box::new(self.threads.start(missing)),
        })
    }

    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        let path = self.file_path(name);
        match map::PosixMap::open(path.clone()) {
            Ok(map) => Ok(Arc::new(map)),
            Err(error) => Err(Error::io("map", &path, error)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.file_path(from);
        fs::rename(&path, self.file_path(to)).map_err(|error| Error::io("rename", &path, error))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let path = self.file_path(from);
        match fs::hard_link(&path, self.file_path(to)) {
            // File systems without links return one or the other.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => {
                super::copy_file(self, from, to)
            }
            linked => linked.map_err(|error| Error::io("link", &path, error)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.file_path(name);
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))
    }

    fn sync_directory(&self) -> Result<()> {
        sync_directory(&self.path)
    }

    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        let path = self.file_path(name);
        match lock::take(&path, part, mode) {
            Ok(guard) => Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>)),
            Err(error) => Err(Error::io("lock", &path, error)),
        }
    }

    fn remove_directory(&self) -> Result<()> {
        fs::remove_dir(&self.path).map_err(|error| Error::io("remove directory", &self.path, error))
    }

    fn wall_time(&self) -> Option<Duration> {
        Some(super::clock::wall_time())
    }

    fn life(&self) -> Option<Life> {
        life::life(&self.path)
    }

    fn shared_memory(&self) -> Option<Arc<dyn SharedMemory>> {
        Some(Arc::new(PosixSharedMemory::of(&self.path)?))
    }

    fn set_store_bytes(&self, bytes: u64) {
        self.cached_files.set_store_bytes(bytes);
    }

    fn available(&self) -> Result<Option<u64>> {
        room::available(&self.path).map(Some).map_err(|error| Error::io("read the free space of", &self.path, error))
    }
}

fn create_with_parents(path: &Path) -> Result<()> {
    // An error other than "missing" occurs again, with a better message, when the directory is created.
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|ancestor| !ancestor.as_os_str().is_empty() && matches!(ancestor.try_exists(), Ok(false)))
        .collect();
    if missing.is_empty() && !path.is_dir() {
        return Err(Error::io("create directory", path, io::ErrorKind::NotADirectory.into()));
    }
    for directory in missing.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => {}
            // Another process has created it meanwhile, and may not have synced it yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(error) => return Err(Error::io("create directory", directory, error)),
        }
        match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Error::io("sync directory", path, error))
}
