//! Which pages are in the page cache after which reads. On the disk of the source: a tmpfs has all its pages in memory.

use super::super::memory_room::Room;
use super::*;
use crate::io::PosixStorage;
use crate::io::{AlignedBuffer, OpenMode, ReadRequest, Storage, SystemClock};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 64;

const AMPLE: Room = Room { fill: 1 << 30, capacity: 1 << 30 };
const FULL: Room = Room { fill: 0, capacity: 1 << 30 };
/// There is room, but far less than the store has.
const SMALL: Room = Room { fill: 1 << 30, capacity: 1 << 20 };
const STORE_BYTES: u64 = 10 << 20;

struct Rig {
    storage: PosixStorage,
    _directory: tempfile::TempDir,
}

/// A storage with this much room; `None` where there is no direct I/O, so that every page is in the page cache.
fn rig(room: Room, make: fn(PathBuf) -> PosixStorage) -> Option<Rig> {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let room = MemoryRoom::new(Arc::new(SystemClock), move || room);
    let storage = make(directory.path().into()).with_room(room);
    storage.set_store_bytes(STORE_BYTES);
    let rig = Rig { storage, _directory: directory };
    let file = rig.file("probe");
    let was_cached = is_resident(&*file, 0);
    std::fs::read(file.path()).unwrap();
    if was_cached || !is_resident(&*file, 0) {
        eprintln!("skipped: no direct I/O here, or the kernel does not tell what is in the page cache");
        return None;
    }
    Some(rig)
}

impl Rig {
    /// A new file, written directly, opened for users.
    fn file(&self, name: &str) -> Arc<dyn StorageFile> {
        let mut bytes = AlignedBuffer::new(PAGES * PAGE);
        bytes.chunks_mut(PAGE).enumerate().for_each(|(number, page)| page.fill(number as u8 + 1));
        self.storage.open(name, OpenMode::CreateDirect).unwrap().write_all_at(&bytes, 0).unwrap();
        let file = self.storage.open(name, OpenMode::ReadCached).unwrap();
        assert!(file.reads_through_page_cache());
        file
    }
}

fn read(file: &dyn StorageFile, number: usize) {
    let mut page = AlignedBuffer::new(PAGE);
    file.read_exact_at(&mut page, (number * PAGE) as u64).unwrap();
    assert!(page.iter().all(|byte| *byte == number as u8 + 1), "page {number}");
}

/// Whether a page is in the page cache, without reading it.
fn is_resident(file: &dyn StorageFile, number: usize) -> bool {
    let path = file.path();
    let file = PosixFile::new(File::open(path).unwrap(), path.to_path_buf(), true, false);
    file.is_cached((number * PAGE) as u64, PAGE as u64)
}

#[test]
fn with_room_the_surroundings_of_a_page_are_read_too() {
    let Some(rig) = rig(AMPLE, PosixStorage::new) else { return };
    // The kernel reads them in the background, unless it is too busy to: then it forgets them.
    let file = (0..60).map(|attempt| rig.file(&attempt.to_string())).find(|file| {
        assert!(!is_resident(&**file, 20));
        read(&**file, 20);
        let (started, is_there) = (Instant::now(), || (16..32).all(|number| is_resident(&**file, number)));
        while !is_there() && started.elapsed() < Duration::from_secs(1) {
            std::thread::yield_now();
        }
        is_there()
    });
    let file = file.expect("the surroundings are read");
    assert!(!is_resident(&*file, 15) && !is_resident(&*file, 32));
    (0..PAGES).for_each(|number| read(&*file, number));
}

#[test]
fn of_a_store_that_does_not_fit_only_the_page_is_read() {
    let Some(rig) = rig(SMALL, PosixStorage::new) else { return };
    let file = rig.file("a");
    read(&*file, 20);
    assert!(is_resident(&*file, 20));
    assert!([19, 21, 22, 31].iter().all(|number| !is_resident(&*file, *number)));
}

#[test]
fn without_room_reads_are_direct_and_use_what_is_there() {
    let Some(rig) = rig(FULL, PosixStorage::new) else { return };
    let file = rig.file("a");
    (0..PAGES).for_each(|number| read(&*file, number));
    assert!((0..PAGES).all(|number| !is_resident(&*file, number)));
    // Another program has read a page.
    let other = File::open(file.path()).unwrap();
    other.read_exact_at(&mut [0; PAGE], 7 * PAGE as u64).unwrap();
    assert!(file.read_resident(&mut AlignedBuffer::new(PAGE), 7 * PAGE as u64));
    // Asking for a page that is not there does not bring it in.
    assert!(!file.read_resident(&mut AlignedBuffer::new(PAGE), 50 * PAGE as u64));
    read(&*file, 50);
    assert!(!is_resident(&*file, 50));
}

/// A store with hundreds of files must not use up the process's descriptors because memory is short.
#[test]
fn few_files_have_a_second_descriptor() {
    let Some(rig) = rig(FULL, PosixStorage::new) else { return };
    let files: Vec<_> = (0..DIRECT_MAX + 10).map(|number| rig.file(&format!("{number}"))).collect();
    files.iter().for_each(|file| read(&**file, 3));
    let open = || rig.storage.cached_files.direct_open.load(Ordering::Relaxed);
    assert_eq!(open(), DIRECT_MAX);
    assert!(files.iter().all(|file| !is_resident(&**file, 3)));
    drop(files);
    assert_eq!(open(), 0);
}

#[test]
fn batches_are_answered_in_order_whatever_is_resident() {
    for make in [PosixStorage::new as fn(PathBuf) -> PosixStorage, PosixStorage::without_io_uring] {
        for room in [FULL, SMALL, AMPLE] {
            let Some(rig) = rig(room, make) else { return };
            let file = rig.file("a");
            [3, 4, 40].iter().for_each(|number| read(&*file, *number));
            let request = |number: usize| {
                ReadRequest::new(Arc::clone(&file), (number * PAGE) as u64, PAGE, AlignedBuffer::new(PAGE))
            };
            for batch in [vec![3, 4], vec![50, 3, 51, 40, 9], vec![10], vec![]] {
                let mut reads = rig.storage.start_reads(batch.iter().map(|number| request(*number)).collect());
                let _ = reads.is_done();
                let done = reads.wait();
                assert_eq!(done.len(), batch.len());
                for (read, number) in done.iter().zip(batch) {
                    read.result.as_ref().unwrap();
                    assert!(read.buffer.iter().all(|byte| *byte == number as u8 + 1), "page {number}, {room:?}");
                }
            }
            let past = ReadRequest::new(Arc::clone(&file), (PAGES * PAGE) as u64, PAGE, AlignedBuffer::new(PAGE));
            let done = rig.storage.start_reads(vec![request(3), past]).wait();
            assert!(done[0].result.is_ok() && done[1].result.is_err());
        }
    }
}

#[test]
fn nothing_is_written_through_it() {
    let Some(rig) = rig(AMPLE, PosixStorage::new) else { return };
    let file = rig.file("a");
    assert!(file.write_all_at(&[0; PAGE], 0).is_err() && file.set_length(0).is_err());
}
