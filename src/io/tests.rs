//! The contract of `Storage`, the same for every implementation. What only one of them can do is tested in its module.

use super::simulated::SimulatedStorage;
use super::*;
use crate::util::Error;
use std::io::ErrorKind;

/// Runs a test on a temporary directory, with and without io_uring, in memory, on a simulated disk, and on a tmpfs if
/// there is one.
pub(super) fn on_every_storage(test: impl Fn(&dyn Storage)) {
    let directory = tempfile::tempdir().unwrap();
    test(&PosixStorage::new(directory.path()));
    let directory = tempfile::tempdir().unwrap();
    test(&PosixStorage::without_io_uring(directory.path()));
    if Path::new("/dev/shm").is_dir() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        test(&PosixStorage::new(directory.path()));
    }
    test(&MemoryStorage::new());
    test(&SimulatedStorage::new(1));
}

pub(super) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    match result {
        Err(Error::Io { source, .. }) => source.kind(),
        other => panic!("expected an I/O error, got {other:?}"),
    }
}

fn sorted(storage: &dyn Storage) -> Vec<String> {
    let mut names = storage.list().unwrap();
    names.sort();
    names
}

#[test]
fn files_are_created_renamed_and_removed() {
    on_every_storage(|storage| {
        assert!(storage.directory_exists().unwrap());
        assert_eq!(sorted(storage), Vec::<String>::new());
        assert_eq!(kind(storage.open("a", OpenMode::Read)), ErrorKind::NotFound);
        assert_eq!(kind(storage.open("a", OpenMode::ReadWrite)), ErrorKind::NotFound);
        assert_eq!(kind(storage.open("a", OpenMode::ReadDirect)), ErrorKind::NotFound);
        assert_eq!(kind(storage.remove("a")), ErrorKind::NotFound);
        assert_eq!(kind(storage.rename("a", "b")), ErrorKind::NotFound);
        assert_eq!(kind(storage.map("a")), ErrorKind::NotFound);
        let a = storage.open("a", OpenMode::Create).unwrap();
        assert_eq!(kind(storage.open("a", OpenMode::Create)), ErrorKind::AlreadyExists);
        assert_eq!(kind(storage.open("a", OpenMode::CreateDirect)), ErrorKind::AlreadyExists);
        a.write_all_at(b"first", 0).unwrap();
        let b = storage.open("b", OpenMode::Create).unwrap();
        b.write_all_at(b"second", 0).unwrap();
        assert_eq!(a.path(), storage.path_of("a"));
        storage.rename("b", "a").unwrap();
        storage.sync_directory().unwrap();
        assert_eq!(sorted(storage), ["a"]);
        let mut bytes = [0; 6];
        storage.open("a", OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"second");
        // The replaced file stays readable through an open handle.
        a.read_exact_at(&mut bytes[..5], 0).unwrap();
        assert_eq!(&bytes[..5], b"first");
        storage.remove("a").unwrap();
        b.write_all_at(b"third!", 0).unwrap();
        b.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"third!");
        assert!(sorted(storage).is_empty());
    });
}

#[test]
fn any_offset_goes_through_the_page_cache_and_reads_end_at_the_end() {
    on_every_storage(|storage| {
        let file = storage.open("a", OpenMode::Create).unwrap();
        file.write_all_at(b"world", 1000).unwrap();
        file.write_all_at(b"hello", 3).unwrap();
        assert_eq!(file.length().unwrap(), 1005);
        file.sync().unwrap();
        let mut bytes = [9; 10];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0\0hello\0\0");
        assert_eq!(kind(file.read_exact_at(&mut bytes, 996)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(file.read_exact_at(&mut bytes, 5000)), ErrorKind::UnexpectedEof);
        file.set_length(5).unwrap();
        assert_eq!(file.length().unwrap(), 5);
        file.set_length(8).unwrap();
        file.read_exact_at(&mut bytes[..8], 0).unwrap();
        assert_eq!(&bytes[..8], b"\0\0\0he\0\0\0");
        assert!(storage.open("a", OpenMode::Read).unwrap().write_all_at(b"x", 0).is_err());
    });
}

#[test]
fn direct_files_round_trip() {
    on_every_storage(|storage| {
        let file = storage.open("a", OpenMode::CreateDirect).unwrap();
        let mut buffer = AlignedBuffer::new(3 * 4096);
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = (at / 7) as u8;
        }
        file.write_all_at(&buffer, 4096).unwrap();
        file.sync().unwrap();
        assert_eq!(file.length().unwrap(), 4 * 4096);
        for mode in [OpenMode::ReadDirect, OpenMode::Read] {
            let mut back = AlignedBuffer::new(3 * 4096);
            storage.open("a", mode).unwrap().read_exact_at(&mut back, 4096).unwrap();
            assert_eq!(back[..], buffer[..]);
        }
        let mut back = AlignedBuffer::new(2 * 4096);
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back[..4096].iter().all(|&byte| byte == 0));
        assert_eq!(back[4096..], buffer[..4096]);
        // The file ends inside a block.
        storage.open("a", OpenMode::ReadWrite).unwrap().set_length(4096 + 100).unwrap();
        let file = storage.open("a", OpenMode::ReadDirect).unwrap();
        assert_eq!(kind(file.read_exact_at(&mut back, 0)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(file.read_exact_at(&mut back, 4096)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(file.read_exact_at(&mut back, 1 << 20)), ErrorKind::UnexpectedEof);
        file.read_exact_at(&mut back[..4096], 0).unwrap();
    });
}

#[test]
fn unaligned_direct_io_is_a_bug_on_every_file_system() {
    on_every_storage(|storage| {
        let file = storage.open("a", OpenMode::CreateDirect).unwrap();
        let buffer = AlignedBuffer::new(8192);
        let catch = |act: &dyn Fn() -> Result<()>| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
        assert!(catch(&|| file.write_all_at(&buffer[..100], 0)));
        assert!(catch(&|| file.write_all_at(&buffer[..4096], 512)));
        assert!(catch(&|| file.write_all_at(&buffer[1..4097], 0)));
        file.write_all_at(&buffer[4096..], 0).unwrap();
    });
}

#[test]
fn a_mapping_and_the_file_are_the_same_bytes() {
    on_every_storage(|storage| {
        let file = storage.open("a", OpenMode::Create).unwrap();
        assert!(storage.map("a").is_err(), "an empty file");
        file.write_all_at(&[1; 3 * 4096], 0).unwrap();
        let map = storage.map("a").unwrap();
        assert_eq!(map.length(), 3 * 4096);
        assert_eq!(map.path(), storage.path_of("a"));
        assert!(map.pointer().addr().is_multiple_of(4096));
        map.prepare(0, map.length());
        map.prepare(100, usize::MAX);
        map.prepare(1 << 40, 1);
        // SAFETY: inside the mapping; no other thread accesses it.
        unsafe { map.pointer().add(5000).cast::<[u8; 4]>().write_unaligned(*b"here") };
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 4999).unwrap();
        assert_eq!(&bytes, b"\x01here\x01");
        file.write_all_at(b"THERE", 5001).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { map.pointer().add(5000).cast::<[u8; 6]>().read_unaligned() }, *b"hTHERE");
        map.sync().unwrap();
        drop(map);
        file.read_exact_at(&mut bytes, 5000).unwrap();
        assert_eq!(&bytes, b"hTHERE");
        let again = storage.map("a").unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { again.pointer().add(5000).cast::<[u8; 6]>().read_unaligned() }, *b"hTHERE");
    });
}

#[test]
fn locks_exclude_each_other_by_file_and_part() {
    use LockMode::{Exclusive, Shared};
    on_every_storage(|storage| {
        let lock = |name, part, mode| storage.lock(name, part, mode).unwrap();
        assert_eq!(kind(storage.lock("LOCK", LockPart::Files, Shared)), ErrorKind::NotFound);
        let alone = lock("LOCK", LockPart::Writer, Exclusive).unwrap();
        assert!(
            lock("LOCK", LockPart::Writer, Exclusive).is_none() && lock("LOCK", LockPart::Writer, Shared).is_none()
        );
        let elsewhere = (lock("OTHER", LockPart::Writer, Exclusive), lock("LOCK", LockPart::Files, Exclusive));
        assert!(elsewhere.0.is_some() && elsewhere.1.is_some());
        drop(alone);
        let first = lock("LOCK", LockPart::Writer, Shared).unwrap();
        let second = lock("LOCK", LockPart::Writer, Shared).unwrap();
        drop(first);
        assert!(lock("LOCK", LockPart::Writer, Exclusive).is_none());
        drop(second);
        assert!(lock("LOCK", LockPart::Writer, Exclusive).is_some());
        assert_eq!(sorted(storage), ["LOCK", "OTHER"]);
    });
}

#[test]
fn a_lock_knows_whether_its_file_was_removed_or_replaced() {
    on_every_storage(|storage| {
        let take = || storage.lock("LOCK", LockPart::Writer, LockMode::Exclusive).unwrap();
        let first = take().unwrap();
        assert!(first.is_in_place().unwrap());
        storage.remove("LOCK").unwrap();
        assert!(!first.is_in_place().unwrap());
        let second = take().unwrap();
        assert!(!first.is_in_place().unwrap() && second.is_in_place().unwrap(), "another file has the name");
        drop(first);
        assert!(take().is_none(), "dropping the first lock released the second");
    });
}

#[test]
fn the_lock_of_the_directory_needs_no_file() {
    on_every_storage(|storage| {
        let lock = storage.lock_directory().unwrap().unwrap();
        assert!(lock.is_in_place().unwrap() && storage.lock_directory().unwrap().is_none());
        drop(storage.lock("LOCK", LockPart::Writer, LockMode::Exclusive).unwrap().unwrap());
        storage.remove("LOCK").unwrap();
        assert!(storage.lock_directory().unwrap().is_none());
        drop(lock);
        assert!(storage.lock_directory().unwrap().is_some());
    });
}

#[test]
fn the_directory_is_created_and_removed() {
    on_every_storage(|storage| {
        storage.create_directory().unwrap();
        drop(storage.open("a", OpenMode::Create).unwrap());
        assert_eq!(kind(storage.remove_directory()), ErrorKind::DirectoryNotEmpty);
        storage.remove("a").unwrap();
        storage.remove_directory().unwrap();
        assert!(!storage.directory_exists().unwrap());
        assert_eq!(kind(storage.list()), ErrorKind::NotFound);
        assert_eq!(kind(storage.open("a", OpenMode::Create)), ErrorKind::NotFound);
        assert_eq!(kind(storage.lock("a", LockPart::Writer, LockMode::Exclusive)), ErrorKind::NotFound);
        assert_eq!(kind(storage.lock_directory()), ErrorKind::NotFound);
        storage.create_directory().unwrap();
        assert!(storage.directory_exists().unwrap());
        drop(storage.open("a", OpenMode::CreateDirect).unwrap());
    });
}

#[test]
fn files_are_linked_or_copied_to_another_directory() {
    on_every_storage(|storage| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let target = storage.other_directory(&path).unwrap();
        assert!(!target.directory_exists().unwrap());
        target.create_directory().unwrap();
        assert_eq!((target.path(), target.list().unwrap().len()), (&*path, 0));
        let file = storage.open("file", OpenMode::Create).unwrap();
        file.write_all_at(b"silt", 0).unwrap();
        let read = |storage: &dyn Storage, name: &str| {
            let file = storage.open(name, OpenMode::Read).unwrap();
            let mut bytes = vec![0; file.length().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        // On one file system or not.
        if storage.link_into("file", &*target, "linked").unwrap() {
            assert_eq!(kind(storage.link_into("file", &*target, "linked")), ErrorKind::AlreadyExists);
            assert_eq!(kind(storage.link_into("none", &*target, "other")), ErrorKind::NotFound);
            file.write_all_at(b"sand", 0).unwrap();
            assert_eq!(read(&*target, "linked"), b"sand");
            storage.remove("file").unwrap();
            assert_eq!(read(&*target, "linked"), b"sand");
            assert!(target.link_into("linked", storage, "file").unwrap(), "and back");
        }
        let copy = |name: &str| copy_into((storage, name), (&*target, name), &|| Ok(()));
        for length in [0, 5, 4096, (1 << 20) + 8192, (2 << 20) + 1] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let name = format!("of{length}");
            storage.open(&name, OpenMode::Create).unwrap().write_all_at(&bytes, 0).unwrap();
            assert_eq!(copy(&name).unwrap(), length as u64);
            assert!(read(&*target, &name) == bytes, "{length}");
            assert_eq!(kind(copy(&name)), ErrorKind::AlreadyExists);
        }
        assert_eq!(kind(copy("none")), ErrorKind::NotFound);
        // The check before the second piece ends the copy.
        let (calls, large) = (std::cell::Cell::new(0), format!("of{}", (2 << 20) + 1));
        let check = || match calls.replace(calls.get() + 1) {
            0 => Ok(()),
            _ => Err(Error::Cancelled),
        };
        let copied = copy_into((storage, &large), (&*target, "cancelled"), &check);
        assert!(matches!(copied, Err(Error::Cancelled)), "{copied:?}");
        assert_eq!((calls.get(), read(&*target, "cancelled").len()), (2, 1 << 20));
        // The directory of the storage itself.
        let own = storage.path();
        if own.exists() || own.starts_with("/simulated") {
            for inside in [own.to_path_buf(), own.join("a"), own.join("a/b")] {
                let error = storage.other_directory(&inside).unwrap_err();
                assert!(error.to_string().contains("lies in the directory"), "{error}");
            }
        }
    });
}
