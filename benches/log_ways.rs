//! What a 128-byte record costs with each way to write a log (`docs/costs.md`). Uses the standard library and libc only
//! and none of the store's code, so that it compares ways and not an implementation.
//!
//! `cargo bench --bench log_ways [directory] [seconds]`. Uses at most 256 MiB of files. Prints nanoseconds of the
//! writing thread per record, and the processor time of all other threads per record.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const RECORD: usize = 128;
/// Two segments, written alternately: each is recycled for the other.
const SEGMENT: usize = 64 << 20;
const SYNC_EVERY: Duration = Duration::from_millis(100);
/// How far ahead of the writer the helper makes pages writable.
const AHEAD: usize = 4 << 20;
const RING: usize = 32 << 20;
const PIECE: usize = 1 << 20;

/// Processor time, in nanoseconds.
fn cpu(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`, which outlives it.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn thread_cpu() -> u64 {
    cpu(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn process_cpu() -> u64 {
    cpu(libc::CLOCK_PROCESS_CPUTIME_ID)
}

struct Map {
    pointer: *mut u8,
    length: usize,
    file: File,
}

// SAFETY: an address and a descriptor; the threads below use disjoint ranges of the bytes.
unsafe impl Send for Map {}
// SAFETY: as for `Send`.
unsafe impl Sync for Map {}

impl Map {
    fn new(path: &Path, length: usize) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("create");
        let zeroes = vec![0; PIECE];
        (0..length / PIECE).for_each(|_| (&file).write_all(&zeroes).expect("write"));
        file.sync_all().expect("sync");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let pointer =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(pointer, libc::MAP_FAILED);
        Self { pointer: pointer.cast(), length, file }
    }

    #[inline]
    fn put(&self, at: usize, record: &[u8; RECORD]) {
        debug_assert!(at + RECORD <= self.length);
        // SAFETY: within the mapping; only the writing thread stores there.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), self.pointer.add(at), RECORD) }
    }

    /// A piece that was written completely before its end was published, and is not written again until it is released.
    fn piece(&self, at: usize) -> &[u8] {
        debug_assert!(at + PIECE <= self.length);
        // SAFETY: within the mapping; the writer does not touch the piece, see above.
        unsafe { std::slice::from_raw_parts(self.pointer.add(at), PIECE) }
    }

    fn populate(&self, from: usize, until: usize) {
        let (from, until) = (from / 4096 * 4096, until.min(self.length));
        if from < until {
            // SAFETY: within the mapping; the advice changes no byte.
            unsafe { libc::madvise(self.pointer.add(from).cast(), until - from, libc::MADV_POPULATE_WRITE) };
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no longer used.
        unsafe { libc::munmap(self.pointer.cast(), self.length) };
    }
}

struct Cost {
    records: u64,
    wall: f64,
    writer: f64,
    others: f64,
}

/// Runs `write` on this thread for the given time, and `help` in a loop on another thread.
fn measure(time: Duration, mut write: impl FnMut(&[u8; RECORD]), help: impl Fn() + Sync) -> Cost {
    let stop = AtomicBool::new(false);
    let mut record = [7; RECORD];
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                help();
            }
        });
        let (start, thread, process) = (Instant::now(), thread_cpu(), process_cpu());
        let mut records = 0u64;
        while start.elapsed() < time {
            for _ in 0..256 {
                records += 1;
                record[..8].copy_from_slice(&records.to_le_bytes());
                write(&record);
            }
        }
        let (wall, thread) = (start.elapsed().as_nanos() as f64, thread_cpu() - thread);
        let others = (process_cpu() - process).saturating_sub(thread);
        stop.store(true, Ordering::Relaxed);
        helper.join().expect("helper");
        let count = records as f64;
        Cost { records, wall: wall / count, writer: thread as f64 / count, others: others as f64 / count }
    })
}

/// One `write` per record, and an `fdatasync` by timer.
fn plain(directory: &Path, time: Duration) -> Cost {
    let path = directory.join("plain");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).expect("create");
    let mut at = 0;
    let write = |record: &[u8; RECORD]| {
        file.write_all_at(record, at as u64).expect("write");
        at = (at + RECORD) % (2 * SEGMENT);
    };
    let cost = measure(time, write, || {
        std::thread::sleep(SYNC_EVERY);
        file.sync_data().expect("sync");
    });
    std::fs::remove_file(path).expect("remove");
    cost
}

/// Way (a): mapped, recycled segments. `ahead` is the number of bytes in front of the writer that the helper keeps
/// writable.
fn mapped(directory: &Path, time: Duration, sync: bool, ahead: usize) -> Cost {
    let paths: [PathBuf; 2] = ["a", "b"].map(|name| directory.join(name));
    let maps = [Map::new(&paths[0], SEGMENT), Map::new(&paths[1], SEGMENT)];
    // The segments are recycled: every page was touched before.
    maps.iter().for_each(|map| map.populate(0, SEGMENT));
    maps.iter().for_each(|map| map.file.sync_data().expect("sync"));
    let position = AtomicUsize::new(0);
    let populated = AtomicUsize::new(0);
    let last_sync = std::sync::Mutex::new(Instant::now());
    let write = |record: &[u8; RECORD]| {
        let at = position.load(Ordering::Relaxed) % (2 * SEGMENT);
        maps[at / SEGMENT].put(at % SEGMENT, record);
        position.store(position.load(Ordering::Relaxed) + RECORD, Ordering::Release);
    };
    let cost = measure(time, write, || {
        let now = position.load(Ordering::Acquire);
        let mut last = last_sync.lock().expect("lock");
        if sync && last.elapsed() >= SYNC_EVERY {
            maps.iter().for_each(|map| map.file.sync_data().expect("sync"));
            *last = Instant::now();
            populated.store(0, Ordering::Relaxed);
            return;
        }
        let from = populated.load(Ordering::Relaxed).max(now);
        if from < now + ahead {
            let piece = (now + ahead - from).min(256 << 10).min(SEGMENT - from % SEGMENT);
            maps[from / SEGMENT % 2].populate(from % SEGMENT, from % SEGMENT + piece);
            populated.store(from + piece, Ordering::Relaxed);
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    drop(maps);
    paths.iter().for_each(|path| std::fs::remove_file(path).expect("remove"));
    cost
}

/// Way (b): a mapped ring on tmpfs, written out with direct I/O by timer and when it is half full.
fn ring(directory: &Path, time: Duration) -> Cost {
    let name = format!("/dev/shm/alluvium-log-ways-{}", std::process::id());
    let ring = Map::new(Path::new(&name), RING);
    let path = directory.join("ring");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    let file = options.open(&path).expect("create with direct I/O");
    let (head, tail) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let last_sync = std::sync::Mutex::new(Instant::now());
    let write = |record: &[u8; RECORD]| {
        let at = head.load(Ordering::Relaxed);
        while at + RECORD - tail.load(Ordering::Acquire) > RING {
            std::thread::yield_now();
        }
        ring.put(at % RING, record);
        head.store(at + RECORD, Ordering::Release);
    };
    let cost = measure(time, write, || {
        let (from, until) = (tail.load(Ordering::Relaxed), head.load(Ordering::Acquire) / PIECE * PIECE);
        let mut last = last_sync.lock().expect("lock");
        let due = last.elapsed() >= SYNC_EVERY;
        if until == from || !(due || until - from >= RING / 2) {
            std::thread::sleep(Duration::from_micros(200));
            return;
        }
        for at in (from..until).step_by(PIECE) {
            file.write_all_at(ring.piece(at % RING), (at % (2 * SEGMENT)) as u64).expect("write");
            tail.store(at + PIECE, Ordering::Release);
        }
        if due {
            file.sync_data().expect("sync");
            *last = Instant::now();
        }
    });
    drop(ring);
    std::fs::remove_file(name).expect("remove");
    std::fs::remove_file(path).expect("remove");
    cost
}

fn main() {
    // `cargo bench` and `cargo test --benches` add flags of their own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let base = arguments.first().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let seconds = arguments.get(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(3.0);
    let time = Duration::from_secs_f64(seconds);
    let directory = base.join(format!("log-ways-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("create the directory");
    println!("{RECORD}-byte records, fdatasync every {SYNC_EVERY:?}, {seconds} s each");
    println!("{:<44} {:>12} {:>9} {:>9} {:>9}", "way", "records", "wall ns", "cpu ns", "others ns");
    let show = |name: &str, cost: Cost| {
        println!("{name:<44} {:>12} {:>9.1} {:>9.1} {:>9.1}", cost.records, cost.wall, cost.writer, cost.others);
    };
    show("write() per record", plain(&directory, time));
    show("(a) mapped, recycled, no sync", mapped(&directory, time, false, 0));
    show("(a) mapped, recycled", mapped(&directory, time, true, 0));
    show("(a) mapped, recycled, pages made ready ahead", mapped(&directory, time, true, AHEAD));
    show("(b) ring on tmpfs, direct-I/O write-out", ring(&directory, time));
    std::fs::remove_dir(directory).expect("remove the directory");
}
