//! What the tests of the contract (`io::tests`) cannot reach: scripted system calls, unusual paths, the life.

use super::file::{read_fully, write_fully};
use super::*;
use std::os::fd::AsRawFd;

/// A file whose answers are scripted: an error kind, or the most bytes to transfer.
struct Script {
    bytes: Vec<u8>,
    answers: Vec<std::result::Result<usize, io::ErrorKind>>,
    offsets: Vec<u64>,
}

impl Script {
    fn new(length: usize, answers: &[std::result::Result<usize, io::ErrorKind>]) -> Self {
        let bytes = (0..length).map(|at| (at / 3) as u8).collect();
        Self { bytes, answers: answers.iter().rev().copied().collect(), offsets: Vec::new() }
    }

    fn step(&mut self, length: usize, offset: u64) -> io::Result<usize> {
        self.offsets.push(offset);
        let most = self.answers.pop().unwrap_or(Ok(usize::MAX)).map_err(io::Error::from)?;
        Ok(most.min(length))
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.bytes.len().saturating_sub(offset as usize);
        let count = self.step(buffer.len().min(left), offset)?;
        buffer[..count].copy_from_slice(&self.bytes[offset as usize..offset as usize + count]);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let count = self.step(bytes.len(), offset)?;
        self.bytes[offset as usize..offset as usize + count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }
}

const INTERRUPTED: std::result::Result<usize, io::ErrorKind> = Err(io::ErrorKind::Interrupted);

#[test]
fn reading_continues_after_interruptions_and_short_reads() {
    let mut script = Script::new(200, &[INTERRUPTED, Ok(7), INTERRUPTED, INTERRUPTED, Ok(1)]);
    let mut buffer = [0; 50];
    read_fully(|piece, at| script.read(piece, at), &mut buffer, 100, 1).unwrap();
    assert_eq!(buffer[..], script.bytes[100..150]);
    assert_eq!(script.offsets, [100, 100, 107, 107, 107, 108]);
}

#[test]
fn reading_continues_at_aligned_offsets_only() {
    let mut script = Script::new(4 * 4096, &[Ok(5000), INTERRUPTED, Ok(100)]);
    let mut buffer = vec![0; 3 * 4096];
    read_fully(|piece, at| script.read(piece, at), &mut buffer, 4096, 4096).unwrap();
    assert_eq!(buffer[..], script.bytes[4096..]);
    assert_eq!(script.offsets, [4096, 8192, 8192, 8192]);
}

#[test]
fn reading_past_the_end_and_errors_end_the_read() {
    let mut buffer = vec![0; 8192];
    for (length, granularity) in [(8191, 1), (8191, 4096), (4096, 4096), (0, 1)] {
        let mut script = Script::new(length, &[]);
        let error = read_fully(|piece, at| script.read(piece, at), &mut buffer, 0, granularity).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
    let mut script = Script::new(9000, &[Ok(10), Err(io::ErrorKind::PermissionDenied)]);
    let error = read_fully(|piece, at| script.read(piece, at), &mut buffer, 0, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn writing_continues_after_interruptions_and_short_writes() {
    let bytes: Vec<u8> = (0..3 * 4096).map(|at| (at / 5) as u8).collect();
    let mut script = Script::new(4 * 4096, &[INTERRUPTED, Ok(5000), INTERRUPTED, Ok(512)]);
    write_fully(|piece, at| script.write(piece, at), &bytes, 4096, 4096).unwrap();
    assert_eq!(script.bytes[4096..], bytes);
    assert_eq!(script.offsets, [4096, 4096, 8192, 8192, 8192]);
    let mut script = Script::new(100, &[Ok(1), INTERRUPTED, Ok(2)]);
    write_fully(|piece, at| script.write(piece, at), &bytes[..50], 50, 1).unwrap();
    assert_eq!(script.bytes[50..], bytes[..50]);
    assert_eq!(script.offsets, [50, 51, 51, 53]);
}

#[test]
fn a_write_without_progress_ends() {
    let bytes = vec![0; 8192];
    let mut script = Script::new(8192, &[Ok(0)]);
    let error = write_fully(|piece, at| script.write(piece, at), &bytes, 0, 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    let mut script = Script::new(8192, &[Ok(512); 1000]);
    let error = write_fully(|piece, at| script.write(piece, at), &bytes, 0, 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    let mut script = Script::new(8192, &[Ok(4096), Err(io::ErrorKind::StorageFull)]);
    let error = write_fully(|piece, at| script.write(piece, at), &bytes, 0, 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn direct_io_is_tried_once_on_a_file_system_that_refuses_it() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new(directory.path());
    storage.direct_refused.store(true, Ordering::Relaxed);
    let (_, direct) = storage.open_direct("a", CREATE).unwrap();
    assert!(!direct);
    let error = storage.open_direct("a", CREATE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let (_, direct) = storage.open_direct("a", libc::O_RDONLY).unwrap();
    assert!(!direct);
}

#[test]
fn a_file_that_refuses_direct_transfers_falls_back() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new(directory.path());
    let path = directory.path().join("a");
    let (file, direct) = storage.open_direct("a", CREATE).unwrap();
    // With `aligned` false, an odd transfer reaches the kernel, which refuses it as it would a coarser alignment.
    let file = PosixFile::new(file, path, false, direct);
    file.write_all_at(b"odd", 1).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 1).unwrap();
    assert_eq!(&bytes, b"odd");
}

/// What users read may come from the page cache; what is verified or recovered comes from the disk.
#[test]
fn only_pages_are_read_through_the_page_cache() {
    let is_direct = |storage: &PosixStorage, mode| {
        let file = storage.open("a", mode).unwrap();
        if file.reads_through_page_cache() {
            return false;
        }
        // SAFETY: a plain call on a descriptor that is open; no memory is passed.
        let flags = unsafe { libc::fcntl(file.descriptor_for(0, 4096).unwrap().as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_DIRECT != 0
    };
    // A tmpfs has no direct I/O.
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    std::fs::write(directory.path().join("a"), [0; 4096]).unwrap();
    let plain = PosixStorage::new(directory.path());
    if !is_direct(&plain, OpenMode::ReadDirect) {
        eprintln!("skipped: no direct I/O here");
        return;
    }
    assert!(is_direct(&plain, OpenMode::ReadPages));
    let cached = PosixStorage::new(directory.path()).reading_through_page_cache();
    assert!(!is_direct(&cached, OpenMode::ReadPages));
    assert!(!is_direct(&plain, OpenMode::ReadCached));
    assert!(is_direct(&cached, OpenMode::ReadDirect) && is_direct(&cached, OpenMode::WriteDirect));
}

#[test]
fn missing_parents_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new(directory.path().join("a/b/c"));
    assert!(!storage.directory_exists().unwrap());
    storage.create_directory().unwrap();
    storage.create_directory().unwrap();
    assert!(storage.directory_exists().unwrap());
    assert!(storage.life().is_some());
    assert_eq!(PosixStorage::new(directory.path().join("a")).list().unwrap(), ["b/"]);
}

#[test]
fn a_path_of_a_file_is_not_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"").unwrap();
    for path in [path.clone(), path.join("below")] {
        let storage = PosixStorage::new(path);
        let error = storage.create_directory().unwrap_err().to_string();
        assert!(error.contains("create directory"), "{error}");
        assert!(storage.directory_exists().is_err());
    }
}

#[test]
fn life_is_the_same_until_the_mount_changes() {
    let directory = tempfile::tempdir().unwrap();
    let life = life::life(directory.path()).unwrap();
    assert_eq!(PosixStorage::new(directory.path()).life(), Some(life));
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        let other = life::life(shm).unwrap();
        assert_eq!(other.boot, life.boot);
        assert_ne!(other.instance, life.instance);
    }
    assert_eq!(life::life(Path::new("/does/not/exist")), None);
}

/// A container that is started again sees the same file system through another mount, whose id differs.
#[test]
fn a_bind_mount_shows_the_same_life() {
    let (directory, point) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = |arguments: &[&std::ffi::OsStr]| std::process::Command::new("mount").args(arguments).output();
    let (from, to) = (directory.path().as_os_str(), point.path().as_os_str());
    if !mount(&["--bind".as_ref(), from, to]).is_ok_and(|output| output.status.success()) {
        println!("skipped: a bind mount needs the right to mount");
        return;
    }
    let there = life::life(point.path());
    assert!(std::process::Command::new("umount").arg(to).status().unwrap().success());
    match file_system::kind(directory.path()) {
        Some(file_system::Kind::Overlay | file_system::Kind::Other) => println!("skipped: an unknown file system"),
        _ => assert_eq!(there, life::life(directory.path())),
    }
}

#[test]
fn a_lock_is_held_against_other_handles_of_this_process() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (PosixStorage::new(directory.path()), PosixStorage::new(directory.path()));
    let guard = one.lock("LOCK", LockPart::Writer, LockMode::Exclusive).unwrap().unwrap();
    assert!(two.lock("LOCK", LockPart::Writer, LockMode::Exclusive).unwrap().is_none());
    drop(guard);
    two.lock("LOCK", LockPart::Writer, LockMode::Exclusive).unwrap().unwrap();
}
