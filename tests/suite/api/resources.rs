//! Memory that stores share, as the system counts it. The parts that need figures of their own process run in children.

use crate::support::{child, skip};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, Options, ReadOnlyDb, Resources, WriteBatch};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DIRECTORY: &str = "ALLUVIUM_RESOURCES_DIRECTORY";
const STORES: u64 = 100;
/// Stores that are opened before the measurement: the allocator and the pools of the process grow with the first ones.
const STORES_BEFORE: u64 = 20;
/// Resident memory of an idle store with one pair: private memory, and shared memory that belongs to no file of the disk.
const RESIDENT_MAX: u64 = 64 << 10;
/// What a thread of a store may have besides.
const THREAD_MAX: u64 = 16 << 10;
const RESERVED_MAX: u64 = 64 << 20;
/// The two locks, the log's segment and its shadow.
const DESCRIPTORS_MAX: u64 = 4;

/// A number of bytes from the status of the process; `None` if the kernel does not report it.
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn run_child(role: &str) {
    let directory = tempfile::tempdir().unwrap();
    let child = child::command(role).env(DIRECTORY, directory.path()).output().unwrap();
    let output = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    println!("{output}");
    assert!(child.status.success(), "{output}");
}

fn directory() -> PathBuf {
    std::env::var_os(DIRECTORY).unwrap().into()
}

/// A store of its own once had Memtables of a size that followed from half of the machine's memory, in huge pages, and
/// 4.5 GiB of address space for them.
#[test]
fn a_hundred_stores_take_little_memory() {
    run_child("many stores");
}

pub fn many_stores() {
    let open = |number: u64| {
        let db = Db::open(directory().join(number.to_string()), Options::default()).unwrap();
        db.put("key", "value").unwrap();
        db
    };
    let mut stores: Vec<Db> = (0..STORES_BEFORE).map(open).collect();
    let Some(before) = Figures::now() else { return skip("the kernel does not report memory") };
    stores.extend((STORES_BEFORE..STORES_BEFORE + STORES).map(open));
    // New stores still have buffers in use for a moment, and give up descriptors once they are quiet.
    let deadline = Instant::now() + Duration::from_secs(60);
    let each = loop {
        let each = Figures::now().unwrap().of_each_since(&before);
        if each.is_little() || Instant::now() > deadline {
            break each;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    println!("each store: {each:?}");
    assert!(each.is_little(), "each idle store has too much: {each:?}");
    for db in stores {
        assert!(db.get("key").unwrap().is_some());
        db.put("other key", "value").unwrap();
        db.close().unwrap();
    }
}

/// Bytes and counts of this process.
#[derive(Debug)]
struct Figures {
    resident: u64,
    reserved: u64,
    threads: u64,
    descriptors: u64,
}

impl Figures {
    fn now() -> Option<Self> {
        let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count) as u64;
        let (threads, descriptors) = (count("/proc/self/task"), count("/proc/self/fd"));
        Some(Self { resident: resident()?, reserved: status("VmSize:")?, threads, descriptors })
    }

    fn of_each_since(&self, before: &Self) -> Self {
        let each = |before: u64, after: u64| after.saturating_sub(before) / STORES;
        Self {
            resident: each(before.resident, self.resident),
            reserved: each(before.reserved, self.reserved),
            threads: each(before.threads, self.threads),
            descriptors: each(before.descriptors, self.descriptors),
        }
    }

    fn is_little(&self) -> bool {
        self.resident <= RESIDENT_MAX + self.threads * THREAD_MAX
            && self.reserved <= RESERVED_MAX
            && self.descriptors <= DESCRIPTORS_MAX
    }
}

fn resident() -> Option<u64> {
    Some(status("RssAnon:")? + status("RssShmem:")?)
}

/// Once, a process without address space was aborted.
#[test]
fn a_write_without_address_space_fails_and_the_store_goes_on() {
    run_child("address space");
}

pub fn address_space() {
    let Some(before) = status("VmSize:") else { return };
    let options = Options::new().memory_budget(64 << 20).background_threads(1);
    let db = Db::open(directory(), options).unwrap();
    db.put("key", "value").unwrap();
    let value = vec![1; 100 << 10];
    let batch = || {
        let mut batch = WriteBatch::new();
        for key in 0..300u64 {
            batch.put(key.to_be_bytes(), value.clone());
        }
        batch
    };
    // Before the limit. (*Otherwise:* it grows to 50 MiB under it, and now and then a worker has just reserved 64 MiB for its
    // allocations: this process was aborted for want of memory for the test itself.)
    let refused = batch();
    let used = status("VmSize:").unwrap();
    assert!(used > before);
    // Enough for buffers of a few megabytes, too little for a Memtable with space for such a batch.
    let limit = libc::rlimit { rlim_cur: used + (24 << 20), rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads a value of this type.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let error = db.write(refused).unwrap_err();
    assert!(matches!(&error, Error::Io { .. }) && error.to_string().contains("address space"), "{error}");
    db.put("another", "value").unwrap();
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    db.write(batch()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 302);
    db.close().unwrap();
}

#[test]
fn resources_are_shared_by_clones_and_beside_budgets_of_single_stores() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, options| Db::open(directory.path().join(name), options).unwrap();
    let resources = Resources::builder().memory(48 << 20).threads(1).build().unwrap();
    let shared = || Options::new().resources(resources.clone());
    let (first, second) = (open("first", shared()), open("second", shared()));
    let own = open("own", Options::new().memory_budget(8 << 20).background_threads(1));
    let other = open("default", Options::new().background_threads(1));
    assert_eq!(first.stats().memory_budget, 48 << 20);
    assert_eq!(second.stats().memory_budget, 48 << 20);
    assert_eq!(own.stats().memory_budget, 8 << 20);
    assert!(other.stats().memory_budget <= 1 << 30);
    for db in [&first, &second, &own, &other] {
        for key in 0..20_000u64 {
            db.put(key.to_be_bytes(), [1; 100]).unwrap();
        }
    }
    // Both show the pages of both.
    first.flush().unwrap();
    let reader = ReadOnlyDb::open(directory.path().join("first"), shared()).unwrap();
    assert_eq!(reader.iter().unwrap().count(), 20_000);
    drop((reader, first));
    assert_eq!(second.iter().unwrap().count(), 20_000);
    drop((second, own, other));
    assert_eq!(resources.memory(), 48 << 20);
    let again = open("first", shared());
    assert_eq!(again.iter().unwrap().count(), 20_000);
}

#[test]
fn invalid_resources_are_refused() {
    for builder in [
        Resources::builder().memory(1),
        Resources::builder().memory(u64::MAX),
        Resources::builder().threads(0),
        Resources::builder().threads(65),
    ] {
        assert!(matches!(builder.clone().build(), Err(Error::InvalidArgument(_))), "{builder:?}");
    }
    let resources = Resources::builder().build().unwrap();
    assert!(resources.memory() <= 1 << 30 && resources.threads().is_none());
    let both = Options::new().resources(resources).memory_budget(1 << 20);
    let directory = tempfile::tempdir().unwrap();
    let error = Db::open(directory.path(), both).unwrap_err();
    assert!(error.to_string().contains("both resources and memory_budget"), "{error}");
}

/// Two stores with one limit write no more than it together, and follow a change at once.
#[test]
fn stores_share_a_write_limit() {
    const LIMIT: u64 = 2 << 20;
    let resources = Resources::builder().memory(4 << 20).write_limit(LIMIT).build().unwrap();
    let open = |seed| {
        let options = Options::new().resources(resources.clone());
        Db::open_with(Arc::new(SimulatedStorage::new(seed)), options).unwrap()
    };
    let stores = [open(1), open(2)];
    let started = Instant::now();
    std::thread::scope(|scope| {
        for db in &stores {
            scope.spawn(|| {
                (0..20_000u64).for_each(|key| db.put((key * 7919 % 20_011).to_be_bytes(), [7; 100]).unwrap())
            });
        }
    });
    let written: u64 =
        stores.iter().map(|db| db.stats()).map(|stats| stats.incorporated_bytes + stats.compacted_bytes).sum();
    // On a slow machine they write less.
    let rate = written as f64 / started.elapsed().as_secs_f64();
    println!("{written} bytes, {rate:.0} a second");
    assert!(written > LIMIT / 2, "nothing was limited");
    assert!(rate < 1.2 * LIMIT as f64, "{rate:.0} bytes a second, the limit is {LIMIT}");
    // With 1 byte a second nothing would end.
    resources.set_write_limit(Some(1)).unwrap();
    stores[0].put("key", "value").unwrap();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| stores[0].compact().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!flush.is_finished(), "a compaction of two megabytes takes more than a month");
        resources.set_write_limit(None).unwrap();
    });
    for error in [Resources::builder().write_limit(0).build().map(drop), resources.set_write_limit(Some(0))] {
        assert!(error.unwrap_err().to_string().contains("write limit of resources is 0"));
    }
}
