//! Loads 8-byte keys with 100-byte values, reads all of them and scans, and prints for each step: operations per
//! second, processor time per operation (all threads, background work included), write amplification, peak memory.
//!
//! `cargo bench --bench fill -- [--num N] [--order random|sequential] [--memory MIB] [--dir DIR] [--read
//! sorted|random|none]`

use alluvium::{Db, Options};
use std::time::Instant;

struct Settings {
    num: u64,
    sequential: bool,
    memory_mib: u64,
    directory: Option<String>,
    read: String,
}

fn settings() -> Settings {
    let mut settings =
        Settings { num: 1_000_000, sequential: false, memory_mib: 256, directory: None, read: "sorted".into() };
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--num" => settings.num = value.parse().expect("a number"),
            [name, value] if name == "--order" => settings.sequential = value == "sequential",
            [name, value] if name == "--memory" => settings.memory_mib = value.parse().expect("a number of MiB"),
            [name, value] if name == "--dir" => settings.directory = Some(value.clone()),
            [name, value] if name == "--read" => settings.read = value.clone(),
            other => panic!("unknown arguments {other:?}"),
        }
    }
    settings
}

/// A bijection on 64-bit numbers (the finalizer of SplitMix64): random keys without repetition.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64, sequential: bool) -> [u8; 8] {
    if sequential { number.to_be_bytes() } else { scramble(number).to_be_bytes() }
}

/// The sixteenth of all keys, in key order, that a key belongs to.
fn part_of(key: [u8; 8], sequential: bool, num: u64) -> u64 {
    let number = u64::from_be_bytes(key);
    if sequential { number * 16 / num } else { number >> 60 }
}

/// Values are slices of a pool of random bytes, at an offset that the key determines.
fn value(pool: &[u8], key: [u8; 8]) -> &[u8] {
    let at = (u64::from_be_bytes(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize;
    &pool[at..at + 100]
}

/// User and system time of the process so far, in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn status_kib(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn report(name: &str, operations: u64, started: Instant, cpu_before: f64) {
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{name:<22} {operations:>10} in {seconds:>7.2} s  {:>9.0} ops/s  {:>6.2} us CPU/op",
        operations as f64 / seconds,
        (cpu_seconds() - cpu_before) * 1e6 / operations as f64
    );
}

fn print_memory(settings: &Settings) {
    let mib = |name: &str| status_kib(name) >> 10;
    println!(
        "  memory: now {} MiB ({} anonymous, {} of files), peak {} MiB; budget {} MiB",
        mib("VmRSS"),
        mib("RssAnon"),
        mib("RssFile"),
        mib("VmHWM"),
        settings.memory_mib
    );
}

fn main() {
    let settings = settings();
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = settings.directory.as_ref().map_or(temporary.path().join("store"), |directory| directory.into());
    let pool: Vec<u8> = (0..(1u64 << 20) / 8 + 16).flat_map(|number| scramble(number).to_le_bytes()).collect();
    let options = Options::new().memory_budget(settings.memory_mib << 20);
    let db = Db::open(&path, options).expect("an open store");
    let sequential = settings.sequential;

    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut longest = 0;
    let mut last = Instant::now();
    for number in 0..settings.num {
        let key = key(number, sequential);
        db.put(key, value(&pool, key)).expect("a put");
        if number % 16 == 0 {
            let now = Instant::now();
            longest = longest.max((now - last).as_micros());
            last = now;
        }
    }
    report(if sequential { "fillseq" } else { "fillrandom" }, settings.num, started, cpu);
    let settling = Instant::now();
    db.flush().expect("a flush");
    db.settle().expect("quiet");
    report("  with settling", settings.num, started, cpu);
    println!("  settled in {:.2} s; longest 16 puts {:.1} ms", settling.elapsed().as_secs_f64(), longest as f64 / 1e3);
    println!("{}", db.stats());
    print_memory(&settings);

    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut iter = db.iter().expect("an iterator");
    let (mut count, mut previous) = (0u64, Vec::new());
    iter.seek_first().expect("a first pair");
    while let Some((key, found_value)) = iter.pair() {
        let found: [u8; 8] = key.try_into().expect("an 8-byte key");
        assert!(count == 0 || previous[..] < found[..], "out of order");
        assert_eq!(found_value, value(&pool, found), "wrong value");
        previous = found.to_vec();
        count += 1;
        iter.step().expect("a next pair");
    }
    assert_eq!(count, settings.num, "pairs are missing");
    report("scan", count, started, cpu);

    if settings.read != "none" {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let mut out = Vec::new();
        let mut check = |key: [u8; 8]| {
            assert!(db.get_into(key, &mut out).expect("a get"), "missing key");
            assert_eq!(out, value(&pool, key), "wrong value");
        };
        if settings.read == "sorted" {
            // Every key is read, in key order, one sixteenth of the keys at a time: a list of all keys would take
            // memory that is not the store's.
            for part in 0..16 {
                let keys = (0..settings.num).map(|number| key(number, sequential));
                let mut keys: Vec<[u8; 8]> =
                    keys.filter(|key| part_of(*key, sequential, settings.num) == part).collect();
                keys.sort_unstable();
                keys.into_iter().for_each(&mut check);
            }
        } else {
            (0..settings.num).map(|number| key(number, sequential)).for_each(&mut check);
        }
        report(&format!("get, hit, {}", settings.read), settings.num, started, cpu);
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let misses = settings.num.min(1_000_000);
        for number in 0..misses {
            let key = scramble(number + (1 << 40)).to_be_bytes();
            // `scramble` is a bijection, so the load has none of these keys; the keys of a sequential load are small
            // numbers.
            assert!(!db.get_into(key, &mut out).expect("a get"), "a key that was never put");
        }
        report("get, miss", misses, started, cpu);
    }
    print_memory(&settings);
    db.close().expect("closed");
    let started = Instant::now();
    let db = Db::open(&path, Options::new().memory_budget(settings.memory_mib << 20)).expect("reopened");
    println!("reopened in {:.3} s, {} entries in memory", started.elapsed().as_secs_f64(), db.stats().memory_entries);
}
