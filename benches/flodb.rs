//! Figures 5, 7, 8 and 17 of FloDB, with the memory component alone (EuroSys 2017, sections 4.1, 4.3 and 5.5).
//!
//! `cargo bench --bench flodb -- [--entries N] [--seconds S] [--threads T] [--figure 5|7|8|17|drain]`
//!
//! Figures 5 and 7, drawn together: the hash table and the skiplist alone, by entries and by threads (1, 2, 4 and so on
//! up to T, 4 by default). Threads insert the second half of the entries, then get as many random ones, each kind by
//! itself where the paper mixes them; both are repeated for S seconds with memory that was used before. The sizes are 32
//! thousand and 1, 33 and 100 million entries as far as N goes, a million by default. An entry takes some 80 bytes.
//! Only inserts show the skiplist: with either kind a get asks the hash index, and inserts of the skiplist's kind fill it,
//! too.
//!
//! Figure 8: single inserts against multi-inserts of five keys, by the distance of the keys. Figure 17: puts per second
//! of one writer by the size of the memory component, with nothing written to disk: a second thread sorts each full
//! Memtable and drops it. The clock starts once all memory has been used: a new page from the system costs more than
//! all puts that fill it, and is no cost of the memory component. Between them the drain by itself: the same entries
//! sorted in both ways.

use alluvium::MemoryComponent;
use alluvium::internals::{FullPart, MemtablePart, splitmix64};
use std::ops::Range;
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

const VALUE: [u8; 256] = [7; 256];
const ENTRY_BYTES: usize = 400;
/// The paper's sizes in figures 5 and 7, but 100 million for its billion.
const SIZES: [u64; 4] = [32_000, 1_000_000, 33_000_000, 100_000_000];
/// With entries of this size, the smallest usual one, half of the hash index's slots are taken.
const SMALL_ENTRY_BYTES: usize = 64;
/// Keys per multi-insert in figure 8.
const TOGETHER: u64 = 5;

/// Memtables in the memory component: one is written to, one waits, one is sorted.
const PARTS: usize = 3;

/// Figures 5, 7, 8 and 17 of FloDB, with the memory component alone. `bench-compare figures flodb` draws the others.
#[derive(clap::Parser)]
struct Settings {
    /// The largest size in figures 5 and 7, the list's in figure 8, and the largest drain
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(32_000..=100_000_000))]
    entries: u64,

    /// Seconds for each point
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Most threads in figures 5 and 7
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,

    /// This figure only, or the drain; 17 takes over 4 GiB of memory
    #[arg(long, value_parser = ["5", "7", "8", "drain", "17"])]
    figure: Option<String>,

    /// Cargo adds it.
    #[arg(long, hide = true)]
    bench: bool,
}

/// `entries` keys that are spread over all 64-bit numbers, with room for neighbours between them.
fn spread(number: u64, entries: u64) -> u64 {
    number * (u64::MAX / entries)
}

/// A key of its own for every number, anywhere among all keys.
fn scattered(number: u64) -> [u8; 8] {
    let mut seed = number;
    splitmix64(&mut seed).to_be_bytes()
}

/// The time that threads take to work on these numbers, each on its share of them.
fn in_threads(
    part: &MemtablePart,
    threads: u64,
    numbers: &Range<u64>,
    work: impl Fn(&mut MemtablePart, u64, &mut Vec<u8>) + Sync,
) -> Duration {
    let (barrier, work) = (&Barrier::new(threads as usize), &work);
    std::thread::scope(|scope| {
        let worker = |lane: u64| {
            let (mut part, numbers) = (part.share(), numbers.clone());
            scope.spawn(move || {
                barrier.wait();
                let (started, mut out) = (Instant::now(), Vec::new());
                for number in numbers.skip(lane as usize).step_by(threads as usize) {
                    work(&mut part, number, &mut out);
                }
                (started, Instant::now())
            })
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        let times: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).collect();
        let (first, last) = (times.iter().map(|time| time.0).min(), times.iter().map(|time| time.1).max());
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first)
    })
}

/// Inserts and gets a second.
fn concurrent(component: MemoryComponent, entries: u64, threads: u64, seconds: u64) -> [f64; 2] {
    let mut part = MemtablePart::new(component, entries as usize * SMALL_ENTRY_BYTES);
    let insert = |part: &mut MemtablePart, number, _: &mut Vec<u8>| part.insert(&scattered(number), &VALUE[..8]);
    let get = |part: &mut MemtablePart, number: u64, out: &mut Vec<u8>| {
        let mut seed = !number;
        out.clear();
        let found = part.get(&scattered(splitmix64(&mut seed) % entries), out);
        assert!(found, "every key below {entries} was inserted");
    };
    let (started, mut rounds, mut times) = (Instant::now(), 0, [Duration::ZERO; 2]);
    let second_half = entries / 2..entries;
    while rounds < 2 || started.elapsed() < Duration::from_secs(seconds) {
        in_threads(&part, threads, &(0..second_half.start), insert);
        let inserting = in_threads(&part, threads, &second_half, insert);
        let getting = in_threads(&part, threads, &second_half, get);
        // Not the first round, which takes new pages from the system.
        if rounds > 0 {
            times = [times[0] + inserting, times[1] + getting];
        }
        rounds += 1;
        part = part.emptied();
    }
    let operations = (rounds - 1) * (second_half.end - second_half.start);
    times.map(|time| operations as f64 / time.as_secs_f64())
}

fn tables_and_lists(settings: &Settings) {
    println!("Figures 5 and 7: pairs of 8 + 8 bytes; thousand inserts or gets a second of all threads");
    println!("{:>10} {:>8} {:>8} {:>11} {:>10} {:>7}", "entries", "threads", "", "hash table", "skiplist", "ratio");
    for entries in SIZES.into_iter().filter(|entries| *entries <= settings.entries) {
        for threads in
            std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|n| *n <= settings.threads)
        {
            let [table, list] = [MemoryComponent::TwoLevel, MemoryComponent::Skiplist]
                .map(|component| concurrent(component, entries, threads, settings.seconds));
            for (kind, (table, list)) in ["inserts", "gets"].into_iter().zip(table.into_iter().zip(list)) {
                let (thousands, ratio) = ([table, list].map(|rate| rate / 1000.0), table / list);
                println!(
                    "{entries:>10} {threads:>8} {kind:>8} {:>11.0} {:>10.0} {ratio:>7.2}",
                    thousands[0], thousands[1]
                );
            }
        }
    }
}

fn neighbourhoods(settings: &Settings) {
    println!("\nFigure 8: {} entries in the list; thousand inserts a second, the best of 3", settings.entries);
    println!("{:>14} {:>10} {:>14} {:>7}", "neighbourhood", "single", "multi-insert", "ratio");
    let step = u64::MAX / settings.entries;
    let mut distance = 1;
    while distance <= settings.entries {
        let mut best = [0f64; 2];
        for round in 0..3u64 {
            for together in [false, true] {
                let list = MemtablePart::new(MemoryComponent::Skiplist, 8 << 30);
                let mut keys: Vec<[u8; 8]> =
                    (0..settings.entries).map(|n| spread(n, settings.entries).to_be_bytes()).collect();
                list.insert_into_list(&keys, &VALUE[..8], true);
                let mut seed = round;
                let batches = 20_000;
                let mut all: Vec<Vec<[u8; 8]>> = Vec::new();
                for _ in 0..batches {
                    let centre = splitmix64(&mut seed) % (settings.entries - 2) + 1;
                    let mut near: Vec<u64> = (0..TOGETHER)
                        .map(|_| {
                            let offset = splitmix64(&mut seed) % (2 * distance + 1);
                            let at = (centre + offset).saturating_sub(distance).min(settings.entries - 1);
                            spread(at, settings.entries) + 1 + splitmix64(&mut seed) % (step - 1)
                        })
                        .collect();
                    near.sort_unstable();
                    near.dedup();
                    all.push(near.into_iter().map(u64::to_be_bytes).collect());
                }
                // A key that was chosen before would already be in the list.
                let mut seen = std::collections::HashSet::new();
                all.iter_mut().for_each(|batch| batch.retain(|key| seen.insert(*key)));
                keys.clear();
                let count: usize = all.iter().map(Vec::len).sum();
                let started = Instant::now();
                all.iter().for_each(|batch| list.insert_into_list(batch, &VALUE[..8], together));
                let rate = count as f64 / started.elapsed().as_secs_f64() / 1000.0;
                let best = &mut best[usize::from(together)];
                *best = best.max(rate);
            }
        }
        println!("{distance:>14} {:>10.0} {:>14.0} {:>7.2}", best[0], best[1], best[1] / best[0]);
        distance *= 10;
    }
}

fn drains(settings: &Settings) {
    println!("\nOne drain of everything that one writer put: nanoseconds an entry, the best of 3");
    println!("{:>10} {:>8} {:>10} {:>14} {:>7}", "entries", "put", "single", "multi-insert", "ratio");
    for entries in [settings.entries / 16, settings.entries / 4, settings.entries] {
        let mut best = [f64::MAX; 3];
        for round in 0..3 {
            for one_by_one in [true, false] {
                let mut part = MemtablePart::new(MemoryComponent::TwoLevel, entries as usize * ENTRY_BYTES);
                if one_by_one {
                    part.drain_one_by_one();
                }
                let mut seed = round;
                let started = Instant::now();
                for _ in 0..entries {
                    part.insert(&splitmix64(&mut seed).to_be_bytes(), &VALUE[..100]);
                }
                let put = started.elapsed();
                let started = Instant::now();
                part.drain();
                let each = |time: Duration| time.as_nanos() as f64 / entries as f64;
                best[2] = best[2].min(each(put));
                let best = &mut best[usize::from(!one_by_one)];
                *best = best.min(each(started.elapsed()));
            }
        }
        let [single, multi, put] = best;
        println!("{entries:>10} {put:>8.0} {single:>10.0} {multi:>14.0} {:>7.2}", single / multi);
    }
}

/// Puts per second of one writer, while another thread sorts its full Memtables.
fn without_disk(component: MemoryComponent, one_by_one: bool, bytes: usize, seconds: u64) -> f64 {
    let mut part = MemtablePart::new(component, bytes / PARTS);
    let (sender, receiver) = mpsc::sync_channel::<FullPart>(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for full in receiver {
                full.seal_and_drain();
            }
        });
        let (mut started, mut seed, mut puts, mut switches) = (Instant::now(), 1, 0u64, 0);
        let end = Duration::from_secs(seconds);
        while switches < PARTS || puts % 1024 != 0 || started.elapsed() < end {
            part.insert(&splitmix64(&mut seed).to_be_bytes(), &VALUE);
            puts += 1;
            if part.is_full() {
                let full = part.switch();
                sender.send(full).expect("the other thread lives as long as this one sends");
                if one_by_one {
                    part.drain_one_by_one();
                }
                switches += 1;
                if switches == PARTS {
                    (started, puts) = (Instant::now(), 0);
                }
            }
        }
        let rate = puts as f64 / started.elapsed().as_secs_f64();
        drop(sender);
        rate
    })
}

fn sizes(settings: &Settings) {
    println!("\nFigure 17: one writer, nothing written to disk; thousand puts a second");
    println!("{:>8} {:>14} {:>16} {:>16}", "MiB", "skiplist alone", "two levels, single", "two levels, multi");
    for mebibytes in [16, 64, 256, 1024, 4096] {
        let bytes = mebibytes << 20;
        let kinds =
            [(MemoryComponent::Skiplist, false), (MemoryComponent::TwoLevel, true), (MemoryComponent::TwoLevel, false)];
        let rates = kinds.map(|(component, one)| without_disk(component, one, bytes, settings.seconds) / 1000.0);
        println!("{mebibytes:>8} {:>14.0} {:>16.0} {:>16.0}", rates[0], rates[1], rates[2]);
    }
}

fn main() {
    let settings = <Settings as clap::Parser>::parse();
    let asked = |name: &str| settings.figure.as_deref().is_none_or(|figure| figure == name);
    if asked("5") || asked("7") {
        tables_and_lists(&settings);
    }
    if asked("8") {
        neighbourhoods(&settings);
    }
    if asked("drain") {
        drains(&settings);
    }
    if asked("17") {
        sizes(&settings);
    }
}
