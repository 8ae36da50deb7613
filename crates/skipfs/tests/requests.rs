//! Single requests and their rules: open files without names, offsets of directories, threads.

use crate::support::{CALLER, LAYOUTS, Memory, new_fs, small};
use skipfs::check::check;
use skipfs::store::{Counted, Store};
use skipfs::{
    FileKind, FilePlace, FsResult, MkfsOptions, OpenOptions, ROOT, RenameMode, SetAttributes, SetMode, SetTime, SkipFs,
    Timestamp, Visit, WriteOptions,
};
use std::collections::BTreeSet;

fn errno<T>(result: skipfs::FsResult<T>) -> i32 {
    result.map_or_else(|error| error.errno(), |_| 0)
}

fn write<S: Store>(fs: &SkipFs<S>, ino: u64, bytes: &[u8]) {
    assert_eq!(fs.write(ino, 0, bytes, WriteOptions::default()).unwrap(), bytes.len());
}

#[test]
fn an_open_file_without_names_keeps_its_content_until_it_is_released() {
    for layout in LAYOUTS {
        let memory = Memory::new();
        SkipFs::mkfs(&memory.open(), &small(layout)).unwrap();
        let fs = SkipFs::open(memory.open()).unwrap();
        let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
        write(&fs, ino, &[1; 300_000]);
        fs.setxattr(ino, b"user.x", b"y", Default::default()).unwrap();
        fs.unlink(ROOT, b"a").unwrap();
        assert_eq!(errno(fs.lookup(ROOT, b"a")), libc::ENOENT);
        write(&fs, ino, b"again");
        assert_eq!(fs.read(ino, 3, 4).unwrap(), [b'i', b'n', 1, 1]);
        assert_eq!(fs.getattr(ino).unwrap().nlink, 0);
        assert_eq!(errno(fs.link(ino, ROOT, b"b")), libc::ENOENT);
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.orphans == [ino], "{report:?}");
        fs.forget(ino, 1);
        assert_eq!(fs.read(ino, 3, 1).unwrap(), b"i");
        fs.release(ino).unwrap();
        assert_eq!(errno(fs.read(ino, 0, 1)), libc::ESTALE);
        assert_eq!(errno(fs.open_file(ino, false)), libc::ESTALE);
        assert_eq!(errno(fs.release(ino)), libc::ESTALE);
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty(), "{report:?}");

        // The next opening deletes what was never released.
        let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
        write(&fs, ino, &[1; 300_000]);
        fs.unlink(ROOT, b"a").unwrap();
        fs.close().unwrap();
        assert_eq!(errno(fs.getattr(ROOT)), 0, "attributes are in memory");
        assert_eq!(errno(fs.lookup(ROOT, b"a")), libc::EIO);
        let fs = SkipFs::open(memory.open()).unwrap();
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty() && report.files == 0, "{report:?}");
        // Numbers are never used again.
        assert!(fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino > ino);
    }
}

/// Regression test: an inode went with its last name although the kernel had looked it up, so an open that came after its
/// lookup failed with ESTALE.
#[test]
fn a_looked_up_file_without_names_stays_until_it_is_forgotten() {
    let sizes = [0, 500, 5000, 300_000];
    for (layout, size, replaces) in
        LAYOUTS.into_iter().flat_map(|layout| sizes.map(|size| [(layout, size, false), (layout, size, true)])).flatten()
    {
        let context = format!("{layout:?}, {size} bytes, replaced: {replaces}");
        let memory = Memory::new();
        SkipFs::mkfs(&memory.open(), &small(layout)).unwrap();
        let fs = SkipFs::open(memory.open()).unwrap();
        let bytes = vec![7; size];
        let remove = |with_attribute: bool| {
            let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
            fs.write(ino, 0, &bytes, WriteOptions::default()).unwrap();
            if with_attribute {
                fs.setxattr(ino, b"user.x", b"y", Default::default()).unwrap();
            }
            fs.release(ino).unwrap();
            match replaces {
                false => fs.unlink(ROOT, b"a").unwrap(),
                true => {
                    let new = fs.mknod(ROOT, b"b", libc::S_IFREG, 0, CALLER).unwrap().ino;
                    fs.rename(ROOT, b"b", ROOT, b"a", RenameMode::Replace).unwrap();
                    fs.unlink(ROOT, b"a").unwrap();
                    fs.forget(new, 1);
                }
            }
            ino
        };
        let check_sound = |orphans: &[u64]| {
            let report = check(fs.store()).unwrap();
            assert!(report.is_sound() && report.orphans == orphans, "{context}: {report:#?}");
        };

        let ino = remove(false);
        assert_eq!(fs.getattr(ino).unwrap().nlink, 0, "{context}");
        let permissions = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        fs.setattr(ino, &permissions).unwrap();
        for _ in 0..2 {
            fs.open_file(ino, false).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(fs.read(ino, 0, 1 << 20).unwrap(), bytes, "{context}");
            fs.release(ino).unwrap();
        }
        // A change of what is only in memory puts it into the store.
        fs.open_file(ino, false).unwrap();
        fs.setxattr(ino, b"user.x", b"y", Default::default()).unwrap();
        fs.write(ino, size as u64, &[8; 20_000], WriteOptions::default()).unwrap();
        fs.release(ino).unwrap();
        let read = fs.read(ino, 0, 1 << 20).unwrap();
        assert!(read.len() == size + 20_000 && read[..size] == bytes && read[size..] == [8; 20_000], "{context}");
        assert_eq!(fs.getattr(ino).unwrap().permissions, 0o600);
        check_sound(&[ino]);
        fs.forget(ino, 1);
        assert_eq!(errno(fs.getattr(ino)), libc::ESTALE, "{context}");
        check_sound(&[]);

        // Truncation at opening, and extended attributes that were there before.
        let ino = remove(true);
        assert_eq!(fs.getxattr(ino, b"user.x").unwrap(), b"y", "{context}");
        fs.open_file(ino, true).unwrap();
        fs.forget(ino, 1);
        assert_eq!(fs.read(ino, 0, 9).unwrap(), b"", "{context}: it is open");
        check_sound(&[ino]);
        fs.release(ino).unwrap();
        check_sound(&[]);

        // A close deletes what was not forgotten; after a death the next opening does.
        remove(false);
        fs.close().unwrap();
        let report = check(&memory.open()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty() && report.files == 0, "{context}: {report:#?}");
        let fs = SkipFs::open(memory.open()).unwrap();
        let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
        fs.write(ino, 0, &bytes, WriteOptions::default()).unwrap();
        fs.release(ino).unwrap();
        fs.unlink(ROOT, b"a").unwrap();
        fs.store().close().unwrap();
        let fs = SkipFs::open(memory.open()).unwrap();
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty() && report.files == 0, "{context}: {report:#?}");
    }
}

#[test]
fn a_removed_directory_stays_empty_until_it_is_forgotten() {
    let fs = new_fs(&MkfsOptions::default());
    let ino = fs.mkdir(ROOT, b"d", 0o755, CALLER).unwrap().ino;
    fs.rmdir(ROOT, b"d").unwrap();
    assert_eq!(errno(fs.create(ino, b"a", 0o644, CALLER)), libc::ENOENT);
    assert!(check(fs.store()).unwrap().is_sound());
}

#[test]
fn names_that_no_entry_can_have_are_refused() {
    let fs = new_fs(&MkfsOptions::default());
    for (name, expected) in [
        (&b""[..], libc::ENOENT),
        (b".", libc::EINVAL),
        (b"..", libc::EINVAL),
        (b"a/b", libc::EINVAL),
        (b"a\0", libc::EINVAL),
        (&[b'n'; 256], libc::ENAMETOOLONG),
        (&[b'n'; 255], 0),
        (b"\xff\xfe", 0),
    ] {
        let made = fs.create(ROOT, name, 0o644, CALLER);
        assert!(made.as_ref().map_or_else(|error| !error.detail().is_empty(), |_| true), "{name:?}");
        assert_eq!(errno(made), expected, "{name:?}");
        assert_eq!(errno(fs.lookup(ROOT, name)), expected, "{name:?}");
    }
    assert_eq!(errno(fs.lookup(99, b"a")), libc::ESTALE);
    let file = fs.lookup(ROOT, b"\xff\xfe").unwrap().ino;
    assert_eq!(errno(fs.write(file, 1 << 50, b"x", WriteOptions::default())), libc::EFBIG);
    assert_eq!(fs.write(file, (1 << 50) - 1, b"xy", WriteOptions::default()).unwrap(), 1);
    assert_eq!(fs.read(file, (1 << 50) - 2, 9).unwrap(), [0, b'x']);
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(errno(fs.setattr(file, &size((1 << 50) + 1))), libc::EFBIG);
    assert_eq!(errno(fs.fallocate(file, 1 << 49, u64::MAX - 5, 0)), libc::EFBIG);
    assert!(check(fs.store()).unwrap().is_sound());
}

#[test]
fn times_and_privileges_change_as_posix_says() {
    let fs = new_fs(&MkfsOptions::default());
    let old = Timestamp { seconds: -5, nanoseconds: 6 };
    let set = SetAttributes {
        atime: Some(SetTime::To(old)),
        mtime: Some(SetTime::To(old)),
        permissions: Some(0o6755),
        ..SetAttributes::default()
    };
    let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
    let found = fs.setattr(ino, &set).unwrap();
    assert!((found.atime, found.mtime, found.permissions) == (old, old, 0o6755) && found.ctime > old);
    fs.read(ino, 0, 1).unwrap();
    assert_eq!(fs.getattr(ino).unwrap(), found, "a read changes nothing");
    fs.write(ino, 0, b"x", WriteOptions::default()).unwrap();
    let found = fs.getattr(ino).unwrap();
    assert!(found.atime == old && found.mtime > old && found.permissions == 0o6755);
    fs.write(ino, 0, b"x", WriteOptions { drop_privileges: true, append: false }).unwrap();
    assert_eq!(fs.getattr(ino).unwrap().permissions, 0o755);
    fs.setattr(ROOT, &SetAttributes { mtime: Some(SetTime::To(old)), ..SetAttributes::default() }).unwrap();
    fs.unlink(ROOT, b"a").unwrap();
    assert!(fs.getattr(ROOT).unwrap().mtime > old);
}

/// Names are removed while the directory is read, as `rm -r` does, and offsets stay valid.
#[test]
fn reading_a_directory_while_it_changes_returns_each_name_once() {
    let fs = new_fs(&MkfsOptions::default());
    let name = |number: usize| format!("{number:05}").into_bytes();
    for number in 0..3000 {
        let ino = fs.mknod(ROOT, &name(number), libc::S_IFREG, 0, CALLER).unwrap().ino;
        fs.forget(ino, 1);
    }
    for plus in [false, true] {
        let (mut handle, mut offset, mut found) = (fs.opendir(ROOT).unwrap(), 0, Vec::new());
        loop {
            let (before, mut space) = (offset, 100);
            let mut take = |entry: skipfs::DirectoryEntry<'_>| {
                if space == 0 {
                    return Visit::Full;
                }
                space -= 1;
                offset = entry.next_offset;
                if !entry.name.starts_with(b".") {
                    found.push((entry.name.to_vec(), entry.ino));
                }
                Visit::Taken
            };
            match plus {
                true => fs.readdirplus(&mut handle, before, &mut |entry, _| take(entry)).unwrap(),
                false => fs.readdir(&mut handle, before, &mut take).unwrap(),
            }
            if offset == before {
                break;
            }
            // Every second of the names so far goes; names come before and behind.
            let from = found.len() - (offset - before.max(2)) as usize;
            for (name, _) in found[from..].iter().step_by(2) {
                fs.unlink(ROOT, name).unwrap();
            }
            for new in [format!("!{offset}"), "~".repeat(offset as usize % 200 + 1)] {
                let made = fs.mknod(ROOT, new.as_bytes(), libc::S_IFREG, 0, CALLER);
                if let Ok(made) = made {
                    fs.forget(made.ino, 1);
                }
            }
        }
        let numbers: Vec<&[u8]> =
            found.iter().map(|(name, _)| &name[..]).filter(|name| name[0].is_ascii_digit()).collect();
        assert_eq!(numbers.len(), if plus { 1500 } else { 3000 });
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        if plus {
            found.iter().for_each(|(_, ino)| fs.forget(*ino, 1));
            // Back to an offset in the middle: the same names follow, except those that are gone.
            let mut again = Vec::new();
            fs.readdirplus(&mut handle, 12, &mut |entry, _| {
                again.push((entry.name.to_vec(), entry.ino));
                Visit::Taken
            })
            .unwrap();
            again.iter().for_each(|(_, ino)| fs.forget(*ino, 1));
            assert!(again.len() > 100 && again.len() < found.len(), "{} of {}", again.len(), found.len());
            // Others may have been made again.
            let is_new = |name: &[u8]| !name[0].is_ascii_digit();
            assert!(again.iter().all(|entry| is_new(&entry.0) || found[10..].contains(entry)));
        }
    }
    assert_eq!(fs.inodes_in_use(), 1);
}

#[test]
fn a_change_of_a_file_takes_its_capabilities_away() {
    for layout in LAYOUTS {
        let fs = new_fs(&small(layout));
        let ino = fs.create(ROOT, b"file", 0o755, CALLER).unwrap().ino;
        let other = fs.create(ROOT, b"other", 0o755, CALLER).unwrap().ino;
        fs.write(other, 0, b"content", WriteOptions::default()).unwrap();
        let of = |ino: u64| FilePlace { ino, offset: 0 };
        let set = |set: SetAttributes| fs.setattr(ino, &set).map(drop);
        let changes: [&dyn Fn() -> FsResult<()>; 6] = [
            &|| fs.write(ino, 0, b"x", WriteOptions::default()).map(drop),
            &|| set(SetAttributes { size: Some(3), ..SetAttributes::default() }),
            &|| set(SetAttributes { uid: Some(3), ..SetAttributes::default() }),
            &|| fs.fallocate(ino, 0, 9, 0),
            &|| fs.copy_file_range(of(other), of(ino), 7).map(drop),
            &|| fs.open_file(ino, true),
        ];
        for (at, change) in changes.iter().enumerate() {
            fs.setxattr(ino, b"security.capability", b"some", SetMode::Any).unwrap();
            set(SetAttributes { permissions: Some(0o755), ..SetAttributes::default() }).unwrap();
            assert!(fs.getxattr(ino, b"security.capability").is_ok());
            change().unwrap();
            let found = fs.getxattr(ino, b"security.capability").map_err(|error| error.errno());
            assert_eq!(found, Err(libc::ENODATA), "{layout:?}, change {at}");
        }
    }
}

/// Regression test: 300 names of 250 bytes could be set, and then not be listed.
#[test]
fn extended_attributes_have_names_that_can_be_listed() {
    for layout in LAYOUTS {
        let fs = new_fs(&small(layout));
        let ino = fs.create(ROOT, b"a", 0o644, CALLER).unwrap().ino;
        for (name, expected) in [
            (&b"user."[..], libc::EINVAL),
            (b"trusted.", libc::EINVAL),
            (b"security.", libc::EINVAL),
            (b"system.", libc::EOPNOTSUPP),
            (b"user", libc::EOPNOTSUPP),
            (b"other.x", libc::EOPNOTSUPP),
            (b"x", libc::EOPNOTSUPP),
            (b"user.x", 0),
        ] {
            assert_eq!(errno(fs.setxattr(ino, name, b"1", SetMode::Any)), expected, "{name:?}");
            assert_eq!(errno(fs.getxattr(ino, name)), expected, "{name:?}");
        }
        fs.removexattr(ino, b"user.x").unwrap();

        // 256 names of 256 bytes with the zero byte are exactly 64 KiB.
        let name = |number: usize| format!("user.{number:0250}").into_bytes();
        for number in 0..256 {
            fs.setxattr(ino, &name(number), b"1", SetMode::Any).unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        for mode in [SetMode::Any, SetMode::Create] {
            assert_eq!(errno(fs.setxattr(ino, &name(256), b"1", mode)), libc::ENOSPC);
            assert_eq!(errno(fs.setxattr(ino, b"user.x", b"1", mode)), libc::ENOSPC);
        }
        fs.setxattr(ino, &name(7), b"other value", SetMode::Any).unwrap();
        assert_eq!(fs.listxattr(ino).unwrap().len(), 64 << 10);
        fs.removexattr(ino, &name(0)).unwrap();
        fs.setxattr(ino, &name(256), b"1", SetMode::Create).unwrap();
        assert_eq!(fs.listxattr(ino).unwrap().len(), 64 << 10);
        assert!(check(fs.store()).unwrap().is_sound());
    }
}

/// Regression test: the content of each small file that the kernel had looked up stayed in memory.
#[test]
fn content_of_idle_files_in_memory_is_bounded() {
    const MOST: u64 = 64 * 8000;
    let store = Counted::new(Memory::new().open());
    SkipFs::mkfs(&store, &MkfsOptions::default()).unwrap();
    let options = OpenOptions { idle_content_bytes: Some(MOST), ..OpenOptions::default() };
    let fs = SkipFs::open_with(store, &options).unwrap();
    let bytes = |number: usize| vec![number as u8; 3000];
    let mut inos = Vec::new();
    for number in 0..1000 {
        let ino = fs.create(ROOT, format!("{number}").as_bytes(), 0o644, CALLER).unwrap().ino;
        write(&fs, ino, &bytes(number));
        inos.push(ino);
    }
    assert_eq!(fs.idle_content_bytes(), 0, "they are open");
    inos.iter().for_each(|ino| fs.release(*ino).unwrap());
    let link = fs.symlink(ROOT, b"link", &[b'x'; 3000], CALLER).unwrap().ino;
    let gets = |request: &dyn Fn()| {
        let before = fs.store().counts().gets;
        request();
        fs.store().counts().gets - before
    };
    let check_bound = || {
        let idle = fs.idle_content_bytes() as u64;
        assert!(idle > MOST / 2 && idle <= MOST, "{idle}");
        assert_eq!(fs.inodes_in_use(), 1002);
    };
    check_bound();
    let read = |number: usize| assert_eq!(fs.read(inos[number], 0, 9999).unwrap(), bytes(number));
    assert_eq!(gets(&|| read(999)), 0, "it was used last");
    assert_eq!(gets(&|| read(0)), 1);
    assert_eq!(gets(&|| read(0)), 0);
    (0..1000).for_each(read);
    check_bound();
    assert_eq!(fs.readlink(link).unwrap(), [b'x'; 3000]);

    // Changes of files whose records were dropped, and of open ones, which are not.
    let set = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
    fs.open_file(inos[0], false).unwrap();
    assert_eq!(gets(&|| (1..1000).for_each(read)), 999);
    assert_eq!(gets(&|| read(0)), 0, "it is open");
    fs.setattr(inos[1], &set).unwrap();
    fs.rename(ROOT, b"2", ROOT, b"renamed", RenameMode::Replace).unwrap();
    fs.link(inos[3], ROOT, b"linked").unwrap();
    fs.unlink(ROOT, b"4").unwrap();
    (1..1000).for_each(read);
    let found = fs.getattr(inos[1]).unwrap();
    assert!(found.permissions == 0o600 && found.size == 3000, "{found:?}");
    assert_eq!((fs.getattr(inos[3]).unwrap().nlink, fs.getattr(inos[4]).unwrap().nlink), (2, 0));
    check_bound();
    fs.release(inos[0]).unwrap();
    inos.iter().for_each(|ino| fs.forget(*ino, 2));
    fs.forget(link, 1);
    assert_eq!((fs.idle_content_bytes(), fs.inodes_in_use()), (0, 1));
    assert!(check(fs.store()).unwrap().is_sound());
}

#[test]
fn a_whiteout_gets_the_group_of_a_directory_that_gives_it() {
    let fs = new_fs(&small(LAYOUTS[1]));
    let set = SetAttributes { permissions: Some(0o2755), gid: Some(3), ..SetAttributes::default() };
    fs.setattr(ROOT, &set).unwrap();
    let ino = fs.create(ROOT, b"old", 0o644, CALLER).unwrap().ino;
    fs.rename(ROOT, b"old", ROOT, b"new", RenameMode::Whiteout(CALLER)).unwrap();
    let left = fs.lookup(ROOT, b"old").unwrap();
    assert_eq!((left.kind, left.rdev, left.gid), (FileKind::CharacterDevice, 0, 3));
    assert_eq!(fs.lookup(ROOT, b"new").unwrap().ino, ino);
    assert!(check(fs.store()).unwrap().is_sound());
}
