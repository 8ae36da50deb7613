//! What device reads cost in the ways that `io` offers (`docs/performance.md`, Reading the device): single reads,
//! batches by io_uring and by threads, and a file from start to end with and without readahead.
//!
//! `cargo bench --bench read_ways [directory] [seconds]`. One file of 512 MiB. Prints reads or bytes per second, and
//! the processor time of all threads per read or per MiB. Other load changes every figure: compare only within one run.

use alluvium::storage::{AlignedBuffer, OpenMode, PosixStorage, ReadRequest, Storage, StorageFile};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FILE: u64 = 512 << 20;
const PIECE: usize = 1 << 20;
const PAGE: usize = 4096;

/// A xorshift generator.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Processor time of the process, in nanoseconds.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`, which outlives it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Cost {
    per_second: f64,
    cpu_us: f64,
}

/// Runs `work`, which returns the number of units it did, for the given time.
fn measure(time: Duration, mut work: impl FnMut() -> u64) -> Cost {
    work();
    let (start, before) = (Instant::now(), cpu());
    let mut units = 0;
    while start.elapsed() < time {
        units += work();
    }
    let (wall, used) = (start.elapsed().as_secs_f64(), cpu() - before);
    Cost { per_second: units as f64 / wall, cpu_us: used as f64 / 1e3 / units as f64 }
}

fn made_file(storage: &dyn Storage) -> Arc<dyn StorageFile> {
    let file = storage.open("read_ways", OpenMode::CreateDirect).expect("create");
    let mut buffer = AlignedBuffer::new(PIECE);
    let mut state = 1;
    for offset in (0..FILE).step_by(PIECE) {
        buffer.chunks_mut(8).for_each(|word| word.copy_from_slice(&random(&mut state).to_le_bytes()));
        file.write_all_at(&buffer, offset).expect("write");
    }
    file.sync().expect("sync");
    storage.open("read_ways", OpenMode::ReadDirect).expect("open")
}

/// Random pages, one plain call each.
fn single(file: &Arc<dyn StorageFile>, time: Duration) -> Cost {
    let (mut state, mut buffer) = (2, AlignedBuffer::new(PAGE));
    measure(time, || {
        let page = random(&mut state) % (FILE / PAGE as u64);
        file.read_exact_at(&mut buffer, page * PAGE as u64).expect("read");
        1
    })
}

/// Random pages in batches of `depth`.
fn batches(storage: &dyn Storage, file: &Arc<dyn StorageFile>, time: Duration, depth: usize) -> Cost {
    let mut state = 3;
    let mut buffers: Vec<AlignedBuffer> = (0..depth).map(|_| AlignedBuffer::new(PAGE)).collect();
    measure(time, || {
        let requests = buffers.drain(..).map(|buffer| {
            let page = random(&mut state) % (FILE / PAGE as u64);
            ReadRequest::new(Arc::clone(file), page * PAGE as u64, PAGE, buffer)
        });
        let done = storage.start_reads(requests.collect()).wait();
        buffers.extend(done.into_iter().map(|read| {
            read.result.expect("read");
            read.buffer
        }));
        depth as u64
    })
}

/// What a scan does with the bytes: about `work` nanoseconds per KiB.
fn consume(bytes: &[u8], work: u64) {
    let until = Duration::from_nanos(work * bytes.len() as u64 / 1024);
    let start = Instant::now();
    while start.elapsed() < until {
        std::hint::black_box(bytes[0]);
    }
}

/// The file from its start in extents, with `ahead` of them in flight while one is consumed. Units are MiB.
fn sequential(
    storage: &dyn Storage,
    file: &Arc<dyn StorageFile>,
    time: Duration,
    (extent, ahead, work): (usize, usize, u64),
) -> Cost {
    let mut offset = 0;
    let mut pending = std::collections::VecDeque::new();
    let mut spare: Vec<AlignedBuffer> = (0..=ahead).map(|_| AlignedBuffer::new(extent)).collect();
    measure(time, || {
        for _ in 0..PIECE.div_ceil(extent) {
            if ahead == 0 {
                file.read_exact_at(&mut spare[0], offset).expect("read");
                offset = (offset + extent as u64) % FILE;
                consume(&spare[0], work);
                continue;
            }
            while let Some(buffer) = (pending.len() < ahead + 1).then(|| spare.pop()).flatten() {
                pending.push_back(storage.start_reads(vec![ReadRequest::new(
                    Arc::clone(file),
                    offset,
                    extent,
                    buffer,
                )]));
                offset = (offset + extent as u64) % FILE;
            }
            let read = pending.pop_front().expect("started").wait().pop().expect("one");
            read.result.expect("read");
            consume(&read.buffer, work);
            spare.push(read.buffer);
        }
        (extent * PIECE.div_ceil(extent) / PIECE) as u64
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let time = Duration::from_secs_f64(arguments.next().map_or(1.0, |seconds| seconds.parse().expect("seconds")));
    let (rings, threads) = (PosixStorage::new(&directory), PosixStorage::without_io_uring(&directory));
    let _ = rings.remove("read_ways");
    let file = made_file(&rings);
    println!("io_uring: {}", rings.has_io_uring());
    let print = |what: &str, cost: Cost, unit: &str| {
        println!("{what:<40} {:>9.0} {unit}/s {:>9.1} us of CPU each", cost.per_second, cost.cpu_us);
    };
    print("random 4 KiB, plain", single(&file, time), "read");
    for depth in [1, 8, 32, 64] {
        print(&format!("random 4 KiB, batch of {depth}, io_uring"), batches(&rings, &file, time, depth), "read");
        print(&format!("random 4 KiB, batch of {depth}, threads"), batches(&threads, &file, time, depth), "read");
    }
    for work in [0, 1000] {
        for extent in [64 << 10, 256 << 10, 1 << 20] {
            for ahead in [0, 1, 2] {
                let name = format!("{} KiB extents, {ahead} ahead, {work} ns/KiB", extent >> 10);
                print(&format!("{name}, io_uring"), sequential(&rings, &file, time, (extent, ahead, work)), "MiB");
                if ahead > 0 {
                    let cost = sequential(&threads, &file, time, (extent, ahead, work));
                    print(&format!("{name}, threads"), cost, "MiB");
                }
            }
        }
    }
    rings.remove("read_ways").expect("remove");
}
