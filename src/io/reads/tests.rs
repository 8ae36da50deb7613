//! The contract of overlapping reads, the same for every implementation.

use super::*;
use crate::io::simulated::{Operation, SimulatedStorage};
use crate::io::tests::{kind, on_every_storage};
use crate::io::{OpenMode, PosixStorage, Storage};
use crate::util::Error;
use crate::util::random::splitmix64;
use std::io::ErrorKind;

const PAGE: usize = IO_ALIGNMENT;

/// The contents of a page of the file `seed`.
fn word(seed: u64, page: u64) -> u64 {
    splitmix64(&mut (seed << 32 | page))
}

fn filled(storage: &dyn Storage, name: &str, seed: u64, pages: u64) -> Arc<dyn StorageFile> {
    let file = storage.open(name, OpenMode::CreateDirect).unwrap();
    let mut buffer = AlignedBuffer::new(pages as usize * PAGE);
    for (page, bytes) in buffer.chunks_mut(PAGE).enumerate() {
        bytes.chunks_mut(8).for_each(|piece| piece.copy_from_slice(&word(seed, page as u64).to_le_bytes()));
    }
    file.write_all_at(&buffer, 0).unwrap();
    storage.open(name, OpenMode::ReadDirect).unwrap()
}

fn assert_pages(bytes: &[u8], seed: u64, first: u64) {
    for (page, bytes) in bytes.chunks(PAGE).enumerate() {
        let expected = word(seed, first + page as u64).to_le_bytes();
        assert!(bytes.chunks(8).all(|piece| piece == expected), "page {page} after {first} of file {seed}");
    }
}

fn page_read(file: &Arc<dyn StorageFile>, page: u64) -> ReadRequest {
    ReadRequest::new(Arc::clone(file), page * PAGE as u64, PAGE, AlignedBuffer::new(PAGE))
}

#[test]
fn a_batch_returns_each_requests_bytes_in_order() {
    on_every_storage(|storage| {
        let files = [filled(storage, "a", 1, 200), filled(storage, "b", 2, 50)];
        let mut random = 1;
        // More than a ring, or the threads and their queue, accept at once.
        for count in [0, 1, 2, 64, 65, 700] {
            let mut expected = Vec::new();
            let requests = (0..count).map(|_| {
                let at = (splitmix64(&mut random) % 2) as usize;
                let first = splitmix64(&mut random) % [180, 30][at];
                let pages = splitmix64(&mut random) as usize % 20 + 1;
                expected.push((at, first, pages));
                let buffer = AlignedBuffer::new((pages + random as usize % 3) * PAGE);
                ReadRequest::new(Arc::clone(&files[at]), first * PAGE as u64, pages * PAGE, buffer)
            });
            let done = storage.start_reads(requests.collect()).wait();
            assert_eq!(done.len(), expected.len());
            for (read, (at, first, pages)) in done.iter().zip(expected) {
                read.result.as_ref().unwrap();
                assert_pages(&read.buffer[..pages * PAGE], at as u64 + 1, first);
            }
        }
    });
}

#[test]
fn an_error_is_that_of_its_own_request() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 10);
        storage.open("a", OpenMode::ReadWrite).unwrap().set_length(9 * PAGE as u64 + 100).unwrap();
        let over_the_end = ReadRequest::new(Arc::clone(&file), 7 * PAGE as u64, 3 * PAGE, AlignedBuffer::new(3 * PAGE));
        let requests = vec![page_read(&file, 8), page_read(&file, 9), page_read(&file, 1 << 30), over_the_end];
        let requests = requests.into_iter().chain([page_read(&file, 0)]).collect();
        let done = storage.start_reads(requests).wait();
        let kinds: Vec<_> =
            done.iter().map(|read| read.result.clone().err().map(|error| kind::<()>(Err(error)))).collect();
        let end = Some(ErrorKind::UnexpectedEof);
        assert_eq!(kinds, [None, end, end, end, None]);
        assert!(matches!(&done[1].result, Err(Error::Io { operation: "read", path, .. }) if path == file.path()));
        assert_pages(&done[0].buffer, 1, 8);
        assert_pages(&done[4].buffer, 1, 0);
    });
}

#[test]
fn files_of_every_mode_can_be_read() {
    on_every_storage(|storage| {
        filled(storage, "a", 1, 10);
        for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::ReadDirect, OpenMode::ReadCached] {
            let file = storage.open("a", mode).unwrap();
            let done = storage.start_reads(vec![page_read(&file, 3), page_read(&file, 4)]).wait();
            assert_pages(&done[0].buffer, 1, 3);
            assert_pages(&done[1].buffer, 1, 4);
            let done = storage.read(page_read(&file, 5));
            done.result.unwrap();
            assert_pages(&done.buffer, 1, 5);
        }
    });
}

/// Single reads by several threads, first while others hold every ring.
#[test]
fn single_reads_return_their_bytes_or_their_own_error() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 300);
        let read_all = |seed: u64| {
            let mut random = seed;
            for _ in 0..200 {
                let page = splitmix64(&mut random) % 310;
                let done = storage.read(page_read(&file, page));
                if page < 300 {
                    done.result.unwrap();
                    assert_pages(&done.buffer, 1, page);
                } else {
                    assert_eq!(kind::<()>(done.result), ErrorKind::UnexpectedEof, "page {page}");
                }
            }
        };
        let handles: Vec<_> = (0..70).map(|page| storage.start_reads(vec![page_read(&file, page)])).collect();
        let by_threads = || {
            std::thread::scope(|scope| {
                let read_all = &read_all;
                (1..4).for_each(|seed| drop(scope.spawn(move || read_all(seed))));
            });
        };
        by_threads();
        drop(handles);
        by_threads();
    });
}

/// A handle may be dropped while the kernel still writes: its memory must not be reused before that.
#[test]
fn a_dropped_handle_corrupts_no_memory() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 600);
        for round in 0..50 {
            drop(storage.start_reads((0..100).map(|page| page_read(&file, page)).collect()));
            let mut mine: Vec<AlignedBuffer> = (0..200).map(|_| AlignedBuffer::new(PAGE)).collect();
            mine.iter_mut().for_each(|buffer| buffer.fill(7));
            let done = storage.start_reads(vec![page_read(&file, 500 + round)]).wait();
            assert_pages(&done[0].buffer, 1, 500 + round);
            assert!(mine.iter().all(|buffer| buffer.iter().all(|&byte| byte == 7)));
        }
    });
}

#[test]
fn more_handles_than_rings_are_held_at_once() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 300);
        let mut handles: Vec<_> = (0..150)
            .map(|page| storage.start_reads(vec![page_read(&file, page), page_read(&file, page + 150)]))
            .collect();
        handles.drain(20..40);
        for (at, handle) in handles.into_iter().enumerate().rev() {
            let page = if at < 20 { at } else { at + 20 } as u64;
            let done = handle.wait();
            assert_pages(&done[0].buffer, 1, page);
            assert_pages(&done[1].buffer, 1, page + 150);
        }
    });
}

#[test]
fn threads_read_at_once_and_wait_for_each_others_handles() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 300);
        std::thread::scope(|scope| {
            for seed in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    let mut random = seed;
                    for _ in 0..30 {
                        let pages: Vec<u64> = (0..20).map(|_| splitmix64(&mut random) % 300).collect();
                        let start = || storage.start_reads(pages.iter().map(|page| page_read(file, *page)).collect());
                        // The thread that started the reads has ended when this one waits: the kernel may have
                        // cancelled them.
                        let handle = match random % 3 {
                            0 => std::thread::scope(|scope| scope.spawn(start).join().unwrap()),
                            _ => start(),
                        };
                        if random.is_multiple_of(5) {
                            continue;
                        }
                        for (read, page) in handle.wait().iter().zip(&pages) {
                            read.result.as_ref().unwrap();
                            assert_pages(&read.buffer, 1, *page);
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn every_handle_is_done_in_the_end() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 300);
        let mut handle = storage.start_reads((0..20).map(|page| page_read(&file, page)).collect());
        while !handle.is_done() {
            std::thread::yield_now();
        }
        assert_pages(&handle.wait()[5].buffer, 1, 5);
    });
}

#[test]
fn handles_outlive_the_storage() {
    let directory = tempfile::tempdir().unwrap();
    for without in [false, true] {
        let path = directory.path().join(if without { "threads" } else { "rings" });
        let storage = if without { PosixStorage::without_io_uring(path) } else { PosixStorage::new(path) };
        storage.create_directory().unwrap();
        let file = filled(&storage, "a", 1, 300);
        let handles = [0, 1].map(|_| storage.start_reads((0..300).map(|page| page_read(&file, page)).collect()));
        drop(storage);
        let [dropped, waited] = handles;
        drop(dropped);
        for (page, read) in waited.wait().iter().enumerate() {
            assert_pages(&read.buffer, 1, page as u64);
        }
    }
}

#[test]
fn unaligned_requests_are_a_bug() {
    on_every_storage(|storage| {
        let file = filled(storage, "a", 1, 3);
        for (offset, length) in [(1, PAGE), (512, PAGE), (0, 100), (0, 0), (0, 3 * PAGE)] {
            let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ReadRequest::new(Arc::clone(&file), offset, length, AlignedBuffer::new(2 * PAGE))
            }));
            assert!(made.is_err(), "{length} at {offset}");
        }
    });
}

#[test]
fn the_simulated_disk_fails_the_reads_that_faults_name() {
    let storage = SimulatedStorage::new(1);
    let files = [filled(&storage, "a", 1, 10), filled(&storage, "b", 2, 10)];
    storage.inject("(read nth=3) -> etimedout");
    storage.inject("(read name=b nth=2..) -> eacces");
    let before = storage.operation_count(Operation::Read);
    let requests = (0..10).map(|at| page_read(&files[at % 2], at as u64)).collect();
    let mut handle = storage.start_reads(requests);
    // The reads are done when they are started, so a seed always gives the same run.
    assert!(handle.is_done());
    assert_eq!(storage.operation_count(Operation::Read), before + 10);
    for (at, read) in handle.wait().into_iter().enumerate() {
        match at {
            2 => assert_eq!(kind(read.result), ErrorKind::TimedOut),
            3 | 5 | 7 | 9 => assert_eq!(kind(read.result), ErrorKind::PermissionDenied),
            _ => assert_pages(&read.buffer, [1, 2][at % 2], at as u64),
        }
    }
    let (handle, late) = (storage.start_reads(vec![page_read(&files[0], 1)]), storage.kill());
    drop(late);
    assert_pages(&handle.wait()[0].buffer, 1, 1);
    assert!(storage.start_reads(vec![page_read(&files[0], 1)]).wait()[0].result.is_err());
}

#[test]
fn the_kernel_of_this_machine_is_used() {
    let directory = tempfile::tempdir().unwrap();
    assert!(!PosixStorage::without_io_uring(directory.path()).has_io_uring());
    // Forbidden in many containers, so the test only requires that this is reported without harm.
    println!("io_uring: {}", PosixStorage::new(directory.path()).has_io_uring());
}
