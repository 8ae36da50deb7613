//! Limits of bytes and inodes: what they refuse, what `statfs` shows, and that the sums are right after a close and after a
//! crash.

use crate::support::{CALLER, LAYOUTS, Memory, small};
use skipfs::check::check;
use skipfs::format::{Usage, key};
use skipfs::store::{AlluviumStore, Store};
use skipfs::{FsResult, Limits, MkfsOptions, OpenOptions, ROOT, SetAttributes, SkipFs, WriteOptions};

const MAX_BYTES: u64 = 100 * 4096;
const LIMITS: Limits = Limits { max_bytes: Some(MAX_BYTES), max_inodes: Some(10) };

fn errno<T>(result: FsResult<T>) -> Option<i32> {
    result.err().map(|error| error.errno())
}

/// Free blocks and free inodes.
fn free(fs: &SkipFs<AlluviumStore>) -> (u64, u64) {
    let found = fs.statfs().unwrap();
    assert_eq!((found.blocks, found.files), (100, 10));
    (found.blocks_free, found.files_free)
}

fn create(fs: &SkipFs<AlluviumStore>, name: &[u8]) -> FsResult<u64> {
    let ino = fs.create(ROOT, name, 0o644, CALLER)?.ino;
    fs.release(ino)?;
    Ok(ino)
}

fn write(fs: &SkipFs<AlluviumStore>, ino: u64, offset: u64, length: usize) -> FsResult<usize> {
    fs.write(ino, offset, &vec![1; length], WriteOptions::default())
}

#[test]
fn limits_hold_and_are_shown() {
    for layout in LAYOUTS {
        let store = Memory::new().open();
        SkipFs::mkfs(&store, &MkfsOptions { limits: LIMITS, ..small(layout) }).unwrap();
        let fs = SkipFs::open(store).unwrap();
        assert_eq!(free(&fs), (100, 9), "{layout:?}");
        let file = create(&fs, b"file").unwrap();
        // A hole takes nothing.
        fs.setattr(file, &SetAttributes { size: Some(1 << 40), ..SetAttributes::default() }).unwrap();
        assert_eq!(free(&fs), (100, 8), "{layout:?}");
        write(&fs, file, 0, 99 * 4096).unwrap();
        assert_eq!(errno(write(&fs, file, 500_000, 8192)), Some(libc::ENOSPC), "{layout:?}");
        assert_eq!(free(&fs), (1, 8), "{layout:?}: what is refused takes nothing");
        // What is there can be replaced, moved and removed at the limit.
        write(&fs, file, 500_000, 3000).unwrap();
        assert_eq!(free(&fs).0, 0, "{layout:?}");
        write(&fs, file, 0, 99 * 4096).unwrap();
        assert_eq!(errno(fs.fallocate(file, 1 << 40, 4096, 0)), Some(libc::ENOSPC), "{layout:?}");
        for number in 0..8 {
            create(&fs, &[b'a' + number]).unwrap();
        }
        assert_eq!(errno(create(&fs, b"one more")), Some(libc::ENOSPC), "{layout:?}");
        assert_eq!(errno(fs.mkdir(ROOT, b"one more", 0o755, CALLER)), Some(libc::ENOSPC), "{layout:?}");
        fs.link(file, ROOT, b"link").unwrap();
        fs.rename(ROOT, b"a", ROOT, b"b", Default::default()).unwrap();
        assert_eq!(free(&fs), (0, 1), "{layout:?}");
        // Without a name, but open.
        fs.open_file(file, false).unwrap();
        fs.unlink(ROOT, b"link").unwrap();
        fs.unlink(ROOT, b"file").unwrap();
        assert_eq!(free(&fs), (0, 1), "{layout:?}");
        fs.release(file).unwrap();
        assert_eq!(free(&fs), (0, 1), "{layout:?}: it is still looked up");
        fs.forget(file, 2);
        assert_eq!(free(&fs), (100, 2), "{layout:?}");
    }
}

/// After a close the sums are in the store; after the death of the process they are counted.
#[test]
fn sums_are_right_after_a_close_and_after_a_crash() {
    for layout in LAYOUTS {
        let memory = Memory::new();
        let store = memory.open();
        SkipFs::mkfs(&store, &MkfsOptions { limits: LIMITS, ..small(layout) }).unwrap();
        let mut fs = SkipFs::open(store).unwrap();
        let mut expected = (100, 9);
        for round in 0..6 {
            assert_eq!(free(&fs), expected, "{layout:?}, {round}");
            assert!(fs.store().get(key::usage()).unwrap().is_none(), "an opening takes the sums out of the store");
            let file = create(&fs, &[b'0' + round]).unwrap();
            write(&fs, file, 0, 12_288).unwrap();
            expected = (expected.0 - 3, expected.1 - 1);
            assert_eq!(free(&fs), expected, "{layout:?}, {round}");
            // With one, each opening counts; without one, the opening after a close trusts the sums.
            let has_orphan = round >= 2;
            if has_orphan {
                // Open without a name until the end.
                let orphan = fs.create(ROOT, b"orphan", 0o644, CALLER).unwrap().ino;
                write(&fs, orphan, 0, 4096).unwrap();
                fs.unlink(ROOT, b"orphan").unwrap();
                assert_eq!(free(&fs), (expected.0 - 1, expected.1 - 1), "{layout:?}, {round}");
            }
            let closes = round % 2 == 0;
            if closes {
                fs.close().unwrap();
                assert_eq!(errno(create(&fs, b"late")), Some(libc::EIO));
            } else {
                // The store alone, as if the process had died.
                fs.store().close().unwrap();
            }
            let store = memory.open();
            let report = check(&store).unwrap();
            assert!(report.is_sound(), "{layout:?}, {round}: {report:#?}");
            let stored = store.get(key::usage()).unwrap().map(|bytes| Usage::decode(&bytes).unwrap());
            let used = Usage { bytes: report.allocated, inodes: report.files + report.directories };
            assert_eq!(stored, closes.then_some(used), "{layout:?}, {round}");
            fs = SkipFs::open(store).unwrap();
        }
    }
}

#[test]
fn an_opening_may_have_limits_of_its_own() {
    let memory = Memory::new();
    let store = memory.open();
    SkipFs::mkfs(&store, &small(LAYOUTS[0])).unwrap();
    let fs = SkipFs::open(store).unwrap();
    let file = create(&fs, b"file").unwrap();
    write(&fs, file, 0, 50 * 4096).unwrap();
    fs.close().unwrap();
    let options = OpenOptions { max_bytes: Some(MAX_BYTES), max_inodes: Some(10), ..OpenOptions::default() };
    let fs = SkipFs::open_with(memory.open(), &options).unwrap();
    assert_eq!(free(&fs), (50, 8));
    fs.close().unwrap();
    // Fewer than there are: nothing more, but removals.
    let options = OpenOptions { max_bytes: Some(4096), max_inodes: Some(1), ..OpenOptions::default() };
    let fs = SkipFs::open_with(memory.open(), &options).unwrap();
    assert_eq!(errno(create(&fs, b"more")), Some(libc::ENOSPC));
    assert_eq!((fs.statfs().unwrap().blocks_free, fs.statfs().unwrap().files_free), (0, 0));
    fs.unlink(ROOT, b"file").unwrap();
    fs.close().unwrap();
    // None for an opening, whose changes nothing counts: the next one with limits counts anew.
    SkipFs::open_with(
        memory.open(),
        &OpenOptions { max_bytes: Some(MAX_BYTES), max_inodes: Some(10), ..OpenOptions::default() },
    )
    .unwrap()
    .close()
    .unwrap();
    let fs = SkipFs::open_with(
        memory.open(),
        &OpenOptions { max_bytes: Some(0), max_inodes: Some(0), ..OpenOptions::default() },
    )
    .unwrap();
    for name in [b"a", b"b", b"c"] {
        create(&fs, name).unwrap();
    }
    fs.close().unwrap();
    let fs = SkipFs::open_with(
        memory.open(),
        &OpenOptions { max_bytes: Some(MAX_BYTES), max_inodes: Some(10), ..OpenOptions::default() },
    )
    .unwrap();
    assert_eq!(free(&fs), (100, 6));
}
