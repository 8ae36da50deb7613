//! A store's directory on a POSIX file system (Linux). Any thread may call anything here.
//!
//! Direct I/O is tried first. If the file system refuses it, at opening or at the first read or write, the same call
//! goes through the page cache instead, and later files do not try it again. Callers follow the alignment rules in both
//! cases, and both assert them, so that a test on tmpfs finds what would fail on a disk.
//!
//! Overlapping reads, and single ones that a thread waits for, use io_uring. If the first attempt finds that the kernel
//! has none or forbids it (as containers often do), threads read from then on, and single reads are plain calls.
//!
//! Invariants:
//! 1. `direct_refused` only changes from false to true. It is a hint, so relaxed accesses are enough.
//! 2. A name is one path component. `directory` says which directory it is looked up in.

mod directory;
mod file;
mod file_system;
mod life;
mod lock;
mod map;
mod memory;
mod page_cache;
mod priority;
mod read_threads;
mod ring;
mod ring_pool;
mod room;
mod spinning;
mod temporary;
#[cfg(test)]
mod tests;

use super::{
    Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, PendingReads, ReadDone, ReadRequest, Storage,
    StorageFile,
};
use crate::util::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::util::{Error, Result};
use directory::StoreDirectory;
use file::PosixFile;
pub use memory::MemoryStorage;
use page_cache::cached_file::{CachedFile, CachedFiles};
use page_cache::memory_room::MemoryRoom;
use page_cache::resident_reads::ResidentReads;
use priority::is_low;
pub use priority::lower_priority;
use read_threads::ReadThreads;
use ring_pool::RingPool;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use temporary::TemporaryDirectory;

/// Flags for a new file that is written and read back.
const CREATE: libc::c_int = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;

/// A store's directory on a POSIX file system.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, storage::PosixStorage};
/// use std::sync::Arc;
/// // What `Db::open` does, but the log is written by system calls.
/// let storage = PosixStorage::new(directory.path()).writing_the_log();
/// let db = Db::open_with(Arc::new(storage), Options::default())?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct PosixStorage {
    directory: Arc<StoreDirectory>,
    direct_refused: AtomicBool,
    reads_through_page_cache: bool,
    log_is_written: bool,
    /// `None` once it is known that there is none.
    rings: OnceLock<Option<Arc<RingPool>>>,
    /// For threads of usual and of low priority, because threads inherit it from the one that starts them.
    read_threads: [ReadThreads; 2],
    cached_files: Arc<CachedFiles>,
}

impl PosixStorage {
    /// The directory at `path`, which need not exist yet. Accesses nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            directory: Arc::new(StoreDirectory::new(path.into())),
            direct_refused: AtomicBool::new(false),
            reads_through_page_cache: false,
            log_is_written: false,
            rings: OnceLock::new(),
            read_threads: Default::default(),
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
    /// let options = Options::new().memory_budget(128 << 20);
    /// let db = Db::open_with(std::sync::Arc::new(storage), options)?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn reading_through_page_cache(self) -> Self {
        Self { reads_through_page_cache: true, ..self }
    }

    /// The same, but the log is never written through a mapping, whatever the file system: each write, or group of
    /// writes, costs one system call. For a file system that is known to lie below another one, and for tests.
    #[must_use]
    pub fn writing_the_log(self) -> Self {
        Self { log_is_written: true, ..self }
    }

    /// The same, with another source of room for the page cache.
    #[cfg(test)]
    fn with_room(self, room: MemoryRoom) -> Self {
        Self { cached_files: CachedFiles::new(Arc::new(room)), ..self }
    }

    /// Whether reads use io_uring here.
    pub fn has_io_uring(&self) -> bool {
        self.rings().is_some()
    }

    fn rings(&self) -> Option<&Arc<RingPool>> {
        self.rings.get_or_init(|| RingPool::new().ok()).as_ref()
    }

    /// Opens with direct I/O if the file system has it. Returns whether it did.
    fn open_direct(&self, name: &str, flags: libc::c_int) -> io::Result<(File, bool)> {
        let mut flags = flags;
        if !self.direct_refused.load(Ordering::Relaxed) {
            match self.directory.open(name, flags | libc::O_DIRECT) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.direct_refused.store(true, Ordering::Relaxed);
                    // A refused open may have created the file all the same. It did not exist before: `O_EXCL` checks
                    // that first.
                    flags &= !libc::O_EXCL;
                }
                opened => return Ok((opened?, true)),
            }
        }
        Ok((self.directory.open(name, flags)?, false))
    }

    fn open_cached(&self, name: &str, flags: libc::c_int) -> io::Result<(File, bool)> {
        Ok((self.directory.open(name, flags)?, false))
    }

    fn error(&self, operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path_of(name);
        move |error| Error::io(operation, &path, error)
    }
}

impl Storage for PosixStorage {
    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn create_directory(&self) -> Result<()> {
        create_with_parents(self.path())
    }

    fn directory_exists(&self) -> Result<bool> {
        match fs::metadata(self.path()) {
            Ok(metadata) if metadata.is_dir() => Ok(true),
            Ok(_) => Err(Error::io("open directory", self.path(), io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("open directory", self.path(), error)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let list = |path: &Path| -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let mut name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type()?.is_dir() {
                    name.push('/');
                }
                names.push(name);
            }
            Ok(names)
        };
        self.directory.with_path(list).map_err(|error| Error::io("list", self.path(), error))
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let is_cached = mode == OpenMode::ReadCached || (mode == OpenMode::ReadPages && self.reads_through_page_cache);
        let (operation, opened) = match mode {
            OpenMode::ReadCached | OpenMode::ReadPages if is_cached => ("open", self.open_cached(name, libc::O_RDONLY)),
            OpenMode::ReadDirect | OpenMode::ReadPages | OpenMode::ReadCached => {
                ("open", self.open_direct(name, libc::O_RDONLY))
            }
            OpenMode::WriteDirect => ("open", self.open_direct(name, libc::O_RDWR)),
            OpenMode::CreateDirect => ("create", self.open_direct(name, CREATE)),
            OpenMode::Read => ("open", self.open_cached(name, libc::O_RDONLY)),
            OpenMode::ReadWrite => ("open", self.open_cached(name, libc::O_RDWR)),
            OpenMode::Create => ("create", self.open_cached(name, CREATE)),
        };
        let (file, direct) = opened.map_err(self.error(operation, name))?;
        if is_cached {
            return Ok(Arc::new(CachedFile::new(file, self.path_of(name), Arc::clone(&self.cached_files))));
        }
        let aligned = !matches!(mode, OpenMode::Read | OpenMode::ReadWrite | OpenMode::Create);
        Ok(Arc::new(PosixFile::new(file, self.path_of(name), aligned, direct)))
    }

    fn read(&self, mut request: ReadRequest) -> ReadDone {
        // Background threads do not spin, so a plain call costs them less. Where direct reads are refused, a ring may
        // read on threads of the kernel.
        let is_plain = is_low() || self.direct_refused.load(Ordering::Relaxed);
        let Some(rings) = self.rings().filter(|_| !is_plain) else { return request.perform() };
        if request.file.read_resident(&mut request.buffer[..request.length], request.offset) {
            return ReadDone { buffer: request.buffer, result: Ok(()) };
        }
        let done = Box::new(rings.start(vec![request])).wait().pop();
        done.unwrap_or_else(|| unreachable!("one request has one result"))
    }

    fn start_reads(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads> {
        ResidentReads::start(requests, |missing| match self.rings() {
            Some(rings) => Box::new(rings.start(missing)),
            None => Box::new(self.read_threads[usize::from(is_low())].start(missing)),
        })
    }

    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        let opened = self.directory.open(name, libc::O_RDWR);
        let mapped = opened.and_then(|file| map::PosixMap::new(file, self.path_of(name)));
        Ok(Arc::new(mapped.map_err(self.error("map", name))?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.directory.rename(from, to).map_err(self.error("rename", from))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        match self.directory.link(from, to) {
            // File systems without links return one or the other.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => {
                super::copy_file(self, from, to)
            }
            linked => linked.map_err(self.error("link", from)),
        }
    }

    fn other_directory(&self, path: &Path) -> Result<Arc<dyn Storage>> {
        // The directory of an open store may have been renamed.
        let own = self.directory.with_path(|path| fs::canonicalize(path)).unwrap_or_else(|_| self.path().to_path_buf());
        other_directory(&own, path)
    }

    fn link_into(&self, from: &str, target: &dyn Storage, to: &str) -> Result<bool> {
        match self.directory.link_to(from, &target.path_of(to)) {
            Err(error) if is_not_linkable(&error) => Ok(false),
            linked => linked.map(|()| true).map_err(self.error("link", from)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.directory.remove(name).map_err(self.error("remove", name))
    }

    fn sync_directory(&self) -> Result<()> {
        self.directory.sync().map_err(|error| Error::io("sync directory", self.path(), error))
    }

    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        match lock::take(&self.directory, name, part, mode) {
            Ok(guard) => Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>)),
            Err(error) => Err(self.error("lock", name)(error)),
        }
    }

    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
        match self.directory.lock() {
            Ok(guard) => Ok(guard.map(|guard| Box::new(guard) as Box<dyn LockGuard>)),
            Err(error) => Err(Error::io("lock directory", self.path(), error)),
        }
    }

    fn remove_directory(&self) -> Result<()> {
        fs::remove_dir(self.path()).map_err(|error| Error::io("remove directory", self.path(), error))
    }

    fn wall_time(&self) -> Option<Duration> {
        Some(super::clock::wall_time())
    }

    fn life(&self) -> Option<Life> {
        life::life(self.path())
    }

    fn maps_safely(&self) -> bool {
        !self.log_is_written && file_system::maps_safely(self.path())
    }

    fn set_store_bytes(&self, bytes: u64) {
        self.cached_files.set_store_bytes(bytes);
    }

    fn available(&self) -> Result<Option<u64>> {
        let available = self.directory.with_path(room::available);
        available.map(Some).map_err(|error| Error::io("read the free space of", self.path(), error))
    }

    fn capacity(&self) -> Result<Option<u64>> {
        let capacity = self.directory.with_path(|path| {
            let there = path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("."));
            room::capacity(there)
        });
        capacity.map(Some).map_err(|error| Error::io("read the size of the file system of", self.path(), error))
    }
}

/// Whether a file cannot be linked to another directory, but copied: that is on another file system, there are no links, the file
/// has as many as it can have, or it belongs to another user.
fn is_not_linkable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::EPERM | libc::EMLINK | libc::EOPNOTSUPP | libc::ENOSYS))
}

/// `Storage::other_directory` for a store in the directory `own`.
pub(super) fn other_directory(own: &Path, path: &Path) -> Result<Arc<dyn Storage>> {
    // What does not exist yet lies where its nearest ancestor that exists is.
    let there = path.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let there = there.into_iter().find_map(|path| fs::canonicalize(path).ok());
    let own = fs::canonicalize(own).ok();
    match (own, there) {
        (Some(own), Some(there)) if there.starts_with(&own) => Err(Error::InvalidArgument(format!(
            "{} lies in the directory {}; choose one outside",
            path.display(),
            own.display()
        ))),
        _ => Ok(Arc::new(PosixStorage::new(path))),
    }
}

fn create_with_parents(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::InvalidArgument("the path of the directory is empty".into()));
    }
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
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_symlink() => {
                let error = io::Error::new(error.kind(), "it is a symbolic link to something that does not exist");
                return Err(Error::io("create directory", directory, error));
            }
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
