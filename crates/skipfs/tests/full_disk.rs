//! A full disk and a store that can write no more: the right error numbers, reads go on, removals make space, and
//! nothing that was acknowledged is lost.

use crate::support::{CALLER, LAYOUTS, small, with_private_mounts};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Options};
use skipfs::check::check;
use skipfs::fuse::{MountOptions, spawn};
use skipfs::store::{AlluviumStore, Store};
use skipfs::{FsResult, Layout, ROOT, SetAttributes, SkipFs, WriteOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// A disk that was full for this time stays full until something is removed.
const STEADY: Duration = Duration::from_millis(500);
const CAPACITY: u64 = 16 << 20;

fn options() -> Options {
    Options::new().memory_budget(2 << 20).background_threads(2).sync_interval(None)
}

/// Content that does not compress, different for each file.
fn content(number: u64) -> Vec<u8> {
    let mut random = crate::support::Random(number);
    let length = 500 + random.below(30_000) as usize;
    (0..length).map(|_| random.next() as u8).collect()
}

/// A file system on a disk, and what must be in its root.
struct Files {
    fs: SkipFs<AlluviumStore>,
    files: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

fn name(number: u64) -> Vec<u8> {
    format!("file{number:06}").into_bytes()
}

impl Files {
    fn new(disk: &SimulatedStorage, layout: Layout) -> Self {
        let store = AlluviumStore::of(Db::open_with(Arc::new(disk.clone()), options()).unwrap(), None);
        SkipFs::mkfs(&store, &small(layout)).unwrap();
        Self { fs: SkipFs::open(store).unwrap(), files: BTreeMap::new(), next: 0 }
    }

    /// Makes a file and writes it. What was acknowledged is expected from then on.
    fn add(&mut self) -> FsResult<()> {
        self.next += 1;
        let (number, bytes) = (self.next, content(self.next));
        let ino = self.fs.create(ROOT, &name(number), 0o644, CALLER)?.ino;
        self.files.insert(number, Vec::new());
        let written = self.fs.write(ino, 0, &bytes, WriteOptions::default());
        self.fs.release(ino).unwrap();
        self.fs.forget(ino, 1);
        written.map(|count| {
            assert_eq!(count, bytes.len());
            self.files.insert(number, bytes);
        })
    }

    fn is_full(&self) -> bool {
        self.fs.store().db().stats().disk_full
    }

    /// Adds files until the disk is full and stays full.
    fn fill(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "the disk does not fill: {}", self.fs.store().db().stats());
            if let Err(error) = self.add() {
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                // A full disk is expected here.
                let _ = self.fs.store().db().settle();
                let until = Instant::now() + STEADY;
                while self.is_full() && Instant::now() < until {
                    std::thread::yield_now();
                }
                if self.is_full() {
                    return;
                }
            }
        }
    }

    fn compare(&self) {
        for (number, bytes) in &self.files {
            let ino = self.fs.lookup(ROOT, &name(*number)).unwrap().ino;
            assert_eq!(&self.fs.read(ino, 0, 1 << 20).unwrap(), bytes, "file {number}");
            self.fs.forget(ino, 1);
        }
        let report = check(self.fs.store()).unwrap();
        assert!(report.is_sound() && report.files == self.files.len() as u64, "{report:#?}");
    }

    fn remove(&mut self, count: usize) {
        let numbers: Vec<u64> = self.files.keys().take(count).copied().collect();
        for number in numbers {
            let before = self.fs.getattr(ROOT).unwrap();
            // Half of them as the kernel does it, with a lookup. Such a file goes at once if there is no space for its mark.
            let looked_up = (number % 2 == 0).then(|| self.fs.lookup(ROOT, &name(number)).unwrap().ino);
            self.fs.unlink(ROOT, &name(number)).unwrap_or_else(|error| panic!("{error}"));
            looked_up.into_iter().for_each(|ino| self.fs.forget(ino, 1));
            self.files.remove(&number);
            assert!(self.fs.getattr(ROOT).unwrap().mtime > before.mtime, "the time is in memory");
        }
    }

    fn wait_until_writes_resume(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.add() {
            assert_eq!(error.errno(), libc::ENOSPC, "{error}");
            assert!(Instant::now() < deadline, "writes do not resume: {}", self.fs.store().db().stats());
            std::thread::yield_now();
        }
    }
}

/// What can be removed only by putting a record.
struct Used {
    directory: Vec<u8>,
    open: u64,
    /// A file with a second name in the directory.
    linked: u64,
    cut: u64,
}

/// Repeats a request while the disk is full. In the second round it may be full again for a moment.
fn retried<T>(mut request: impl FnMut() -> FsResult<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match request() {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC, "{error}");
                assert!(Instant::now() < deadline, "writes do not resume");
                std::thread::yield_now();
            }
        }
    }
}

impl Used {
    fn new(files: &mut Files, round: u64) -> Self {
        let fs = &files.fs;
        let directory = format!("directory{round}").into_bytes();
        retried(|| fs.mkdir(ROOT, &directory, 0o755, CALLER));
        let [open, linked, cut] = [(); 3].map(|()| {
            files.wait_until_writes_resume();
            files.next
        });
        let fs = &files.fs;
        let in_directory = fs.lookup(ROOT, &directory).unwrap().ino;
        let ino = fs.lookup(ROOT, &name(linked)).unwrap().ino;
        retried(|| fs.link(ino, in_directory, b"second"));
        fs.open_file(fs.lookup(ROOT, &name(open)).unwrap().ino, false).unwrap();
        fs.lookup(ROOT, &name(cut)).unwrap();
        Self { directory, open, linked, cut }
    }

    /// Removes all of it, on a full disk.
    fn remove(self, files: &mut Files) {
        let Self { directory, open, linked, cut } = self;
        // It may have got space by itself meanwhile.
        if !files.is_full() {
            files.fill();
        }
        let fs = &files.fs;
        let ino = |name: &[u8]| {
            let ino = fs.lookup(ROOT, name).unwrap().ino;
            fs.forget(ino, 1);
            ino
        };
        let in_directory = ino(&directory);
        fs.unlink(in_directory, b"second").unwrap();
        assert_eq!(fs.getattr(ino(&name(linked))).unwrap().nlink, 1);
        fs.rmdir(ROOT, &directory).unwrap();
        let ino_open = ino(&name(open));
        fs.unlink(ROOT, &name(open)).unwrap();
        let bytes = files.files.remove(&open).unwrap();
        assert_eq!(fs.read(ino_open, 0, 1 << 20).unwrap(), bytes);
        fs.release(ino_open).unwrap();
        let bytes = files.files.get_mut(&cut).unwrap();
        let ino_cut = ino(&name(cut));
        for size in [bytes.len() / 2, 10, 0] {
            let set = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
            fs.setattr(ino_cut, &set).unwrap_or_else(|error| panic!("{size}: {error}"));
            bytes.truncate(size);
        }
        for (ino, lookups) in [(in_directory, 1), (ino_open, 1), (ino_cut, 1), (ino(&name(linked)), 1)] {
            fs.forget(ino, lookups);
        }
    }
}

#[test]
fn on_a_full_disk_files_are_read_and_removed_until_writes_resume() {
    for layout in LAYOUTS {
        let disk = SimulatedStorage::new(1);
        disk.set_capacity(Some(CAPACITY));
        let mut files = Files::new(&disk, layout);
        for round in 0..2 {
            let used = Used::new(&mut files, round);
            files.fill();
            files.compare();
            // What frees no space fails, and changes nothing.
            let (first, _) = files.files.first_key_value().unwrap();
            let first = name(*first);
            assert_eq!(files.fs.mkdir(ROOT, b"new", 0, CALLER).unwrap_err().errno(), libc::ENOSPC);
            let ino = files.fs.lookup(ROOT, &first).unwrap().ino;
            let set = SetAttributes { permissions: Some(0), ..SetAttributes::default() };
            assert_eq!(files.fs.setattr(ino, &set).unwrap_err().errno(), libc::ENOSPC);
            assert_eq!(files.fs.link(ino, ROOT, b"new").unwrap_err().errno(), libc::ENOSPC);
            files.fs.forget(ino, 1);
            files.compare();
            used.remove(&mut files);
            files.compare();
            files.remove(files.files.len() * 2 / 3);
            files.wait_until_writes_resume();
            files.compare();
        }
        let Files { fs, files, next } = files;
        fs.close().unwrap();
        let store = AlluviumStore::of(Db::open_with(Arc::new(disk), options()).unwrap(), None);
        Files { fs: SkipFs::open(store).unwrap(), files, next }.compare();
    }
}

/// Regression test: the rest of a chunk that was cut had to be put again, which failed above 32 KiB.
#[test]
fn on_a_full_disk_long_files_are_cut() {
    for layout in LAYOUTS {
        let disk = SimulatedStorage::new(3);
        disk.set_capacity(Some(CAPACITY));
        let mut files = Files::new(&disk, layout);
        let ino = files.fs.create(ROOT, b"long", 0o644, CALLER).unwrap().ino;
        let mut bytes: Vec<u8> = (0..600_000_u32).map(|at| (at / 999 + at) as u8).collect();
        assert_eq!(files.fs.write(ino, 0, &bytes, WriteOptions::default()).unwrap(), bytes.len());
        files.fill();
        let read = || files.fs.read(ino, 0, 1 << 20).unwrap();
        for size in [590_000, 500_001, 300_001, 262_144, 200_704, 50_000, 33_333] {
            let set = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
            let cut = files.fs.setattr(ino, &set).unwrap_or_else(|error| panic!("{size}: {error}"));
            assert_eq!(cut.allocated, (size as u64).next_multiple_of(4096));
            bytes.truncate(size);
            assert_eq!(read(), bytes, "{size}");
        }
        let report = check(files.fs.store()).unwrap();
        assert!(report.is_sound(), "{report:#?}");
        files.fs.release(ino).unwrap();
        files.fs.open_file(ino, true).unwrap();
        assert_eq!(files.fs.getattr(ino).unwrap().size, 0);
        files.fs.release(ino).unwrap();
        files.fs.unlink(ROOT, b"long").unwrap();
        files.fs.forget(ino, 1);
        files.compare();
    }
}

/// At most two files of 2 MiB live on 24 MiB. A write found the disk full all the same, because `unlink` takes no space back by
/// itself; a second later it would have succeeded.
#[test]
fn files_that_replace_each_other_find_space() {
    let piece: Vec<u8> = (0..4).flat_map(content).collect();
    for layout in LAYOUTS {
        let disk = SimulatedStorage::new(1);
        disk.set_capacity(Some(24 << 20));
        let fs = Files::new(&disk, layout).fs;
        for number in 0..30_u64 {
            let ino = fs.create(ROOT, &name(number), 0o644, CALLER).unwrap().ino;
            let mut length = 0;
            while length < 2 << 20 {
                let written = fs.write(ino, length, &piece, WriteOptions::default());
                length += written.unwrap_or_else(|error| panic!("file {number} at {length}: {error}")) as u64;
            }
            fs.release(ino).unwrap();
            fs.forget(ino, 1);
            if let Some(before) = number.checked_sub(1) {
                fs.unlink(ROOT, &name(before)).unwrap();
            }
        }
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.files == 1, "{report:#?}");
    }
}

#[test]
fn a_store_whose_sync_has_failed_is_a_read_only_file_system() {
    for layout in LAYOUTS {
        let disk = SimulatedStorage::new(2);
        let mut files = Files::new(&disk, layout);
        for _ in 0..20 {
            files.add().unwrap();
        }
        files.fs.fsync().unwrap();
        let durable = files.files.len();
        files.add().unwrap();
        disk.inject("(sync name~.log) -> eio");
        let error = files.fs.fsync().unwrap_err();
        assert_eq!(error.errno(), libc::EIO, "{error}");
        disk.clear_faults();
        let ino = files.fs.lookup(ROOT, &name(1)).unwrap().ino;
        let errors = [
            files.fs.create(ROOT, b"new", 0o644, CALLER).map(drop),
            files.fs.mkdir(ROOT, b"new", 0o755, CALLER).map(drop),
            files.fs.write(ino, 0, b"x", WriteOptions::default()).map(drop),
            files.fs.unlink(ROOT, &name(1)),
            files.fs.rename(ROOT, &name(1), ROOT, b"new", Default::default()),
            files.fs.setxattr(ino, b"user.x", b"y", Default::default()),
            files.fs.fsync(),
        ];
        for error in errors {
            assert_eq!(error.unwrap_err().errno(), libc::EROFS);
        }
        files.fs.forget(ino, 1);
        files.compare();
        // The store says at its closing that it has failed.
        files.fs.close().unwrap_err();
        let store = AlluviumStore::of(Db::open_with(Arc::new(disk), options()).unwrap(), None);
        let again = SkipFs::open(store).unwrap();
        let report = check(again.store()).unwrap();
        assert!(report.is_sound() && report.files >= durable as u64, "{report:#?}");
    }
}

/// A tmpfs of limited size.
fn tmpfs(at: &Path, bytes: u64) {
    use nix::mount::{MsFlags, mount};
    let size = format!("size={bytes}");
    mount(Some("none"), at, Some("tmpfs"), MsFlags::empty(), Some(&size[..])).unwrap();
}

#[test]
fn a_mounted_file_system_on_a_full_tmpfs() {
    with_private_mounts("a_mounted_file_system_on_a_full_tmpfs", || {
        let place = tempfile::tempdir().unwrap();
        let (disk, root) = (place.path().join("disk"), place.path().join("mount"));
        fs::create_dir(&disk).unwrap();
        fs::create_dir(&root).unwrap();
        tmpfs(&disk, CAPACITY);
        let open = || AlluviumStore::open(disk.join("store"), options()).unwrap();
        let store = open();
        SkipFs::mkfs(&store, &small(LAYOUTS[1])).unwrap();
        let mut mounted = spawn(Arc::new(SkipFs::open(store).unwrap()), &root, &MountOptions::default()).unwrap();
        let path = |number: u64| root.join(format!("file{number}"));
        let mut files: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let deadline = Instant::now() + PATIENCE;
        let mut next = 0;
        let mut add = |files: &mut BTreeMap<u64, Vec<u8>>| {
            assert!(Instant::now() < deadline, "the disk does not fill, or has no space again");
            next += 1;
            let (file, bytes) = (path(next), content(next));
            let written = fs::write(&file, &bytes);
            match &written {
                Ok(()) => _ = files.insert(next, bytes),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                    // Nothing acknowledged the whole content.
                    if file.exists() {
                        fs::remove_file(&file).unwrap();
                    }
                }
            }
            written
        };
        let directory = root.join("directory");
        fs::create_dir_all(directory.join("below")).unwrap();
        while add(&mut files).is_ok() {}
        // Removals that put a record. The disk may have space again by then, but usually has not.
        let (first, last) = (*files.keys().next().unwrap(), *files.keys().last().unwrap());
        fs::remove_dir_all(&directory).unwrap();
        fs::File::options().write(true).truncate(true).open(path(first)).unwrap();
        files.insert(first, Vec::new());
        let opened = fs::File::open(path(last)).unwrap();
        fs::remove_file(path(last)).unwrap();
        files.remove(&last);
        drop(opened);
        let is_same = |files: &BTreeMap<u64, Vec<u8>>| {
            files.iter().for_each(|(number, bytes)| assert_eq!(&fs::read(path(*number)).unwrap(), bytes));
        };
        is_same(&files);
        let numbers: Vec<u64> = files.keys().copied().collect();
        for number in &numbers[..numbers.len() * 2 / 3] {
            fs::remove_file(path(*number)).unwrap();
            files.remove(number);
        }
        while add(&mut files).is_err() {}
        is_same(&files);
        while let Err(error) = mounted.unmount() {
            assert_eq!(error.errno(), libc::EBUSY, "{error}");
        }
        let store = open();
        let report = check(&store).unwrap();
        assert!(report.is_sound() && report.files == files.len() as u64, "{report:#?}");
        Store::close(&store).unwrap();
        drop(store);
        // A process that another test starts may have a file of it for a moment.
        nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH).unwrap();
    });
}
