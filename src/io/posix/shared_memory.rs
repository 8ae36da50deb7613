//! A store's pieces of shared memory: files on `/dev/shm`. Any thread.
//!
//! A piece is called `alluvium-{directory}-{piece}`, with 16 hexadecimal digits each. The first are a hash of device
//! and inode of the store's directory, so that a copy of the store finds none. The second are random, so that no other
//! process can create the file first. The mode is 0600 and the directory is sticky: no other user can read, change or
//! remove it.

use super::file::PosixFile;
use super::map::PosixMap;
use super::outlives::outlives_process;
use super::room;
use super::shm::{DIRECTORY, effective_user};
use crate::io::{MappedFile, SharedMemory, StorageFile};
use crate::util::hash::bytes_hash;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug)]
pub(super) struct PosixSharedMemory {
    directory: PathBuf,
    prefix: String,
    /// The user that owns the store's directory.
    owner: u32,
}

impl PosixSharedMemory {
    /// For the store in this directory; `None` if that does not exist, or if there is no tmpfs.
    pub(super) fn of(store: &Path) -> Option<Self> {
        Self::on(Path::new(DIRECTORY), store)
    }

    /// The same on another tmpfs.
    fn on(directory: &Path, store: &Path) -> Option<Self> {
        let metadata = fs::metadata(store).ok()?;
        if !is_tmpfs(directory) {
            return None;
        }
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&metadata.dev().to_le_bytes());
        identity[8..].copy_from_slice(&metadata.ino().to_le_bytes());
        let prefix = format!("alluvium-{:016x}-", bytes_hash(&identity));
        Some(Self { directory: directory.to_path_buf(), prefix, owner: metadata.uid() })
    }

    fn make(&self, path: &Path, length: usize) -> io::Result<PosixMap> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path)?;
        let made = reserve(&file, length).and_then(|()| PosixMap::new(file, path.to_path_buf()));
        if made.is_err() {
            // A piece that cannot be removed now is found again at the store's next opening.
            let _ = fs::remove_file(path);
        }
        made
    }

    /// Only files of the store's owner or of this user are trusted: any user may create files there.
    fn is_ours(&self, file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        let ours = metadata.uid() == self.owner || metadata.uid() == effective_user();
        Ok(metadata.is_file() && ours && metadata.mode() & 0o077 == 0)
    }
}

impl SharedMemory for PosixSharedMemory {
    fn outlives_process(&self) -> bool {
        outlives_process()
    }

    fn path_of(&self, piece: u64) -> PathBuf {
        self.directory.join(format!("{}{piece:016x}", self.prefix))
    }

    fn list(&self) -> Result<Vec<u64>> {
        let list = || -> io::Result<Vec<u64>> {
            let mut pieces = Vec::new();
            for entry in fs::read_dir(&self.directory)? {
                let name = entry?.file_name();
                let digits = name.to_str().and_then(|name| name.strip_prefix(&self.prefix));
                pieces.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
            }
            pieces.retain(|piece| fs::symlink_metadata(self.path_of(*piece)).is_ok());
            Ok(pieces)
        };
        list().map_err(|error| Error::io("list", &self.directory, error))
    }

    fn create(&self, piece: u64, length: usize) -> Result<Arc<dyn MappedFile>> {
        let path = self.path_of(piece);
        let map = self.make(&path, length).map_err(|error| Error::io("create", &path, error))?;
        // Each page faults once, here.
        map.prepare(0, length);
        Ok(Arc::new(map))
    }

    fn open(&self, piece: u64) -> Result<Option<Arc<dyn StorageFile>>> {
        let path = self.path_of(piece);
        match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path) {
            Ok(file) => match self.is_ours(&file) {
                Ok(true) => Ok(Some(Arc::new(PosixFile::new(file, path, false, false)))),
                Ok(false) => Ok(None),
                Err(error) => Err(Error::io("read the owner of", &path, error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A link, which the store never creates.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Ok(None),
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    fn remove(&self, piece: u64) -> Result<()> {
        let path = self.path_of(piece);
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))
    }
}

/// Memory for all of the file: otherwise a store to the mapping on a full tmpfs would end the process.
fn reserve(file: &File, length: usize) -> io::Result<()> {
    if room::reserve(file, length as u64)? { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn is_tmpfs(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: `statfs` holds integers only, for which zeroes are valid.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `answer` is a `statfs` to be filled; both outlive the call.
    let failed = unsafe { libc::statfs(path.as_ptr(), &mut answer) };
    failed == 0 && answer.f_type == libc::TMPFS_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// Under `/dev/shm`, so that it is a tmpfs, but not the machine's own.
    fn tmpfs() -> Option<tempfile::TempDir> {
        let directory = tempfile::tempdir_in(DIRECTORY).ok().filter(|directory| is_tmpfs(directory.path()));
        if directory.is_none() {
            println!("skipped: no tmpfs at {DIRECTORY}");
        }
        directory
    }

    #[test]
    fn pieces_are_private_and_belong_to_one_directory() {
        let Some(tmpfs) = tmpfs() else { return };
        let (store, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let memory = PosixSharedMemory::on(tmpfs.path(), store.path()).unwrap();
        let map = memory.create(7, 3 << 12).unwrap();
        assert_eq!(map.length(), 3 << 12);
        let metadata = fs::metadata(memory.path_of(7)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert!(metadata.blocks() * 512 >= 3 << 12, "its memory is reserved");
        assert!(memory.create(7, 1 << 12).is_err(), "a name is used once");
        // SAFETY: the first byte of a live mapping that no other thread writes to.
        unsafe { map.pointer().write(9) };
        drop(map);
        let mut byte = [0];
        memory.open(7).unwrap().unwrap().read_exact_at(&mut byte, 0).unwrap();
        assert_eq!((byte, memory.list().unwrap()), ([9], vec![7]));

        let other = PosixSharedMemory::on(tmpfs.path(), copy.path()).unwrap();
        assert!(other.list().unwrap().is_empty() && other.open(7).unwrap().is_none());
        // A file that another user may have created is not trusted.
        fs::set_permissions(memory.path_of(7), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(memory.open(7).unwrap().is_none());
        std::os::unix::fs::symlink(store.path(), memory.path_of(8)).unwrap();
        assert!(memory.open(8).unwrap().is_none());
        for piece in memory.list().unwrap() {
            memory.remove(piece).unwrap();
        }
        assert!(memory.list().unwrap().is_empty());
        assert!(PosixSharedMemory::on(store.path(), store.path()).is_none_or(|_| is_tmpfs(store.path())));
    }

    /// A store to a page that a full tmpfs cannot provide would be a `SIGBUS`.
    #[test]
    fn a_full_tmpfs_is_an_error_not_a_signal() {
        let (store, mount) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(mount.path()).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: a tmpfs of a given size needs the right to mount one");
            return;
        }
        let memory = PosixSharedMemory::on(mount.path(), store.path()).unwrap();
        let first = memory.create(1, 32 << 10).unwrap();
        let second = memory.create(2, 64 << 10);
        let left = memory.list().unwrap();
        // SAFETY: within a live mapping that no other thread writes to.
        unsafe { std::ptr::write_bytes(first.pointer(), 1, first.length()) };
        drop(first);
        assert!(Command::new("umount").arg("-l").arg(mount.path()).status().unwrap().success());
        assert!(second.unwrap_err().is_disk_full());
        assert_eq!(left, [1], "nothing is left of the one that did not fit");
    }
}
