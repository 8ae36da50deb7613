//! Figures 8 and 17 of FloDB, with the memory component alone (EuroSys 2017, sections 4.3 and 5.5).
//!
//! `cargo bench --bench flodb -- [--entries N] [--seconds S] [--figure 8|17|drain]`
//!
//! Figure 8: single inserts against multi-inserts of five keys, by the distance of the keys. Figure 17: puts per second
//! of one writer by the size of the memory component, with nothing written to disk: a second thread sorts each full
//! Memtable and drops it. The clock starts once all memory has been used: a new page from the system costs more than
//! all puts that fill it, and is no cost of the memory component. Between them the drain by itself: the same entries
//! sorted in both ways.

use alluvium::MemoryComponent;
use alluvium::internals::{FullPart, MemtablePart, splitmix64};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const VALUE: [u8; 256] = [7; 256];
const ENTRY_BYTES: usize = 400;
/// Keys per multi-insert in figure 8.
const TOGETHER: u64 = 5;

/// Memtables in the memory component: one is written to, one waits, one is sorted.
const PARTS: usize = 3;

struct Settings {
    entries: u64,
    seconds: u64,
    figure: Option<String>,
}

fn settings() -> Settings {
    let mut settings = Settings { entries: 1_000_000, seconds: 3, figure: None };
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--entries" => settings.entries = value.parse().expect("a number"),
            [name, value] if name == "--seconds" => settings.seconds = value.parse().expect("a number"),
            [name, value] if name == "--figure" => settings.figure = Some(value.clone()),
            other => panic!("unknown arguments {other:?}"),
        }
    }
    settings
}

/// `entries` keys that are spread over all 64-bit numbers, with room for neighbours between them.
fn spread(number: u64, entries: u64) -> u64 {
    number * (u64::MAX / entries)
}

fn neighbourhoods(settings: &Settings) {
    println!("Figure 8: {} entries in the list; thousand inserts a second, the best of 3", settings.entries);
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
    let settings = settings();
    let asked = |name: &str| settings.figure.as_deref().is_none_or(|figure| figure == name);
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
