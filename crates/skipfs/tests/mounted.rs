//! Real mounts: system calls and programs on the file system. They need root and `/dev/fuse`.
//!
//! Every test waits for what it expects, never for a time.

use crate::support::{LAYOUTS, open_store, options, small, with_private_mounts};
use nix::sys::signal::Signal;
use rustix::fs::{FallocateFlags, XattrFlags};
use skipfs::check::{Report, check};
use skipfs::fuse::{MountOptions, Mounted, mount, spawn};
use skipfs::store::AlluviumStore;
use skipfs::{Layout, SkipFs};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store with a file system, and a mount point.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(layout: Layout) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("mount")).unwrap();
        let place = Self { directory };
        let store = place.store();
        SkipFs::mkfs(&store, &small(layout)).unwrap();
        SkipFs::open(store).unwrap().close().unwrap();
        place
    }

    fn store_path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn mount_point(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    fn store(&self) -> AlluviumStore {
        open_store(&self.store_path())
    }

    fn mount(&self, options: &MountOptions) -> Mounted<AlluviumStore> {
        spawn(Arc::new(SkipFs::open(self.store()).unwrap()), self.mount_point(), options).unwrap()
    }

    /// Unmounts and checks. Such a process also has the files that were just closed.
    fn unmount(&self, mut mounted: Mounted<AlluviumStore>) -> Report {
        while let Err(error) = mounted.unmount() {
            assert_eq!(error.errno(), libc::EBUSY, "{error}");
            std::thread::yield_now();
        }
        let report = check(&self.store()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty(), "{report:#?}");
        report
    }
}

/// Runs a test in both layouts, with and without the write-back cache.
fn everywhere(name: &str, test: impl Fn(&Path) + Sync) {
    with_private_mounts(name, || {
        for (layout, write_back_cache) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
            println!("{layout:?}, write-back cache: {write_back_cache}");
            let place = Place::new(layout);
            let mounted = place.mount(&MountOptions { write_back_cache, ..MountOptions::default() });
            test(&place.mount_point());
            place.unmount(mounted);
        }
    });
}

fn names(path: &Path) -> BTreeSet<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn files_and_directories_are_made_moved_and_removed() {
    everywhere("files_and_directories_are_made_moved_and_removed", |root| {
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "silt").unwrap();
        fs::write(root.join("a/other"), vec![7; 700_000]).unwrap();
        assert_eq!(fs::read(root.join("a/b/file")).unwrap(), b"silt");
        assert_eq!(fs::read(root.join("a/other")).unwrap(), vec![7; 700_000]);
        assert_eq!(fs::metadata(root.join("a")).unwrap().nlink(), 3);

        fs::hard_link(root.join("a/b/file"), root.join("link")).unwrap();
        let (one, other) = (fs::metadata(root.join("a/b/file")).unwrap(), fs::metadata(root.join("link")).unwrap());
        assert_eq!((one.ino(), one.nlink(), one.len()), (other.ino(), 2, 4));
        symlink("a/b/file", root.join("symlink")).unwrap();
        assert_eq!(fs::read_link(root.join("symlink")).unwrap(), Path::new("a/b/file"));
        assert_eq!(fs::read(root.join("symlink")).unwrap(), b"silt");
        assert_eq!(names(root), ["a", "link", "symlink"].map(String::from).into());

        fs::write(root.join("hidden"), "x").unwrap();
        let (from, to) = (root.join("hidden"), root.join("moved"));
        let (here, whiteout) = (rustix::fs::CWD, rustix::fs::RenameFlags::WHITEOUT);
        rustix::fs::renameat_with(here, &from, here, &to, whiteout).unwrap();
        let found = fs::metadata(&from).unwrap();
        assert!(found.file_type().is_char_device() && found.rdev() == 0 && fs::read(&to).unwrap() == b"x");
        fs::remove_file(from).unwrap();
        fs::remove_file(to).unwrap();

        fs::rename(root.join("a/b"), root.join("c")).unwrap();
        assert_eq!(fs::read(root.join("c/file")).unwrap(), b"silt");
        assert_eq!(fs::metadata(root.join("a")).unwrap().nlink(), 2);
        fs::rename(root.join("a/other"), root.join("c/file")).unwrap();
        assert_eq!(fs::metadata(root.join("c/file")).unwrap().len(), 700_000);
        assert_eq!(fs::metadata(root.join("link")).unwrap().nlink(), 1);
        assert_eq!(errno(fs::rename(root.join("c"), root.join("c/d"))), Some(libc::EINVAL));
        assert_eq!(errno(fs::remove_dir(root.join("c"))), Some(libc::ENOTEMPTY));
        assert_eq!(errno(fs::create_dir(root.join("c"))), Some(libc::EEXIST));
        assert_eq!(fs::metadata(root.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(root.join("none"), "now it is there").unwrap();
        assert_eq!(errno(fs::write(root.join("n".repeat(256)), "")), Some(libc::ENAMETOOLONG));
        fs::remove_dir_all(root.join("c")).unwrap();
        assert_eq!(names(root), ["a", "link", "none", "symlink"].map(String::from).into());
    });
}

#[test]
fn attributes_are_kept() {
    everywhere("attributes_are_kept", |root| {
        let file = root.join("file");
        fs::write(&file, "silt").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6751)).unwrap();
        std::os::unix::fs::chown(&file, Some(12), Some(13)).unwrap();
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.gid(), found.permissions().mode() & 0o7777), (12, 13, 0o751));
        // Before 1970 the nanoseconds count forwards, too: once they were taken away.
        let epoch = std::time::UNIX_EPOCH;
        let (ten, quarter) = (std::time::Duration::from_secs(10), std::time::Duration::from_millis(250));
        for time in [epoch + ten + quarter, epoch - ten + quarter, epoch - quarter, epoch - ten, epoch] {
            File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), time);
        }

        rustix::fs::setxattr(&file, "user.color", b"brown", XattrFlags::empty()).unwrap();
        let exists = rustix::fs::setxattr(&file, "user.color", b"", XattrFlags::CREATE);
        assert_eq!(exists, Err(rustix::io::Errno::EXIST));
        let mut value = [0; 9];
        assert_eq!(rustix::fs::getxattr(&file, "user.color", &mut value), Ok(5));
        assert_eq!(&value[..5], b"brown");
        assert_eq!(rustix::fs::getxattr(&file, "user.color", &mut [0; 3]), Err(rustix::io::Errno::RANGE));
        let mut listed = [0; 99];
        let length = rustix::fs::listxattr(&file, &mut listed).unwrap();
        assert_eq!(&listed[..length], b"user.color\0");
        rustix::fs::removexattr(&file, "user.color").unwrap();
        assert_eq!(rustix::fs::getxattr(&file, "user.color", &mut value), Err(rustix::io::Errno::NODATA));

        // Access control lists: `docs/skipfs.md` says why there are none. This one is that of 0644.
        let list =
            [&[2, 0, 0, 0][..], &[1, 0, 6, 0], &[255; 4], &[4, 0, 4, 0], &[255; 4], &[32, 0, 4, 0], &[255; 4]].concat();
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            let set = rustix::fs::setxattr(root, name, &list, XattrFlags::empty());
            assert_eq!(set, Err(rustix::io::Errno::OPNOTSUPP), "{name}");
        }

        nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(fs::metadata(root.join("fifo")).unwrap().file_type().is_fifo());
        let space = rustix::fs::statvfs(root).unwrap();
        assert!(space.f_bavail > 0 && space.f_namemax == 255);
    });
}

#[test]
fn open_files_behave() {
    everywhere("open_files_behave", |root| {
        let path = root.join("file");
        let open = |options: &mut OpenOptions| options.read(true).write(true).open(&path);
        let mut file = open(OpenOptions::new().create_new(true)).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        assert_eq!(errno(open(OpenOptions::new().create_new(true))), Some(libc::EEXIST));

        // Two writers that append.
        let appender = || OpenOptions::new().append(true).open(&path).unwrap();
        let (mut one, mut other) = (appender(), appender());
        for round in 0..50 {
            one.write_all(&[round; 10]).unwrap();
            other.write_all(&[round + 100; 10]).unwrap();
        }
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 101_000);
        assert!(
            bytes[100_000..].chunks(20).zip(0..).all(|(both, round)| both == [[round; 10], [round + 100; 10]].concat())
        );

        // Without a name.
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap_err().kind(), ErrorKind::NotFound);
        file.write_all_at(b"silt", 5000).unwrap();
        file.set_len(5002).unwrap();
        file.seek(SeekFrom::Start(4999)).unwrap();
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [1, b's', b'i']);
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        drop((file, one, other));

        // Holes, and truncation at opening.
        let file = open(OpenOptions::new().create(true).truncate(false)).unwrap();
        file.write_all_at(&[9; 8192], 300_000).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, hole, 301_000, 1000).unwrap();
        let mut bytes = vec![1; 8192];
        file.read_exact_at(&mut bytes, 300_000).unwrap();
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == if (1000..2000).contains(&at) { 0 } else { 9 }));
        assert_eq!(file.metadata().unwrap().len(), 308_192);
        file.sync_all().unwrap();
        let again = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        assert_eq!((again.metadata().unwrap().len(), file.metadata().unwrap().len()), (0, 0));
        // The kernel's own end of an I/O past its page cache.
        drop(OpenOptions::new().write(true).custom_flags(libc::O_SYNC).open(&path).unwrap());
    });
}

/// Regression test: an inode went with its last name although the kernel still had it. A file that was replaced between the
/// kernel's lookup and its open, or that a descriptor without access refers to, could not be opened: ESTALE.
#[test]
fn files_that_were_removed_or_replaced_can_be_opened() {
    everywhere("files_that_were_removed_or_replaced_can_be_opened", |root| {
        let path = root.join("file");
        for (size, replaces) in [(500, false), (500, true), (100_000, false), (100_000, true)] {
            fs::write(&path, vec![b'x'; size]).unwrap();
            let descriptor = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
            if replaces {
                fs::write(root.join("new"), "other").unwrap();
                fs::rename(root.join("new"), &path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            let again = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
            assert_eq!(fs::read(&again).unwrap(), vec![b'x'; size]);
            let mut file = OpenOptions::new().append(true).open(&again).unwrap();
            file.write_all(b"yz").unwrap();
            drop(file);
            assert_eq!(fs::read(&again).unwrap(), [&vec![b'x'; size][..], b"yz"].concat());
            assert_eq!(descriptor.metadata().unwrap().nlink(), 0);
        }

        fs::write(&path, [b'0'; 800]).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let found = fs::read(&path).unwrap_or_else(|error| panic!("{error}"));
                        assert!(found.len() == 800 && found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
            for round in 0..1000 {
                fs::write(root.join("new"), [b'0' + (round % 10) as u8; 800]).unwrap();
                fs::rename(root.join("new"), &path).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn mapped_files_reach_the_store() {
    everywhere("mapped_files_reach_the_store", |root| {
        let path = root.join("file");
        let bytes: Vec<u8> = (0..600_000u32).map(|at| (at / 1000) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let length = bytes.len();
        // SAFETY: a new mapping; the file is that long and stays so.
        let address = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(address, libc::MAP_FAILED);
        // SAFETY: the mapping has these bytes, and nothing else refers to it until it is unmapped.
        let mapped = unsafe { std::slice::from_raw_parts_mut(address.cast::<u8>(), length) };
        assert_eq!(mapped, bytes);
        mapped[5000..5004].copy_from_slice(b"silt");
        mapped[length - 1] = 1;
        // SAFETY: the mapping begins there and has these bytes; the slice is not used any more.
        unsafe {
            assert_eq!(libc::msync(address, length, libc::MS_SYNC), 0);
            assert_eq!(libc::munmap(address, length), 0);
        }
        drop(file);
        let found = fs::read(&path).unwrap();
        assert_eq!((&found[4999..5005], found[length - 1], found.len()), (&b"\x04silt\x05"[..], 1, length));
    });
}

#[test]
fn ten_thousand_files_are_listed_while_they_are_removed() {
    everywhere("ten_thousand_files_are_listed_while_they_are_removed", |root| {
        let directory = root.join("many");
        fs::create_dir(&directory).unwrap();
        for number in 0..10_000 {
            File::create(directory.join(format!("file{number}"))).unwrap();
        }
        assert_eq!(names(&directory).len(), 10_000);
        let (mut seen, mut removed) = (BTreeSet::new(), 0);
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            assert!(seen.insert(entry.file_name()), "twice: {entry:?}");
            if seen.len().is_multiple_of(2) {
                fs::remove_file(entry.path()).unwrap();
                removed += 1;
            }
        }
        assert_eq!((seen.len(), removed, names(&directory).len()), (10_000, 5000, 5000));
        fs::remove_dir_all(&directory).unwrap();
        assert!(names(root).is_empty());
    });
}

/// Names have at most 255 bytes, and a path with its last zero byte 4096: longer ones are the caller's error. Files
/// deeper than that are reached from a directory on the way.
#[test]
fn names_and_paths_at_their_limits() {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
    everywhere("names_and_paths_at_their_limits", |root| {
        for (name, expected) in [("n".repeat(255), None), ("n".repeat(256), Some(libc::ENAMETOOLONG))] {
            let path = root.join(&name);
            assert_eq!(errno(fs::write(&path, "silt")), expected);
            assert_eq!(errno(fs::read(&path)), expected);
            // Where a name of 255 bytes is, neither a directory nor another name can be.
            fs::create_dir(root.join("d")).unwrap();
            assert_eq!(errno(fs::rename(root.join("d"), &path)), expected.or(Some(libc::ENOTDIR)));
            fs::remove_dir(root.join("d")).unwrap();
            assert_eq!(errno(symlink("x", &path)), expected.or(Some(libc::EEXIST)));
        }
        assert!(names(root).contains(&"n".repeat(255)));
        fs::remove_file(root.join("n".repeat(255))).unwrap();

        // Directories down to a path of exactly 4095 bytes.
        let mut path = root.to_path_buf();
        loop {
            let rest = 4095 - path.as_os_str().len() - 1;
            let length = if rest > 255 + 2 { 255.min(rest - 2) } else { rest };
            path.push("p".repeat(length));
            if length == rest {
                break;
            }
            fs::create_dir(&path).unwrap();
        }
        assert_eq!(path.as_os_str().len(), 4095);
        fs::write(&path, "at the limit").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"at the limit");
        let longer = PathBuf::from(format!("{}p", path.display()));
        assert_eq!(errno(fs::write(&longer, "")), Some(libc::ENAMETOOLONG));
        assert_eq!(errno(fs::metadata(&longer)), Some(libc::ENAMETOOLONG));

        // The system's limit is one of paths, not of the tree.
        let parent = openat(CWD, path.parent().unwrap(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let deep = "q".repeat(255);
        mkdirat(&parent, &deep, Mode::RWXU).unwrap();
        let directory = openat(&parent, &deep, OFlags::DIRECTORY, Mode::empty()).unwrap();
        drop(openat(&directory, &deep, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap());
        unlinkat(&directory, &deep, AtFlags::empty()).unwrap();
        unlinkat(&parent, &deep, AtFlags::REMOVEDIR).unwrap();
        fs::remove_file(&path).unwrap();
    });
}

/// A tree that programs have copied is the same after the file system was unmounted and mounted again.
#[test]
fn programs_find_what_they_copied_after_another_mount() {
    with_private_mounts("programs_find_what_they_copied_after_another_mount", || {
        for layout in LAYOUTS {
            let place = Place::new(layout);
            let source = Path::new(env!("CARGO_MANIFEST_DIR"));
            let copy = place.mount_point().join("copy");
            let run = |program: &str, arguments: &[&Path]| {
                let done = Command::new(program).arg("-r").args(arguments).output().unwrap();
                assert!(done.status.success(), "{program}: {done:?}");
            };
            let mounted = place.mount(&MountOptions::default());
            run("cp", &[source, &copy]);
            let report = place.unmount(mounted);
            assert!(report.files > 30 && report.bytes > 100_000, "{report:?}");
            let mounted = place.mount(&MountOptions { read_only: true, ..MountOptions::default() });
            run("diff", &[source, &copy]);
            assert_eq!(errno(fs::write(copy.join("new"), "")), Some(libc::EROFS));
            place.unmount(mounted);
        }
    });
}

#[test]
fn one_mount_at_a_time_and_a_signal_ends_it() {
    with_private_mounts("one_mount_at_a_time_and_a_signal_ends_it", || {
        let place = Place::new(LAYOUTS[1]);
        let (options, mount_options) = (options(), MountOptions::default());
        let mut mounted = place.mount(&mount_options);
        let second = mount(place.store_path(), options.clone(), place.mount_point(), &mount_options);
        let error = second.unwrap_err();
        assert!(error.errno() == libc::EBUSY && error.to_string().contains("is open in another process"), "{error}");

        // What is in use stays mounted.
        let open = File::create(place.mount_point().join("open")).unwrap();
        assert_eq!(mounted.unmount().unwrap_err().errno(), libc::EBUSY);
        (&open).write_all(b"silt").unwrap();
        drop(open);
        place.unmount(mounted);

        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::channel();
            let (place, mount_options) = (&place, &mount_options);
            let served = scope.spawn(move || {
                send.send(nix::sys::pthread::pthread_self()).unwrap();
                mount(place.store_path(), options, place.mount_point(), mount_options)
            });
            let thread = receive.recv().unwrap();
            while !place.mount_point().join("open").exists() {
                assert!(!served.is_finished(), "{:?}", served.join());
                std::thread::yield_now();
            }
            fs::write(place.mount_point().join("new"), "sand").unwrap();
            nix::sys::pthread::pthread_kill(thread, Signal::SIGTERM).unwrap();
            served.join().unwrap().unwrap();
        });
        assert!(names(&place.mount_point()).is_empty(), "unmounted");
        let report = check(&place.store()).unwrap();
        assert!(report.is_sound() && report.files == 2 && report.bytes == 8, "{report:?}");
    });
}

#[test]
fn files_are_copied_inside_and_their_holes_are_found() {
    everywhere("files_are_copied_inside_and_their_holes_are_found", |root| {
        let file = |name: &str| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(root.join(name)).unwrap()
        };
        let (from, to) = (file("from"), file("to"));
        let bytes: Vec<u8> = (0..9_000_000_u32).map(|byte| (byte / 7) as u8).collect();
        from.write_all_at(&bytes, 0).unwrap();
        to.write_all_at(b"before", 0).unwrap();
        let (mut source, mut target) = (0, 3);
        while rustix::fs::copy_file_range(&from, Some(&mut source), &to, Some(&mut target), 1 << 30).unwrap() > 0 {}
        assert_eq!((source, target), (9_000_000, 9_000_003));
        let copied = fs::read(root.join("to")).unwrap();
        assert!(copied[..3] == *b"bef" && copied[3..] == bytes);

        let sparse = file("sparse");
        sparse.set_len(4 << 20).unwrap();
        sparse.write_all_at(&[1; 4096], 2 << 20).unwrap();
        sparse.sync_all().unwrap();
        let seek = |to| rustix::fs::seek(&sparse, to);
        let data = seek(rustix::fs::SeekFrom::Data(0)).unwrap();
        assert!(data == 2 << 20 || data == 0, "{data}: with the write-back cache all is data");
        // With that cache the kernel also keeps what it knew before.
        let blocks = sparse.metadata().unwrap().blocks();
        assert!(blocks == 8 || data == 0, "{blocks}: holes take no space");
        let hole = seek(rustix::fs::SeekFrom::Hole(data)).unwrap();
        assert_eq!(hole, if data == 0 { 4 << 20 } else { data + 4096 });
    });
}

/// The kernel leaves it to the file system to take away what would give a writer the file's rights.
#[test]
fn a_write_takes_privileges_away() {
    with_private_mounts("a_write_takes_privileges_away", || {
        let place = Place::new(LAYOUTS[1]);
        let mounted = place.mount(&MountOptions { allow_other: true, ..MountOptions::default() });
        fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = place.mount_point().join("program");
        // Version 2 of the attribute, with no capabilities.
        let capability = [&[0, 0, 0, 2][..], &[0; 16]].concat();
        let reset = || {
            fs::write(&path, "program").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
            rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty()).unwrap();
        };
        let has_capability = || rustix::fs::getxattr(&path, "security.capability", &mut [0; 64]).is_ok();
        // Only the mode is asked for. Regression test: the kernel answered from before the write, since only times and sizes
        // were out of date.
        let mode = || {
            use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
            u32::from(statx(CWD, &path, AtFlags::empty(), StatxFlags::MODE).unwrap().stx_mode) & 0o7777
        };
        fs::write(place.mount_point().join("other"), vec![1; 9000]).unwrap();
        for command in [
            "printf x >> program",
            "printf x > program",
            "truncate -s 3 program",
            "fallocate -l 9 program",
            "dd if=/dev/zero of=program bs=10000 count=1 conv=notrunc",
        ] {
            reset();
            assert!(has_capability() && mode() == 0o6777);
            use std::os::unix::process::CommandExt;
            let mut shell = Command::new("sh");
            let done = shell.args(["-c", command]).current_dir(place.mount_point()).uid(1000).gid(1000).status();
            assert!(done.unwrap().success(), "{command}");
            assert_eq!((mode(), has_capability()), (0o777, false), "{command}");
        }
        reset();
        let (from, to) = (place.mount_point().join("other"), File::options().write(true).open(&path).unwrap());
        rustix::fs::copy_file_range(File::open(from).unwrap(), None, &to, None, 9000).unwrap();
        drop(to);
        assert_eq!((mode(), has_capability()), (0o777, false), "a copy takes them from anyone's file");
        reset();
        File::options().append(true).open(&path).unwrap().write_all(b"by root").unwrap();
        assert_eq!((mode(), has_capability()), (0o6777, false), "root keeps the bits");
        place.unmount(mounted);
    });
}
